package driver

import (
	"testing"
	"time"

	"ankka-flow/delivery"
	"ankka-flow/wire"
)

// Commits that the group puts off are said once, and once that they go again;
// a short trouble is not worth a line.
func TestCommitsThatDoNotGetThroughAreSaidOnce(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.running(1)
		in := w.broker.inlet("in")
		in.holdCommit = true
		w.add("in", 0, values("a")...)
		p.say(wire.Forward{ID: p.batch().ID, Outlet: "left", All: true}, wire.Ack{ID: 1})
		answer := func(outcome delivery.CommitOutcome) {
			in.sink(delivery.Committed{Inlet: "in", Sequence: last(in.commits).Sequence, Outcome: outcome, Reason: "the group loads"})
			w.pass(1100 * time.Millisecond) // and the core tries again
		}
		const warning = "the commits of inlet in have not got through for 5s: the group loads; trying again"
		const again = "the commits of inlet in get through again"
		for range 4 {
			answer(delivery.CommitRetry)
		}
		if n := w.said.count(warning); n != 0 {
			t.Errorf("said %d times within 4 s", n)
		}
		for range 8 {
			answer(delivery.CommitRetry)
		}
		if n := w.said.count(warning); n != 1 {
			t.Errorf("said %d times: %q", n, w.said.all)
		}
		answer(delivery.CommitDone)
		if n := w.said.count(again); n != 1 {
			t.Errorf("said %d times that it goes on: %q", n, w.said.all)
		}
		w.end()
	})
}
