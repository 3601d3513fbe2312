package kafka

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ankka-flow/delivery"
	"ankka-flow/delivery/record"
)

// countRequests counts the requests of one API key.
func countRequests(cl *kfake.Cluster, key int16) func() int {
	var n atomic.Int64
	cl.ControlKey(key, func(kmsg.Request) (kmsg.Response, error, bool) {
		cl.KeepControl()
		n.Add(1)
		return nil, nil, false
	})
	return func() int { return int(n.Load()) }
}

func TestCase51_AbortedTransactionsAreNotDelivered(t *testing.T) {
	cl := newCluster(t, kfake.SeedTopics(1, "t"))
	tx := kgoClient(t, cl, kgo.TransactionalID("tx"))
	ctx := testContext(t)
	for i := range 6 {
		if err := tx.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for j := range 3 {
			if err := tx.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: fmt.Appendf(nil, "%d-%d", i, j)}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		if err := tx.EndTransaction(ctx, kgo.TransactionEndTry(i%2 == 0)); err != nil {
			t.Fatal(err)
		}
	}
	c := newTestClient(t, cl.ListenAddrs())
	r := take(t, c, Inlet{Topic: "t"})
	// Three transactions of three records; the position is behind the last marker.
	eventually(t, "the end", func() bool { return r.position(0) == 24 })
	if r.count() != 9 {
		t.Errorf("%v", r.got)
	}
	for _, s := range r.got {
		if i := s.value[0] - '0'; i%2 != 0 {
			t.Errorf("%v was aborted", s)
		}
	}
	u := take(t, c, Inlet{Topic: "t", Group: "uncommitted", ReadUncommitted: true})
	eventually(t, "the end", func() bool { return u.position(0) == 24 })
	if u.count() != 18 {
		t.Errorf("read uncommitted: %d records, want 18", u.count())
	}
	// One that is open: the log grows, and what can be read of it ends before.
	if err := tx.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := tx.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: []byte("6-0")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the open transaction is seen", func() bool { return r.k.Ends()[0].HighWatermark == 25 })
	if end := r.k.Ends()[0].LastStable; end != 24 || r.count() != 9 {
		t.Errorf("the readable end is %d, want 24; %d records, want 9", end, r.count())
	}
}

// answerFetch serves fetches of partition 0 from a function of the offset.
func answerFetch(cl *kfake.Cluster, end int64, serve func(offset int64) []byte) {
	cl.ControlKey(1, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		cl.KeepControl()
		req := kreq.(*kmsg.FetchRequest)
		resp := req.ResponseKind().(*kmsg.FetchResponse)
		for _, rt := range req.Topics {
			st := kmsg.NewFetchResponseTopic()
			st.Topic = rt.Topic
			for _, rp := range rt.Partitions {
				sp := kmsg.NewFetchResponseTopicPartition()
				sp.Partition = rp.Partition
				sp.HighWatermark, sp.LastStableOffset, sp.LogStartOffset = end, end, 0
				sp.RecordBatches = serve(rp.FetchOffset)
				st.Partitions = append(st.Partitions, sp)
			}
			resp.Topics = append(resp.Topics, st)
		}
		return resp, nil, true
	})
}

// batch makes a record batch of the offsets given, which covers base to last.
func batch(base, last int64, offsets ...int64) []byte {
	var records []byte
	for _, o := range offsets {
		r := kmsg.Record{OffsetDelta: int32(o - base), Value: fmt.Append(nil, o)}
		r.Length = int32(len(r.AppendTo(nil)) - 1)
		records = r.AppendTo(records)
	}
	b := kmsg.RecordBatch{
		FirstOffset: base, Magic: 2, LastOffsetDelta: int32(last - base), ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1,
		NumRecords: int32(len(offsets)), Records: records, PartitionLeaderEpoch: -1,
	}
	raw := b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}

func TestCase52_HolesOfCompaction(t *testing.T) {
	cl := newCluster(t, kfake.SeedTopics(1, "t"))
	batches := []struct {
		base, last int64
		raw        []byte
	}{
		{0, 9, batch(0, 9, 0, 3)},       // the tail is gone
		{10, 14, batch(10, 14)},         // empty, alone
		{20, 24, batch(20, 24)},         // a gap before it
		{25, 29, batch(25, 29)},         // three empty ones
		{30, 34, batch(30, 34)},         // in a row
		{35, 39, batch(35, 39, 36, 37)}, // both ends are gone
		{40, 49, batch(40, 49)},         // the end
	}
	answerFetch(cl, 50, func(offset int64) []byte {
		for _, b := range batches {
			if offset <= b.last {
				return b.raw
			}
		}
		return nil
	})
	r := take(t, newTestClient(t, cl.ListenAddrs()), Inlet{Topic: "t"})
	eventually(t, "the end", func() bool { return r.position(0) == 50 })
	want := []seen{{0, 0, "0"}, {0, 3, "3"}, {0, 36, "36"}, {0, 37, "37"}}
	if fmt.Sprint(r.got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", r.got, want)
	}
}

func TestCase53_ACorruptPartitionBesideHealthyOnes(t *testing.T) {
	cl := newCluster(t, kfake.SeedTopics(3, "t"))
	var healed atomic.Bool
	var damaged atomic.Int32
	cl.ControlKey(1, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		cl.KeepControl()
		req := kreq.(*kmsg.FetchRequest)
		resp := req.ResponseKind().(*kmsg.FetchResponse)
		st := kmsg.NewFetchResponseTopic()
		st.Topic = "t"
		for _, rp := range req.Topics[0].Partitions {
			sp := kmsg.NewFetchResponseTopicPartition()
			sp.Partition, sp.HighWatermark, sp.LastStableOffset = rp.Partition, 4, 4
			if rp.FetchOffset < 2 {
				sp.RecordBatches = batch(0, 1, 0, 1)
			}
			if rp.FetchOffset < 4 {
				bad := batch(2, 3, 2, 3)
				if rp.Partition == 1 && !healed.Load() {
					bad[len(bad)-1] ^= 1
					damaged.Add(1)
				}
				sp.RecordBatches = append(sp.RecordBatches, bad...)
			}
			st.Partitions = append(st.Partitions, sp)
		}
		resp.Topics = append(resp.Topics, st)
		return resp, nil, true
	})
	log, lines := logged()
	r := take(t, newTestClient(t, cl.ListenAddrs(), func(cfg *Config) { cfg.Logger = log }), Inlet{Topic: "t"})
	eventually(t, "the healthy ones are read, of the bad one what is before", func() bool {
		return r.position(0) == 4 && r.position(2) == 4 && r.position(1) == 2
	})
	var failed delivery.FetchFailed
	eventually(t, "it is told", func() bool {
		ev, ok := find(r, func(ev delivery.FetchFailed) bool { return true })
		failed = ev
		return ok
	})
	if failed.TP.Partition != 1 || failed.Blocked || !strings.Contains(failed.Reason, "corrupt") || !strings.Contains(failed.Reason, "2") {
		t.Errorf("%+v", failed)
	}
	if r.count() != 10 {
		t.Errorf("%d records, want 10", r.count())
	}
	eventually(t, "it is fetched again, twice and more", func() bool { return damaged.Load() >= 4 })
	if n := strings.Count(lines(), `level=WARN msg="t/1 cannot be read on: `); n != 1 {
		t.Errorf("the damage was said %d times, want once: %s", n, lines())
	}
	healed.Store(true)
	eventually(t, "it was damaged on its way only", func() bool { return r.position(1) == 4 })
	if r.count() != 12 {
		t.Errorf("%d records, want 12", r.count())
	}
}

func TestCase55_ManySmallBatchesInBoundedMemory(t *testing.T) {
	const partitions, each = 10, 800
	cl := newCluster(t, kfake.SeedTopics(partitions, "t"))
	var raw []byte
	for i := range int64(each) {
		raw = append(raw, batch(i, i, i)...)
	}
	// Batches are not all of one length, so find the place by walking.
	starts := make([]int, 0, each)
	for at := 0; at < len(raw); at += 12 + int(binary.BigEndian.Uint32(raw[at+8:])) {
		starts = append(starts, at)
	}
	answerFetch(cl, each, func(offset int64) []byte {
		if offset >= each {
			return nil
		}
		return raw[starts[offset]:]
	})
	runtime.GC()
	var before, during runtime.MemStats
	runtime.ReadMemStats(&before)
	r := take(t, newTestClient(t, cl.ListenAddrs()), Inlet{Topic: "t"}, func(r *taker) { r.manual = true })
	eventually(t, "all is prefetched", func() bool {
		held := 0
		r.k.fetch.mu.Lock()
		defer r.k.fetch.mu.Unlock()
		for _, p := range r.k.fetch.partitions {
			held += len(p.chunks)
		}
		return held == partitions
	})
	runtime.GC()
	runtime.ReadMemStats(&during)
	if grown := int64(during.HeapAlloc) - int64(before.HeapAlloc); grown > 16<<20 {
		t.Errorf("%d batches of one record hold %d KiB", partitions*each, grown>>10)
	}
	r.mu.Lock()
	for p := range int32(partitions) {
		r.cut(p, 100, 1<<20)
	}
	r.mu.Unlock()
	if r.count() != partitions*each {
		t.Errorf("%d records", r.count())
	}
}

func TestFetch_ALargeBatchIsAskedForWithMore(t *testing.T) {
	cl := newCluster(t, kfake.SeedTopics(2, "t"), kfake.BrokerConfigs(map[string]string{"message.max.bytes": "8000000"}))
	kcl := kgoClient(t, cl, kgo.ProducerBatchMaxBytes(8<<20), kgo.MaxBufferedBytes(64<<20))
	ctx := testContext(t)
	value := make([]byte, 3<<20)
	for i := range value {
		value[i] = byte(rand.Uint32())
	}
	for p := range int32(2) {
		for range 2 {
			if err := kcl.ProduceSync(ctx, &kgo.Record{Topic: "t", Partition: p, Value: value}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	r := take(t, newTestClient(t, cl.ListenAddrs()), Inlet{Topic: "t"})
	eventually(t, "both partitions", func() bool { return r.count() == 4 })
	for _, s := range r.got {
		if s.value != string(value) {
			t.Error("the value has changed")
		}
	}
}

func TestFetch_ASeekDoesNotWaitForALongPoll(t *testing.T) {
	cl := newCluster(t, kfake.SeedTopics(8, "t"))
	kcl := kgoClient(t, cl)
	write(t, kcl, "t", 8, 0, 1)
	r := take(t, newTestClient(t, cl.ListenAddrs()), Inlet{Topic: "t"})
	eventually(t, "all", func() bool { return r.count() == 8 })
	polling := func() bool {
		r.k.fetch.mu.Lock()
		defer r.k.fetch.mu.Unlock()
		for _, l := range r.k.fetch.loops {
			if l.polling {
				return true
			}
		}
		return false
	}
	for i := range 5 {
		eventually(t, "a long poll", polling)
		begin := time.Now()
		r.mu.Lock()
		r.pos[3] = 0
		r.k.Seek(3, 0)
		r.mu.Unlock()
		eventually(t, "the record again", func() bool { return r.count() == 9+i })
		if d := time.Since(begin); d > longPoll/2 {
			t.Errorf("the Seek waited %v", d)
		}
	}
}

func TestR10_PauseGivesThePrefetchBack(t *testing.T) {
	cl := newCluster(t, kfake.SeedTopics(4, "t"))
	kcl := kgoClient(t, cl)
	write(t, kcl, "t", 4, 0, 1000)
	c := newTestClient(t, cl.ListenAddrs())
	left := func() int {
		c.budget.mu.Lock()
		defer c.budget.mu.Unlock()
		return c.budget.left
	}
	r := take(t, c, Inlet{Topic: "t"}, func(r *taker) { r.manual = true })
	eventually(t, "a prefetch", func() bool {
		_, ok := find(r, func(delivery.Fetched) bool { return true })
		return ok && len(r.heldNow()) == 4
	})
	for p := range int32(4) {
		r.k.Pause(p)
	}
	eventually(t, "everything is given back", func() bool { return left() == prefetchBudget })
	if recs, first, next, more, err := r.k.Cut(0, nil, 10, 1<<20); len(recs) != 0 || first != next || more || err != nil {
		t.Errorf("a paused partition gave %d records, %d to %d, %v, %v", len(recs), first, next, more, err)
	}
	r.mu.Lock()
	r.k.Seek(0, 500)
	r.pos[0] = 500
	r.manual = false
	r.mu.Unlock()
	eventually(t, "the rest of it", func() bool { return r.count() == 500 })
	r.stop()
	if left() != prefetchBudget {
		t.Errorf("%d bytes of the budget are lost", prefetchBudget-left())
	}
}

func TestCut_LimitsAndCutBack(t *testing.T) {
	cl := newCluster(t, kfake.SeedTopics(1, "t"))
	kcl := kgoClient(t, cl)
	for i := range 20 {
		write(t, kcl, "t", 1, i, 1) // 20 batches
	}
	r := take(t, newTestClient(t, cl.ListenAddrs()), Inlet{Topic: "t"}, func(r *taker) { r.manual = true })
	eventually(t, "the prefetch", func() bool {
		_, ok := find(r, func(delivery.Fetched) bool { return true })
		return ok
	})
	offsets := func(rs []record.Record) (out []int64) {
		for _, r := range rs {
			out = append(out, r.Offset)
		}
		return out
	}
	recs, first, next, more, err := r.k.Cut(0, nil, 5, 1<<20)
	if fmt.Sprint(offsets(recs)) != "[0 1 2 3 4]" || first != 0 || next != 5 || !more || err != nil {
		t.Fatalf("%v %d %d %v %v", offsets(recs), first, next, more, err)
	}
	r.k.CutBack(0, 3)
	recs, first, next, _, _ = r.k.Cut(0, recs, 100, 4) // values are one byte up to 9
	if fmt.Sprint(offsets(recs)) != "[3 4 5 6]" || first != 3 || next != 7 {
		t.Fatalf("%v %d %d", offsets(recs), first, next)
	}
	recs, _, next, more, _ = r.k.Cut(0, recs, 100, 1<<20)
	if len(recs) != 13 || next != 20 || more {
		t.Fatalf("%v %d %v", offsets(recs), next, more)
	}
	r.k.CutBack(0, 15) // the chunk was read out
	recs, first, next, more, _ = r.k.Cut(0, recs, 2, 1<<20)
	if fmt.Sprint(offsets(recs)) != "[15 16]" || first != 15 || next != 17 || !more {
		t.Fatalf("%v %d %d %v", offsets(recs), first, next, more)
	}
	if recs, _, _, _, _ = r.k.Cut(0, recs, 10, 0); fmt.Sprint(offsets(recs)) != "[17]" {
		t.Errorf("a record over the limit does not go alone: %v", offsets(recs))
	}
}

func TestCase61_AConsumerOfABrokerThatNeverAnswers(t *testing.T) {
	addr, _ := silent(t)
	c := newTestClient(t, []string{addr})
	r := take(t, c, Inlet{Topic: "t"})
	begin := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	k := r.k
	k.Leave(ctx)
	r.end()
	c.Close()
	if d := time.Since(begin); d > 2*time.Second {
		t.Errorf("it took %v", d)
	}
}

func TestCase48_TheBrokerGoesAwayAndComesBack(t *testing.T) {
	dir := t.TempDir()
	cl, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"), kfake.DataDir(dir))
	if err != nil {
		t.Fatal(err)
	}
	addr := cl.ListenAddrs()
	var port int
	fmt.Sscanf(addr[0][strings.LastIndex(addr[0], ":")+1:], "%d", &port)
	write(t, kgoClient(t, cl), "t", 1, 0, 3)
	c := newTestClient(t, addr)
	r := take(t, c, Inlet{Topic: "t"})
	eventually(t, "the records", func() bool { return r.count() == 3 })
	cl.Close()
	eventually(t, "it is told that the partition cannot be read", func() bool {
		_, ok := find(r, func(ev delivery.FetchFailed) bool { return !ev.Blocked })
		return ok
	})
	cl = newCluster(t, kfake.Ports(port), kfake.DataDir(dir))
	write(t, kgoClient(t, cl), "t", 1, 3, 3)
	eventually(t, "the new records", func() bool { return r.count() == 6 })
	inOrder(t, r.got, 1, 6)
}

func TestCase62_ConsumersLeaveNothing(t *testing.T) {
	cl := newCluster(t, kfake.SeedTopics(3, "t"))
	write(t, kgoClient(t, cl), "t", 3, 0, 10)
	before := runtime.NumGoroutine()
	for i := range 20 {
		c, err := NewClient(Config{Brokers: cl.ListenAddrs()})
		if err != nil {
			t.Fatal(err)
		}
		r := take(t, c, Inlet{Topic: "t", Group: fmt.Sprint("g", i)})
		eventually(t, "the records", func() bool { return r.count() == 30 })
		if i%3 == 0 {
			r.stop()
		} else {
			k := r.k
			if err := k.Leave(testContext(t)); err != nil {
				t.Error(err)
			}
			r.end()
		}
		c.Close()
	}
	eventually(t, "the goroutines are gone", func() bool { return runtime.NumGoroutine() <= before+2 })
}

func TestWholeBatches(t *testing.T) {
	a, b := batch(5, 9, 5, 7), batch(10, 12, 11)
	both := append(bytes.Clone(a), b...)
	old := bytes.Clone(a)
	old[batchMagicAt] = 1
	for _, tt := range []struct {
		name  string
		data  []byte
		whole int
		next  int64
		ok    bool
	}{
		{"nothing", nil, 0, 5, true},
		{"two", both, len(both), 13, true},
		{"the second cut off", both[:len(both)-1], len(a), 10, true},
		{"a part of a header", both[:len(a)+8], len(a), 10, true},
		{"the first cut off", a[:len(a)-1], 0, 5, true},
		{"an older format", old, len(old), 5, false},
	} {
		whole, next, ok := wholeBatches(tt.data, 5)
		if whole != tt.whole || next != tt.next || ok != tt.ok {
			t.Errorf("%s: %d, %d, %v", tt.name, whole, next, ok)
		}
	}
}

func FuzzWholeBatches(f *testing.F) {
	f.Add(batch(5, 9, 5, 7), int64(5))
	f.Fuzz(func(t *testing.T, data []byte, from int64) {
		whole, next, _ := wholeBatches(data, from)
		if whole < 0 || whole > len(data) || next < from {
			t.Errorf("%d of %d bytes, %d from %d", whole, len(data), next, from)
		}
	})
}

func FuzzFetchAnswer(f *testing.F) {
	resp := kmsg.NewPtrFetchResponse()
	resp.Version = fetchVersion
	st := kmsg.NewFetchResponseTopic()
	st.Topic = "t"
	sp := kmsg.NewFetchResponseTopicPartition()
	sp.RecordBatches = batch(0, 1, 0, 1)
	sp.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{{ProducerID: 1, FirstOffset: 2}}
	st.Partitions = append(st.Partitions, sp)
	resp.Topics = append(resp.Topics, st)
	f.Add(resp.AppendTo(nil))
	f.Fuzz(func(t *testing.T, body []byte) {
		frame := appendInt32(appendInt32(nil, int32(len(body)+4)), 7)
		got, err := readFetch(append(frame, body...))
		want := kmsg.NewPtrFetchResponse()
		want.Version = fetchVersion
		if werr := want.ReadFrom(body); werr == nil && err == nil {
			n := 0
			for _, t := range want.Topics {
				n += len(t.Partitions)
			}
			if n != len(got) {
				t.Errorf("%d partitions, want %d", len(got), n)
			}
		} else if err != nil && !errors.Is(err, errMalformed) {
			t.Errorf("%v", err)
		}
	})
}

func readFetch(frame []byte) (out []fetched, err error) {
	r := fetchReader{buf: bufio.NewReader(bytes.NewReader(frame))}
	_, _, err = r.answer(7, func(int32) bool { return true }, func(f fetched) { out = append(out, f) })
	return out, err
}

func TestR10_ThePrefetchOfManyPartitionsIsBounded(t *testing.T) {
	const partitions = 200
	cl := newCluster(t, kfake.SyntheticFetch(kfake.SyntheticBatch{RecordBytes: 1000, Records: 250}), kfake.SeedTopics(partitions, "t"))
	c := newTestClient(t, cl.ListenAddrs())
	r := take(t, c, Inlet{Topic: "t"}, func(r *taker) { r.manual = true })
	least := prefetchBudget
	left := func() int {
		c.budget.mu.Lock()
		defer c.budget.mu.Unlock()
		least = min(least, c.budget.left)
		return c.budget.left
	}
	eventually(t, "the budget is used up", func() bool { return left() < leastBytes })
	// Reading goes on: every partition gets its turn.
	seen := map[int32]bool{}
	var buf []record.Record
	eventually(t, "records of every partition", func() bool {
		left()
		for p := range int32(partitions) {
			if buf, _, _, _, _ = r.k.Cut(p, buf, 1000, 1<<20); len(buf) > 0 {
				seen[p] = true
			}
		}
		return len(seen) == partitions
	})
	if least < -2<<20 {
		t.Errorf("the budget was exceeded by %d KiB", -least>>10)
	}
}

// hostPort splits an address of the fake broker.
func hostPort(t testing.TB, addr string) (string, int32) {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return host, int32(n)
}
