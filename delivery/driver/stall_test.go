package driver

import (
	"strings"
	"testing"
	"time"

	"ankka-flow/delivery"
	"ankka-flow/supervisor"
	"ankka-flow/wire"
)

// stalled counts the warnings about stalls.
func (w *world) stalled() int { return w.said.count("warning=" + PartitionStalled) }

// A stall is warned of once, when it is as old as configured, through failures,
// conversations and processes; a commit ends it, and the next one is another.
func TestStallIsWarnedOfOnce(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.running(1, func(c *Config) { c.StallAfter = time.Minute })
		w.pass(2 * time.Minute) // nothing is uncommitted
		w.add("in", 0, values("a")...)
		w.pass(20 * time.Second)
		p.say(wire.Fail{ID: p.batch().ID, Message: "no total"}, wire.Stopped{})
		w.pass(10 * time.Second)
		p.say(wire.Spec{Descriptor: w.descriptor, Capabilities: wire.DefaultCapabilities()})
		p.exit(supervisor.Exited{Code: 1})
		w.pass(10 * time.Second)
		w.answerDiscovery()
		w.pass(20*time.Second - time.Millisecond)
		if n := w.stalled(); n != 0 {
			t.Fatalf("warned %d times before its time: %q", n, w.said.all)
		}
		w.pass(time.Millisecond)
		if n := w.stalled(); n != 1 {
			t.Fatalf("warned %d times when it is due: %q", n, w.said.all)
		}
		for _, part := range []string{
			"inlet in: app.in/0@0 is not committed for 1m0s", "pipeline=app", "streamlet=app", "inlet=in", "topic=app.in", "partition=0", "offset=0",
			"tries=3", "delivered 3 times", "error=", "exit 1",
		} {
			if line := w.lastWarning(); !strings.Contains(line, part) {
				t.Errorf("%q is not in: %s", part, line)
			}
		}
		w.pass(10 * time.Minute)
		if n := w.stalled(); n != 1 {
			t.Fatalf("warned %d times of one stall", n)
		}
		p = w.proc()
		p.say(wire.Ack{ID: p.batch().ID})
		w.pass(time.Minute)
		w.add("in", 0, values("b")...)
		w.pass(time.Minute + time.Second)
		if !strings.Contains(w.lastWarning(), "app.in/0@1 is not committed") || w.stalled() != 2 {
			t.Errorf("the next stall: %q", w.said.warn)
		}
		p.say(wire.Ack{ID: p.batch().ID})
		w.end()
	})
}

// A stall ends in silence where the partition is lost, and is another one where
// it comes back.
func TestStallEndsWithThePartition(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.running(1, func(c *Config) { c.StallAfter = time.Minute })
		w.add("in", 0, values("a")...)
		first := p.batch().ID
		w.pass(50 * time.Second)
		in := w.broker.inlet("in")
		in.sink(delivery.Lost{Inlet: "in"})
		w.pass(10 * time.Minute)
		if n := w.stalled(); n != 0 {
			t.Fatalf("warned %d times of a partition that is lost", n)
		}
		p.say(wire.Ack{ID: first}) // void
		in.assign(2)
		in.look(0)
		w.pass(time.Minute - time.Second)
		if n := w.stalled(); n != 0 {
			t.Fatalf("warned %d times before its time", n)
		}
		w.pass(2 * time.Second)
		if n := w.stalled(); n != 1 {
			t.Fatalf("warned %d times, want 1", n)
		}
		p.say(wire.Ack{ID: p.batch().ID})
		w.end()
	})
}

func (w *world) lastWarning() string {
	w.said.mu.Lock()
	defer w.said.mu.Unlock()
	if len(w.said.warn) == 0 {
		return ""
	}
	return w.said.warn[len(w.said.warn)-1]
}
