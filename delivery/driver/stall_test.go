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

// The offset that is warned of is the next to be committed: what is written and
// confirmed, but not committed, is stalled too.
func TestAStallBehindCommitsHasTheCommittedOffset(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.running(1, func(c *Config) { c.StallAfter = time.Minute })
		in := w.broker.inlet("in")
		in.holdCommit = true
		w.add("in", 0, values("a", "b")...)
		p.say(wire.Ack{ID: p.batch().ID})
		w.pass(time.Minute + time.Second)
		if line := w.lastWarning(); w.stalled() != 1 || !strings.Contains(line, "app.in/0@0 is not committed") || !strings.Contains(line, "offset=0") {
			t.Errorf("warned %d times: %s", w.stalled(), line)
		}
		in.sink(delivery.Committed{Inlet: "in", Sequence: last(in.commits).Sequence})
		w.pass(10 * time.Minute)
		if n := w.stalled(); n != 1 {
			t.Errorf("warned %d times of one stall", n)
		}
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

// When the process ends with several batches, the log names what is known: all of
// them, by topic, partition and first offset; also under --watch, where the next
// save is waited for and nothing is tried.
func TestACrashWithSeveralBatchesNamesThem(t *testing.T) {
	for _, watch := range []bool{false, true} {
		bubble(t, func(w *world) {
			p := w.running(2, func(c *Config) { c.Core.Watch = watch })
			w.add("in", 0, values("a", "b")...)
			w.add("in", 1, values("c")...)
			p.exit(supervisor.Exited{Code: 139})
			w.pass(time.Millisecond)
			want := "accused one of 2 batches killed the process: app.in/0@0 (2 records), app.in/1@0"
			if !watch {
				want += "; they are tried one at a time"
			}
			if line := w.lastWarning(); line != want {
				t.Errorf("said %q, want %q", line, want)
			}
			w.kill()
		})
	}
}
