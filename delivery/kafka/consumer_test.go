package kafka

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"ankka-flow/delivery"
	"ankka-flow/delivery/record"
)

// seen is what a taker got of one record.
type seen struct {
	partition int32
	offset    int64
	value     string
}

// taker plays the core and the driver for one consumer: it seeks where it is
// assigned, cuts what is fetched, releases what is revoked. It commits when
// asked to.
type taker struct {
	t      testing.TB
	k      *Consumer
	c      *Client
	events chan delivery.Event
	ended  chan struct{}

	mu         sync.Mutex
	got        []seen
	pos        map[int32]int64
	held       map[int32]bool
	generation int32
	all        []delivery.Event
	sequence   uint64
	manual     bool // does not cut
}

func take(t testing.TB, c *Client, in Inlet, change ...func(*taker)) *taker {
	t.Helper()
	if in.SessionTimeout == 0 {
		in.SessionTimeout = 6 * time.Second
	}
	if in.Name == "" {
		in.Name = "in"
	}
	if in.Group == "" {
		in.Group = "group"
	}
	r := &taker{t: t, c: c, events: make(chan delivery.Event), ended: make(chan struct{}), pos: map[int32]int64{}, held: map[int32]bool{}}
	for _, f := range change {
		f(r)
	}
	ready := make(chan struct{})
	go func() {
		defer close(r.ended)
		<-ready
		for ev := range r.events {
			r.on(ev)
		}
	}()
	r.k = c.Consume(in, func(ev delivery.Event) { r.events <- ev })
	close(ready)
	t.Cleanup(r.stop)
	return r
}

func (r *taker) stop() {
	if r.k == nil {
		return
	}
	r.k.Close()
	r.end()
}

// end stops the loop; the consumer has ended.
func (r *taker) end() {
	close(r.events)
	<-r.ended
	r.k = nil
}

func (r *taker) on(ev delivery.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, ev)
	switch ev := ev.(type) {
	case delivery.Assigned:
		r.generation = ev.Generation
		for _, s := range ev.Starts {
			r.held[s.Partition] = true
			r.pos[s.Partition] = s.Offset
			r.k.Seek(s.Partition, s.Offset)
		}
	case delivery.Revoked:
		for _, p := range ev.Partitions {
			delete(r.held, p)
		}
		r.k.Release(ev.Partitions)
	case delivery.Suspended:
		r.k.Release(nil)
	case delivery.Lost:
		clear(r.held)
	case delivery.Fetched:
		if !r.manual {
			r.cut(ev.TP.Partition, 100, 1<<20)
		}
	}
}

// cut takes what is there; the caller holds mu.
func (r *taker) cut(p int32, records, bytes int) {
	var buf []record.Record
	for more := true; more; {
		var first, next int64
		var err error
		buf, first, next, more, err = r.k.Cut(p, buf, records, bytes)
		if err != nil {
			return
		}
		if first != r.pos[p] && r.held[p] {
			r.t.Errorf("partition %d: cut from %d, position %d", p, first, r.pos[p])
		}
		for _, rec := range buf {
			if rec.Offset < first || rec.Offset >= next {
				r.t.Errorf("partition %d: offset %d in a cut of %d to %d", p, rec.Offset, first, next)
			}
			r.got = append(r.got, seen{p, rec.Offset, string(rec.Value)})
		}
		r.pos[p] = next
	}
}

func (r *taker) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.got)
}

func (r *taker) heldNow() []int32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []int32
	for p := range r.held {
		out = append(out, p)
	}
	slices.Sort(out)
	return out
}

func (r *taker) position(p int32) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pos[p]
}

// commit commits the positions of everything held and waits for the answer.
func (r *taker) commit() delivery.Committed {
	r.t.Helper()
	r.mu.Lock()
	a := delivery.Commit{Inlet: "in", Generation: r.generation}
	r.sequence++
	a.Sequence = r.sequence
	for p := range r.held {
		a.Offsets = append(a.Offsets, delivery.PartitionOffset{Partition: p, Offset: r.pos[p]})
	}
	r.mu.Unlock()
	return r.commitOnce(a)
}

func (r *taker) commitOnce(a delivery.Commit) (out delivery.Committed) {
	r.t.Helper()
	r.k.Commit(a)
	eventually(r.t, "the commit's answer", func() bool {
		ev, ok := find(r, func(ev delivery.Committed) bool { return ev.Sequence == a.Sequence })
		out = ev
		return ok
	})
	return out
}

// find gives the last event of that kind that matches.
func find[E delivery.Event](r *taker, match func(E) bool) (e E, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, ev := range slices.Backward(r.all) {
		if got, is := ev.(E); is && match(got) {
			return got, true
		}
	}
	return e, false
}

func kgoClient(t testing.TB, cl *kfake.Cluster, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	kcl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(cl.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner())}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kcl.Close)
	return kcl
}

// write puts n records into each partition; values count from start.
func write(t testing.TB, kcl *kgo.Client, topic string, partitions int32, start, n int) {
	t.Helper()
	var rs []*kgo.Record
	for i := range n {
		for p := range partitions {
			rs = append(rs, &kgo.Record{Topic: topic, Partition: p, Value: []byte(strconv.Itoa(start + i))})
		}
	}
	if err := kcl.ProduceSync(testContext(t), rs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// inOrder checks that each partition's records are 0, 1, 2 ... without a gap.
func inOrder(t testing.TB, got []seen, partitions int32, n int) {
	t.Helper()
	next := map[int32]int64{}
	for _, s := range got {
		if s.offset != next[s.partition] || s.value != fmt.Sprint(s.offset) {
			t.Fatalf("partition %d: offset %d value %q, want %d", s.partition, s.offset, s.value, next[s.partition])
		}
		next[s.partition]++
	}
	for p := range partitions {
		if next[p] != int64(n) {
			t.Errorf("partition %d: %d records, want %d", p, next[p], n)
		}
	}
}

func TestConsume_EverythingInOrderAndCommitted(t *testing.T) {
	cl := newCluster(t, kfake.NumBrokers(2), kfake.SeedTopics(4, "t"))
	kcl := kgoClient(t, cl)
	write(t, kcl, "t", 4, 0, 500)
	r := take(t, newTestClient(t, cl.ListenAddrs()), Inlet{Topic: "t"})
	eventually(t, "all records", func() bool { return r.count() == 2000 })
	inOrder(t, r.got, 4, 500)
	write(t, kcl, "t", 4, 500, 10) // now at the end
	eventually(t, "the new records", func() bool { return r.count() == 2040 })
	inOrder(t, r.got, 4, 510)

	first, ok := find(r, func(ev delivery.Assigned) bool { return len(ev.Starts) > 0 })
	if !ok || len(first.Starts) != 4 || !first.Starts[0].LookedUp || first.Starts[0].Offset != 0 {
		t.Errorf("%v", first)
	}
	if c := r.commit(); c.Outcome != delivery.CommitDone {
		t.Fatalf("%v", c)
	}
	offsets, err := kadm.NewClient(kcl).FetchOffsets(testContext(t), "group")
	if err != nil {
		t.Fatal(err)
	}
	for p := range int32(4) {
		if o, _ := offsets.Lookup("t", p); o.At != 510 || o.LeaderEpoch != -1 {
			t.Errorf("partition %d: %+v", p, o)
		}
	}
	for p, e := range r.k.Ends() {
		if e.HighWatermark != 510 || e.LastStable != 510 || e.LogStart != 0 {
			t.Errorf("partition %d: %+v", p, e)
		}
	}
}

func TestR11_ANewGroupStartsAtTheEndWhereConfigured(t *testing.T) {
	cl := newCluster(t, kfake.SeedTopics(2, "t"))
	kcl := kgoClient(t, cl)
	write(t, kcl, "t", 2, 0, 5)
	c := newTestClient(t, cl.ListenAddrs())
	r := take(t, c, Inlet{Topic: "t", StartLatest: true})
	eventually(t, "the assignment", func() bool { return len(r.heldNow()) == 2 })
	if r.position(0) != 5 || r.position(1) != 5 {
		t.Errorf("positions %v", r.pos)
	}
	if c := r.commit(); c.Outcome != delivery.CommitDone {
		t.Fatal(c)
	}
	// R11: partitions added later start at their first record.
	if _, err := kadm.NewClient(kcl).UpdatePartitions(testContext(t), 3, "t"); err != nil {
		t.Fatal(err)
	}
	write(t, kgoClient(t, cl), "t", 3, 5, 1)
	eventually(t, "the added partition", func() bool { return r.count() == 3 && len(r.heldNow()) == 3 })
	slices.SortFunc(r.got, func(a, b seen) int { return int(a.partition - b.partition) })
	if want := []seen{{0, 5, "5"}, {1, 5, "5"}, {2, 0, "5"}}; !slices.Equal(r.got, want) {
		t.Errorf("got %v, want %v", r.got, want)
	}
}

func TestCase54_AMissingTopicIsWaitedFor(t *testing.T) {
	cl := newCluster(t)
	kcl := kgoClient(t, cl, kgo.AllowAutoTopicCreation())
	joins := countRequests(cl, 11)
	c := newTestClient(t, cl.ListenAddrs())
	r := take(t, c, Inlet{Topic: "late"})
	eventually(t, "it has joined", func() bool { return r.joined() })
	if _, err := kadm.NewClient(kcl).CreateTopic(testContext(t), 2, 1, nil, "late"); err != nil {
		t.Fatal(err)
	}
	write(t, kcl, "late", 2, 0, 3)
	eventually(t, "the records", func() bool { return r.count() == 6 })
	inOrder(t, r.got, 2, 3)
	if n := joins(); n > 4 {
		t.Errorf("%d joins for one topic that came late", n)
	}
}

func (r *taker) joined() bool {
	_, ok := find(r, func(delivery.Assigned) bool { return true })
	return ok
}

func TestTwoConsumersShareAndHandOver(t *testing.T) {
	cl := newCluster(t, kfake.SeedTopics(4, "t"))
	kcl := kgoClient(t, cl)
	write(t, kcl, "t", 4, 0, 50)
	c1 := newTestClient(t, cl.ListenAddrs())
	c2 := newTestClient(t, cl.ListenAddrs())
	a := take(t, c1, Inlet{Topic: "t"})
	eventually(t, "a has read all", func() bool { return a.count() == 200 })
	if c := a.commit(); c.Outcome != delivery.CommitDone {
		t.Fatal(c)
	}
	b := take(t, c2, Inlet{Topic: "t"})
	eventually(t, "two each", func() bool { return len(a.heldNow()) == 2 && len(b.heldNow()) == 2 })
	// The two that stayed were neither suspended nor begun again.
	stayed := a.heldNow()
	starts := map[int32]int{}
	a.mu.Lock()
	for _, ev := range a.all {
		switch ev := ev.(type) {
		case delivery.Suspended, delivery.Lost:
			t.Errorf("a cooperative rebalance: %v", ev)
		case delivery.Assigned:
			for _, s := range ev.Starts {
				starts[s.Partition]++
			}
		}
	}
	a.mu.Unlock()
	for _, p := range stayed {
		if starts[p] != 1 {
			t.Errorf("partition %d was begun %d times", p, starts[p])
		}
	}
	for _, p := range b.heldNow() {
		if got := b.position(p); got != 50 {
			t.Errorf("partition %d was handed over at %d, want 50", p, got)
		}
	}
	write(t, kcl, "t", 4, 50, 50)
	eventually(t, "both have read on", func() bool { return a.count()+b.count() == 400 })
	inOrder(t, append(a.got, b.got...), 4, 100)
	// Both commit under the generation they know now.
	if ca, cb := a.commit(), b.commit(); ca.Outcome != delivery.CommitDone || cb.Outcome != delivery.CommitDone {
		t.Errorf("%v %v", ca, cb)
	}
	// One leaves: the other has all again, from where it stood.
	k := a.k
	if err := k.Leave(testContext(t)); err != nil {
		t.Fatal(err)
	}
	a.end()
	eventually(t, "b has all", func() bool { return len(b.heldNow()) == 4 })
	write(t, kcl, "t", 4, 100, 1)
	eventually(t, "b reads all", func() bool { return b.count()+a.count() == 404 })
	inOrder(t, append(a.got, b.got...), 4, 101)
}

func TestR7_AStaleCommitIsRefusedHere(t *testing.T) {
	cl := newCluster(t, kfake.SeedTopics(1, "t"))
	commits := countRequests(cl, 8)
	r := take(t, newTestClient(t, cl.ListenAddrs()), Inlet{Topic: "t"})
	eventually(t, "the assignment", func() bool { return len(r.heldNow()) == 1 })
	c := r.commitOnce(delivery.Commit{Inlet: "in", Generation: r.generation - 1, Sequence: 99, Offsets: []delivery.PartitionOffset{{Partition: 0, Offset: 1}}})
	if c.Outcome != delivery.CommitStale || commits() != 0 {
		t.Errorf("%v after %d requests", c, commits())
	}
}

func TestCase58_AnOffsetOutsideTheLogBlocks(t *testing.T) {
	cl := newCluster(t, kfake.SeedTopics(2, "t"))
	kcl := kgoClient(t, cl)
	write(t, kcl, "t", 2, 0, 10)
	adm := kadm.NewClient(kcl)
	ctx := testContext(t)
	os := make(kadm.Offsets)
	os.Add(kadm.Offset{Topic: "t", Partition: 0, At: 2, LeaderEpoch: -1})  // deleted below
	os.Add(kadm.Offset{Topic: "t", Partition: 1, At: 50, LeaderEpoch: -1}) // beyond the end
	for _, g := range []string{"block", "earliest", "latest"} {
		if err := adm.CommitAllOffsets(ctx, g, os); err != nil {
			t.Fatal(err)
		}
	}
	del := make(kadm.Offsets)
	del.Add(kadm.Offset{Topic: "t", Partition: 0, At: 6})
	if _, err := adm.DeleteRecords(ctx, del); err != nil {
		t.Fatal(err)
	}
	log, lines := logged()
	c := newTestClient(t, cl.ListenAddrs(), func(cfg *Config) { cfg.Logger = log })
	block := take(t, c, Inlet{Topic: "t", Group: "block"})
	for p := range int32(2) {
		eventually(t, "it is told", func() bool {
			ev, ok := find(block, func(ev delivery.FetchFailed) bool { return ev.TP.Partition == p })
			return ok && ev.Blocked
		})
	}
	if n := block.count(); n != 0 {
		t.Errorf("%d records were skipped to", n)
	}
	block.k.Seek(1, 50) // as a new conversation does
	eventually(t, "it is told again", func() bool {
		n := 0
		find(block, func(ev delivery.FetchFailed) bool {
			if ev.TP.Partition == 1 {
				n++
			}
			return false
		})
		return n == 2
	})
	for _, line := range []string{"t/0 cannot be read on: offset 2 of", "t/1 cannot be read on: offset 50 of"} {
		if n := strings.Count(lines(), `level=ERROR msg="`+line); n != 1 {
			t.Errorf("%q was logged %d times, want once: %s", line, n, lines())
		}
	}
	for policy, want := range map[ResetPolicy][2]int64{ResetEarliest: {6, 0}, ResetLatest: {10, 10}} {
		group := map[ResetPolicy]string{ResetEarliest: "earliest", ResetLatest: "latest"}[policy]
		r := take(t, c, Inlet{Topic: "t", Group: group, Reset: policy})
		eventually(t, "the assignment", func() bool { return len(r.heldNow()) == 2 })
		ev, _ := find(r, func(ev delivery.Assigned) bool { return len(ev.Starts) == 2 })
		for _, s := range ev.Starts {
			if !s.LookedUp || s.Offset != want[s.Partition] {
				t.Errorf("%s: %+v, want %d", group, s, want[s.Partition])
			}
		}
	}
}

// What retention removes under a slow reader: the position moves on by being
// delivered, as a range without records.
func TestR11_RetentionOvertakesAReader(t *testing.T) {
	cl := newCluster(t, kfake.SeedTopics(1, "t"))
	kcl := kgoClient(t, cl)
	write(t, kcl, "t", 1, 0, 10)
	c := newTestClient(t, cl.ListenAddrs())
	r := take(t, c, Inlet{Topic: "t", Reset: ResetEarliest})
	eventually(t, "all", func() bool { return r.count() == 10 })
	del := make(kadm.Offsets)
	del.Add(kadm.Offset{Topic: "t", Partition: 0, At: 7})
	if _, err := kadm.NewClient(kcl).DeleteRecords(testContext(t), del); err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	r.got = nil
	r.pos[0] = 3
	r.k.Seek(0, 3)
	r.mu.Unlock()
	eventually(t, "the rest", func() bool { return r.count() == 3 })
	if r.got[0].offset != 7 {
		t.Errorf("%v", r.got)
	}
}

func TestCase56_TheLeaderMoves(t *testing.T) {
	cl := newCluster(t, kfake.NumBrokers(3), kfake.SeedTopics(1, "t"))
	kcl := kgoClient(t, cl)
	r := take(t, newTestClient(t, cl.ListenAddrs()), Inlet{Topic: "t"})
	eventually(t, "the assignment", func() bool { return len(r.heldNow()) == 1 })
	n := 0
	for round := range 6 {
		if err := cl.MoveTopicPartition("t", 0, int32(round%3)); err != nil {
			t.Fatal(err)
		}
		write(t, kcl, "t", 1, n, 5)
		n += 5
		begin := time.Now()
		eventually(t, "the records from the new leader", func() bool { return r.count() == n })
		if d := time.Since(begin); d > 2*time.Second {
			t.Errorf("a move took %v", d)
		}
	}
	inOrder(t, r.got, 1, n)
}

func TestTheCoordinatorMoves(t *testing.T) {
	cl := newCluster(t, kfake.NumBrokers(3), kfake.SeedTopics(2, "t"))
	kcl := kgoClient(t, cl)
	r := take(t, newTestClient(t, cl.ListenAddrs()), Inlet{Topic: "t"})
	eventually(t, "the assignment", func() bool { return len(r.heldNow()) == 2 })
	for range 3 {
		cl.RehashCoordinators()
		write(t, kcl, "t", 2, r.count()/2, 1)
	}
	eventually(t, "the records", func() bool { return r.count() == 6 })
	var c delivery.Committed
	eventually(t, "a commit goes through", func() bool { c = r.commit(); return c.Outcome == delivery.CommitDone })
	if _, lost := find(r, func(delivery.Lost) bool { return true }); lost {
		t.Error("membership was lost")
	}
	described, err := kadm.NewClient(kcl).DescribeGroups(testContext(t), "group")
	if err != nil || len(described["group"].Members) != 1 {
		t.Errorf("%v: %+v", err, described["group"].Members)
	}
}
