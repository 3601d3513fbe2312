package kafka

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ankka-flow/delivery"
	"ankka-flow/delivery/record"
)

// outcomes is a sink that remembers.
type outcomes struct {
	mu     sync.Mutex
	events []delivery.Event
}

func (o *outcomes) sink(ev delivery.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(o.events, ev)
}

func (o *outcomes) all() []delivery.Event {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.events)
}

// last is the write's last answer, or nil.
func (o *outcomes) last(id uint64) delivery.Event {
	for _, ev := range o.all() {
		switch ev := ev.(type) {
		case delivery.Written:
			if ev.ID == id {
				return ev
			}
		case delivery.Refused:
			if ev.ID == id {
				return ev
			}
		case delivery.Unsettled:
			if ev.ID == id {
				return ev
			}
		}
	}
	return nil
}

func (o *outcomes) unknown(id uint64) bool {
	return slices.ContainsFunc(o.all(), func(ev delivery.Event) bool {
		u, ok := ev.(delivery.WriteUnknown)
		return ok && u.ID == id
	})
}

func newTestProducer(t testing.TB, c *Client, change ...func(*ProducerConfig)) (*Producer, *outcomes) {
	t.Helper()
	var cfg ProducerConfig
	for _, f := range change {
		f(&cfg)
	}
	o := &outcomes{}
	p := c.Produce(cfg, o.sink)
	t.Cleanup(func() {
		if err := p.Close(testContext(t)); err != nil {
			t.Errorf("closing the producer: %v", err)
		}
	})
	return p, o
}

func tp(partition int32) delivery.TP { return delivery.TP{Inlet: "in", Partition: partition} }

// values makes records "w<write>-<n>" with this key (nil: keyless).
func values(write uint64, n int, key []byte) []record.Record {
	recs := make([]record.Record, n)
	for i := range recs {
		recs[i] = record.Record{Key: key, Value: fmt.Appendf(nil, "w%d-%03d", write, i), Timestamp: record.Now}
	}
	return recs
}

// readAll reads topics from the start, n records in all, and a little longer to
// see that there are no more: up to the end offsets.
func readAll(t testing.TB, addrs []string, topics ...string) map[string][]*kgo.Record {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addrs...), kgo.ConsumeTopics(topics...), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx := testContext(t)
	ends, total := map[string]int64{}, int64(0)
	for _, topic := range topics {
		req := kmsg.NewPtrListOffsetsRequest()
		req.ReplicaID = -1
		m, err := kmsg.NewPtrMetadataRequest(), error(nil)
		mt := kmsg.NewMetadataRequestTopic()
		mt.Topic = kmsg.StringPtr(topic)
		m.Topics = append(m.Topics, mt)
		md, err := m.RequestWith(ctx, cl)
		if err != nil {
			t.Fatal(err)
		}
		rt := kmsg.NewListOffsetsRequestTopic()
		rt.Topic = topic
		for _, p := range md.Topics[0].Partitions {
			rp := kmsg.NewListOffsetsRequestTopicPartition()
			rp.Partition, rp.Timestamp, rp.CurrentLeaderEpoch = p.Partition, -1, -1
			rt.Partitions = append(rt.Partitions, rp)
		}
		req.Topics = append(req.Topics, rt)
		for _, shard := range cl.RequestSharded(ctx, req) {
			if shard.Err != nil {
				t.Fatal(shard.Err)
			}
			for _, st := range shard.Resp.(*kmsg.ListOffsetsResponse).Topics {
				for _, sp := range st.Partitions {
					ends[fmt.Sprintf("%s/%d", topic, sp.Partition)] = sp.Offset
					total += sp.Offset
				}
			}
		}
	}
	logs := map[string][]*kgo.Record{}
	for got := int64(0); got < total; {
		f := cl.PollFetches(ctx)
		if err := f.Err(); err != nil {
			t.Fatal(err)
		}
		f.EachRecord(func(r *kgo.Record) {
			name := fmt.Sprintf("%s/%d", r.Topic, r.Partition)
			logs[name] = append(logs[name], r)
			got++
		})
	}
	return logs
}

func TestR1_WrittenIsInTheLog(t *testing.T) {
	cl := newCluster(t, kfake.NumBrokers(2), kfake.SeedTopics(3, "a", "b"))
	c := newTestClient(t, cl.ListenAddrs())
	p, o := newTestProducer(t, c)
	for id := uint64(1); id <= 20; id++ {
		p.Write(id, tp(int32(id%4)), []Out{{Topic: "a", Records: values(id, 50, []byte("k"))}, {Topic: "b", Records: values(id, 50, nil)}, {Topic: "a", Records: values(id+100, 5, []byte("k"))}})
	}
	p.Write(21, tp(0), nil)
	eventually(t, "every write answered", p.Idle)
	for id := uint64(1); id <= 21; id++ {
		if _, ok := o.last(id).(delivery.Written); !ok {
			t.Fatalf("write %d: %v", id, o.last(id))
		}
	}
	logs := readAll(t, cl.ListenAddrs(), "a", "b")
	var keyed []string
	for _, r := range logs[fmt.Sprintf("a/%d", partitionOf([]byte("k"), 3))] {
		keyed = append(keyed, string(r.Value))
	}
	var want []string
	for id := uint64(1); id <= 20; id++ {
		for _, r := range append(values(id, 50, nil), values(id+100, 5, nil)...) {
			want = append(want, string(r.Value))
		}
	}
	if !slices.Equal(keyed, want) {
		t.Errorf("one key's records: got %d in the order %v, want %d", len(keyed), keyed, len(want))
	}
	for i := range 3 {
		if n := len(logs[fmt.Sprintf("b/%d", i)]); n < 300 || n > 350 {
			t.Errorf("keyless records on b/%d: %d of 1000, not spread", i, n)
		}
	}
}

func TestR8_BytesCrossUnchanged(t *testing.T) {
	cl := newCluster(t, kfake.SeedTopics(1, "a"))
	c := newTestClient(t, cl.ListenAddrs())
	p, _ := newTestProducer(t, c)
	recs := []record.Record{
		{Key: nil, Value: nil, Timestamp: 0},
		{Key: []byte{}, Value: []byte{}, Timestamp: 12},
		{Key: []byte("k"), Value: bytes.Repeat([]byte{0, 255}, 30_000), Timestamp: 1_700_000_000_000, Headers: []record.Header{
			{Name: []byte("h"), Value: nil}, {Name: []byte("h"), Value: []byte{}}, {Name: []byte{}, Value: []byte{1}}, {Name: []byte("a"), Value: []byte("x")}}},
	}
	p.Write(1, tp(0), []Out{{Topic: "a", Records: recs}})
	eventually(t, "the write answered", p.Idle)
	got := readAll(t, cl.ListenAddrs(), "a")["a/0"]
	if len(got) != len(recs) {
		t.Fatalf("%d records", len(got))
	}
	same := func(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }
	for i, g := range got {
		w := recs[i]
		ok := same(g.Key, w.Key) && same(g.Value, w.Value) && g.Timestamp.UnixMilli() == w.Timestamp && len(g.Headers) == len(w.Headers)
		for j := range w.Headers {
			ok = ok && g.Headers[j].Key == string(w.Headers[j].Name) && same(g.Headers[j].Value, w.Headers[j].Value)
		}
		if !ok {
			t.Errorf("record %d: got %+v", i, g)
		}
	}
}

// droppingListener makes listeners whose connections break instead of sending
// the produce answers that drop picks.
type droppingListener struct {
	net.Listener
	drop func() bool
}

func (l droppingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &droppingConn{Conn: c, drop: l.drop, produce: map[uint32]bool{}}, nil
}

type droppingConn struct {
	net.Conn
	drop func() bool

	mu      sync.Mutex
	in      []byte
	produce map[uint32]bool // correlation ids of produce requests
}

func (c *droppingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.in = append(c.in, b[:n]...)
	for len(c.in) >= 12 {
		size := 4 + int(binary.BigEndian.Uint32(c.in))
		if len(c.in) < size {
			break
		}
		if binary.BigEndian.Uint16(c.in[4:]) == produceKey {
			c.produce[binary.BigEndian.Uint32(c.in[8:])] = true
		}
		c.in = c.in[size:]
	}
	return n, err
}

func (c *droppingConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	produce := len(b) >= 8 && c.produce[binary.BigEndian.Uint32(b[4:])]
	c.mu.Unlock()
	if produce && c.drop() {
		c.Close()
		return 0, errors.New("dropped")
	}
	return c.Conn.Write(b)
}

func dropping(drop func() bool) kfake.Opt {
	return kfake.ListenFn(func(network, address string) (net.Listener, error) {
		l, err := net.Listen(network, address)
		return droppingListener{l, drop}, err
	})
}

// every says true each n-th time.
func every(n int) func() bool {
	var mu sync.Mutex
	i := 0
	return func() bool {
		mu.Lock()
		defer mu.Unlock()
		i++
		return i%n == 0
	}
}

func TestCase57_RefusedAndLostAnswersNeitherLoseNorReorderNorRepeat(t *testing.T) {
	cl := newCluster(t, kfake.NumBrokers(3), kfake.SeedTopics(4, "out"), dropping(every(7)))
	refuse := every(5)
	cl.ControlKey(produceKey, func(r kmsg.Request) (kmsg.Response, error, bool) {
		cl.KeepControl()
		if !refuse() {
			return nil, nil, false
		}
		return produceAnswer(r, kerr.NotLeaderForPartition.Code), nil, true
	})
	c := newTestClient(t, cl.ListenAddrs())
	p, o := newTestProducer(t, c)
	const partitions, writes, records = 6, 40, 20
	var wg sync.WaitGroup
	for from := range partitions { // each inlet partition writes one after another, as the core does
		wg.Go(func() {
			for n := range writes {
				id := uint64(from*1000 + n)
				var recs []record.Record
				for i := range records {
					recs = append(recs, record.Record{Key: fmt.Appendf(nil, "k%d", i%7), Value: fmt.Appendf(nil, "%d %06d", from, n*records+i), Timestamp: record.Now})
				}
				p.Write(id, tp(int32(from)), []Out{{Topic: "out", Records: recs}})
				eventually(t, "a write answered", func() bool { return o.last(id) != nil })
				if _, ok := o.last(id).(delivery.Written); !ok {
					t.Errorf("write %d: %v", id, o.last(id))
					return
				}
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	total, last := 0, map[string]string{}
	for name, log := range readAll(t, cl.ListenAddrs(), "out") {
		total += len(log)
		for _, r := range log {
			from, n, _ := strings.Cut(string(r.Value), " ")
			at := name + " " + from
			if n <= last[at] {
				t.Fatalf("%s of inlet partition %s: %s comes behind %s", name, from, n, last[at])
			}
			last[at] = n
		}
	}
	if total != partitions*writes*records {
		t.Errorf("%d records in the log, %d written", total, partitions*writes*records)
	}
}

// produceAnswer answers every partition of a produce request with one code.
func produceAnswer(r kmsg.Request, code int16) kmsg.Response {
	req := r.(*kmsg.ProduceRequest)
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	for _, rt := range req.Topics {
		st := kmsg.NewProduceResponseTopic()
		st.Topic = rt.Topic
		for _, rp := range rt.Partitions {
			sp := kmsg.NewProduceResponseTopicPartition()
			sp.Partition, sp.ErrorCode = rp.Partition, code
			st.Partitions = append(st.Partitions, sp)
		}
		resp.Topics = append(resp.Topics, st)
	}
	return resp
}

func TestNotEnoughReplicasHeals(t *testing.T) {
	cl := newCluster(t, kfake.SeedTopics(1, "out"))
	f := cl.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: 4})
	c := newTestClient(t, cl.ListenAddrs())
	p, o := newTestProducer(t, c)
	p.Write(1, tp(0), []Out{{Topic: "out", Records: values(1, 3, nil)}})
	eventually(t, "the write answered", p.Idle)
	if _, ok := o.last(1).(delivery.Written); !ok || o.unknown(1) {
		t.Errorf("answers %v; certainly not appended is not unknown", o.all())
	}
	if f.Hits() != 4 {
		t.Errorf("the fault was hit %d times", f.Hits())
	}
	if n := len(readAll(t, cl.ListenAddrs(), "out")["out/0"]); n != 3 {
		t.Errorf("%d records", n)
	}
}

func TestTimedOutAppendIsUnknownThenConfirmedOnce(t *testing.T) {
	cl := newCluster(t, kfake.SeedTopics(1, "out"))
	cl.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.RequestTimedOut, Count: 3})
	c := newTestClient(t, cl.ListenAddrs())
	p, o := newTestProducer(t, c)
	p.Write(1, tp(0), []Out{{Topic: "out", Records: values(1, 3, nil)}})
	p.Write(2, tp(1), []Out{{Topic: "out", Records: values(2, 3, nil)}})
	eventually(t, "the writes answered", p.Idle)
	if !o.unknown(1) {
		t.Errorf("write 1 was never unknown: %v", o.all())
	}
	var got []string
	for _, r := range readAll(t, cl.ListenAddrs(), "out")["out/0"] {
		got = append(got, string(r.Value))
	}
	if want := []string{"w1-000", "w1-001", "w1-002", "w2-000", "w2-001", "w2-002"}; !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

func TestCase50_TooLargeTogetherIsSplitAndAloneIsRefused(t *testing.T) {
	cl := newCluster(t, kfake.SeedTopics(1, "out"), kfake.BrokerConfigs(map[string]string{"message.max.bytes": "20000"}))
	c := newTestClient(t, cl.ListenAddrs())
	p, o := newTestProducer(t, c)
	big := func(n, size int) (recs []record.Record) {
		for i := range n {
			recs = append(recs, record.Record{Value: fmt.Appendf(nil, "%03d%s", i, strings.Repeat("x", size)), Timestamp: record.Now})
		}
		return recs
	}
	p.Write(1, tp(0), []Out{{Topic: "out", Records: big(100, 1000)}})
	eventually(t, "write 1 answered", p.Idle)
	if _, ok := o.last(1).(delivery.Written); !ok {
		t.Fatalf("write 1: %v", o.last(1))
	}
	p.Write(2, tp(5), []Out{{Topic: "out", Records: append(big(2, 10), big(1, 30_000)...)}})
	p.Write(3, tp(6), []Out{{Topic: "out", Records: big(1, 10)}})
	eventually(t, "writes 2 and 3 answered", p.Idle)
	r, ok := o.last(2).(delivery.Refused)
	if !ok || !slices.Equal(r.Accused, []delivery.TP{tp(5)}) || !strings.Contains(r.Reason, "out/0") || !strings.Contains(r.Reason, "MESSAGE_TOO_LARGE") {
		t.Errorf("write 2: %v; it has to be refused, naming topic and code, accusing its partition alone", o.last(2))
	}
	if _, ok := o.last(3).(delivery.Written); !ok {
		t.Errorf("write 3: %v; the refusal is not its fault", o.last(3))
	}
	log := readAll(t, cl.ListenAddrs(), "out")["out/0"]
	for i := range 100 {
		if string(log[i].Value[:3]) != fmt.Sprintf("%03d", i) {
			t.Fatalf("record %d is %s", i, log[i].Value[:3])
		}
	}
}

func TestCase50_NoPermissionAndNoTopicAreNamed(t *testing.T) {
	cl := newCluster(t, kfake.SeedTopics(1, "out", "closed"))
	cl.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "closed", Err: kerr.TopicAuthorizationFailed, Count: -1})
	c := newTestClient(t, cl.ListenAddrs())
	p, o := newTestProducer(t, c, func(cfg *ProducerConfig) { cfg.TopicTimeout = 200 * time.Millisecond })
	p.Write(1, tp(1), []Out{{Topic: "out", Records: values(1, 2, nil)}, {Topic: "closed", Records: values(1, 2, nil)}})
	p.Write(2, tp(2), []Out{{Topic: "missing", Records: values(2, 2, nil)}})
	p.Write(3, tp(3), []Out{{Topic: "out", Records: values(3, 2, nil)}})
	eventually(t, "the writes answered", p.Idle)
	for id, words := range map[uint64][]string{1: {"closed", "TOPIC_AUTHORIZATION_FAILED", "WRITE"}, 2: {"missing", "does not exist"}} {
		r, ok := o.last(id).(delivery.Refused)
		for _, w := range words {
			ok = ok && strings.Contains(r.Reason, w)
		}
		if !ok || !slices.Equal(r.Accused, []delivery.TP{tp(int32(id))}) {
			t.Errorf("write %d: %v; want it refused naming %v", id, o.last(id), words)
		}
	}
	if _, ok := o.last(3).(delivery.Written); !ok {
		t.Errorf("write 3: %v", o.last(3))
	}
	topics, err := c.Topics(testContext(t), "missing")
	if err != nil || topics["missing"].Err == nil {
		t.Errorf("the missing topic: %+v, %v; writing must not create it", topics["missing"], err)
	}
}

func TestTopicThatAppearsInTimeIsWrittenTo(t *testing.T) {
	cl := newCluster(t)
	c := newTestClient(t, cl.ListenAddrs())
	p, o := newTestProducer(t, c, func(cfg *ProducerConfig) { cfg.TopicTimeout = 20 * time.Second })
	p.Write(1, tp(0), []Out{{Topic: "late", Records: values(1, 2, nil)}})
	eventually(t, "the topic known to be missing", func() bool { _, known := c.partitions("late"); return known })
	if err := c.CreateTopics(testContext(t), []NewTopic{{Name: "late", Partitions: 1}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the write answered", p.Idle)
	if _, ok := o.last(1).(delivery.Written); !ok {
		t.Errorf("write 1: %v", o.last(1))
	}
}

func TestNoClusterRightRefusesByName(t *testing.T) {
	cl := newCluster(t, kfake.SeedTopics(1, "out"))
	cl.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, TopLevel: true, Err: kerr.ConcurrentTransactions, Count: 1})
	cl.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, TopLevel: true, Err: kerr.ClusterAuthorizationFailed, Count: 1})
	c := newTestClient(t, cl.ListenAddrs())
	p, o := newTestProducer(t, c)
	p.Write(1, tp(0), []Out{{Topic: "out", Records: values(1, 2, nil)}})
	eventually(t, "the write answered", p.Idle)
	if r, ok := o.last(1).(delivery.Refused); !ok || !strings.Contains(r.Reason, "IDEMPOTENT_WRITE") {
		t.Errorf("write 1: %v", o.last(1))
	}
	p.Write(2, tp(0), []Out{{Topic: "out", Records: values(2, 2, nil)}}) // the right was given meanwhile
	eventually(t, "the write answered", p.Idle)
	if _, ok := o.last(2).(delivery.Written); !ok {
		t.Errorf("write 2: %v", o.last(2))
	}
}

func TestR9_UnknownForTooLongIsUnsettledAndTheEpochShutsItOut(t *testing.T) {
	cl := newCluster(t, kfake.SeedTopics(1, "out"))
	f := cl.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicasAfterAppend, Count: -1})
	c := newTestClient(t, cl.ListenAddrs())
	p, o := newTestProducer(t, c, func(cfg *ProducerConfig) { cfg.WriteTimeout = 300 * time.Millisecond })
	p.Write(1, tp(0), []Out{{Topic: "out", Records: values(1, 2, nil)}})
	eventually(t, "write 1 unknown", func() bool { return o.unknown(1) })
	p.Write(2, tp(1), []Out{{Topic: "out", Records: values(2, 2, nil)}})
	eventually(t, "write 1 answered", func() bool { return o.last(1) != nil })
	if _, ok := o.last(1).(delivery.Unsettled); !ok || !o.unknown(1) {
		t.Fatalf("write 1: %v", o.all())
	}
	f.Remove()
	p.RaiseEpoch()
	eventually(t, "write 2 answered", p.Idle)
	if _, ok := o.last(2).(delivery.Written); !ok {
		t.Fatalf("write 2: %v; it was never appended and goes out under the new epoch", o.all())
	}
	if !slices.Contains(o.all(), delivery.Event(delivery.EpochRaised{})) {
		t.Errorf("no EpochRaised: %v", o.all())
	}
	log := readAll(t, cl.ListenAddrs(), "out")["out/0"]
	if last := log[len(log)-1]; last.ProducerEpoch != 1 || string(last.Value) != "w2-001" {
		t.Errorf("the last record is %s of epoch %d", last.Value, last.ProducerEpoch)
	}
}

func TestCase56_LeadersMoveUnderLoad(t *testing.T) {
	cl := newCluster(t, kfake.NumBrokers(3), kfake.SeedTopics(1, "out"))
	c := newTestClient(t, cl.ListenAddrs())
	p, o := newTestProducer(t, c)
	slowest := time.Duration(0)
	for n := range uint64(60) {
		if n%10 == 5 {
			if err := cl.MoveTopicPartition("out", 0, int32(n/10%3)); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		p.Write(n, tp(0), []Out{{Topic: "out", Records: values(n, 5, []byte("k"))}})
		eventually(t, "a write answered", p.Idle)
		slowest = max(slowest, time.Since(began))
		if _, ok := o.last(n).(delivery.Written); !ok {
			t.Fatalf("write %d: %v", n, o.last(n))
		}
	}
	if slowest > 2*time.Second {
		t.Errorf("the slowest write took %v", slowest)
	}
	t.Logf("the slowest write took %v", slowest)
	log := readAll(t, cl.ListenAddrs(), "out")["out/0"]
	for i, r := range log {
		if want := fmt.Sprintf("w%d-%03d", i/5, i%5); string(r.Value) != want {
			t.Fatalf("record %d is %s, not %s", i, r.Value, want)
		}
	}
	if len(log) != 300 {
		t.Errorf("%d records", len(log))
	}
}

func TestBrokerAwayIsWaitedOut(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // nothing answers here, and later a broker does
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	c := newTestClient(t, []string{fmt.Sprintf("127.0.0.1:%d", port)})
	p, o := newTestProducer(t, c, func(cfg *ProducerConfig) { cfg.TopicTimeout = 50 * time.Millisecond })
	p.Write(1, tp(0), []Out{{Topic: "out", Records: values(1, 2, nil)}})
	wait, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	<-wait.Done() // past the topic's patience
	if p.Idle() {
		t.Fatalf("an outage refuses nothing: %v", o.all())
	}
	cl := newCluster(t, kfake.Ports(port), kfake.SeedTopics(1, "out"))
	eventually(t, "the write answered", p.Idle)
	if _, ok := o.last(1).(delivery.Written); !ok {
		t.Errorf("write 1: %v", o.last(1))
	}
	if n := len(readAll(t, cl.ListenAddrs(), "out")["out/0"]); n != 2 {
		t.Errorf("%d records", n)
	}
}

func TestCloseWithAWriteInFlightIsBounded(t *testing.T) {
	cl := newCluster(t, kfake.SeedTopics(1, "out"))
	asked := make(chan struct{}, 16)
	release := make(chan struct{})
	cl.ControlKey(produceKey, func(kmsg.Request) (kmsg.Response, error, bool) {
		asked <- struct{}{}
		cl.SleepControl(func() { <-release })
		return nil, nil, false
	})
	defer close(release)
	c := newTestClient(t, cl.ListenAddrs())
	o := &outcomes{}
	p := c.Produce(ProducerConfig{}, o.sink)
	p.Write(1, tp(0), []Out{{Topic: "out", Records: values(1, 2, nil)}})
	<-asked
	began := time.Now()
	if err := p.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(began); d > 2*time.Second {
		t.Errorf("Close took %v", d)
	}
	if n := len(o.all()); n != 0 {
		t.Errorf("answers %v", o.all())
	}
	if err := p.Close(testContext(t)); err != nil {
		t.Error(err)
	}
}

func TestCompressedBatchesAreReadByOthers(t *testing.T) {
	for _, codec := range []kafkago.Compression{kafkago.Gzip, kafkago.Snappy, kafkago.Lz4, kafkago.Zstd} {
		t.Run(codec.String(), func(t *testing.T) {
			cl := newCluster(t, kfake.SeedTopics(1, "out"))
			var mu sync.Mutex
			sizes := 0
			cl.ControlKey(produceKey, func(r kmsg.Request) (kmsg.Response, error, bool) {
				cl.KeepControl()
				mu.Lock()
				defer mu.Unlock()
				for _, rt := range r.(*kmsg.ProduceRequest).Topics {
					for _, rp := range rt.Partitions {
						sizes += len(rp.Records)
					}
				}
				return nil, nil, false
			})
			c := newTestClient(t, cl.ListenAddrs())
			p, _ := newTestProducer(t, c, func(cfg *ProducerConfig) { cfg.Compression = codec })
			p.Write(1, tp(0), []Out{{Topic: "out", Records: values(1, 1000, []byte("k"))}})
			p.Write(2, tp(0), []Out{{Topic: "out", Records: []record.Record{{Value: []byte("x")}}}}) // does not shrink
			eventually(t, "the writes answered", p.Idle)
			log := readAll(t, cl.ListenAddrs(), "out")["out/0"]
			if len(log) != 1001 || string(log[999].Value) != "w1-999" || string(log[1000].Value) != "x" {
				t.Fatalf("%d records", len(log))
			}
			mu.Lock()
			defer mu.Unlock()
			if sizes > 10_000 {
				t.Errorf("%d bytes were sent", sizes)
			}
		})
	}
}

func TestCase42_NothingIsWrittenBeforeTheBrokerSaysSo(t *testing.T) {
	cl := newCluster(t, kfake.SeedTopics(1, "out"))
	asked, release := make(chan struct{}), make(chan struct{})
	cl.ControlKey(produceKey, func(kmsg.Request) (kmsg.Response, error, bool) {
		close(asked)
		cl.SleepControl(func() { <-release })
		return nil, nil, false
	})
	c := newTestClient(t, cl.ListenAddrs())
	p, o := newTestProducer(t, c)
	p.Write(1, tp(0), []Out{{Topic: "out", Records: values(1, 2, nil)}})
	<-asked
	if p.Idle() || len(o.all()) != 0 {
		t.Errorf("answered before the broker did: %v", o.all())
	}
	close(release)
	eventually(t, "the write answered", p.Idle)
	if _, ok := o.last(1).(delivery.Written); !ok {
		t.Errorf("write 1: %v", o.last(1))
	}
}

func TestR7_AWithdrawnWriteDoesNotGoOutLater(t *testing.T) {
	cl := newCluster(t, kfake.SeedTopics(1, "out"))
	f := cl.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: -1})
	c := newTestClient(t, cl.ListenAddrs())
	p, o := newTestProducer(t, c)
	p.Write(1, tp(0), []Out{{Topic: "out", Records: values(1, 2, nil)}})
	p.Write(2, tp(1), []Out{{Topic: "missing", Records: values(2, 2, nil)}})
	if err := f.Wait(testContext(t), 2); err != nil {
		t.Fatal(err)
	}
	p.Withdraw(1)
	p.Withdraw(2)
	eventually(t, "the writes answered", p.Idle)
	for id := uint64(1); id <= 2; id++ {
		if _, ok := o.last(id).(delivery.Refused); !ok {
			t.Errorf("write %d: %v", id, o.last(id))
		}
	}
	f.Remove()
	p.Write(3, tp(0), []Out{{Topic: "out", Records: values(3, 1, nil)}})
	eventually(t, "write 3 answered", p.Idle)
	if log := readAll(t, cl.ListenAddrs(), "out")["out/0"]; len(log) != 1 || string(log[0].Value) != "w3-000" {
		t.Errorf("the log has %d records", len(log))
	}
}

// frozenListener is a broker that stops: its answers go nowhere, and its
// connections stay open when it is taken away.
type frozenListener struct {
	net.Listener
	frozen func() bool
}

func (l frozenListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return frozenConn{c, l.frozen}, nil
}

type frozenConn struct {
	net.Conn
	frozen func() bool
}

func (c frozenConn) Write(b []byte) (int, error) {
	if c.frozen() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c frozenConn) Close() error {
	if c.frozen() {
		return nil // the peer ends it
	}
	return c.Conn.Close()
}

func TestCase56_AFrozenLeaderIsNotWaitedForOnceTheClusterGaveItUp(t *testing.T) {
	var freeze atomic.Bool
	nodes := 0
	cl := newCluster(t, kfake.NumBrokers(2), kfake.SeedTopics(1, "out"), kfake.ListenFn(func(network, address string) (net.Listener, error) {
		l, err := net.Listen(network, address)
		nodes++
		if nodes == 2 {
			return frozenListener{l, freeze.Load}, err
		}
		return l, err
	}))
	if err := cl.MoveTopicPartition("out", 0, 1); err != nil {
		t.Fatal(err)
	}
	c := newTestClient(t, cl.ListenAddrs()[:1], func(cfg *Config) { cfg.RequestTimeout = 60 * time.Second })
	p, o := newTestProducer(t, c)
	p.Write(1, tp(0), []Out{{Topic: "out", Records: values(1, 1, nil)}})
	eventually(t, "write 1 answered", p.Idle)
	f := cl.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Observe: true, Count: -1})
	freeze.Store(true)
	p.Write(2, tp(0), []Out{{Topic: "out", Records: values(2, 1, nil)}})
	if err := f.Wait(testContext(t), 1); err != nil {
		t.Fatal(err)
	}
	if err := cl.MoveTopicPartition("out", 0, 0); err != nil {
		t.Fatal(err)
	}
	if err := cl.RemoveNode(1); err != nil {
		t.Fatal(err)
	}
	eventually(t, "write 2 answered", p.Idle)
	if _, ok := o.last(2).(delivery.Written); !ok || !o.unknown(2) {
		t.Errorf("write 2: %v", o.all())
	}
	if log := readAll(t, cl.ListenAddrs(), "out")["out/0"]; len(log) != 2 {
		t.Errorf("%d records", len(log))
	}
}
