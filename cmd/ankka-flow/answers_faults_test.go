package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ankka-flow/delivery/kafka/faultproxy"
)

// onFake is a test of the writes' faults on kfake; the same runs on the real
// cluster.
func onFake(t *testing.T, test func(*testing.T, context.Context, []string)) {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(3))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	ctx, cancel := context.WithTimeout(context.Background(), 2*testLimit)
	t.Cleanup(cancel)
	test(t, ctx, cluster.ListenAddrs())
}

// everyOnce: the outlet has the values 0 to n-1 of each inlet partition once, in
// their order.
func (a *answering) everyOnce(partitions, n int) {
	a.t.Helper()
	next := map[string]int{}
	for out, log := range a.log() {
		for _, value := range log {
			var partition, i int
			if _, err := fmt.Sscanf(value, "%d/%d", &partition, &i); err != nil {
				a.t.Fatalf("written: %q", value)
			}
			key := fmt.Sprint(out, "/", partition)
			if i < next[key] {
				a.t.Fatalf("partition %d: %s comes again or late", out, value)
			}
			next[key] = i + 1
		}
	}
	total := 0
	for _, log := range a.log() {
		total += len(log)
	}
	if total != partitions*n {
		a.t.Errorf("%d records are written, want %d, each once", total, partitions*n)
	}
}

// fill writes n numbered records to every partition of the inlet.
func (a *answering) fill(partitions, n int) {
	a.t.Helper()
	for p := range partitions {
		var records []*kgo.Record
		for i := range n {
			records = append(records, &kgo.Record{Key: []byte(fmt.Sprintf("k%d-%d", p, i%5)), Value: []byte(fmt.Sprintf("%d/%d", p, i))})
		}
		a.put(int32(p), records...)
	}
}

// Every 5th write refused with NOT_LEADER, every 7th answer dropped: no loss, no
// reordering, no duplicate.
func TestCase57_RefusedWritesAndLostAnswers(t *testing.T) {
	t.Parallel()
	onFake(t, refusedAndLost)
}

func refusedAndLost(t *testing.T, ctx context.Context, brokers []string) {
	t.Helper()
	a := newAnswering(ctx, t, brokers, "case57", 4)
	a.maxRecords = 5
	var writes atomic.Int64
	a.before = func(r *faultproxy.Request) (faultproxy.Plan, bool) {
		if r.Key != kmsg.Produce {
			return faultproxy.Plan{}, false
		}
		n := writes.Add(1)
		plan := faultproxy.Plan{Cut: n%7 == 0}
		if n%5 == 0 {
			fate := faultproxy.Fate{Withheld: true, Code: 6}
			plan.Fates = map[faultproxy.Partition]faultproxy.Fate{{Topic: a.target.Topic, Index: 0}: fate, {Topic: a.target.Topic, Index: 1}: fate}
		}
		return plan, true
	}
	a.fill(4, 60)
	p := a.run(countedCommand())
	a.awaitEnd()
	p.stopsWell()
	a.everyOnce(4, 60)
	if n := writes.Load(); n < 15 {
		t.Errorf("only %d writes", n)
	}
}

// 19 to the first of several writes on their way: the broker answers 45 to those
// behind it, and all of them go again in their order.
func TestR9_OutOfSequenceBehindWhatWasNotAppended(t *testing.T) {
	t.Parallel()
	onFake(t, behindRefused)
}

func behindRefused(t *testing.T, ctx context.Context, brokers []string) {
	t.Helper()
	a := newAnswering(ctx, t, brokers, "behind", 4)
	second := make(chan struct{})
	var on atomic.Bool
	var first, seen45 atomic.Bool
	a.before = func(r *faultproxy.Request) (faultproxy.Plan, bool) {
		if !on.Load() || r.Produced(a.target) == nil {
			return faultproxy.Plan{}, false
		}
		if first.CompareAndSwap(false, true) {
			return faultproxy.Plan{Answer: second, Fates: map[faultproxy.Partition]faultproxy.Fate{a.target: {Withheld: true, Code: 19}}}, true
		}
		select {
		case <-second:
		default:
			close(second)
		}
		return faultproxy.Plan{}, false
	}
	a.after = func(_ *faultproxy.Request, code int16) {
		if code == 45 {
			seen45.Store(true)
		}
	}
	p := a.run(countedCommand())
	a.put(0, &kgo.Record{Key: a.keyOn(0, 0), Value: []byte("9/0")})
	a.awaitEnd() // the first confirmation of the epoch: from now on several are on their way
	on.Store(true)
	for partition := range int32(4) {
		a.put(partition, &kgo.Record{Key: a.keyOn(0, 0), Value: []byte(fmt.Sprintf("%d/0", partition))})
	}
	a.awaitEnd()
	p.stopsWell()
	a.everyOnce(5, 1)
	if !seen45.Load() {
		t.Error("the broker answered 45 to nothing")
	}
}

// Too large together: split by inlet batch and then by record, from the same
// sequence; every record is there once.
func TestR9_TooLargeTogetherIsSplit(t *testing.T) {
	t.Parallel()
	onFake(t, splitTogether)
}

func splitTogether(t *testing.T, ctx context.Context, brokers []string) {
	t.Helper()
	for _, code := range []int16{10, 87} {
		a := newAnswering(ctx, t, brokers, fmt.Sprintf("split-%d", code), 3)
		var refused atomic.Int64
		a.before = func(r *faultproxy.Request) (faultproxy.Plan, bool) {
			plan := faultproxy.Plan{Fates: map[faultproxy.Partition]faultproxy.Fate{}}
			for index := range int32(2) {
				at := faultproxy.Partition{Topic: a.target.Topic, Index: index}
				var batch kmsg.RecordBatch
				if bytes := r.Produced(at); bytes != nil && batch.ReadFrom(bytes) == nil && batch.NumRecords > 1 {
					refused.Add(1)
					plan.Fates[at] = faultproxy.Fate{Withheld: true, Code: code}
				}
			}
			return plan, len(plan.Fates) > 0
		}
		a.fill(3, 10)
		p := a.run(countedCommand())
		a.awaitEnd()
		p.stopsWell()
		a.everyOnce(3, 10)
		if refused.Load() == 0 {
			t.Errorf("code %d: nothing was refused", code)
		}
	}
}

// Connections cut every 3 s, at whatever they carry.
func TestConnectionsCutEvery3Seconds(t *testing.T) {
	t.Parallel()
	onFake(t, cutAgainAndAgain)
}

func cutAgainAndAgain(t *testing.T, ctx context.Context, brokers []string) {
	t.Helper()
	a := newAnswering(ctx, t, brokers, "cuts", 2)
	a.maxRecords = 1
	p := a.run(countedCommand())
	cut, feed := time.NewTicker(3*time.Second), time.NewTicker(20*time.Millisecond)
	defer cut.Stop()
	defer feed.Stop()
	n, cuts := 0, 0
	for cuts < 3 {
		select {
		case <-feed.C:
			for partition := range int32(2) {
				a.put(partition, &kgo.Record{Key: []byte(fmt.Sprintf("k%d", n%5)), Value: []byte(fmt.Sprintf("%d/%d", partition, n))})
			}
			n++
		case <-cut.C:
			a.proxy.Cut()
			cuts++
		}
	}
	a.awaitEnd()
	p.stopsWell()
	a.everyOnce(2, n)
}

// A broker that accepts and never answers: a stop ends in time, and afterwards
// nothing is lost.
func TestCase61_ABrokerThatNeverAnswers(t *testing.T) {
	t.Parallel()
	onFake(t, neverAnswers)
}

func neverAnswers(t *testing.T, ctx context.Context, brokers []string) {
	t.Helper()
	a := newAnswering(ctx, t, brokers, "silence", 2)
	a.env = []string{"FLOW_STOP_TIMEOUT=4s"}
	var armed, silent atomic.Bool
	writing := make(chan struct{})
	a.before = func(r *faultproxy.Request) (faultproxy.Plan, bool) {
		if armed.Load() && r.Key == kmsg.Produce && silent.CompareAndSwap(false, true) {
			close(writing)
		}
		return faultproxy.Plan{Withheld: true, Mute: true}, silent.Load()
	}
	p := a.run(countedCommand())
	a.fill(2, 10)
	a.awaitEnd()
	armed.Store(true)
	a.put(0, &kgo.Record{Key: []byte("k"), Value: []byte("7/0")})
	<-writing
	began := time.Now()
	p.interrupt()
	<-p.exited
	if took := time.Since(began); took > 6*time.Second {
		t.Errorf("the stop took %v, with FLOW_STOP_TIMEOUT=4s", took)
	}
	armed.Store(false)
	silent.Store(false)
	p = a.run(countedCommand())
	p.await(`ready`)
	a.awaitEnd()
	p.stopsWell()
	a.everyOnce(21, 1)
}
