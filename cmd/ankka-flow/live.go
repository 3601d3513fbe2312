package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"ankka-flow/delivery"
	"ankka-flow/delivery/driver"
)

const (
	// liveInterval is how often the live line is looked after.
	liveInterval = 500 * time.Millisecond
	// liveSamples is how many looks its rates cover: five seconds.
	liveSamples = 11
	// liveStuck is how long a partition stands before the live line names it.
	liveStuck = 10 * time.Second
)

// showLive keeps the live line of a run, where there is a terminal that can show
// one: how fast it goes, how much is behind, what stands.
func (a *app) showLive(ctx context.Context, wg *sync.WaitGroup, d *driver.Driver) {
	if a.screen == nil || os.Getenv("TERM") == "dumb" || os.Getenv("TERM") == "" {
		return
	}
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	wg.Go(func() { // ends with ctx or the run; run awaits it
		defer a.screen.Set("")
		defer signal.Stop(resized)
		ticker := time.NewTicker(liveInterval)
		defer ticker.Stop()
		var p pace
		text := ""
		for {
			select {
			case <-ctx.Done():
				return
			case <-resized:
			case <-ticker.C:
				s, ok := d.Snapshot(ctx)
				if !ok {
					return
				}
				p.add(s.Now, s.In, s.Out)
				text = liveText(&s, &p)
			}
			a.screen.Set(text)
		}
	})
}

// pace is how fast counters rose over the newest samples.
type pace struct {
	samples [liveSamples]sample
	count   int
}

type sample struct {
	at      time.Duration
	in, out uint64
}

func (p *pace) add(at time.Duration, in, out uint64) {
	p.samples[p.count%liveSamples] = sample{at, in, out}
	p.count++
}

// perSecond is 0 before there are two samples.
func (p *pace) perSecond() (in, out float64) {
	if p.count < 2 {
		return 0, 0
	}
	newest, oldest := p.samples[(p.count-1)%liveSamples], p.samples[max(0, p.count-liveSamples)%liveSamples]
	t := (newest.at - oldest.at).Seconds()
	if t <= 0 {
		return 0, 0
	}
	return float64(newest.in-oldest.in) / t, float64(newest.out-oldest.out) / t
}

// liveText is the live line: what it does where that is not simply to run, then the
// figures, then what stands.
func liveText(s *driver.Snapshot, p *pace) string {
	in, out := p.perSecond()
	var parts []string
	if state := liveState(s); state != "" {
		parts = append(parts, state)
	}
	parts = append(parts, grouped(in)+" in/s", grouped(out)+" out/s", grouped(float64(s.Behind()))+" behind")
	if stuck := liveStalls(s); stuck != "" {
		parts = append(parts, stuck)
	}
	name := ""
	if s.Plan != nil {
		name = s.Plan.Streamlet + ": "
	}
	return name + strings.Join(parts, ", ")
}

// liveState is empty while everything runs.
func liveState(s *driver.Snapshot) string {
	switch {
	case s.Stopping:
		return "stopping"
	case s.Ready:
		return ""
	case s.AwaitsSave:
		return "waiting"
	case s.NextDiscovery > s.Now:
		return fmt.Sprintf("next try in %v", (s.NextDiscovery - s.Now).Round(time.Second))
	case s.State == delivery.Running:
		return "joining its groups"
	}
	return "starting"
}

// liveStalls names the partition that stands longest, and how many do.
func liveStalls(s *driver.Snapshot) string {
	stuck := 0
	var worst *delivery.PartitionStatus
	for i := range s.Partitions {
		p := &s.Partitions[i]
		if p.Since < 0 || s.Now-p.Since < liveStuck {
			continue
		}
		stuck++
		if worst == nil || p.Since < worst.Since {
			worst = p
		}
	}
	if worst == nil {
		return ""
	}
	more := ""
	if stuck > 1 {
		more = fmt.Sprintf(", and %d more", stuck-1)
	}
	return fmt.Sprintf("%v stands for %v%s", worst.TP, (s.Now - worst.Since).Round(time.Second), more)
}

// grouped is a number with separators; one below ten keeps a decimal, or a slow
// stream would seem to stand.
func grouped(n float64) string {
	if n > 0 && n < 9.95 && n != float64(int64(n)) {
		return strconv.FormatFloat(n, 'f', 1, 64)
	}
	text := strconv.FormatInt(int64(n+0.5), 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
