//go:build kafka

package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ankka-flow/delivery/kafka/faultproxy"
)

// behindProxy is a pipeline on the real cluster, with a proxy before it.
func behindProxy(t *testing.T, name string, partitions int32) (*realCluster, *answering) {
	t.Helper()
	c := kafkaCluster(t)
	return c, newAnswering(c.ctx, t, strings.Split(c.brokers, ","), name, partitions)
}

// The broker of the outlet has the write and does not answer; kill -9 of the
// supervisor: nothing was committed, the input comes again.
func TestKafka_Case42_KilledBeforeTheWriteIsConfirmed(t *testing.T) {
	t.Parallel()
	c, a := behindProxy(t, "case42", 1)
	a.script = []step{muted}
	a.put(0, &kgo.Record{Key: a.keyOn(0, 0), Value: []byte("0/0")})
	p := a.run(countedCommand())
	eventually(t, "the broker has the write", func() bool { return len(a.seen(0)) > 0 && a.seen(0)[0].code == 0 })
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.exited
	if at := c.committed(a.name)[0]; at > 0 {
		t.Fatalf("committed at %d, and no write was confirmed", at)
	}
	p = a.run(countedCommand())
	a.awaitEnd()
	p.stopsWell()
	if log := a.log()[0]; fmt.Sprint(log) != "[0/0 0/0]" {
		t.Errorf("written: %v, want it again", log)
	}
}

func pause(t *testing.T, p *program) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
}

func goOn(t *testing.T, p *program) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}

// A late ack after its partition went to somebody else: emits and commit are
// dropped, the new owner delivers again, and the commit never goes back.
func TestKafka_Case43_ALateAckAfterARevoke(t *testing.T) {
	t.Parallel()
	c := kafkaCluster(t)
	c.create(1, nil, "case43.in", "case43.out")
	c.put("case43.in", numbered(0, 1)...)
	hold := newHeld(t)
	late := c.run("case43", []string{"KUBERNETES_SERVICE_HOST=x", "FLOW_METRICS_PORT=0"}, nil, misbehaves(t, "hold", "--until", hold.path))
	late.await(`holding batch 1`)
	// Its session ends while it is frozen; the partition goes to the other.
	pause(t, late)
	other := c.run("case43", []string{"KUBERNETES_SERVICE_HOST=x", "FLOW_METRICS_PORT=0"}, nil, misbehaves(t, "good"))
	c.awaitEnd("case43")
	c.put("case43.in", numbered(1, 5)...)
	c.awaitEnd("case43")
	goOn(t, late)
	hold.all()
	c.put("case43.in", numbered(5, 10)...)
	c.awaitEnd("case43")
	if at := c.committed("case43")[0]; at != 10 {
		t.Errorf("committed at %d, want 10", at)
	}
	late.stopsWell()
	other.stopsWell()
	if out := c.read("case43.out")[0]; keys(out) != keys(numbered(0, 10)) {
		t.Errorf("written: %s", keys(out))
	}
}

// SIGTERM with work everywhere, again and again: what is begun is finished and
// nothing comes twice.
func TestKafka_Case47_StopWithWorkEverywhere(t *testing.T) {
	t.Parallel()
	_, a := behindProxy(t, "case47", 3)
	a.maxRecords = 3
	for round := range 4 {
		p := a.run(countedCommand())
		p.await(`ready`)
		for partition := range int32(3) {
			var records []*kgo.Record
			for i := range 30 {
				records = append(records, &kgo.Record{Key: []byte(fmt.Sprintf("k%d-%d", partition, i%5)), Value: []byte(fmt.Sprintf("%d/%d", partition, round*30+i))})
			}
			a.put(partition, records...)
		}
		p.stopsWell()
	}
	p := a.run(countedCommand())
	p.await(`ready`)
	a.awaitEnd()
	p.stopsWell()
	a.everyOnce(3, 120)
}

// Too large together is split by the broker's own limit, alone it is named; so
// is a topic that does not exist, and both go on when the cause is gone.
func TestKafka_Case50_TooLargeAndMissing(t *testing.T) {
	t.Parallel()
	c := kafkaCluster(t)
	c.create(1, nil, "case50.in")
	c.create(1, map[string]*string{"max.message.bytes": text("20000")}, "case50.out")
	var small []*kgo.Record
	for i := range 50 {
		small = append(small, &kgo.Record{Key: []byte(strconv.Itoa(i)), Value: bytes.Repeat([]byte{'x'}, 1000)})
	}
	c.put("case50.in", small...)
	p := c.run("case50", []string{"FLOW_RECONNECT_MAX_BACKOFF=1s"}, nil, misbehaves(t, "good"))
	c.awaitEnd("case50")
	c.put("case50.in", &kgo.Record{Key: []byte("large"), Value: bytes.Repeat([]byte{'x'}, 30000)})
	p.await(`WRN failed +inlet in: case50\.in/0@50: .*case50\.out/0: code 10 .*max\.message\.bytes`)
	if at := c.committed("case50")[0]; at != 50 {
		t.Errorf("committed at %d, want 50", at)
	}
	if _, err := c.admin.AlterTopicConfigs(c.ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: text("100000")}}, "case50.out"); err != nil {
		t.Fatal(err)
	}
	c.awaitEnd("case50")
	p.stopsWell()
	c.sameRecords("case50", 0)

	c.put("case50.in", numbered(0, 1)...)
	p = c.run("case50", []string{"FLOW_RECONNECT_MAX_BACKOFF=1s"}, []string{"--topic", "out=case50.missing"}, misbehaves(t, "good"))
	p.await(`WRN failed +inlet in: case50\.in/0@51: .*refused: topic case50\.missing does not exist`)
	if at := c.committed("case50")[0]; at != 51 {
		t.Errorf("committed at %d, want 51", at)
	}
	c.create(1, nil, "case50.missing")
	c.awaitEnd("case50")
	p.stopsWell()
	if out := c.read("case50.missing")[0]; keys(out) != keys(numbered(0, 1)) {
		t.Errorf("written: %s", keys(out))
	}
}

// quotas sets how many bytes a second a client may write and read.
func (c *realCluster) quotas(entity kadm.ClientQuotaEntity, rates map[string]float64) {
	c.t.Helper()
	entry := kadm.AlterClientQuotaEntry{Entity: entity}
	for key, rate := range rates {
		entry.Ops = append(entry.Ops, kadm.AlterClientQuotaOp{Key: key, Value: rate})
	}
	altered, err := c.admin.AlterClientQuotas(c.ctx, []kadm.AlterClientQuotaEntry{entry})
	for _, one := range altered {
		err = errors.Join(err, one.Err)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// lead gives every partition of topics the same leader.
func (c *realCluster) lead(node int32, topics ...string) {
	c.t.Helper()
	var described kadm.TopicDetails
	eventually(c.t, "the topics are known", func() bool {
		var err error
		described, err = c.admin.ListTopics(c.ctx, topics...)
		known := err == nil
		for _, topic := range topics {
			known = known && c.everyBrokerKnows(topic, int32(len(described[topic].Partitions))) && len(described[topic].Partitions) > 0
		}
		return known
	})
	request, elect := kadm.AlterPartitionAssignmentsReq{}, kadm.TopicsSet{}
	described.EachPartition(func(p kadm.PartitionDetail) {
		request.Assign(p.Topic, p.Partition, []int32{node, node%3 + 1, (node+1)%3 + 1})
		elect.Add(p.Topic, p.Partition)
	})
	if _, err := c.admin.AlterPartitionAssignments(c.ctx, request); err != nil {
		c.t.Fatal(err)
	}
	eventually(c.t, fmt.Sprintf("broker %d leads", node), func() bool {
		_, _ = c.admin.ElectLeaders(c.ctx, kadm.ElectPreferredReplica, elect) // it leads already, perhaps
		described, err := c.admin.ListTopics(c.ctx, topics...)
		all := err == nil
		described.EachPartition(func(p kadm.PartitionDetail) { all = all && p.Leader == node && len(p.ISR) == 3 })
		return all
	})
}

// waits is what answers ask to be waited, by broker and kind of request, and
// how many requests came too early.
type waits struct {
	mu     sync.Mutex
	said   map[string]time.Time // when it was asked last
	until  map[string]time.Time
	asked  map[kmsg.Key]int
	passed map[kmsg.Key]int // requests behind such an answer
	early  []string
}

func (w *waits) place(r *faultproxy.Request) string {
	return fmt.Sprintf("%s to broker %d", r.Key.Name(), r.Broker+1)
}

func (w *waits) came(r *faultproxy.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	until, held := w.until[w.place(r)]
	if !held {
		return
	}
	w.passed[r.Key]++
	if left := time.Until(until); left > 0 && time.Since(w.said[w.place(r)]) > time.Second { // what was on its way then could not know
		w.early = append(w.early, fmt.Sprintf("%s, %v too early", w.place(r), left))
	}
}

func (w *waits) answered(r *faultproxy.Request, millis int32) {
	if millis <= 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked[r.Key]++
	w.said[w.place(r)] = time.Now()
	w.until[w.place(r)] = time.Now().Add(time.Duration(millis) * time.Millisecond)
}

// Quotas, one of a user with a client id and one of a client id: a throttled
// fetch answers without topics and a throttled write is written. What the
// answers ask to be waited, the client waits (KIP-219), it says so, and
// everything comes through, once and in order.
func TestKafka_Quotas(t *testing.T) {
	t.Parallel()
	c, a := behindProxy(t, "quota", 1)
	c.lead(1, "quota.in", "quota.out") // one broker, whose connections are pooled
	// Twice as much may be read as written, so that writes are held back on a slow
	// machine too.
	c.quotas(kadm.ClientQuotaEntity{{Type: "user", Name: text("ANONYMOUS")}, {Type: "client-id", Name: text("quota")}}, map[string]float64{"producer_byte_rate": 20_000})
	c.quotas(kadm.ClientQuotaEntity{{Type: "client-id", Name: text("quota.case.in")}}, map[string]float64{"consumer_byte_rate": 40_000})
	w := &waits{said: map[string]time.Time{}, until: map[string]time.Time{}, asked: map[kmsg.Key]int{}, passed: map[kmsg.Key]int{}}
	a.before = func(r *faultproxy.Request) (faultproxy.Plan, bool) { w.came(r); return faultproxy.Plan{}, false }
	a.throttled = w.answered
	a.maxRecords = 10
	noise := make([]byte, 10_000) // which no compression makes smaller
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	for i := range 60 {
		a.put(0, &kgo.Record{Key: []byte("k"), Value: append([]byte(fmt.Sprintf("0/%d ", i)), noise...)})
	}
	began := time.Now()
	p := a.run(countedCommand())
	for _, doing := range []string{"reading", "writing"} {
		p.await(`WRN .*a quota of the cluster holds back ` + doing + ` \(client id .*quota`)
	}
	a.awaitEnd()
	w.mu.Lock()
	defer w.mu.Unlock()
	t.Logf("600 KB at 20 KB/s, ten seconds' worth of it at once: %v; %d writes and %d fetches were throttled", time.Since(began).Round(time.Second), w.asked[kmsg.Produce], w.asked[kmsg.Fetch])
	for _, key := range []kmsg.Key{kmsg.Produce, kmsg.Fetch} {
		if w.asked[key] == 0 || w.passed[key] == 0 {
			t.Errorf("%s: %d answers asked for a wait, %d requests came behind", key.Name(), w.asked[key], w.passed[key])
		}
	}
	if len(w.early) > 0 {
		t.Errorf("%d requests came before the wait was over: %v", len(w.early), w.early)
	}
	tries := a.seen(0)
	for i := 1; i < len(tries); i++ {
		if bytes.Equal(tries[i].bytes, tries[i-1].bytes) {
			t.Error("a write was sent again: it waited on a connection that the broker did not read")
		}
	}
	p.stopsWell()
	a.everyOnce(1, 60)
}

// kill -9 of a leader with writes on their way: nothing is lost, nothing comes
// twice, and the order holds.
func TestKafka_KilledLeaderWithAWriteInFlight(t *testing.T) {
	c, a := behindProxy(t, "leader", 2)
	var began = make(chan struct{})
	p := a.run(countedCommand())
	p.await(`ready`)
	a.fill(2, 5)
	a.awaitEnd()
	a.mu.Lock()
	a.script = []step{muted} // the broker has it, and dies before it says so
	a.mu.Unlock()
	go func() { // ends when the write is seen; awaited by began
		defer close(began)
		eventually(t, "a write is on its way", func() bool { return len(a.seen(0)) > 0 && a.seen(0)[len(a.seen(0))-1].step.mute })
	}()
	for i := 5; i < 10; i++ {
		a.put(0, &kgo.Record{Key: a.keyOn(0, i), Value: []byte(fmt.Sprintf("0/%d", i))})
		a.put(1, &kgo.Record{Key: a.keyOn(1, i), Value: []byte(fmt.Sprintf("1/%d", i))})
	}
	<-began
	tries := a.seen(0)
	node := strconv.Itoa(tries[len(tries)-1].request.Broker + 1)
	back := c.away("kill", node)
	a.awaitEnd()
	back()
	p.stopsWell()
	a.everyOnce(2, 10)
}
