package driver

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"ankka-flow/delivery"
)

// PartitionStalled is the name of the warning about a stall: the attribute
// "warning" of its log line.
const PartitionStalled = "PartitionStalled"

// stalls is what was said about partitions that have something and cannot
// commit it. A stall lasts from PartitionStatus.Since to the next commit or the
// loss of the partition, through conversations and processes.
type stalls struct {
	// said has the partitions that were warned about, so that each stall is
	// warned about once. One that follows is looked at before it is due, and
	// takes the partition out.
	said map[delivery.TP]bool
	next time.Duration
}

// stallLooks is how often within Config.StallAfter the partitions are looked
// at, so that a stall that began meanwhile is seen before its warning is due.
const stallLooks = 10

func (d *Driver) stallInterval() time.Duration {
	return max(d.cfg.StallAfter/stallLooks, 50*time.Millisecond)
}

// watchStalls warns of every partition that has stood still for StallAfter,
// when it is time to look.
func (d *Driver) watchStalls() {
	now := d.now()
	if d.cfg.StallAfter == 0 || now < d.stalls.next {
		return
	}
	d.stalls.next = now + d.stallInterval()
	said := map[delivery.TP]bool{}
	status := d.core.Status()
	for i := range status.Partitions {
		p := &status.Partitions[i]
		if p.Since < 0 {
			continue
		}
		if due := p.Since + d.cfg.StallAfter; now < due {
			d.stalls.next = min(d.stalls.next, due)
			continue
		}
		said[p.TP] = true
		if !d.stalls.said[p.TP] {
			d.sayStall(p, now-p.Since)
		}
	}
	d.stalls.said = said
}

// sayStall names the offset that is next to be committed, and what is known of
// the record there.
func (d *Driver) sayStall(p *delivery.PartitionStatus, since time.Duration) {
	pipeline, streamlet, topic := "", "", d.topic(p.TP.Inlet)
	if d.plan != nil {
		pipeline, streamlet = d.plan.Pipeline, d.plan.Streamlet
	}
	offset := p.Next()
	text := fmt.Sprintf("inlet %s: %s/%d@%d is not committed for %v", p.TP.Inlet, topic, p.TP.Partition, offset, since.Round(time.Millisecond))
	switch {
	case p.Tries > 0 && p.Suspect < offset:
		text += fmt.Sprintf("; convicted: the batch that began at %s/%d@%d failed, and its records come one at a time", topic, p.TP.Partition, p.Suspect)
	case p.Tries > 0:
		text += fmt.Sprintf("; convicted: what stands there has failed %s", times(p.Tries))
		if p.Suspect > offset { // behind a range without records
			text += fmt.Sprintf(" (the record at %d)", p.Suspect)
		}
		if wait := p.NextTry - d.now(); wait > 0 {
			text += fmt.Sprintf(", and is tried again in %v", wait.Round(100*time.Millisecond))
		}
	case p.Standing != "":
		text += fmt.Sprintf("; on trial: one of the batches that failed the stream began at %s/%d@%d", topic, p.TP.Partition, p.Suspect)
	case p.Why == "process":
		text += fmt.Sprintf("; the process has not answered batch %d", p.Batch)
	case p.Why != "":
		text += "; it waits: " + p.Why
	}
	if p.Attempts > 1 {
		text += fmt.Sprintf("; delivered %d times", p.Attempts)
	}
	last := d.named(p.LastError)
	if last != "" {
		text += "; last error: " + last
	}
	d.log.LogAttrs(context.Background(), slog.LevelWarn, text,
		slog.String("event", "stalled"), slog.String("warning", PartitionStalled),
		slog.String("pipeline", pipeline), slog.String("streamlet", streamlet), slog.String("inlet", p.TP.Inlet),
		slog.String("topic", topic), slog.Int("partition", int(p.TP.Partition)), slog.Int64("offset", offset),
		slog.Int("tries", p.Attempts), slog.String("error", last))
}

// times is how often, in words.
func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
