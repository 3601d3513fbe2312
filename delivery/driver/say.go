package driver

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
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
	level, event := slog.LevelInfo, "ready"
	switch n.Kind {
	case delivery.NoteFailed:
		level, event = d.failureLevel(false), "failed"
		d.told = n.Text
	case delivery.NoteWaiting:
		event = "waiting"
	case delivery.NoteStopping:
		event = "stopping"
		if n.Text == d.told {
			level = slog.LevelDebug // it stops because of the failure that was just said
		}
		d.told, d.toldStop = n.Text, n.Text
	case delivery.NoteReloading:
		event = "reload"
	case delivery.NotePartition:
		level, event = slog.LevelDebug, "partition"
	case delivery.NoteConvicted:
		d.sayConvicted(n)
		return
	case delivery.NoteAccused:
		d.say(slog.LevelWarn, "accused", d.renamed(n.Text))
		return
	case delivery.NoteAcquitted:
		event = "acquitted"
	case delivery.NoteProcess:
		level, event = slog.LevelDebug, "process" // the driver has said more
	}
	text := n.Text
	if n.Kind == delivery.NoteReady && d.cfg.ReadyText != "" && !d.saidReady {
		text, d.saidReady = d.cfg.ReadyText, true
	}
	if n.TP != (delivery.TP{}) {
		text = fmt.Sprintf("%v: %s", n.TP, text)
	}
	d.say(level, event, d.named(text))
}

// sayConvicted has in attributes what alerts and tools look for.
func (d *Driver) sayConvicted(n delivery.Note) {
	d.log.LogAttrs(context.Background(), slog.LevelWarn, d.named(n.Text),
		slog.String("event", "convicted"), slog.String("inlet", n.TP.Inlet), slog.String("topic", d.topic(n.TP.Inlet)),
		slog.Int("partition", int(n.TP.Partition)), slog.Int64("offset", n.Offset), slog.Int("tries", n.Tries), slog.String("error", d.named(n.Error)))
}

// topic is the inlet's; empty where there is no plan yet.
func (d *Driver) topic(inlet string) string {
	if d.plan != nil {
		if in, ok := d.plan.Inlet(inlet); ok {
			return in.Topic
		}
	}
	return ""
}

// failureLevel is that of a failure: an error where a person has to act, for the
// run ends by it or waits for a save; a warning where it is tried again. exited:
// the process ended by itself.
func (d *Driver) failureLevel(exited bool) slog.Level {
	if d.cfg.Core.ExitOnFailure || exited && d.cfg.Core.Watch {
		return slog.LevelError
	}
	return slog.LevelWarn
}

// sayExit says how the process ended. Its last lines were shown as they came.
// fails: the stream fails by it.
func (d *Driver) sayExit(e supervisor.Exited, fails bool, unanswered int) {
	level, text := slog.LevelInfo, fmt.Sprintf("%s: %s", e, d.cfg.Command)
	if e.Killed && !e.Disconnected {
		text = fmt.Sprintf("killed: %s", d.cfg.Command)
	}
	if fails {
		level = d.failureLevel(true)
		text += d.exitHint(e, unanswered)
	}
	d.say(level, "process", text)
	if e.HalfFrame != nil && !strings.Contains(d.told, e.HalfFrame.Error()) { // before exit 0 it was a violation
		d.say(slog.LevelWarn, "process", e.HalfFrame.Error())
	}
	for _, left := range e.Leftover {
		d.say(slog.LevelWarn, "process", "left behind in its group, and killed: "+left)
	}
}

// exitHint says what an end that nobody asked for means, beyond its code.
func (d *Driver) exitHint(e supervisor.Exited, unanswered int) string {
	if hint := MissingSDK(&e); hint != "" {
		return hint
	}
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

// SlowDiscovery is when a process that has not answered discovery yet is spoken
// of. Long imports are usual, so it is no warning; but the cause of a program
// that never answers is as a rule one of those that NoAnswerYet names.
const SlowDiscovery = 5 * time.Second

// NoAnswerYet is said after SlowDiscovery (case 19); timeout is how long the
// process has in all.
func NoAnswerYet(timeout time.Duration) string {
	return fmt.Sprintf("no answer to discovery yet; does it still import, does it call serve(), or does it not flush its stdout? It has %v in all (FLOW_DISCOVERY_TIMEOUT)", timeout)
}

// saySlowDiscovery says once for each discovery that it takes long, when it does.
func (d *Driver) saySlowDiscovery() {
	if !d.awaiting || d.slowAt == 0 || d.now() < d.slowAt {
		return
	}
	d.slowAt = 0
	d.say(slog.LevelInfo, "process", NoAnswerYet(cmp.Or(d.cfg.Core.DiscoveryTimeout, time.Minute)))
}

// MissingSDK is the remedy for the first mishap that a newcomer meets, a Python
// that cannot import our SDK, to be appended to how the process ended; for every
// other end it is empty.
func MissingSDK(e *supervisor.Exited) string {
	for _, line := range e.LastLines {
		if strings.Contains(line, "ModuleNotFoundError: No module named 'ankka_flow'") {
			return "; its Python has no ankka_flow: in the folder of ankka-flow's sources, pip install ./sdk/python or set PYTHONPATH=sdk/python/src"
		}
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
	var fields []any
	for _, name := range slices.Sorted(maps.Keys(m.Fields)) {
		fields = append(fields, name, m.Fields[name])
	}
	// A group, so that no name of the process's stands for one of ours.
	d.log.Log(context.Background(), level, m.Message, "event", "output", "process", d.streamlet(), slog.Group("fields", fields...))
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

// Behind is how many offsets lie between what is committed and the readable
// end, over the partitions that are ours.
func (s *Snapshot) Behind() int64 {
	var n int64
	for i := range s.Partitions {
		p := &s.Partitions[i]
		if end, ok := s.Ends[p.TP.Inlet][p.TP.Partition]; ok {
			n += max(0, end.LastStable-p.Next())
		}
	}
	return n
}
