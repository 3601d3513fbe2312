package sequence

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"ankka-flow/delivery"
)

var out0 = Partition{"out", 0}

// one is a world with one partition, an id, and one write of one batch of n
// records in flight.
func one(t *testing.T, n int) (*world, uint64) {
	t.Helper()
	w := newWorld(t, Config{}, 1)
	id := w.begin(0, n, 10*n, out0)
	w.grant()
	return w, id
}

// pipelined is the same with the window open and writes of one record each in
// flight.
func pipelined(t *testing.T, writes int) (*world, []uint64) {
	t.Helper()
	w, _ := one(t, 1)
	w.m.cfg.MaxBatchBytes = 10
	w.serve(out0)
	var ids []uint64
	for i := range writes {
		ids = append(ids, w.begin(int32(i), 1, 10, out0))
	}
	if len(w.parts[out0].live) != min(writes, 5) {
		w.fail("%d in flight", len(w.parts[out0].live))
	}
	return w, ids
}

func (w *world) want(id uint64, want Action) {
	w.t.Helper()
	got := w.answers[id]
	if want == nil && got != nil || want != nil && fmt.Sprintf("%T", got) != fmt.Sprintf("%T", want) {
		w.fail("write %d: %v, want %T", id, got, want)
	}
}

// tick goes to the next time at which something is due.
func (w *world) tick() {
	w.t.Helper()
	at, ok := w.m.Wake()
	if !ok {
		w.fail("nothing waits for a time")
	}
	w.now = max(w.now, at)
	w.step(Ticked{})
}

// doubt makes the first batch in flight unknown, and sends it again.
func (w *world) makeUnknown() envelope {
	w.t.Helper()
	first := w.parts[out0].live[0]
	w.cut(out0, 0)
	w.parts[out0].late = nil
	w.tick()
	again := w.parts[out0].live[0]
	if again.batch != first.batch || again.seq != first.seq || !slices.Equal(again.records, first.records) {
		w.fail("sent again: %+v, first: %+v", again, first)
	}
	return again
}

func TestRow_0And46_Confirmed(t *testing.T) {
	for _, code := range []int16{0, 46} {
		for _, repeat := range []bool{false, true} {
			w, id := one(t, 2)
			if repeat {
				w.makeUnknown()
			}
			e := w.take(out0)
			w.parts[out0].produce(w, e)
			w.reply(e, code)
			w.want(id, Written{})
		}
	}
}

func TestRow_NeverHandedOver_SendAgain(t *testing.T) {
	w, id := one(t, 2)
	for range 300 { // an outage of minutes is no reason to fail
		e := w.take(out0)
		w.step(NotSent{Batch: e.batch, Reason: "dial"})
		w.tick()
	}
	w.want(id, nil)
	w.serve(out0)
	w.want(id, Written{})
	if w.now < time.Minute {
		t.Errorf("300 attempts in %v: no backoff", w.now)
	}
}

func TestRow_NeverHandedOver_AfterUnknown_StillUnknown(t *testing.T) {
	w, id := one(t, 2)
	w.makeUnknown()
	e := w.take(out0)
	w.step(NotSent{Batch: e.batch, Reason: "dial"})
	w.tick()
	w.want(id, nil)
	if again := w.parts[out0].live[0]; again.seq != e.seq || again.batch != e.batch {
		w.fail("%+v", again)
	}
}

func TestRow_2_SendAgain_AfterUnknown_StillUnknown(t *testing.T) { againRow(t, 2) }

func TestRow_19_SendAgain_AfterUnknown_StillUnknown(t *testing.T) { againRow(t, 19) }

func againRow(t *testing.T, code int16) {
	t.Helper()
	w, id := one(t, 2)
	for range 200 { // for ever, as the first answer
		w.reply(w.take(out0), code)
		w.tick()
	}
	w.want(id, nil)
	w.makeUnknown()
	since := w.now
	for w.answers[id] == nil {
		w.reply(w.take(out0), code)
		w.tick()
	}
	w.want(id, Unsettled{})
	if d := w.now - since; d < 118*time.Second || d > 121*time.Second {
		t.Errorf("unsettled after %v", d)
	}
}

func TestRow_UnknownCodes_SameBytesAndNothingNewerMeanwhile(t *testing.T) {
	for _, code := range []int16{3, 6, 7, 20, 56, 5, 13, -1, 74} {
		w, id := one(t, 2)
		first := w.take(out0)
		w.reply(first, code)
		later := w.begin(1, 1, 10, out0)
		if len(w.parts[out0].live) != 0 {
			w.fail("code %d: something newer is in flight", code)
		}
		w.tick()
		again := w.take(out0)
		if again.batch != first.batch || again.seq != first.seq || !slices.Equal(again.records, first.records) {
			w.fail("code %d: sent again as %+v, was %+v", code, again, first)
		}
		w.reply(again, code) // still unknown
		w.tick()
		w.want(id, nil)
		w.serve(out0)
		w.want(id, Written{})
		w.serve(out0)
		w.want(later, Written{})
	}
}

func TestRow_ConnectionLost_Unknown(t *testing.T) {
	w, ids := pipelined(t, 5)
	w.cut(out0, 2) // two were appended, the answers are lost
	if w.trace[len(w.trace)-1] == "" || len(w.doubted) != 5 {
		w.fail("%d unknown", len(w.doubted))
	}
	w.tick()
	for i, id := range ids {
		if n := len(w.parts[out0].live); n != 1 {
			w.fail("%d unknown batches are sent again at once, at %d", n, i)
		}
		w.serve(out0)
		w.want(id, Written{})
	}
	w.check()
}

func TestRow_10And87_SplitByWriteThenByRecordFromTheSameSequence(t *testing.T) {
	for _, code := range []int16{10, 87, 32} {
		w := newWorld(t, Config{}, 1)
		a, b := w.begin(0, 2, 20, out0), w.begin(1, 3, 30, out0)
		w.grant()
		whole := w.take(out0)
		w.reply(whole, code)
		first := w.parts[out0].live[0]
		if first.seq != whole.seq || len(first.records) != 2 {
			w.fail("code %d: first part %+v", code, first)
		}
		w.serve(out0)
		w.want(a, Written{})
		second := w.take(out0)
		if second.seq != whole.seq+2 || len(second.records) != 3 {
			w.fail("code %d: second part %+v", code, second)
		}
		w.reply(second, code) // of b alone: its first record, and the rest
		w.serve(out0)
		rest := w.take(out0)
		if rest.seq != whole.seq+3 || len(rest.records) != 2 {
			w.fail("code %d: %+v", code, rest)
		}
		w.reply(rest, code)
		w.reply(w.take(out0), code) // one record alone
		w.want(b, Refused{})
		if r := w.answers[b].(Refused); !slices.Equal(r.Accused, []delivery.TP{{Inlet: "in", Partition: 1}}) {
			t.Errorf("code %d: %v", code, r)
		}
		if len(w.parts[out0].live) != 0 {
			w.fail("the rest of a refused write is sent")
		}
		c := w.begin(2, 1, 10, out0)
		if next := w.parts[out0].live[0]; next.seq != whole.seq+3 {
			w.fail("the sequence of what was not appended serves again: %+v", next)
		}
		w.serve(out0)
		w.want(c, Written{})
		w.check()
	}
}

func TestRow_10_LearnsTheLimit(t *testing.T) {
	w := newWorld(t, Config{}, 1)
	w.parts[out0].limit = 30
	w.begin(0, 100, 1000, out0)
	w.grant()
	for len(w.open) > 0 {
		w.serve(out0)
	}
	w.begin(0, 100, 1000, out0)
	for len(w.open) > 0 {
		if code := w.serve(out0); code != 0 {
			w.fail("the limit was known")
		}
	}
	w.check()
}

func TestRow_10And87_AfterUnknown_Unsettled(t *testing.T) {
	for _, code := range []int16{10, 87} {
		w, id := one(t, 2)
		w.makeUnknown()
		w.reply(w.take(out0), code)
		w.want(id, Unsettled{})
	}
}

func TestRow_17_29_31_Other_Refused(t *testing.T) {
	for _, code := range []int16{17, 29, 31, 18, 21, 35, 43, 44, 76} {
		w := newWorld(t, Config{}, 1)
		a, b := w.begin(0, 2, 20, out0), w.begin(1, 3, 30, out0)
		w.grant()
		w.reply(w.take(out0), code)
		for _, id := range []uint64{a, b} { // both have records in the refused bytes
			w.want(id, Refused{})
			r := w.answers[id].(Refused)
			if len(r.Accused) != 2 || !strings.Contains(r.Reason, "out/0") || !strings.Contains(r.Reason, fmt.Sprintf("code %d (", code)) {
				t.Errorf("code %d: %v", code, r)
			}
		}
		c := w.begin(2, 1, 10, out0)
		w.serve(out0)
		w.want(c, Written{})
	}
}

func TestRow_17_29_31_Other_AfterUnknown_Unsettled(t *testing.T) {
	for _, code := range []int16{17, 29, 31, 44} {
		w, id := one(t, 2)
		w.makeUnknown()
		w.reply(w.take(out0), code)
		w.want(id, Unsettled{})
	}
}

func TestRow_45_BehindOneThatWasNotAppended_SendAgainInOrder(t *testing.T) {
	w, ids := pipelined(t, 5)
	w.reply(w.take(out0), 19)
	for range 4 {
		if code := w.serve(out0); code != 45 {
			w.fail("the broker says %d", code)
		}
	}
	w.tick()
	for len(w.parts[out0].live) > 0 {
		if code := w.serve(out0); code != 0 {
			w.fail("the broker says %d", code)
		}
	}
	for _, id := range ids {
		w.want(id, Written{})
	}
	w.check()
}

func TestRow_45_BehindARefusedOne_TakesItsSequence(t *testing.T) {
	w, ids := pipelined(t, 3)
	refused := w.take(out0)
	w.reply(refused, 29)
	w.serve(out0)
	w.serve(out0)
	if next := w.parts[out0].live[0]; next.seq != refused.seq {
		w.fail("%+v", next)
	}
	w.heal()
	w.want(ids[0], Refused{})
	w.want(ids[1], Written{})
	w.want(ids[2], Written{})
	w.check()
}

func TestRow_45_OtherwiseUnsettled(t *testing.T) {
	w, id := one(t, 2)
	w.reply(w.take(out0), 45)
	w.want(id, Unsettled{})
}

func TestRow_45_AfterUnknown_Unsettled(t *testing.T) {
	w, id := one(t, 2)
	w.makeUnknown()
	w.reply(w.take(out0), 45)
	w.want(id, Unsettled{})
}

func TestRow_47And59_Unsettled(t *testing.T) {
	for _, code := range []int16{47, 59} {
		for _, repeat := range []bool{false, true} {
			w, id := one(t, 2)
			if repeat {
				w.makeUnknown()
			}
			w.reply(w.take(out0), code)
			w.want(id, Unsettled{})
		}
	}
}
