package driver

import (
	"fmt"
	"log/slog"
	"time"

	"ankka-flow/delivery"
)

// stalls is what was said about partitions that have something and cannot
// commit it.
type stalls struct {
	// said has the Since of the stall that was warned about, so that each is
	// warned about once.
	said map[delivery.TP]time.Duration
	next time.Duration
}

// stallLooks is how often within Config.StallAfter the partitions are looked at.
const stallLooks = 10

func (d *Driver) stallInterval() time.Duration {
	return max(d.cfg.StallAfter/stallLooks, 50*time.Millisecond)
}

// watchStalls warns of every partition that has stood still for StallAfter,
// when it is time to look.
func (d *Driver) watchStalls() {
	if d.cfg.StallAfter == 0 || d.now() < d.stalls.next {
		return
	}
	now := d.now()
	d.stalls.next = now + d.stallInterval()
	said := map[delivery.TP]time.Duration{}
	status := d.core.Status()
	for i := range status.Partitions {
		p := &status.Partitions[i]
		if p.Since < 0 || now-p.Since < d.cfg.StallAfter {
			continue
		}
		said[p.TP] = p.Since
		if since, ok := d.stalls.said[p.TP]; !ok || since != p.Since {
			d.sayStall(p, now-p.Since)
		}
	}
	d.stalls.said = said
}

// sayStall names the offset that is next to be committed.
func (d *Driver) sayStall(p *delivery.PartitionStatus, since time.Duration) {
	topic := ""
	if d.plan != nil {
		if in, ok := d.plan.Inlet(p.TP.Inlet); ok {
			topic = in.Topic
		}
	}
	text := fmt.Sprintf("inlet %s: %s/%d@%d is not committed for %v", p.TP.Inlet, topic, p.TP.Partition, max(0, p.Committed), since.Round(time.Millisecond))
	if p.Why == "process" {
		text += fmt.Sprintf("; the process has not answered batch %d", p.Batch)
	} else if p.Why != "" {
		text += "; it waits: " + p.Why
	}
	if p.Attempts > 1 {
		text += fmt.Sprintf("; delivered %d times", p.Attempts)
	}
	if p.LastError != "" {
		text += "; last error: " + p.LastError
	}
	d.say(slog.LevelWarn, "stalled", text)
}
