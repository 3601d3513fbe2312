//go:build kafka

package kafka

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"ankka-flow/delivery"
)

// realKafka is the cluster that scripts/test-kafka started, with a topic of
// the test's own.
type realKafka struct {
	t       testing.TB
	ctx     context.Context
	brokers []string
	topic   string
	admin   *kadm.Client
	client  *kgo.Client
}

func realTopic(t testing.TB, partitions int32) *realKafka {
	t.Helper()
	r := &realKafka{t: t, topic: fmt.Sprintf("client-%d", time.Now().UnixNano())}
	for _, line := range strings.Split(r.script("env"), "\n") {
		if addresses, ok := strings.CutPrefix(line, "KAFKA_PLAINTEXT="); ok {
			r.brokers = strings.Split(addresses, ",")
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	r.ctx = ctx
	client, err := kgo.NewClient(kgo.SeedBrokers(r.brokers...), kgo.DefaultProduceTopic(r.topic), kgo.MetadataMinAge(20*time.Millisecond),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	r.client, r.admin = client, kadm.NewClient(client)
	if _, err := r.admin.CreateTopic(ctx, partitions, int16(len(r.brokers)), nil, r.topic); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the topic has its leaders", func() bool { _, isr := r.leader(); return isr == len(r.brokers) })
	return r
}

func (r *realKafka) script(args ...string) string {
	r.t.Helper()
	out, err := exec.Command("../../scripts/kafka", args...).CombinedOutput()
	if err != nil {
		r.t.Fatalf("scripts/kafka %s (scripts/test-kafka starts the cluster): %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// leader is partition 0's, -1 where there is none, and how many copies are in
// sync, as a client knows it that is not under test.
func (r *realKafka) leader() (node int32, inSync int) {
	topics, err := r.admin.ListTopics(r.ctx, r.topic)
	if err != nil || len(topics[r.topic].Partitions) == 0 {
		return -1, 0
	}
	p := topics[r.topic].Partitions[0]
	return p.Leader, len(p.ISR)
}

// fill writes records of 100 bytes to partition 0.
func (r *realKafka) fill(n int) {
	r.t.Helper()
	records := make([]*kgo.Record, 0, n)
	for range n {
		records = append(records, &kgo.Record{Value: make([]byte, 100)})
	}
	if err := r.client.ProduceSync(r.ctx, records...).FirstErr(); err != nil {
		r.t.Fatal(err)
	}
}

// 20 starts and stops in one process: goroutines and connections are back to
// where they were.
func TestKafka_Case62_StartsAndStopsLeaveNothing(t *testing.T) {
	r := realTopic(t, 3)
	leavesNothing(t, r.brokers, r.topic)
}

// A leader moves, and one is killed: writes are confirmed and records read again
// within 2 s of the new leader's being known, in order and once.
func TestKafka_Case56_RecoveryAfterANewLeader(t *testing.T) {
	for _, how := range []string{"move", "kill"} {
		t.Run(how, func(t *testing.T) {
			r := realTopic(t, 1)
			c := newTestClient(t, r.brokers)
			written := make(chan struct{}, 1)
			p := c.Produce(ProducerConfig{}, func(ev delivery.Event) {
				if _, ok := ev.(delivery.Written); ok {
					written <- struct{}{}
				}
			})
			defer p.Close(r.ctx)
			reader := take(t, newTestClient(t, r.brokers), Inlet{Topic: r.topic, Group: r.topic})
			var times []time.Time // of each confirmation
			n := uint64(0)
			write := func() {
				t.Helper()
				p.Write(n, tp(0), []Out{{Topic: r.topic, Records: values(n, 1, []byte("k"))}})
				n++
				select {
				case <-written:
				case <-r.ctx.Done():
					t.Fatal("a write is not confirmed within the test's time")
				}
				times = append(times, time.Now())
			}
			for range 50 {
				write()
			}
			old, _ := r.leader()
			var changed atomic.Int64
			done := make(chan struct{})
			go func() { // ends with the new leader; awaited below
				defer close(done)
				for r.ctx.Err() == nil {
					if now, _ := r.leader(); now >= 0 && now != old {
						changed.Store(time.Now().UnixNano())
						return
					}
				}
			}()
			if how == "kill" {
				t.Cleanup(func() { // whatever becomes of the test: others need the whole cluster
					r.script("start", strconv.Itoa(int(old)))
					eventually(t, "the broker has caught up", func() bool { _, isr := r.leader(); return isr == 3 })
				})
			}
			acted := make(chan struct{})
			go func() { // as long as the command takes; awaited below
				defer close(acted)
				if how == "kill" {
					r.script("kill", strconv.Itoa(int(old)))
				} else {
					r.script("move", r.topic, "0", strconv.Itoa(int(old%3+1)))
				}
			}()
			for changed.Load() == 0 || times[len(times)-1].UnixNano() < changed.Load()+int64(time.Second) {
				write()
			}
			<-done
			<-acted
			at := time.Unix(0, changed.Load())
			after := slices.IndexFunc(times, func(one time.Time) bool { return one.After(at) })
			recovered := max(0, times[after].Sub(at))
			t.Logf("%s: the first write was confirmed %v after the new leader was known; the longest pause was %v", how, recovered, longest(times))
			if recovered > 2*time.Second {
				t.Errorf("the first write was confirmed %v after the new leader was known", recovered)
			}
			eventually(t, "everything is read", func() bool { return reader.position(0) == int64(n) })
			if behind := time.Since(times[len(times)-1]); behind > 2*time.Second {
				t.Errorf("the last record was read %v after it was written", behind)
			}
			reader.inOrder(n)
		})
	}
}

// inOrder wants the records 0 to n-1 in their order. The coordinator may be on
// the broker that was killed: a generation that ends by it begins at the commit
// again, of which there is none here.
func (r *taker) inOrder(n uint64) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	next := int64(0)
	for _, one := range r.got {
		if one.offset > next || one.value != string(values(uint64(one.offset), 1, nil)[0].Value) {
			r.t.Fatalf("offset %d is %s, and %d was due", one.offset, one.value, next)
		}
		next = one.offset + 1
	}
	if next != int64(n) {
		r.t.Errorf("%d records are read, want %d", next, n)
	}
}

func longest(times []time.Time) time.Duration {
	var most time.Duration
	for i := 1; i < len(times); i++ {
		most = max(most, times[i].Sub(times[i-1]))
	}
	return most
}

// Beside each other in one run on the cluster: what it costs to fetch and decode.
func BenchmarkKafkaFetch(b *testing.B) {
	r := realTopic(b, 1)
	r.fill(500_000)
	b.Run("ours", func(b *testing.B) {
		for b.Loop() {
			r.readOurs(b, 500_000)
		}
		perRecord(b, 500_000)
	})
	b.Run("franz-go", func(b *testing.B) {
		for b.Loop() {
			r.readFranz(b, 500_000)
		}
		perRecord(b, 500_000)
	})
	b.Run("kafka-go", func(b *testing.B) {
		for b.Loop() {
			r.readKafkaGo(b, 500_000)
		}
		perRecord(b, 500_000)
	})
}

func perRecord(b *testing.B, n int) {
	b.Helper()
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/record")
}

// readOurs leaves joining the group out of the time.
func (r *realKafka) readOurs(b *testing.B, n int) {
	b.StopTimer()
	c := newTestClient(b, r.brokers)
	events := make(chan delivery.Event, 16)
	k := c.Consume(Inlet{Name: "in", Topic: r.topic, Group: fmt.Sprint("bench", time.Now().UnixNano())}, func(ev delivery.Event) { events <- ev })
	var buf = benchRecords(0, 0, false)
	var err error
	for got := 0; got < n; {
		switch ev := (<-events).(type) {
		case delivery.Assigned:
			b.StartTimer()
			for _, s := range ev.Starts {
				k.Seek(s.Partition, s.Offset)
			}
		case delivery.Fetched:
			for more := true; more && got < n; {
				if buf, _, _, more, err = k.Cut(ev.TP.Partition, buf, 1000, 512<<10); err != nil {
					b.Fatal(err)
				}
				got += len(buf)
			}
		}
	}
	b.StopTimer()
	closed := make(chan struct{})
	go func() { // drains what Close still tells; ends with it
		defer close(closed)
		k.Close()
		c.Close()
	}()
	for open := true; open; {
		select {
		case <-events:
		case <-closed:
			open = false
		}
	}
	b.StartTimer()
}

func (r *realKafka) readFranz(b *testing.B, n int) {
	client, err := kgo.NewClient(kgo.SeedBrokers(r.brokers...), kgo.ConsumeTopics(r.topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	for got := 0; got < n; {
		fetches := client.PollFetches(r.ctx)
		if err := fetches.Err(); err != nil {
			b.Fatal(err)
		}
		fetches.EachRecord(func(*kgo.Record) { got++ })
	}
}

// readKafkaGo asks one fetch after another, as Client.Fetch can.
func (r *realKafka) readKafkaGo(b *testing.B, n int) {
	transport := &kafkago.Transport{MetadataTopics: []string{r.topic}}
	defer transport.CloseIdleConnections()
	client := &kafkago.Client{Addr: kafkago.TCP(r.brokers...), Transport: transport, Timeout: 10 * time.Second}
	for offset := int64(0); offset < int64(n); {
		answer, err := client.Fetch(r.ctx, &kafkago.FetchRequest{Topic: r.topic, Offset: offset, MinBytes: 1, MaxBytes: 1 << 20, MaxWait: time.Second})
		if err != nil || answer.Error != nil {
			b.Fatal(err, answer)
		}
		for {
			one, err := answer.Records.ReadRecord()
			if err != nil {
				break
			}
			if one.Offset >= offset {
				if _, err := kafkago.ReadAll(one.Value); err != nil {
					b.Fatal(err)
				}
				offset = one.Offset + 1
			}
		}
	}
}

// Beside each other in one run on the cluster: synchronous writes, the two
// clients by turns, so that what the cluster does meanwhile meets both.
func BenchmarkKafkaProduce(b *testing.B) {
	for _, n := range []int{100, 1000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			r := realTopic(b, 1)
			c := newTestClient(b, r.brokers)
			done := make(chan delivery.Event, 1)
			p := c.Produce(ProducerConfig{}, func(ev delivery.Event) { done <- ev })
			defer p.Close(r.ctx)
			outs := []Out{{Topic: r.topic, Records: benchRecords(n, 100, true)}}
			franz := make([]*kgo.Record, n)
			id := uint64(0)
			ours := func() {
				id++
				p.Write(id, delivery.TP{}, outs)
				if ev, ok := (<-done).(delivery.Written); !ok {
					b.Fatal(ev)
				}
			}
			theirs := func() {
				for i := range franz {
					franz[i] = &kgo.Record{Key: outs[0].Records[i].Key, Value: outs[0].Records[i].Value}
				}
				if err := r.client.ProduceSync(r.ctx, franz...).FirstErr(); err != nil {
					b.Fatal(err)
				}
			}
			for range 50 {
				ours()
				theirs()
			}
			var spent [2][]time.Duration
			b.ResetTimer()
			for range b.N {
				for i, f := range []func(){ours, theirs} {
					began := time.Now()
					f()
					spent[i] = append(spent[i], time.Since(began))
				}
			}
			for i, name := range []string{"ours-µs/request", "franz-go-µs/request"} {
				slices.Sort(spent[i])
				b.ReportMetric(float64(spent[i][len(spent[i])/2].Microseconds()), name)
			}
		})
	}
}
