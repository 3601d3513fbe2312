package kafka

import (
	"context"
	"encoding/binary"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ankka-flow/delivery"
	"ankka-flow/delivery/record"
)

// fetchAnswer makes an answer with one partition.
func fetchAnswer(kreq kmsg.Request, code int16, start, end int64, data []byte) kmsg.Response {
	req := kreq.(*kmsg.FetchRequest)
	resp := req.ResponseKind().(*kmsg.FetchResponse)
	st := kmsg.NewFetchResponseTopic()
	st.Topic = "t"
	sp := kmsg.NewFetchResponseTopicPartition()
	sp.ErrorCode, sp.RecordBatches = code, data
	sp.LogStartOffset, sp.HighWatermark, sp.LastStableOffset = start, end, end
	st.Partitions = append(st.Partitions, sp)
	resp.Topics = append(resp.Topics, st)
	return resp
}

// Rule 18: the code alone may come from a replica that lags.
func TestFetch_OutOfRangeIsConfirmedFirst(t *testing.T) {
	cl := newCluster(t, kfake.SeedTopics(1, "t"))
	write(t, kgoClient(t, cl), "t", 1, 0, 5)
	var n atomic.Int64
	cl.ControlKey(1, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		cl.KeepControl()
		if n.Add(1) > 2 {
			return nil, nil, false
		}
		return fetchAnswer(kreq, codeOffsetOutOfRange, 0, 0, nil), nil, true
	})
	r := take(t, newTestClient(t, cl.ListenAddrs()), Inlet{Topic: "t"})
	eventually(t, "the records", func() bool { return r.count() == 5 })
	if ev, failed := find(r, func(delivery.FetchFailed) bool { return true }); failed {
		t.Errorf("a valid offset was told as %v", ev)
	}
}

// What is prefetched before the end of the log is delivered before the block.
func TestR11_TheBlockIsToldAtItsPosition(t *testing.T) {
	cl := newCluster(t, kfake.SeedTopics(1, "t"))
	cl.ControlKey(1, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		cl.KeepControl()
		if kreq.(*kmsg.FetchRequest).Topics[0].Partitions[0].FetchOffset < 3 {
			return fetchAnswer(kreq, 0, 0, 9, batch(0, 2, 0, 1, 2)), nil, true
		}
		return fetchAnswer(kreq, codeOffsetOutOfRange, -1, -1, nil), nil, true // the log is empty: 0 to 0
	})
	confirmed := countRequests(cl, listOffsetsKey)
	r := take(t, newTestClient(t, cl.ListenAddrs()), Inlet{Topic: "t"}, func(r *taker) { r.manual = true })
	eventually(t, "it is confirmed twice", func() bool { return confirmed() >= 6 })
	if ev, failed := find(r, func(delivery.FetchFailed) bool { return true }); failed {
		t.Fatalf("told before its position: %v", ev)
	}
	r.mu.Lock()
	r.cut(0, 100, 1<<20)
	r.mu.Unlock()
	if r.count() != 3 {
		t.Errorf("%d records", r.count())
	}
	eventually(t, "the block", func() bool {
		ev, ok := find(r, func(delivery.FetchFailed) bool { return true })
		return ok && ev.Blocked && strings.Contains(ev.Reason, "offset 3")
	})
}

// A broker need not send a batch that is larger than what was asked for.
func TestFetch_TheLimitGrowsUntilABatchFits(t *testing.T) {
	cl := newCluster(t, kfake.SeedTopics(1, "t"))
	big := batch(0, 0, 0)
	cl.ControlKey(1, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		cl.KeepControl()
		p := kreq.(*kmsg.FetchRequest).Topics[0].Partitions[0]
		switch {
		case p.FetchOffset > 0:
			return nil, nil, false
		case p.PartitionMaxBytes < 3<<20:
			return fetchAnswer(kreq, 0, 0, 1, nil), nil, true
		}
		return fetchAnswer(kreq, 0, 0, 1, big), nil, true
	})
	r := take(t, newTestClient(t, cl.ListenAddrs()), Inlet{Topic: "t"})
	eventually(t, "the batch", func() bool { return r.count() == 1 })
}

// So does one that sends only a part of it: the part says how large it is.
func TestFetch_APartOfABatchSaysWhatToAskFor(t *testing.T) {
	cl := newCluster(t, kfake.SeedTopics(1, "t"))
	whole := batch(0, 0, 0)
	part := batch(0, 0, 0)[:20]
	binary.BigEndian.PutUint32(part[batchLengthAt:], 5<<20)
	var asked, limit atomic.Int64
	cl.ControlKey(1, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		cl.KeepControl()
		if kreq.(*kmsg.FetchRequest).Topics[0].Partitions[0].FetchOffset > 0 {
			return nil, nil, false
		}
		limit.Store(int64(kreq.(*kmsg.FetchRequest).Topics[0].Partitions[0].PartitionMaxBytes))
		if asked.Add(1) == 1 {
			return fetchAnswer(kreq, 0, 0, 1, part), nil, true
		}
		return fetchAnswer(kreq, 0, 0, 1, whole), nil, true
	})
	r := take(t, newTestClient(t, cl.ListenAddrs()), Inlet{Topic: "t"})
	eventually(t, "the batch", func() bool { return r.count() == 1 })
	if asked.Load() != 2 || limit.Load() < 5<<20 {
		t.Errorf("%d requests for one batch, the last of %d bytes", asked.Load(), limit.Load())
	}
}

// At the end of the log a partition joins the long poll at once.
func TestFetch_AnIdlePartitionDoesNotSpin(t *testing.T) {
	for n := range 2 { // of records
		cl := newCluster(t, kfake.SeedTopics(1, "t"))
		write(t, kgoClient(t, cl), "t", 1, 0, n)
		fetches := countRequests(cl, 1)
		r := take(t, newTestClient(t, cl.ListenAddrs()), Inlet{Topic: "t"})
		eventually(t, "a long poll behind the records", func() bool {
			r.k.fetch.mu.Lock()
			defer r.k.fetch.mu.Unlock()
			for _, l := range r.k.fetch.loops {
				if l.polling && r.k.fetch.partitions[0].next == int64(n) {
					return true
				}
			}
			return false
		})
		if got := fetches(); got > 3 {
			t.Errorf("%d fetches for %d records", got, n)
		}
	}
}

// The limit in bytes holds also where a cut goes on into the next answer.
func TestCut_TheLimitHoldsAcrossAnswers(t *testing.T) {
	cl := newCluster(t, kfake.SeedTopics(1, "t"))
	cl.ControlKey(1, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		cl.KeepControl()
		switch o := kreq.(*kmsg.FetchRequest).Topics[0].Partitions[0].FetchOffset; {
		case o < 98:
			return fetchAnswer(kreq, 0, 0, 101, batch(97, 97, 97)), nil, true
		case o < 101:
			return fetchAnswer(kreq, 0, 0, 101, batch(98, 100, 98, 99, 100)), nil, true
		}
		return nil, nil, false
	})
	r := take(t, newTestClient(t, cl.ListenAddrs()), Inlet{Topic: "t"}, func(r *taker) { r.manual = true })
	eventually(t, "two answers", func() bool {
		r.k.fetch.mu.Lock()
		defer r.k.fetch.mu.Unlock()
		p := r.k.fetch.partitions[0]
		return p != nil && len(p.chunks) == 2
	})
	for _, tt := range []struct {
		bytes       int
		first, next int64
	}{{3, 0, 98}, {4, 0, 99}, {5, 0, 99}, {6, 0, 100}, {100, 0, 101}} {
		var recs []record.Record
		recs, first, next, more, err := r.k.Cut(0, recs, 100, tt.bytes)
		if first != tt.first || next != tt.next || more != (next < 101) || err != nil || len(recs) != int(next-97) {
			t.Errorf("%d bytes: %d records, %d to %d, %v, %v", tt.bytes, len(recs), first, next, more, err)
		}
		r.k.CutBack(0, 0)
	}
}

// Rule 26: where kafka-go sets no deadline, ours ends the wait.
func TestCase61_AStallInSASLEndsByItself(t *testing.T) {
	cl := newCluster(t)
	addr := stalledSASL(t, cl.ListenAddrs()[0])
	c := newTestClient(t, []string{addr}, func(cfg *Config) {
		cfg.SASL = plain.Mechanism{Username: "u", Password: "p"}
		cfg.RequestTimeout = 200 * time.Millisecond
	})
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	begin := time.Now()
	if err := c.Probe(ctx); err == nil {
		t.Error("the probe succeeded")
	}
	eventually(t, "no connection is left waiting", func() bool {
		c.conns.mu.Lock()
		defer c.conns.mu.Unlock()
		return len(c.conns.open) == 0
	})
	if d := time.Since(begin); d > 4*time.Second {
		t.Errorf("it took %v", d)
	}
}

func TestBackoff(t *testing.T) {
	var got []string
	for n := range 7 {
		got = append(got, strconv.Itoa(int(backoff(retryFirst, retryMost, n)/time.Millisecond)))
	}
	if s := strings.Join(got, " "); s != "100 100 200 400 800 1000 1000" {
		t.Error(s)
	}
}
