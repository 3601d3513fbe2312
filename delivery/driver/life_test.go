package driver

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"ankka-flow/delivery"
	"ankka-flow/delivery/record"
	"ankka-flow/supervisor"
	"ankka-flow/wire"
)

func TestR7_WithdrawnWhereNotBegunAndRevokedWhereItWas(t *testing.T) {
	for name, stuck := range map[string]bool{"not begun": true, "begun": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				p := w.running(1)
				p.setStuck(stuck)
				w.add("in", 0, values("a")...)
				in := w.broker.inlet("in")
				in.sink(delivery.Revoked{Inlet: "in", Partitions: []int32{0}, Deadline: time.Hour})
				in.sink(delivery.Assigned{Inlet: "in", Generation: 2, Starts: []delivery.Start{{Partition: 0}}})
				got := p.take()
				if stuck {
					// The frame was taken back, and its successor is queued.
					if len(got) != 0 || len(p.queued) != 1 || p.queued[0].id != 2 {
						t.Errorf("the process got %v, queued is %v", got, p.queued)
					}
					p.setStuck(false)
				} else {
					if len(got) != 2 || got[1] != (wire.Revoke{ID: 1}) {
						t.Errorf("the process got %v", got)
					}
					p.say(emitOf(1, "left", "void"), wire.Ack{ID: 1}) // void: it frees the partition (R3)
				}
				b := p.batch()
				if b.ID != 2 || texts(b.Records) != "a" {
					t.Errorf("batch %d is %s", b.ID, texts(b.Records))
				}
				p.say(emitOf(2, "left", "A"), wire.Ack{ID: 2})
				if got := texts(w.broker.producer.in("app.left")); got != "A" {
					t.Errorf("written was %q", got)
				}
				if !in.called("Release [0]") {
					t.Error("the partition was not released")
				}
				w.end()
			})
		})
	}
}

func TestCase21_AProcessKilledWithFramesQueued(t *testing.T) {
	bubble(t, func(w *world) {
		w.stuck = true
		p := w.running(3)
		p.setStuck(true)
		for partition := range 3 {
			w.add("in", partition, values("a", "b")...)
		}
		if len(p.queued) != 3 {
			t.Fatalf("%d frames are queued", len(p.queued))
		}
		p.exit(supervisor.Exited{Code: -1, Signal: syscall.SIGSEGV})
		if !w.said.has("process killed by SIGSEGV: app; 3 batches were unanswered and are delivered again") {
			t.Errorf("%q", w.said.all)
		}
		w.pass(time.Second)
		p = w.answerDiscovery()
		p.setStuck(false)
		for range 3 { // each is accused, and tried alone
			b := p.batch()
			if texts(b.Records) != "a b" {
				t.Errorf("batch %d of partition %d is %s", b.ID, b.Partition, texts(b.Records))
			}
			p.say(wire.Forward{ID: b.ID, Outlet: "left", All: true}, wire.Ack{ID: b.ID})
			w.pass(time.Second)
		}
		if got := texts(w.broker.producer.in("app.left")); got != "a b a b a b" {
			t.Errorf("written was %q", got)
		}
		w.end()
	})
}

func TestExitOfTheProcessWritesWhatWasAckedAndNothingElse(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.running(2)
		w.broker.producer.hold(true)
		w.add("in", 0, values("a")...)
		w.add("in", 1, values("b")...)
		p.say(emitOf(1, "left", "A"), emitOf(2, "left", "B"), wire.Ack{ID: 1})
		p.exit(supervisor.Exited{Code: 3})
		synctest.Wait()
		w.broker.producer.answer(writtenOf(1))
		w.pass(400 * time.Millisecond)
		if got := texts(w.broker.producer.in("app.left")); got != "A" {
			t.Errorf("written was %q", got)
		}
		in := w.broker.inlet("in")
		if in.committedAt(0) != 1 || in.committedAt(1) != 0 {
			t.Errorf("committed is %v", in.committed)
		}
		w.kill()
	})
}

func TestR7_SuspendedWritesContinueInTheNextGeneration(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.running(1)
		in := w.broker.inlet("in")
		w.broker.producer.hold(true)
		w.add("in", 0, values("a")...)
		p.batch()
		in.sink(delivery.Suspended{Inlet: "in"})
		p.say(wire.Forward{ID: 1, Outlet: "left", All: true}, wire.Ack{ID: 1})
		if open := w.broker.producer.openIDs(); len(open) != 0 {
			t.Fatal("a write was started between two generations")
		}
		in.sink(delivery.Assigned{Inlet: "in", Generation: 2, Continues: true, Starts: []delivery.Start{{Partition: 0}}})
		synctest.Wait()
		w.broker.producer.answer(writtenOf(1))
		w.pass(time.Second)
		if got := last(in.commits); got.Generation != 2 || len(got.Offsets) != 1 || got.Offsets[0].Offset != 1 {
			t.Errorf("committed was %v", got)
		}
		w.end()
	})
}

// What the process acked while the program did not run, and what the broker
// confirmed, waits for the membership to say that the generation has ended.
func TestR7_NothingStartsBehindASleep(t *testing.T) {
	for name, wake := range map[string]func(p *fakeProcess, w *world){
		"an ack": func(p *fakeProcess, w *world) {
			p.say(wire.Forward{ID: 1, Outlet: "left", All: true}, wire.Ack{ID: 1})
		},
		"a confirmed write with one behind it": func(p *fakeProcess, w *world) {
			p.say(wire.Forward{ID: 1, Outlet: "left", All: true}, wire.Ack{ID: 1})
			w.add("in", 0, values("b")...)
			id := p.batch().ID
			p.say(wire.Forward{ID: id, Outlet: "left", All: true}, wire.Ack{ID: id})
			w.broker.inlet("in").sleep()
			w.broker.producer.answer(writtenOf(1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				p := w.running(1)
				in := w.broker.inlet("in")
				w.broker.producer.hold(true)
				w.add("in", 0, values("a")...)
				p.batch()
				if name == "an ack" {
					in.sleep()
				}
				wake(p, w)
				in.awake(delivery.Suspended{Inlet: "in"})
				w.pass(10 * time.Millisecond)
				if open := w.broker.producer.openIDs(); len(open) != 0 {
					t.Errorf("the writes %v were started behind the end of the generation", open)
				}
				in.sink(delivery.Lost{Inlet: "in"})
				w.end()
			})
		})
	}
}

func TestR7_LostWhileItIsWritten(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.running(1)
		in := w.broker.inlet("in")
		w.broker.producer.hold(true)
		w.add("in", 0, values("a")...)
		p.say(wire.Forward{ID: p.batch().ID, Outlet: "left", All: true}, wire.Ack{ID: 1})
		in.sink(delivery.Lost{Inlet: "in"})
		in.sink(delivery.Assigned{Inlet: "in", Generation: 5, Starts: []delivery.Start{{Partition: 0}}})
		b := p.batch()
		p.say(wire.Forward{ID: b.ID, Outlet: "left", All: true}, wire.Ack{ID: b.ID})
		// Its old write keeps the slot, with its bytes, until it is answered.
		if open := w.broker.producer.openIDs(); len(open) != 1 || open[0] != 1 {
			t.Fatalf("open are %v", open)
		}
		if got := w.broker.producer.withdrawn; len(got) != 1 || got[0] != 1 {
			t.Errorf("withdrawn were the writes %v", got)
		}
		w.broker.producer.answer(writtenOf(1))
		synctest.Wait()
		w.broker.producer.answer(writtenOf(b.ID))
		w.pass(time.Second)
		if in.committedAt(0) != 1 {
			t.Errorf("committed is %d", in.committedAt(0))
		}
		if n := w.atHand(); n != 0 {
			t.Errorf("%d batches are still at hand", n)
		}
		w.end()
	})
}

func TestR9_UnsettledRaisesTheEpochAndTheOtherWriteKeepsItsRecords(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.running(2)
		producer := w.broker.producer
		producer.hold(true)
		producer.holdEpoch = true
		w.add("in", 0, values("a")...)
		w.add("in", 1, values("b")...)
		p.batches()
		p.say(wire.Forward{ID: 1, Outlet: "left", All: true}, wire.Ack{ID: 1})
		p.say(emitOf(2, "right", "B"), wire.Forward{ID: 2, Outlet: "left", All: true}, wire.Ack{ID: 2})
		producer.answer(delivery.WriteUnknown{ID: 1, Reason: "no answer"})
		producer.answer(delivery.Unsettled{ID: 1, Reason: "no answer in 2m"})
		synctest.Wait()
		if producer.raised != 1 {
			t.Errorf("the epoch was raised %d times", producer.raised)
		}
		// The unsettled one comes again, and is not written under the old epoch.
		p.say(wire.Stopped{})
		w.pass(time.Second)
		p = w.answerDiscovery()
		if got := p.batches(); len(got) != 0 {
			t.Errorf("before the epoch was raised came %v", got)
		}
		producer.sink(delivery.EpochRaised{})
		b := p.batch()
		if b.Partition != 0 || texts(b.Records) != "a" {
			t.Errorf("%v", b)
		}
		p.say(wire.Forward{ID: b.ID, Outlet: "left", All: true}, wire.Ack{ID: b.ID})
		producer.answer(writtenOf(2)) // its records are as they were: answer compares
		producer.answer(writtenOf(b.ID))
		if got := texts(producer.in("app.right")) + "|" + texts(producer.in("app.left")); got != "B|b a" {
			t.Errorf("written was %s", got)
		}
		if n := w.atHand(); n != 0 {
			t.Errorf("%d batches are still at hand", n)
		}
		w.end()
	})
}

func TestR2_RefusedDropsWhatStandsBehind(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.running(1, func(c *Config) { c.Core.MaxRecords = 1 })
		w.broker.producer.hold(true)
		w.add("in", 0, values("a", "b")...)
		p.say(emitOf(1, "left", "A"), wire.Ack{ID: 1}, emitOf(2, "left", "B"), wire.Ack{ID: 2})
		w.broker.producer.answer(delivery.Refused{ID: 1, Reason: "not authorized", Accused: []delivery.TP{{Inlet: "in"}}})
		if !w.said.has("failed inlet in: app.in/0@0: the write of batch 1 was refused: not authorized") {
			t.Errorf("%q", w.said.warn)
		}
		if open := w.broker.producer.openIDs(); len(open) != 0 || w.atHand() != 0 {
			t.Errorf("open are %v, at hand %d", open, w.atHand())
		}
		w.broker.producer.hold(false)
		p.say(wire.Stopped{})
		w.pass(time.Second)
		w.answerDiscovery()
		for range 2 {
			b := last(p.batches())
			p.say(wire.Forward{ID: b.ID, Outlet: "left", All: true}, wire.Ack{ID: b.ID})
		}
		if got := texts(w.broker.producer.in("app.left")); got != "a b" {
			t.Errorf("written was %q", got)
		}
		w.end()
	})
}

// states brings a run into each state that it can be stopped or ended in.
var states = map[string]func(w *world){
	"launching fails": func(w *world) {
		w.launchErr = errors.New("no memory")
		w.run(func(c *Config) { c.Core.Watch = true })
	},
	"discovering": func(w *world) { w.run() },
	"preparing": func(w *world) {
		w.broker.prepare = func(ctx context.Context, _ *Plan) error { <-ctx.Done(); return ctx.Err() }
		w.run()
		w.answerDiscovery()
	},
	"joining": func(w *world) {
		w.broker.holdJoin = true
		w.running(1)
	},
	"running": func(w *world) { w.running(1) },
	"with the process": func(w *world) {
		w.running(1)
		w.add("in", 0, values("a")...)
	},
	"queued": func(w *world) {
		w.running(1).setStuck(true)
		w.add("in", 0, values("a")...)
	},
	"writing": func(w *world) {
		p := w.running(1)
		w.broker.producer.hold(true)
		w.add("in", 0, values("a")...)
		p.say(emitOf(1, "left", "A"), wire.Ack{ID: 1})
	},
	"ending": func(w *world) {
		p := w.running(1)
		w.add("in", 0, values("a")...)
		p.say(wire.Fail{ID: 1, Message: "x"})
	},
	"down": func(w *world) {
		w.running(1).exit(supervisor.Exited{Code: 1})
		synctest.Wait()
	},
	"reloading": func(w *world) {
		w.running(1, func(c *Config) { c.Core.Watch = true })
		w.reloads <- "saved"
		synctest.Wait()
	},
	"leaving an inlet": func(w *world) {
		w.descriptor = describe("app", []string{"in", "old"}, nil)
		p := w.running(1, func(c *Config) { c.Core.Watch = true })
		w.broker.inlet("old").leaving = make(chan struct{}) // never
		w.reloads <- "saved"
		p.say(wire.Stopped{})
		p.exit(supervisor.Exited{})
		w.descriptor = describe("app", []string{"in"}, nil)
		w.answerDiscovery()
	},
}

func TestForcedInEveryStateKillsAndLeavesNothing(t *testing.T) {
	for name, bring := range states {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				bring(w)
				began := time.Now()
				w.kill()
				if took := time.Since(began); took > 0 && name != "leaving an inlet" || took > 2*time.Second {
					t.Errorf("it took %v", took)
				}
				for _, p := range w.procs {
					if !p.ended {
						t.Errorf("process %d lives", p.number)
					}
				}
			})
		})
	}
}

func TestStopInEveryStateEndsWithinItsBudget(t *testing.T) {
	for name, bring := range states {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				bring(w)
				began := time.Now()
				w.stops <- "asked to stop"
				synctest.Wait()
				// A process that does what it is asked for.
				if len(w.procs) > 0 && !w.proc().ended {
					p := w.proc()
					p.setStuck(false)
					for _, b := range p.batches() {
						if name == "with the process" {
							p.say(emitOf(b.ID, "left", "A"), wire.Ack{ID: b.ID})
						}
					}
					if name != "discovering" {
						p.say(wire.Stopped{})
					}
					if name == "writing" {
						w.broker.producer.answer(writtenOf(1))
					}
					synctest.Wait()
					if !p.called("CloseInput") {
						t.Error("its input was not closed")
					}
					p.exit(supervisor.Exited{})
				}
				if r := w.ended(); r.Code != 0 || r.Reason != "asked to stop" {
					t.Errorf("ended with %+v", r)
				}
				if took := time.Since(began); took > 2*time.Second {
					t.Errorf("it took %v", took)
				}
				committed := name == "with the process" || name == "writing"
				if committed != (len(w.broker.inlets) > 0 && w.broker.inlet("in").committedAt(0) == 1) {
					t.Errorf("committed: %v", !committed)
				}
			})
		})
	}
}

func TestStopOfAProcessThatIgnoresEverything(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.running(1)
		p.immortal = true
		began := time.Now()
		w.stops <- "asked to stop"
		if r := w.ended(); r.Code != 1 || r.Reason == "" {
			t.Errorf("ended with %+v", r)
		}
		if took := time.Since(began); took != 27*time.Second { // the budget, and LeaveTimeout
			t.Errorf("it took %v", took)
		}
		if !p.called("Terminate") || !p.called("Kill") {
			t.Errorf("%v", p.calls)
		}
		if !w.said.has("pid 101 was killed and does not end; it is left behind") {
			t.Errorf("%q", w.said.all)
		}
	})
}

func TestCase22_AProcessThatCannotBeSpokenToIsReplaced(t *testing.T) {
	for name, ev := range map[string]supervisor.Event{
		"reads its stdin no more": supervisor.InputBroken{Err: syscall.EPIPE},
		"closed its stdout":       supervisor.OutputClosed{},
		"is unreachable: frozen":  supervisor.Unreachable{Silent: time.Minute, Why: "frozen"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				p := w.running(1)
				p.events <- ev
				w.pass(2 * time.Second)
				if !w.said.has(name) || !p.called("Kill") || w.launches() != 2 {
					t.Errorf("%v, %d launches: %q", p.calls, w.launches(), w.said.all)
				}
				w.answerDiscovery()
				w.end()
			})
		})
	}
}

// It was asked to finish and reads nothing more: it may still answer.
func TestStopOfAProcessThatClosesItsStdinAndFinishes(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.running(1)
		w.add("in", 0, values("a")...)
		w.stops <- "asked"
		synctest.Wait()
		p.events <- supervisor.InputBroken{Err: syscall.EPIPE}
		w.pass(5 * time.Second)
		p.say(emitOf(1, "left", "A"), wire.Ack{ID: 1}, wire.Stopped{})
		p.exit(supervisor.Exited{})
		if r := w.ended(); r.Code != 0 || w.broker.inlet("in").committedAt(0) != 1 {
			t.Errorf("ended with %+v", r)
		}
	})
}

func TestLaunchFailures(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		code int
	}{
		"not found": {&supervisor.LaunchError{Path: "app", Code: 127, Why: "not found"}, 127},
		"other":     {errors.New("no pipe"), 126},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				w.launchErr = test.err
				w.run()
				if r := w.ended(); r.Code != test.code || !r.Said || !strings.Contains(r.Reason, test.err.Error()) {
					t.Errorf("ended with %+v", r)
				}
				if n := w.said.count(test.err.Error()); n != 1 {
					t.Errorf("said %d times: %q", n, w.said.all)
				}
			})
		})
	}
}

func TestExitIsSaidOnceWithWhatItMeans(t *testing.T) {
	for want, exit := range map[string]func(w *world){
		"process exit 0: app; it ended without an answer to discovery: does it call serve()?": func(w *world) {
			w.run()
			w.proc().exit(supervisor.Exited{})
		},
		"process exit 0: app; it was not asked to end: a streamlet serves until its stdin ends": func(w *world) {
			w.running(1).exit(supervisor.Exited{})
		},
		"process exit 7: app; 1 batch was unanswered and is delivered again": func(w *world) {
			p := w.running(1)
			w.add("in", 0, values("a")...)
			p.exit(supervisor.Exited{Code: 7, HalfFrame: errors.New("half a frame"), Leftover: []string{"42 sleep"}})
			for _, more := range []string{"half a frame", "left behind in its group, and killed: 42 sleep"} {
				if !w.said.has(more) {
					w.Errorf("not said: %s", more)
				}
			}
		},
	} {
		t.Run(want, func(t *testing.T) {
			bubble(t, func(w *world) {
				exit(w)
				if w.said.count(want) != 1 || w.said.count("failed") != 0 {
					t.Errorf("%q", w.said.all)
				}
				w.kill()
			})
		})
	}
}

func TestExitOnFailureGivesTheProcesssCode(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.running(1, func(c *Config) { c.Core.ExitOnFailure = true })
		p.exit(supervisor.Exited{Code: -1, Signal: syscall.SIGSEGV})
		if r := w.ended(); r.Code != 139 {
			t.Errorf("ended with %+v", r)
		}
	})
}

func TestDeliverWithoutAProcessOrAnInletCutsNothing(t *testing.T) {
	for name, gone := range map[string]func(d *Driver){
		"process": func(d *Driver) { d.proc = nil },
		"inlet":   func(d *Driver) { delete(d.inlets, "in") },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, 10, 100)
			b.sink(delivery.Fetched{TP: delivery.TP{Inlet: "in"}})
			ev := <-b.d.events
			gone(b.d)
			b.d.step(ev.ev) // has a Deliver in it
			if s := b.d.core.Status(); b.id != 0 || b.pos != 0 || s.InFlight != 0 || s.Partitions[0].Position != 0 {
				t.Errorf("batch %d was sent, cut up to %d: %+v", b.id, b.pos, s)
			}
			if len(b.d.shelf.batches) != 0 {
				t.Errorf("%d batches are at hand", len(b.d.shelf.batches))
			}
		})
	}
}

func TestSnapshot(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.running(1)
		w.add("in", 0, values("a", "b")...)
		s := w.snapshot()
		if s.PID != 101 || s.State != delivery.Running || !s.Ready || s.Plan.Streamlet != "app" || s.InFlight != 1 {
			t.Errorf("%+v", s)
		}
		if s.Ends["in"][0].LastStable != 2 || s.Behind() != 2 {
			t.Errorf("ends %v, behind %d", s.Ends, s.Behind())
		}
		p.say(wire.Ack{ID: 1})
		w.pass(time.Second)
		if s := w.snapshot(); s.Behind() != 0 || s.In != 2 {
			t.Errorf("behind %d, in %d", s.Behind(), s.In)
		}
		w.end()
		if _, ok := w.d.Snapshot(context.Background()); ok {
			t.Error("there is a snapshot of a run that is over")
		}
	})
}

func TestSnapshotEndsWithItsContext(t *testing.T) {
	bubble(t, func(w *world) {
		d, err := New(Config{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, ok := d.Snapshot(ctx); ok {
			t.Error("a run that has not begun has a snapshot")
		}
	})
}

func TestProgressIsSaidWhenAllIsCommittedAndNotForEveryBatch(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.running(1)
		answer := func() {
			b := p.batch()
			p.say(wire.Forward{ID: b.ID, Outlet: "left", All: true}, wire.Ack{ID: b.ID})
		}
		for range 3 {
			w.add("in", 0, values("a", "b")...)
			answer()
		}
		if w.said.has("committed ") {
			t.Errorf("said too early: %q", w.said.all)
		}
		w.pass(time.Second)
		if w.said.count("committed 6 in, 6 out, 0 behind") != 1 {
			t.Errorf("%q", w.said.all)
		}
		// Something is behind: not before ten seconds, then with the number.
		w.add("in", 0, values("c")...)
		answer()
		w.add("in", 0, values("d", "e")...)
		w.pass(5 * time.Second)
		if w.said.count("committed ") != 1 {
			t.Errorf("said too early: %q", w.said.all)
		}
		w.pass(10 * time.Second)
		if w.said.count("committed 7 in, 7 out, 2 behind") != 1 {
			t.Errorf("%q", w.said.all)
		}
		answer()
		w.end()
	})
}

func TestReadyIsSaidWithItsText(t *testing.T) {
	bubble(t, func(w *world) {
		w.running(1, func(c *Config) { c.ReadyText = "status here, watching app.py" })
		if w.said.count("ready status here, watching app.py") != 1 || !w.said.has("discovered app: in -> left, right") {
			t.Errorf("%q", w.said.all)
		}
		if len(w.planned) != 1 || w.planned[0].Streamlet != "app" {
			t.Errorf("%v", w.planned)
		}
		w.end()
	})
}

func TestPingIsSpokenWhereTheProcessCan(t *testing.T) {
	for _, ping := range []bool{false, true} {
		bubble(t, func(w *world) {
			w.broker.logs["app.in"] = [][]record.Record{nil}
			w.run()
			p := w.proc()
			p.say(wire.Spec{Descriptor: w.descriptor, Capabilities: wire.Capabilities{Ping: ping, MaxInFlight: 1}})
			if p.called("SpeaksPing") != ping {
				t.Errorf("%v", p.calls)
			}
			w.end()
		})
	}
}

func TestNewRefusesABadConfiguration(t *testing.T) {
	if _, err := New(Config{Core: delivery.Config{MaxRecords: -1}}); err == nil {
		t.Error("it was taken")
	}
}

func TestExitOnFailureSaysItOnce(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.running(1, func(c *Config) { c.Core.ExitOnFailure = true })
		w.add("in", 0, values("a")...)
		p.say(wire.Fail{ID: 1, Message: "no total", Detail: "Traceback ..."}, wire.Stopped{})
		p.exit(supervisor.Exited{})
		r := w.ended()
		if r.Code != 1 || r.Reason != "inlet in: app.in/0@0: batch 1 failed: no total" || !r.Said {
			t.Errorf("ended with %+v", r)
		}
		if w.said.count("failed inlet in: app.in/0@0: batch 1 failed: no total") != 1 {
			t.Errorf("%q", w.said.all)
		}
	})
}

func TestLogsOfTheProcessKeepTheirLevelAndComeUnderItsName(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.running(1)
		for _, level := range []wire.Level{wire.LevelDebug, wire.LevelInfo, wire.LevelWarn, wire.LevelError} {
			p.say(wire.Log{Level: level, Message: "a " + level.String(), Fields: map[string]any{"n": int64(1)}})
		}
		if got := strings.Join(w.said.warn, ", "); got != "output a warn process=app fields=[n=1], output a error process=app fields=[n=1]" {
			t.Errorf("warned was: %s", got)
		}
		if w.said.has("a debug") || !w.said.has("output a info process=app fields=[n=1]") {
			t.Errorf("%q", w.said.all)
		}
		w.end()
	})
}

func TestProducerThatDoesNotCloseIsSaid(t *testing.T) {
	bubble(t, func(w *world) {
		w.running(1)
		w.broker.producer.closeErr = errors.New("3 writes")
		w.force()
		<-w.result
		if !w.said.has("the producer was left with writes on the way: 3 writes") {
			t.Errorf("%q", w.said.all)
		}
	})
}

// Whatever the broker does, the process's exit and everything on the broker's
// side fit into the stop's budget.
func TestStopEndsWithinItsBudgetWithoutABroker(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.running(1, func(cfg *Config) {
			cfg.Core.Stop = delivery.StopBudget{
				Process: 600 * time.Millisecond, Writes: 800 * time.Millisecond, Terminate: 800 * time.Millisecond,
				Kill: 920 * time.Millisecond, Exit: time.Second,
			}
		})
		w.broker.inlet("in").leaving = make(chan struct{}) // never
		w.broker.producer.hold(true)
		w.add("in", 0, values("a")...)
		p.say(wire.Forward{ID: p.batch().ID, Outlet: "left", All: true}, wire.Ack{ID: 1})
		synctest.Wait()
		began := time.Now()
		w.stops <- "asked"
		synctest.Wait()
		p.say(wire.Stopped{})
		w.pass(900 * time.Millisecond)
		p.exit(supervisor.Exited{Code: 1})
		if r := w.ended(); r.Code != 1 || time.Since(began) != time.Second {
			t.Errorf("ended with %+v after %v, want 1 after 1s", r, time.Since(began))
		}
	})
}
