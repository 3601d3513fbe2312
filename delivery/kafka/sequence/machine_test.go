package sequence

import (
	"math"
	"slices"
	"testing"
	"time"

	"ankka-flow/delivery"
)

func TestR1_WrittenOnlyWhenEveryPartIsConfirmed(t *testing.T) {
	w := newWorld(t, Config{}, 3)
	id := w.begin(0, 2, 20, w.names...)
	w.grant()
	for _, name := range w.names {
		w.want(id, nil)
		w.serve(name)
	}
	w.want(id, Written{})
	w.want(w.begin(0, 1, 1), Written{}) // without pieces
}

func TestR2_NothingOvertakesOnAnOutputPartition(t *testing.T) {
	w := newWorld(t, Config{MaxBatchBytes: 30}, 2)
	a := w.begin(0, 2, 20, w.names[0], w.names[0], w.names[1])
	b := w.begin(1, 1, 10, w.names[0])
	w.grant()
	var seen []int
	for len(w.parts[w.names[0]].live) > 0 {
		seen = append(seen, w.parts[w.names[0]].live[0].records...)
		w.serve(w.names[0])
	}
	if !slices.IsSorted(seen) || len(seen) != 5 {
		w.fail("%v", seen)
	}
	w.want(b, Written{})
	w.want(a, nil)
	w.serve(w.names[1])
	w.want(a, Written{})
}

func TestRefusalWithdrawsTheRestAndAwaitsWhatIsInFlight(t *testing.T) {
	w := newWorld(t, Config{MaxBatchBytes: 10}, 2)
	id := w.begin(0, 1, 10, w.names[0], w.names[0], w.names[0], w.names[1])
	other := w.begin(1, 1, 10, w.names[0])
	w.grant()
	w.reply(w.take(w.names[0]), 29)
	w.want(id, nil) // its part on the other partition is in flight
	if next := w.parts[w.names[0]].live; len(next) != 1 || next[0].records[0] != 4 {
		w.fail("in flight: %+v", next)
	}
	w.serve(w.names[1])
	w.want(id, Refused{})
	w.serve(w.names[0])
	w.want(other, Written{})
}

func TestR9_OneInFlightUntilTheFirstConfirmationThenFive(t *testing.T) {
	w := newWorld(t, Config{MaxBatchBytes: 10}, 1)
	w.begin(0, 1, 10, slices.Repeat([]Partition{out0}, 9)...)
	w.grant()
	if n := len(w.parts[out0].live); n != 1 {
		w.fail("%d in flight", n)
	}
	w.serve(out0)
	if n := len(w.parts[out0].live); n != 5 {
		w.fail("%d in flight", n)
	}
	w.heal()
	w.now += time.Hour // the broker may have forgotten us
	w.begin(0, 1, 10, out0, out0)
	if n := len(w.parts[out0].live); n != 1 {
		w.fail("%d in flight", n)
	}
}

func TestR9_NothingNewAfterUnsettledUntilTheEpochIsRaised(t *testing.T) {
	w := newWorld(t, Config{}, 2)
	a := w.begin(0, 1, 10, w.names[0])
	w.grant()
	w.makeUnknown()
	b := w.begin(1, 1, 10, w.names[1])
	first := w.take(w.names[1])
	w.reply(w.take(w.names[0]), 45)
	w.want(a, Unsettled{})
	c := w.begin(2, 1, 10, w.names[1])
	w.step(RaiseAsked{})
	if w.m.Epoch() != 0 {
		w.fail("raised while batch %d is in flight", first.batch)
	}
	w.reply(first, 19) // certainly never appended: it goes out under the new epoch
	if w.m.Epoch() != 1 {
		w.fail("not raised")
	}
	next := w.parts[w.names[1]].live[0]
	if next.epoch != 1 || next.seq != 0 || !slices.Equal(next.records, first.records) {
		w.fail("%+v", next)
	}
	w.heal()
	w.want(b, Written{})
	w.want(c, Written{})
}

func TestR9_UnknownElsewhereIsSettledBeforeTheRaise(t *testing.T) {
	w := newWorld(t, Config{}, 2)
	a := w.begin(0, 1, 10, w.names[0])
	b := w.begin(1, 1, 10, w.names[1])
	w.grant()
	w.cut(w.names[1], 1)
	w.reply(w.take(w.names[0]), 47)
	w.want(a, Unsettled{})
	w.step(RaiseAsked{})
	if w.m.Epoch() != 0 {
		w.fail("raised while a batch is unknown")
	}
	w.tick()
	w.serve(w.names[1])
	w.want(b, Written{})
	if w.m.Epoch() != 1 {
		w.fail("not raised")
	}
}

func TestR9_LateBytesOfTheOldEpochAreShutOut(t *testing.T) {
	w, a := one(t, 1)
	w.cut(out0, 0)
	for w.answers[a] == nil {
		w.tick()
		if len(w.parts[out0].live) > 0 {
			w.cut(out0, 0)
		}
	}
	w.want(a, Unsettled{})
	w.step(RaiseAsked{})
	b := w.begin(0, 1, 10, out0)
	w.serve(out0)
	w.want(b, Written{})
	p := w.parts[out0]
	for _, e := range p.late {
		if code := p.produce(w, e); code != codeInvalidEpoch {
			w.fail("late bytes: %d", code)
		}
	}
	w.check()
}

func TestR9_ANewIDOnlyWhenEverythingIsSettled(t *testing.T) {
	w, a := one(t, 1)
	w.serve(out0)
	w.want(a, Written{})
	w.m.epoch = renewEpoch - 1
	b := w.begin(0, 1, 10, out0)
	w.reply(w.take(out0), 47)
	w.want(b, Unsettled{})
	w.step(RaiseAsked{})
	c := w.begin(1, 1, 10, out0)
	if w.m.epoch != renewEpoch || w.needID {
		w.fail("a new id with unsettled bytes around: they could land behind newer ones")
	}
	w.serve(out0) // shuts the old bytes out
	w.want(c, Written{})
	d := w.begin(1, 1, 10, out0)
	if !w.needID {
		w.fail("no new id")
	}
	w.grant()
	if e := w.parts[out0].live[0]; e.id != 2 || e.epoch != 0 || e.seq != 0 {
		w.fail("%+v", e)
	}
	w.heal()
	w.want(d, Written{})
}

func TestR9_EpochsUsedUpAreOutwaited(t *testing.T) {
	w, _ := one(t, 1)
	w.serve(out0)
	w.begin(0, 1, 10, out0)
	w.m.epoch = maxEpoch
	w.reply(w.take(out0), 47)
	w.begin(1, 1, 10, out0)
	w.step(RaiseAsked{})
	if w.needID {
		w.fail("a new id at once")
	}
	w.tick()
	if w.now < quarantine || !w.needID {
		w.fail("at %v: id asked for: %v", w.now, w.needID)
	}
	w.grant()
	w.heal()
}

func TestSequencesWrap(t *testing.T) {
	w, _ := one(t, 1)
	w.serve(out0)
	p := w.m.parts[out0]
	p.base = math.MaxInt32 - 1
	w.parts[out0].producers[1].recent = []envelope{{seq: math.MaxInt32 - 2, records: []int{0}}}
	a, b := w.begin(0, 3, 10, out0), w.begin(1, 1, 10, out0)
	if seq := w.parts[out0].live[1].seq; seq != 1 {
		t.Errorf("after the largest sequence comes %d, want 1", seq)
	}
	w.serve(out0)
	w.serve(out0)
	w.want(a, Written{})
	w.want(b, Written{})
}

func TestAnIDThatIsRefusedRefusesWhatIsOpen(t *testing.T) {
	w := newWorld(t, Config{}, 1)
	a := w.begin(0, 1, 10, out0)
	w.needID = false
	w.step(IDFailed{Reason: "coordinator"})
	w.want(a, nil)
	w.tick()
	if !w.needID {
		w.fail("not asked again")
	}
	w.needID = false
	w.step(IDRefused{Reason: "31"})
	w.want(a, Refused{})
	b := w.begin(0, 1, 10, out0)
	w.heal()
	w.want(b, Written{})
}

func TestUnknownIsSaidOnceAWrite(t *testing.T) {
	w := newWorld(t, Config{}, 2)
	w.begin(0, 1, 10, w.names...)
	w.grant()
	n := 0
	for _, name := range w.names {
		for _, a := range w.m.Step(nil, w.now, NoAnswer{Batch: w.take(name).batch}) {
			if _, ok := a.(Unknown); ok {
				n++
			}
		}
	}
	if n != 1 {
		t.Errorf("said %d times", n)
	}
}

func TestHopelessAccusesItsOwnPartition(t *testing.T) {
	w := newWorld(t, Config{}, 1)
	w.open[77] = delivery.TP{}
	w.step(Begun{Write: 77, From: delivery.TP{Inlet: "in", Partition: 4}})
	w.step(Hopeless{Write: 77, Reason: "no such topic"})
	if r := w.answers[77].(Refused); !slices.Equal(r.Accused, []delivery.TP{{Inlet: "in", Partition: 4}}) {
		t.Error(r)
	}
	w.step(Added{Write: 77, Piece: Piece{Handle: 1, Partition: out0, Records: 1}}) // ignored
	w.step(Ended{Write: 77})
}

func TestR9_UnknownBehindARefusedOneCannotBeSettled(t *testing.T) {
	w, _ := one(t, 1)
	w.m.cfg.MaxBatchBytes = 10
	w.serve(out0)
	a := w.begin(0, 1, 10, out0, out0)
	b := w.begin(1, 1, 10, out0)
	w.reply(w.take(out0), 29) // a's first batch
	w.serve(out0)             // a's second: 45; in front of bytes that may lie around it cannot be withdrawn
	w.want(a, nil)
	w.cut(out0, 0)
	w.want(b, Unsettled{}) // its sequence serves nobody any more in this epoch
	w.want(a, Refused{})
	if len(w.parts[out0].live) != 0 {
		w.fail("in flight: %+v", w.parts[out0].live)
	}
	w.step(RaiseAsked{})
	c := w.begin(2, 1, 10, out0)
	w.heal()
	w.want(c, Written{})
	for _, e := range w.parts[out0].late {
		w.parts[out0].produce(w, e)
	}
	w.check()
}

func TestR9_ARefusedWritesOwnUnknownBatchEndsIt(t *testing.T) {
	w, _ := one(t, 1)
	w.m.cfg.MaxBatchBytes = 10
	w.serve(out0)
	a := w.begin(0, 1, 10, out0, out0, out0)
	w.reply(w.take(out0), 29)
	w.serve(out0) // 45
	w.cut(out0, 0)
	w.want(a, Unsettled{})
}

func TestR9_EverythingUnknownBehindAnUnsettledOneIsUnsettled(t *testing.T) {
	w, ids := pipelined(t, 3)
	w.cut(out0, 0)
	w.tick()
	w.reply(w.take(out0), 45)
	for _, id := range ids {
		w.want(id, Unsettled{})
	}
}

func TestR2_ABrokerThatTookALaterSequenceIsNotTrusted(t *testing.T) {
	w, ids := pipelined(t, 5)
	w.reply(w.take(out0), 19)
	e := w.take(out0) // it has forgotten us, and takes what comes
	w.parts[out0].producers = map[int64]*producerState{}
	w.parts[out0].produce(w, e)
	w.reply(e, 0)
	w.now += time.Minute
	w.step(Ticked{})
	if n := len(w.parts[out0].live); n != 3 {
		w.fail("%d in flight: the answers come first", n)
	}
	for range 3 {
		w.serve(out0)
	}
	w.want(ids[0], Unsettled{}) // sent now, it would stand behind the later one
	for _, id := range ids[1:] {
		w.want(id, Written{})
	}
	w.check()
}

func TestR7_WithdrawTakesBackWhatIsNotSent(t *testing.T) {
	w := newWorld(t, Config{MaxBatchBytes: 10}, 2)
	a := w.begin(0, 1, 10, w.names[0], w.names[0], w.names[1]) // two in flight, one waits
	b := w.begin(1, 1, 10, w.names[0])
	w.grant()
	w.step(Withdrawn{Write: a})
	w.want(a, nil)
	w.serve(w.names[0])
	w.want(a, nil)
	w.serve(w.names[1])
	w.want(a, Refused{})
	w.serve(w.names[0])
	w.want(b, Written{})
	if log := w.parts[w.names[0]].log; !slices.Equal(log, []int{0, 3}) {
		w.fail("the log is %v", log)
	}
}

func TestR7_WithdrawnButWrittenAnyway(t *testing.T) {
	w, id := one(t, 2)
	w.cut(out0, 1)
	w.step(Withdrawn{Write: id})
	w.want(id, nil) // unknown: it is settled
	w.tick()
	w.serve(out0)
	w.want(id, Written{})
	w.step(Withdrawn{Write: id}) // too late: ignored
}

// The clock may pass a partition's time with an event of another one. It is
// still due then, and Wake says so; otherwise it would wait for ever.
func TestR9_ATimeThatAnotherPartitionsEventPassedIsStillDue(t *testing.T) {
	w := newWorld(t, Config{}, 2)
	a := w.begin(0, 1, 10, w.names[0])
	w.grant()
	w.cut(w.names[0], 1)
	at, ok := w.m.Wake()
	if !ok {
		w.fail("nothing is due after a fault")
	}
	w.now = at + time.Millisecond
	w.want(w.begin(1, 1, 10, w.names[1]), nil)
	due, ok := w.m.Wake()
	if !ok || due > w.now {
		w.fail("Wake says %v, %v at %v; the retry was due at %v", due, ok, w.now, at)
	}
	w.step(Ticked{})
	w.serve(w.names[0])
	w.want(a, Written{})
	w.heal()
}
