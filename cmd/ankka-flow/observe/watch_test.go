package observe

import (
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"ankka-flow/delivery"
	"ankka-flow/wire"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

var tp0 = delivery.TP{Inlet: "in", Partition: 0}

// stage is a core and a Watch beside it. The process and the broker are played
// by the test; Deliver is answered at once.
type stage struct {
	t      testing.TB
	core   *delivery.Core
	watch  *Watch
	now    time.Duration
	script []string
	// records is how many a batch has; 0: a range without records.
	records int
	// avail is how many batches of a partition may still be cut.
	avail   map[delivery.TP]int
	with    []uint64 // batches at the process
	tps     map[uint64]delivery.TP
	writes  []uint64
	commits []delivery.Commit
	process uint64
}

func newStage(t testing.TB) *stage {
	return &stage{
		t: t, core: delivery.New(delivery.Config{}), watch: NewWatch(quiet), records: 10,
		avail: map[delivery.TP]int{}, tps: map[uint64]delivery.TP{},
	}
}

// step steps an event and answers what is answered at once. What the Watch
// counted as committed must be what the core did.
func (s *stage) step(ev delivery.Event) {
	s.t.Helper()
	s.script = append(s.script, ev.String())
	actions := s.core.Step(nil, s.now, ev)
	s.watch.Stepped(s.now, s.core.Ready(), ev, actions)
	for _, action := range actions {
		switch a := action.(type) {
		case delivery.Launch:
			s.process = a.Process
		case delivery.Write:
			s.writes = append(s.writes, a.ID)
			s.watch.Writing(a.ID, "out", 10, 100)
		case delivery.Commit:
			s.commits = append(s.commits, a)
		case delivery.Deliver:
			s.cut(a)
		}
	}
	var batches, records uint64
	for _, c := range s.watch.inlets {
		batches += c.committed.Load()
		records += c.committedRecords.Load()
	}
	if st := s.core.Status(); st.Batches != batches || st.In != records {
		s.t.Fatalf("the core has committed %d batches of %d records, and %d of %d were counted, after\n%s", st.Batches, st.In, batches, records, strings.Join(s.script, "\n"))
	}
}

func (s *stage) cut(a delivery.Deliver) {
	s.t.Helper()
	if s.avail[a.TP] == 0 {
		s.step(delivery.Cut{ID: a.ID, First: a.Offset, Next: a.Offset})
		return
	}
	s.avail[a.TP]--
	s.tps[a.ID] = a.TP
	if s.records > 0 {
		s.with = append(s.with, a.ID)
	}
	s.step(delivery.Cut{ID: a.ID, First: a.Offset, Next: a.Offset + 10, Records: s.records, Bytes: 100, More: s.avail[a.TP] > 0})
}

// running brings the core to a running conversation with n partitions.
func (s *stage) running(n int) {
	s.t.Helper()
	s.step(delivery.Ticked{})
	s.step(delivery.Launched{Process: s.process, PID: 1})
	s.spec()
	s.assign(1, false, make([]int64, n)...)
}

func (s *stage) spec() {
	s.t.Helper()
	s.step(delivery.SpecGood{Process: s.process, Inlets: []string{"in"}, Outlets: []string{"out"}})
}

func (s *stage) assign(generation int32, continues bool, offsets ...int64) {
	s.t.Helper()
	ev := delivery.Assigned{Inlet: "in", Generation: generation, Continues: continues}
	for p, offset := range offsets {
		ev.Starts = append(ev.Starts, delivery.Start{Partition: int32(p), Offset: offset})
	}
	s.step(ev)
}

func (s *stage) more(tp delivery.TP, batches int) {
	s.t.Helper()
	s.avail[tp] += batches
	s.step(delivery.Fetched{TP: tp})
}

// batch is the oldest batch at the process.
func (s *stage) batch() uint64 {
	s.t.Helper()
	if len(s.with) == 0 {
		s.t.Fatal("the process has no batch")
	}
	id := s.with[0]
	s.with = s.with[1:]
	return id
}

func (s *stage) emit(id uint64) {
	s.t.Helper()
	s.step(delivery.Emitted{Process: s.process, ID: id, Outlet: "out", Records: 10, Bytes: 100})
}

func (s *stage) ack(id uint64) {
	s.t.Helper()
	s.step(delivery.Acked{Process: s.process, ID: id})
}

func (s *stage) written() {
	s.t.Helper()
	id := s.writes[0]
	s.writes = s.writes[1:]
	s.step(delivery.Written{ID: id})
}

func (s *stage) commit(outcome delivery.CommitOutcome) {
	s.t.Helper()
	c := s.commits[0]
	s.commits = s.commits[1:]
	s.step(delivery.Committed{Inlet: c.Inlet, Sequence: c.Sequence, Outcome: outcome, Reason: "as the test has it"})
}

// counted is a counter of the inlet.
func (s *stage) inlet() *inletCounts { return s.watch.inlets["in"] }

func (s *stage) expect(what string, got, want uint64) {
	s.t.Helper()
	if got != want {
		s.t.Errorf("%s: %d, want %d", what, got, want)
	}
}

// A batch is counted where it gets, and its times are measured.
func TestABatchIsCountedOnItsWay(t *testing.T) {
	s := newStage(t)
	s.running(1)
	s.more(tp0, 1)
	id := s.batch()
	in := s.inlet()
	s.expect("delivered", in.delivered.Load(), 1)
	s.expect("consumed records", in.consumedRecords.Load(), 10)
	s.expect("consumed bytes", in.consumedBytes.Load(), 100)
	s.emit(id)
	s.now += 2 * time.Second
	s.ack(id)
	s.expect("acked", in.acked.Load(), 1)
	s.watch.Reported(wire.Report{ID: id, HasID: true, Series: []wire.Series{{Name: "late", Value: 1}}})
	s.expect("emitted before it is written", s.watch.outlets["out"].records.Load(), 0)
	s.now += 3 * time.Second
	s.written()
	s.expect("emitted records", s.watch.outlets["out"].records.Load(), 10)
	s.expect("emitted bytes", s.watch.outlets["out"].bytes.Load(), 100)
	s.expect("committed before its commit", in.committed.Load(), 0)
	s.now += 5 * time.Second
	s.commit(delivery.CommitDone)
	s.expect("committed", in.committed.Load(), 1)
	s.expect("committed records", in.committedRecords.Load(), 10)
	if got := shown(s.watch); got != "" {
		t.Errorf("a report behind the ack shows %q", got)
	}
	for _, h := range []struct {
		of   *metric
		want float64
	}{{mBatchSeconds, 2}, {mWriteSeconds, 3}, {mDeliverySeconds, 10}} {
		if got := sumOf(t, s.watch, h.of); got != h.want {
			t.Errorf("%s: %v s, want %v", h.of.name, got, h.want)
		}
	}
	if p50, p99, ok := s.watch.history.quantiles(); p50 != 2*time.Second || p99 != 2*time.Second || !ok {
		t.Errorf("quantiles %v %v %v", p50, p99, ok)
	}
}

// A failed batch is counted as that, what it voids as nothing, and what comes
// again is counted again.
func TestAFailedBatchCountsNothingElse(t *testing.T) {
	s := newStage(t)
	s.running(2)
	s.more(tp0, 1)
	s.more(delivery.TP{Inlet: "in", Partition: 1}, 1)
	id, other := s.batch(), s.batch()
	if !s.watch.Ready() {
		t.Error("not ready while the conversation runs")
	}
	s.emit(id)
	s.watch.Reported(wire.Report{ID: id, HasID: true, Series: []wire.Series{{Name: "seen", Value: 1}}})
	s.step(delivery.Failed{Process: s.process, ID: id, Message: "no", Offset: -1})
	if s.watch.Ready() {
		t.Error("ready after a failure")
	}
	in := s.inlet()
	s.expect("failed", in.failed.Load(), 1)
	s.expect("failures", s.watch.failures["fail"], 1)
	s.ack(other) // late
	s.watch.Reported(wire.Report{ID: other, HasID: true, Series: []wire.Series{{Name: "late", Value: 1}}})
	s.expect("acked", in.acked.Load(), 0)
	if n := len(s.watch.mirror.live) + len(s.watch.mirror.writes); n != 0 {
		t.Errorf("%d batches are still followed", n)
	}
	s.step(delivery.StoppedByProcess{Process: s.process})
	s.now += time.Second
	s.step(delivery.Ticked{})
	s.spec()
	if !s.watch.Ready() {
		t.Error("not ready in the next conversation")
	}
	s.more(delivery.TP{Inlet: "in", Partition: 1}, 1)
	s.ack(s.batch())
	s.commit(delivery.CommitDone)
	s.expect("delivered", in.delivered.Load(), 3)
	s.expect("committed", in.committed.Load(), 1)
	s.expect("conversations", s.watch.conversations.Load(), 2)
	if got := shown(s.watch); got != "" {
		t.Errorf("the report of a batch that failed shows %q", got)
	}
}

// What a revocation leaves to settle and the end of the generation then takes
// away is not counted as committed (found by the delivery model's schedules).
func TestR7_RevokedAndSuspendedIsNotCommitted(t *testing.T) {
	s := newStage(t)
	s.running(1)
	s.more(tp0, 2)
	s.ack(s.batch())
	s.step(delivery.Revoked{Inlet: "in", Partitions: []int32{0}, Deadline: time.Hour})
	s.step(delivery.Suspended{Inlet: "in"})
	s.commit(delivery.CommitDone)
	s.expect("committed", s.inlet().committed.Load(), 0)
}

// A partition that goes on in the next generation keeps what is in flight.
func TestR7_WhatGoesOnCounts(t *testing.T) {
	for _, goesOn := range []bool{true, false} {
		s := newStage(t)
		s.running(1)
		s.more(tp0, 2)
		s.emit(s.with[0])
		s.ack(s.batch())
		s.step(delivery.Suspended{Inlet: "in"})
		s.written()
		s.assign(2, goesOn, 0)
		if len(s.commits) > 0 {
			s.commit(delivery.CommitDone)
		}
		want := uint64(0)
		if goesOn {
			want = 1
		}
		s.expect(fmt.Sprintf("committed when it goes on: %v", goesOn), s.inlet().committed.Load(), want)
	}
}

// While the coordinator is away deliveries go on; what is followed of them has
// a bound, and nothing is lost from the counts.
func TestR10_UncommittedBatchesAreJoined(t *testing.T) {
	s := newStage(t)
	s.running(1)
	const n = 5 * maxQueue
	s.more(tp0, n)
	for range n {
		s.watch.Reported(wire.Report{ID: s.with[0], HasID: true, Series: []wire.Series{{Name: "seen", Value: 2}}})
		s.ack(s.batch())
	}
	if got := len(s.watch.mirror.parts[tp0].queue); got > maxQueue+2 {
		t.Errorf("%d batches are followed, at most %d", got, maxQueue)
	}
	s.commit(delivery.CommitDone)
	s.now += time.Second
	s.step(delivery.Ticked{})
	s.commit(delivery.CommitDone)
	s.expect("committed", s.inlet().committed.Load(), n)
	if want := fmt.Sprintf("ankka_flow_process_seen %d", 2*n); shown(s.watch) != want {
		t.Errorf("reported %q, want %q", shown(s.watch), want)
	}
	if len(s.watch.mirror.parts[tp0].queue) != 0 || len(s.watch.mirror.live) != 0 {
		t.Errorf("%d batches are still followed", len(s.watch.mirror.live))
	}
}

// By chance: whatever the process and the broker do, what is counted as
// committed is what the core committed (step compares after each event).
func TestByChanceTheCountsAreTheCores(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		s := newStage(t)
		s.running(3)
		for range 300 {
			s.move(r)
		}
		if n := len(s.watch.mirror.live); n > 3*2+3*maxQueue {
			t.Fatalf("seed %d: %d batches are followed", seed, n)
		}
	}
}

// move lets one thing happen.
func (s *stage) move(r *rand.Rand) {
	tp := delivery.TP{Inlet: "in", Partition: int32(r.IntN(3))}
	take := func(list *[]uint64) (id uint64) {
		i := r.IntN(len(*list))
		id = (*list)[i]
		*list = append((*list)[:i:i], (*list)[i+1:]...)
		return id
	}
	s.now += time.Duration(r.IntN(100)) * time.Millisecond
	// What is due is done by itself: a commit that is answered after the deadline
	// of a revocation did happen, and counts here, but no more in the core.
	s.step(delivery.Ticked{})
	switch k := r.IntN(20); {
	case k < 4:
		s.records = r.IntN(3) * 5
		s.more(tp, 1+r.IntN(2))
	case k < 9 && len(s.with) > 0:
		id := take(&s.with)
		if r.IntN(2) == 0 {
			s.emit(id)
		}
		if r.IntN(12) == 0 {
			s.step(delivery.Failed{Process: s.process, ID: id, Message: "no", Offset: -1})
			return
		}
		s.ack(id)
	case k < 12 && len(s.writes) > 0:
		id := take(&s.writes)
		switch r.IntN(12) {
		case 0:
			s.step(delivery.Refused{ID: id, Reason: "no", Accused: []delivery.TP{s.tps[id]}})
		case 1:
			s.step(delivery.Unsettled{ID: id, Reason: "no"})
			s.step(delivery.EpochRaised{})
		default:
			s.step(delivery.Written{ID: id})
		}
	case k < 15 && len(s.commits) > 0:
		s.commit([]delivery.CommitOutcome{0, 0, 0, delivery.CommitRetry}[r.IntN(4)])
	case k == 15:
		st := s.core.Status()
		switch st.State {
		case delivery.Discovering:
			s.step(delivery.Launched{Process: s.process})
			s.spec()
		case delivery.Ending:
			s.step(delivery.StoppedByProcess{Process: s.process})
		}
	case k == 16:
		s.now += time.Second
		s.step(delivery.Ticked{})
	case k == 17 && r.IntN(4) == 0:
		s.rebalance(r)
	case k == 18 && r.IntN(6) == 0:
		s.with = nil
		s.step(delivery.Exited{Process: s.process, Reason: "exit 1", Code: 1})
	default:
		s.step(delivery.Fetched{TP: tp})
	}
}

func (s *stage) rebalance(r *rand.Rand) {
	st := s.core.Status()
	offsets := make([]int64, 3)
	for i := range st.Partitions {
		p := &st.Partitions[i]
		offsets[p.TP.Partition] = p.Next() / 10 * 10
		if r.IntN(4) == 0 { // an answer to a commit was lost
			offsets[p.TP.Partition] = p.Confirmed
		}
	}
	generation := int32(r.Uint32N(1000)) + 2
	switch r.IntN(4) {
	case 0:
		s.step(delivery.Lost{Inlet: "in"})
	case 1:
		s.step(delivery.Revoked{Inlet: "in", Partitions: []int32{1, 2}, Deadline: s.now + 200*time.Millisecond})
		return
	default:
		s.step(delivery.Suspended{Inlet: "in"})
	}
	s.assign(generation, r.IntN(2) == 0, offsets[:1+r.IntN(3)]...)
}

// What the observer costs a batch, whatever its number of records.
func BenchmarkWatchABatch(b *testing.B) {
	w := NewWatch(quiet)
	var actions [1]delivery.Action
	id := uint64(0)
	offset := int64(0)
	step := func(ev delivery.Event, action delivery.Action) {
		actions[0] = action
		n := 1
		if action == nil {
			n = 0
		}
		w.Stepped(time.Duration(id), true, ev, actions[:n])
	}
	step(delivery.Assigned{Inlet: "in", Generation: 1, Starts: []delivery.Start{{}}}, nil)
	b.ReportAllocs()
	for b.Loop() {
		id++
		step(delivery.Fetched{TP: tp0}, delivery.Deliver{ID: id, TP: tp0, Offset: offset})
		step(delivery.Cut{ID: id, First: offset, Next: offset + 1000, Records: 1000, Bytes: 1 << 20}, nil)
		step(delivery.Emitted{ID: id, Outlet: "out", Records: 1000, Bytes: 1 << 20}, delivery.Hold{ID: id})
		step(delivery.Acked{ID: id}, delivery.Write{ID: id})
		w.Writing(id, "out", 1000, 1<<20)
		offset += 1000
		step(delivery.Written{ID: id}, delivery.Commit{Inlet: "in", Sequence: id, Offsets: []delivery.PartitionOffset{{Offset: offset}}})
		step(delivery.Committed{Inlet: "in", Sequence: id}, nil)
	}
}

// Every failure of the stream has its kind, also one that is due by the clock
// and comes with another event.
func TestFailureKinds(t *testing.T) {
	held := func(s *stage) uint64 { s.more(tp0, 1); return s.batch() }
	writing := func(s *stage) uint64 {
		id := held(s)
		s.emit(id)
		s.ack(id)
		return id
	}
	for kind, bring := range map[string]func(s *stage){
		"fail": func(s *stage) {
			s.step(delivery.Failed{Process: s.process, ID: held(s), Message: "batch 1 was not answered within reason"})
		},
		"violation":   func(s *stage) { s.step(delivery.Violated{Process: s.process, Reason: "no frame"}) },
		"exit":        func(s *stage) { s.step(delivery.Exited{Process: s.process, Reason: "exit 1", Code: 1}) },
		"unreachable": func(s *stage) { s.step(delivery.Unreachable{Process: s.process, Reason: "frozen"}) },
		"launch": func(s *stage) {
			s.step(delivery.Exited{Process: s.process, Reason: "exit 1", Code: 1})
			clear(s.watch.failures)
			s.now += time.Second
			s.step(delivery.Ticked{})
			s.step(delivery.LaunchFailed{Process: s.process, Reason: "no such program", Code: 127})
		},
		"write_refused":   func(s *stage) { s.step(delivery.Refused{ID: writing(s), Reason: "no", Accused: []delivery.TP{tp0}}) },
		"write_unsettled": func(s *stage) { s.step(delivery.Unsettled{ID: writing(s), Reason: "no"}) },
		"commit_refused":  func(s *stage) { s.ack(held(s)); s.commit(delivery.CommitRefused) },
		"timeout": func(s *stage) {
			s.step(delivery.OutputClosed{Process: s.process})
			s.now += time.Minute
			s.step(delivery.Fetched{TP: tp0})
		},
		"held": func(s *stage) {
			s.step(delivery.Emitted{Process: s.process, ID: held(s), Outlet: "out", Records: 1, Bytes: 1 << 30})
		},
	} {
		s := newStage(t)
		s.running(1)
		bring(s)
		if len(s.watch.failures) != 1 || s.watch.failures[kind] != 1 {
			t.Errorf("%s: %v", kind, s.watch.failures)
		}
	}
	s := newStage(t)
	s.step(delivery.Ticked{})
	s.step(delivery.Launched{Process: s.process})
	s.now += 2 * time.Minute
	s.step(delivery.Ticked{})
	if s.watch.failures["timeout"] != 1 {
		t.Errorf("no answer to discovery: %v", s.watch.failures)
	}
}
