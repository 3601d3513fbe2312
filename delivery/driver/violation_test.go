package driver

import (
	"strings"
	"testing"
	"time"

	"ankka-flow/delivery"
	"ankka-flow/delivery/record"
	"ankka-flow/supervisor"
	"ankka-flow/wire"
)

func writtenOf(id uint64) delivery.Event { return delivery.Written{ID: id} }

// violations are the breaches of a running conversation in which batch 1 was
// acked and batch 2, of another partition, is with the process.
var violations = map[string]struct {
	say  wire.Message
	want *wire.Violation
	// accused: partition 1's attempts count it.
	accused bool
}{
	"ack never sent":     {wire.Ack{ID: 99}, wire.NotInFlight("ack", 99, false), false},
	"fail never sent":    {wire.Fail{ID: 99, Message: "x"}, wire.NotInFlight("fail", 99, false), false},
	"emit never sent":    {emitOf(99, "left", "x"), wire.NotInFlight("emit", 99, false), false},
	"forward never sent": {wire.Forward{ID: 99, Outlet: "left", All: true}, wire.NotInFlight("forward", 99, false), false},
	"ack answered":       {wire.Ack{ID: 1}, wire.NotInFlight("ack", 1, true), false},
	"fail answered":      {wire.Fail{ID: 1, Message: "x"}, wire.NotInFlight("fail", 1, true), false},
	"emit answered":      {emitOf(1, "left", "x"), wire.NotInFlight("emit", 1, true), false},
	"forward answered":   {wire.Forward{ID: 1, Outlet: "left", Indexes: []int{0}}, wire.NotInFlight("forward", 1, true), false},
	"emit outlet":        {emitOf(2, "no\nwhere", "x"), wire.UnknownOutlet("emit", 2, "no\nwhere", []string{"left", "right"}), true},
	"forward outlet":     {wire.Forward{ID: 2, Outlet: "in", All: true}, wire.UnknownOutlet("forward", 2, "in", []string{"left", "right"}), true},
	"index":              {wire.Forward{ID: 2, Outlet: "left", Indexes: []int{0, 1, 2}}, wire.IndexOutOfRange(2, 2, 2), true},
	"stopped":            {wire.Stopped{}, wire.OutOfPlace("stopped", "but as the one answer to stop"), false},
	"spec":               {wire.Spec{Descriptor: describe("app", []string{"in"}, nil), Capabilities: wire.DefaultCapabilities()}, wire.OutOfPlace("spec", "but as the one answer to discover"), false},
}

func TestCase12_ViolationsReadAsThePageHasThem(t *testing.T) {
	for name, test := range violations {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				p := w.running(2)
				w.add("in", 0, values("a")...)
				w.add("in", 1, values("b", "c")...)
				if n := len(p.batches()); n != 2 {
					t.Fatalf("%d batches came", n)
				}
				p.say(wire.Ack{ID: 1}, test.say)
				if !p.called("Kill") {
					t.Error("the process lives")
				}
				text := "failed protocol violation: " + test.want.Error()
				failures := 0
				if test.accused {
					text += " (inlet in: app.in/1, offsets 0 to 1)"
					failures = 1
				}
				if w.said.count(text) != 1 {
					t.Errorf("not said: %s\nbut %q", text, w.said.warn)
				}
				for _, s := range w.snapshot().Partitions {
					if s.TP.Partition == 1 && s.Failures != failures {
						t.Errorf("%d failures are charged to the partition", s.Failures)
					}
				}
				// Nothing is lost: the batch comes again, to a new process.
				w.pass(time.Second)
				p = w.answerDiscovery()
				want := "b c"
				if test.accused {
					want = "b" // a convict's come one at a time
				}
				if got := p.batch(); texts(got.Records) != want || got.Attempt != 2 {
					t.Errorf("%v", got)
				}
				w.kill()
			})
		})
	}
}

func TestCase14_EmitsOverTheLimitReadAsThePageHasThemAndTheProcessLives(t *testing.T) {
	for name, m := range map[string]wire.Message{
		"emit":    emitOf(1, "left", strings.Repeat("x", 3<<20)),
		"forward": wire.Forward{ID: 1, Outlet: "left", Indexes: make([]int, 64)},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				p := w.running(1)
				w.add("in", 0, record.Record{Value: make([]byte, 1<<20)})
				p.batch()
				text := "failed inlet in: app.in/0@0: " + wire.HeldTooMuch(name, 1).Error()
				for range 22 {
					p.say(m)
				}
				if w.said.count(text) != 1 {
					t.Errorf("not said: %s\nbut %q", text, w.said.warn)
				}
				if p.called("Kill") {
					t.Error("the process was killed")
				}
				if held := w.snapshot().HeldBytes; held != 0 {
					t.Errorf("%d bytes are held", held)
				}
				w.kill()
			})
		})
	}
}

func TestExplainNamesAnotherLimitPlainly(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.running(1, func(c *Config) { c.Core.HoldBatch = 1000 })
		w.add("in", 0, values("a")...)
		p.say(emitOf(p.batch().ID, "left", strings.Repeat("x", 2000)))
		if !w.said.has("failed inlet in: app.in/0@0: the emits of batch 1 are over 1000 bytes") {
			t.Errorf("%q", w.said.warn)
		}
		w.kill()
	})
}

func TestCase12_TheFirstMessageIsSpecOrLog(t *testing.T) {
	for _, m := range []wire.Message{
		wire.Ack{ID: 1}, wire.Fail{ID: 1, Message: "x"}, emitOf(1, "left", "x"), wire.Forward{ID: 1, Outlet: "left", All: true},
		wire.Status{ID: 1}, wire.Report{}, wire.Pong{N: 1}, wire.Stopped{},
	} {
		t.Run(m.Kind(), func(t *testing.T) {
			bubble(t, func(w *world) {
				w.run()
				p := w.proc()
				p.say(wire.Log{Level: wire.LevelInfo, Message: "hello", Fields: map[string]any{"z": int64(1), "a": "b"}})
				if !w.said.has("output hello process=process fields=[a=b z=1]") {
					t.Errorf("the log was not passed on: %q", w.said.all)
				}
				p.say(m)
				if want := "protocol violation: " + wire.SpecExpected(m.Kind()).Error(); !w.said.has(want) || !p.called("Kill") {
					t.Errorf("not said: %s\nbut %q", want, w.said.warn)
				}
				w.kill()
			})
		})
	}
}

// A process that was asked again sends late answers before its second spec.
func TestLateAnswersBeforeTheSecondSpec(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.running(2)
		w.add("in", 0, values("long")...)
		w.add("in", 1, values("bad")...)
		p.batches()
		p.say(wire.Fail{ID: 2, Message: "no total", Offset: 0, HasOffset: true, KindName: "KeyError"})
		if stop, ok := last(p.take()).(wire.Stop); !ok || stop.Mode != wire.Abandon || stop.Reason != "in/1@0: batch 2 failed: KeyError: no total" {
			t.Errorf("the process got %v", stop)
		}
		p.say(wire.Stopped{})
		w.pass(time.Second)
		if _, ok := last(p.take()).(wire.Discover); !ok {
			t.Fatal("it was not asked again")
		}
		// Its late emits are dropped, its late answer frees the partition.
		p.say(wire.Ack{ID: 1})
		w.answerDiscovery()
		// The convict waits until what its failure voided is committed.
		for _, want := range []string{"long", "bad"} {
			b := p.batch()
			if texts(b.Records) != want || b.Attempt != 2 {
				t.Errorf("%v is not attempt 2 of %s", b, want)
			}
			p.say(wire.Ack{ID: b.ID})
			w.pass(time.Second)
		}
		w.end()
	})
}

func TestR4_LateEmitsAndAnswersAfterAbandonAreDropped(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.running(2)
		w.add("in", 0, values("long")...)
		w.add("in", 1, values("bad")...)
		p.batches()
		p.say(emitOf(1, "left", "early"), wire.Fail{ID: 2, Message: "x"}, wire.Stopped{})
		w.pass(time.Second)
		w.answerDiscovery()
		if got := p.batches(); len(got) != 0 {
			t.Fatalf("%v was delivered: one owes an answer (R3), and the convict waits for it", got)
		}
		// All of it is late, and also what would be a violation in time.
		p.say(emitOf(1, "left", "late"), wire.Forward{ID: 1, Outlet: "left", Indexes: []int{0, 5}}, wire.Status{ID: 1, Waiting: true}, wire.Ack{ID: 1})
		if s := w.snapshot(); s.HeldBytes != 0 || s.State != delivery.Running {
			t.Errorf("%+v", s)
		}
		b := p.batch()
		if texts(b.Records) != "long" {
			t.Errorf("%v", b)
		}
		p.say(emitOf(b.ID, "left", "L"), wire.Ack{ID: b.ID})
		w.pass(time.Second)
		p.say(wire.Ack{ID: p.batch().ID})
		if got := texts(w.broker.producer.in("app.left")); got != "L" {
			t.Errorf("written was %q", got)
		}
		w.end()
	})
}

func TestBrokenFrameAndStrayText(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.running(1)
		p.events <- supervisor.Stray{Text: `"hi"`}
		if !w.said.has(`wrote "hi" to stdout, which carries the protocol; print to stderr`) {
			t.Errorf("%q", w.said.all)
		}
		w.add("in", 0, values("a")...)
		_, err := wire.ParseFromProcess([]byte{0x92, 0xa3, 'a', 'c', 'k', 0xa1, 'x'})
		p.events <- supervisor.Broken{Err: err}
		if !w.said.has("protocol violation: "+err.Error()) || !p.called("Kill") {
			t.Errorf("%q", w.said.all)
		}
		w.kill()
	})
}
