package driver

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"ankka-flow/delivery"
	"ankka-flow/delivery/kafka"
	"ankka-flow/supervisor"
	"ankka-flow/wire"
)

// say logs one event. The attribute "event" is its short name, which a
// terminal shows as a column.
func (d *Driver) say(level slog.Level, event, text string) {
	d.log.Log(context.Background(), level, text, "event", event)
}

// note logs what the core has to say.
func (d *Driver) note(n delivery.Note) {
	level, event := slog.LevelInfo, "note"
	switch n.Kind {
	case delivery.NoteReady:
		event = "ready"
	case delivery.NoteFailed:
		level, event = slog.LevelError, "failed"
		d.told = n.Text
	case delivery.NoteWaiting:
		event = "waiting"
	case delivery.NoteStopping:
		event = "stopping"
		if n.Text == d.told {
			level = slog.LevelDebug // it stops because of the failure that was just said
		}
		d.told = n.Text
	case delivery.NoteReloading:
		event = "reload"
	case delivery.NotePartition:
		level, event = slog.LevelDebug, "partition"
	case delivery.NoteProcess:
		level, event = slog.LevelDebug, "process" // the driver has said more
	case delivery.NoteStale:
		level, event = slog.LevelDebug, "stale"
	}
	text := n.Text
	if n.Kind == delivery.NoteReady && d.cfg.ReadyText != "" && !d.saidReady {
		text, d.saidReady = d.cfg.ReadyText, true
	}
	if n.TP != (delivery.TP{}) {
		text = fmt.Sprintf("%s/%d: %s", n.TP.Inlet, n.TP.Partition, text)
	}
	d.say(level, event, text)
}

// sayExit says how the process ended. Its last lines were shown as they came.
// fails: the stream fails by it.
func (d *Driver) sayExit(e supervisor.Exited, fails bool, unanswered int) {
	level, text := slog.LevelInfo, fmt.Sprintf("%s: %s", e, d.cfg.Command)
	if e.Killed {
		text = fmt.Sprintf("killed: %s", d.cfg.Command)
	}
	if fails {
		level = slog.LevelError
		text += d.exitHint(e, unanswered)
	}
	d.say(level, "process", text)
	if e.HalfFrame != nil {
		d.say(slog.LevelWarn, "process", e.HalfFrame.Error())
	}
	for _, left := range e.Leftover {
		d.say(slog.LevelWarn, "process", "left behind in its group, and killed: "+left)
	}
}

// exitHint says what an end that nobody asked for means, beyond its code.
func (d *Driver) exitHint(e supervisor.Exited, unanswered int) string {
	switch {
	case d.awaiting && e.Code == 0:
		return "; it ended without an answer to discovery: does it call serve()?"
	case unanswered == 1:
		return "; 1 batch was unanswered and is delivered again"
	case unanswered > 1:
		return fmt.Sprintf("; %d batches were unanswered and are delivered again", unanswered)
	case e.Code == 0:
		return "; it was not asked to end: a streamlet serves until its stdin ends"
	}
	return ""
}

// processLog passes a structured log record of the process on.
func (d *Driver) processLog(m wire.Log) {
	level := slog.LevelInfo
	switch m.Level {
	case wire.LevelDebug:
		level = slog.LevelDebug
	case wire.LevelWarn:
		level = slog.LevelWarn
	case wire.LevelError:
		level = slog.LevelError
	}
	attrs := []any{"event", d.streamlet()}
	for _, name := range slices.Sorted(maps.Keys(m.Fields)) {
		attrs = append(attrs, name, m.Fields[name])
	}
	d.log.Log(context.Background(), level, m.Message, attrs...)
}

func (d *Driver) streamlet() string {
	if d.plan == nil {
		return "process"
	}
	return d.plan.Streamlet
}

// Snapshot is what a run looks like at one moment.
type Snapshot struct {
	delivery.Status
	// Now is the core's time, in which delivery.PartitionStatus.Since is given.
	Now  time.Duration
	Plan *Plan
	PID  int
	// Ends has the newest known ends of every inlet's partitions.
	Ends map[string]map[int32]kafka.End
}

// Snapshot asks the loop how things are. ok is false once Run is over, or when
// ctx ends before the loop answered.
func (d *Driver) Snapshot(ctx context.Context) (s Snapshot, ok bool) {
	ask := make(chan Snapshot, 1)
	select {
	case d.asks <- ask:
		return <-ask, true
	case <-d.done:
	case <-ctx.Done():
	}
	return Snapshot{}, false
}

func (d *Driver) snapshot() Snapshot {
	s := Snapshot{Status: d.core.Status(), Now: d.now(), Plan: d.plan, Ends: map[string]map[int32]kafka.End{}}
	if d.proc != nil {
		s.PID = d.proc.Pid()
	}
	for port, in := range d.inlets {
		s.Ends[port] = in.Ends()
	}
	return s
}

// behind is how many offsets lie between what is committed and the readable
// end, over the partitions that are ours.
func (s *Snapshot) behind() int64 {
	var n int64
	for i := range s.Partitions {
		p := &s.Partitions[i]
		if end, ok := s.Ends[p.TP.Inlet][p.TP.Partition]; ok {
			n += max(0, end.LastStable-p.Next())
		}
	}
	return n
}

// progress is when the line "committed" is due: soon after everything is
// committed, and while more is behind each progressEvery.
type progress struct {
	// in is the number of records that the last line named, last when.
	in   uint64
	last time.Duration
	next time.Duration
	open bool // something was committed since
}

const (
	progressEvery = 10 * time.Second
	// progressSettle keeps a stream that is never far behind from a line a
	// batch; it is also how often a stream that is behind is looked at.
	progressSettle = 250 * time.Millisecond
)

func (p *progress) due() (at time.Duration, ok bool) { return p.next, p.open }

// noticeCommit arms the progress line.
func (d *Driver) noticeCommit(ev delivery.Committed) {
	if ev.Outcome != delivery.CommitDone || d.progress.open {
		return
	}
	d.progress.open = true
	d.progress.next = d.now() + progressSettle
}

// sayProgress says how far the commits are, when that is due.
func (d *Driver) sayProgress() {
	p := &d.progress
	now := d.now()
	if !p.open || now < p.next {
		return
	}
	s := d.snapshot()
	behind := s.behind()
	if behind > 0 && now-p.last < progressEvery {
		p.next = now + progressSettle
		return
	}
	p.open = false
	if s.In == p.in {
		return // only positions moved
	}
	p.in, p.last = s.In, now
	d.say(slog.LevelInfo, "committed", fmt.Sprintf("%d in, %d out, %d behind", s.In, s.Out, behind))
}
