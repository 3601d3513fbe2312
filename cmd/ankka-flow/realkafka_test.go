//go:build kafka

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// realCluster is the Apache Kafka of three brokers that scripts/test-kafka
// started, with franz-go to look at it.
type realCluster struct {
	t   *testing.T
	ctx context.Context
	// brokers is every address, separated by commas, as --brokers takes them.
	brokers string
	client  *kgo.Client
	admin   *kadm.Client
}

// realLimit bounds a test on the cluster. It is for a machine where a broker takes a
// minute to start instead of five seconds.
const realLimit = 15 * time.Minute

// kafkaCluster connects to the cluster, with options for franz-go.
func kafkaCluster(t *testing.T, options ...kgo.Opt) *realCluster {
	t.Helper()
	c := &realCluster{t: t}
	for _, line := range strings.Split(c.script("env"), "\n") {
		if addresses, ok := strings.CutPrefix(line, "KAFKA_PLAINTEXT="); ok {
			c.brokers = addresses
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), realLimit)
	t.Cleanup(cancel)
	c.ctx = ctx
	c.client = c.franz(options...)
	c.admin = kadm.NewClient(c.client)
	return c
}

// franz is another franz-go client of the cluster.
func (c *realCluster) franz(options ...kgo.Opt) *kgo.Client {
	c.t.Helper()
	seeds := []kgo.Opt{kgo.SeedBrokers(strings.Split(c.brokers, ",")...), kgo.MetadataMinAge(100 * time.Millisecond)}
	client, err := kgo.NewClient(append(seeds, options...)...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(client.Close)
	return client
}

// kafkaTool is scripts/kafka with arguments.
func kafkaTool(args ...string) *exec.Cmd {
	return exec.Command(filepath.Join(repository, "scripts/kafka"), args...)
}

func (c *realCluster) script(args ...string) string {
	c.t.Helper()
	out, err := kafkaTool(args...).CombinedOutput()
	if err != nil {
		c.t.Fatalf("scripts/kafka %s (scripts/test-kafka starts the cluster): %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// away kills or stops brokers, or pauses them. back brings them back and waits
// until the cluster is whole; the end of the test does so too, whatever became
// of it, since the next test is to find a whole cluster.
func (c *realCluster) away(how string, nodes ...string) (back func()) {
	c.t.Helper()
	c.script(append([]string{how}, nodes...)...)
	are := false
	back = func() {
		c.t.Helper()
		if are {
			return
		}
		c.script(append([]string{"start"}, nodes...)...)
		c.awaitWhole()
		are = true
	}
	c.t.Cleanup(back)
	return back
}

// awaitWhole waits until every partition has its leader and all its copies, the
// cluster's own topics included.
func (c *realCluster) awaitWhole() {
	c.t.Helper()
	admin := kadm.NewClient(c.franz())
	eventually(c.t, "the cluster is whole", func() bool {
		listed, err := admin.ListTopicsWithInternal(context.Background())
		whole := err == nil
		listed.EachPartition(func(p kadm.PartitionDetail) { whole = whole && p.Leader >= 0 && len(p.ISR) == len(p.Replicas) })
		return whole
	})
}

// create makes topics of three copies and waits for their leaders.
func (c *realCluster) create(partitions int32, configs map[string]*string, topics ...string) {
	c.t.Helper()
	made, err := c.admin.CreateTopics(c.ctx, partitions, 3, configs, topics...)
	if err == nil {
		err = made.Error()
	}
	if err != nil {
		c.t.Fatal(err)
	}
	for _, topic := range topics {
		eventually(c.t, topic+" has leaders", func() bool { return c.hasLeaders(topic, partitions) })
	}
}

func (c *realCluster) hasLeaders(topic string, partitions int32) bool {
	c.t.Helper()
	described, err := c.admin.ListTopics(c.ctx, topic)
	if err != nil {
		c.t.Fatal(err)
	}
	led := 0
	for _, p := range described[topic].Partitions {
		if p.Err == nil && p.Leader >= 0 && len(p.ISR) == 3 {
			led++
		}
	}
	return led == int(partitions) && c.everyBrokerKnows(topic, partitions)
}

// everyBrokerKnows asks each broker: one knows of a new topic before another,
// which a writer's first request may meet.
func (c *realCluster) everyBrokerKnows(topic string, partitions int32) bool {
	c.t.Helper()
	for node := 1; node <= 3; node++ {
		request := kmsg.NewPtrMetadataRequest()
		one := kmsg.NewMetadataRequestTopic()
		one.Topic = &topic
		request.Topics = append(request.Topics, one)
		answer, err := request.RequestWith(c.ctx, c.client.Broker(node))
		if err != nil || len(answer.Topics) != 1 || answer.Topics[0].ErrorCode != 0 || len(answer.Topics[0].Partitions) != int(partitions) {
			return false
		}
		for _, p := range answer.Topics[0].Partitions {
			if p.Leader < 0 {
				return false
			}
		}
	}
	return true
}

// put writes records and fails the test when one is refused.
func (c *realCluster) put(topic string, records ...*kgo.Record) {
	c.t.Helper()
	for _, r := range records {
		r.Topic = topic
	}
	if err := c.client.ProduceSync(c.ctx, records...).FirstErr(); err != nil {
		c.t.Fatal(err)
	}
}

// numbered are records whose keys and values carry the numbers of a range.
func numbered(from, to int) []*kgo.Record {
	var records []*kgo.Record
	for n := from; n < to; n++ {
		records = append(records, &kgo.Record{Key: []byte(fmt.Sprintf("k%d", n)), Value: []byte(fmt.Sprintf("v%d", n))})
	}
	return records
}

// read is everything in a topic that read_committed sees, by partition in log
// order.
func (c *realCluster) read(topic string) map[int32][]*kgo.Record {
	c.t.Helper()
	return c.readWith(topic, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
}

func (c *realCluster) readWith(topic string, options ...kgo.Opt) map[int32][]*kgo.Record {
	c.t.Helper()
	options = append(options, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.KeepControlRecords())
	client := c.franz(options...)
	defer client.Close()
	ends, err := c.admin.ListEndOffsets(c.ctx, topic)
	if err != nil {
		c.t.Fatal(err)
	}
	logs := map[int32][]*kgo.Record{}
	left := map[int32]int64{}
	ends.Each(func(end kadm.ListedOffset) {
		if end.Offset > 0 {
			left[end.Partition] = end.Offset
		}
	})
	for len(left) > 0 {
		fetches := client.PollFetches(c.ctx)
		if err := fetches.Err(); err != nil {
			c.t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				logs[r.Partition] = append(logs[r.Partition], r)
			}
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	return logs
}

// flat is every partition's records, one partition after another.
func flat(logs map[int32][]*kgo.Record) []*kgo.Record {
	var all []*kgo.Record
	for _, p := range slices.Sorted(maps.Keys(logs)) {
		all = append(all, logs[p]...)
	}
	return all
}

// run starts the program on the cluster with the streamlet "case", whose inlet
// and outlet are the topics NAME.in and NAME.out; the pipeline, and so the
// group, has that name too.
func (c *realCluster) run(name string, env, flags, command []string) *program {
	c.t.Helper()
	args := append([]string{"--log-format", "text", "run", "-b", c.brokers, "--pipeline", name}, flags...)
	args = append(append(args, "--"), command...)
	dir := filepath.Join(c.t.TempDir())
	return startProgram(c.t, programOptions{dir: dir, env: append([]string{"FLOW_SESSION_TIMEOUT=6s"}, env...)}, args...)
}

func groupOf(name string) string { return name + ".case.in" }

// committed is a group's offset on every partition of its inlet.
func (c *realCluster) committed(name string) map[int32]int64 {
	c.t.Helper()
	offsets, err := c.admin.FetchOffsets(c.ctx, groupOf(name))
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		c.t.Logf("the commits of %s: %v", name, err)
		return nil
	}
	at := map[int32]int64{}
	offsets.Each(func(o kadm.OffsetResponse) { at[o.Partition] = o.At })
	return at
}

// awaitEnd waits until a group has committed the end of its inlet, ranges
// without records included.
func (c *realCluster) awaitEnd(name string) {
	c.t.Helper()
	ends, err := c.admin.ListEndOffsets(c.ctx, name+".in")
	if err != nil {
		c.t.Fatal(err)
	}
	eventually(c.t, name+" is committed to its end", func() bool {
		at, done := c.committed(name), true
		ends.Each(func(end kadm.ListedOffset) { done = done && at[end.Partition] >= end.Offset })
		return done
	})
}

// sameRecords compares key, value and headers of two partitions' logs.
func (c *realCluster) sameRecords(name string, partition int32) {
	c.t.Helper()
	in, out := c.read(name + ".in")[partition], c.read(name + ".out")[partition]
	if len(in) != len(out) {
		c.t.Fatalf("%s: %d records in, %d out", name, len(in), len(out))
	}
	for i := range in {
		compareRecord(c.t, name+".out", out[i], in[i], partition)
	}
}

func text(s string) *string { return &s }

// Aborted records and markers are never delivered, committed ones are, whatever
// codec and timestamp kind; what comes out is what franz-go reads.
func TestKafka_Case51_ReadsWhatIsCommitted(t *testing.T) {
	t.Parallel()
	c := kafkaCluster(t)
	c.create(1, nil, "tx.in", "tx.out")
	writer := c.franz(kgo.TransactionalID("tx"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for i := range 30 {
		if err := writer.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		records := numbered(10*i, 10*i+10)
		for _, r := range records {
			r.Topic = "tx.in"
		}
		if err := writer.ProduceSync(c.ctx, records...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := writer.EndTransaction(c.ctx, kgo.TransactionEndTry(i%3 != 1)); err != nil {
			t.Fatal(err)
		}
	}
	p := c.run("tx", nil, []string{"--until-end"}, misbehaves(t, "good"))
	p.endsWith(0)
	if n := len(c.read("tx.out")[0]); n != 200 {
		t.Errorf("%d records, want the 200 of the committed transactions", n)
	}
	c.sameRecords("tx", 0)
	c.awaitEnd("tx")
}

// Every codec as franz-go and Kafka's own producer write it, a LogAppendTime
// topic, nulls and empties.
func TestKafka_Case49_CodecsAndTimestamps(t *testing.T) {
	t.Parallel()
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	c := kafkaCluster(t)
	c.create(1, map[string]*string{"message.timestamp.type": text("LogAppendTime")}, "codecs.in", "codecs.out")
	for _, name := range slices.Sorted(maps.Keys(codecs)) {
		writer := c.franz(kgo.ProducerBatchCompression(codecs[name]), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		records := numbered(0, 500)
		for i, r := range records {
			r.Topic = "codecs.in"
			switch i % 5 {
			case 1:
				r.Value = nil
			case 2:
				r.Value = []byte{}
			case 3:
				r.Key = nil
			case 4:
				r.Headers = []kgo.RecordHeader{{Key: "a", Value: nil}, {Key: "a", Value: []byte{}}, {Key: "", Value: []byte(name)}}
			}
		}
		if err := writer.ProduceSync(c.ctx, records...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		java := kafkaTool("tool", "ConsoleProducer", "--bootstrap-server", c.brokers, "--topic", "codecs.in",
			"--compression-codec", name, "--property", "parse.key=true", "--property", "key.separator=:")
		java.Stdin = strings.NewReader(strings.Repeat("java:"+name+" "+strings.Repeat("x", 50)+"\n", 500))
		if out, err := java.CombinedOutput(); err != nil {
			t.Fatalf("Java's producer: %v\n%s", err, out)
		}
	}
	p := c.run("codecs", nil, []string{"--until-end"}, misbehaves(t, "good"))
	p.endsWith(0)
	if n := len(c.read("codecs.out")[0]); n != 5000 {
		t.Errorf("%d records, want 5000", n)
	}
	c.sameRecords("codecs", 0)
}

// Compaction leaves batches without their last records, empty ones and missing
// ranges: what survives comes out once, and the commit reaches the end.
func TestKafka_Case52_Compacted(t *testing.T) {
	t.Parallel()
	c := kafkaCluster(t)
	c.create(1, map[string]*string{
		"cleanup.policy": text("compact"), "segment.ms": text("200"), "min.cleanable.dirty.ratio": text("0.001"),
		"min.compaction.lag.ms": text("0"), "delete.retention.ms": text("0"),
	}, "compact.in")
	c.create(1, nil, "compact.out")
	for i := range 40 {
		records := numbered(0, 10)
		records = append(records, numbered(1000+i, 1001+i)...) // one that survives, so not the tail alone is left
		if i%4 == 0 {
			slices.Reverse(records)
		}
		c.put("compact.in", records...)
	}
	for range 3 { // the newest batch of a producer stays, though nothing of it is left
		writer := c.franz()
		for _, r := range numbered(0, 10) {
			r.Topic = "compact.in"
			if err := writer.ProduceSync(c.ctx, r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		writer.Close()
	}
	all, empty := 0, 0
	eventually(t, "the cleaner has left holes and empty batches", func() bool {
		// A segment is closed by a record that comes later than its time.
		c.put("compact.in", numbered(0, 10)...)
		all, empty = c.batches("compact.in", 0)
		return empty >= 3 && len(c.read("compact.in")[0]) < 200
	})
	t.Logf("the cleaner left %d batches, %d of them empty", all, empty)
	p := c.run("compact", nil, []string{"--until-end"}, misbehaves(t, "good"))
	p.endsWith(0)
	c.awaitEnd("compact")
	got := map[string]bool{}
	for _, r := range c.read("compact.out")[0] {
		got[string(r.Key)] = true
	}
	if len(got) != 50 {
		t.Errorf("%d keys came out, want 50", len(got))
	}
}

// What consume prints is what produce takes: a round trip through two topics.
func TestKafka_ProduceAndConsume(t *testing.T) {
	t.Parallel()
	c := kafkaCluster(t)
	c.create(3, nil, "trip.a", "trip.b")
	for i := range 3 {
		records := numbered(0, 100)
		for _, r := range records {
			r.Partition = int32(i)
			r.Headers = []kgo.RecordHeader{{Key: "h", Value: []byte{0xff}}, {Key: "h", Value: nil}}
		}
		records[7].Value, records[8].Key, records[9].Value = nil, nil, []byte{}
		manual := c.franz(kgo.RecordPartitioner(kgo.ManualPartitioner()))
		for _, r := range records {
			r.Topic = "trip.a"
		}
		if err := manual.ProduceSync(c.ctx, records...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	for partition := range 3 {
		p := strconv.Itoa(partition)
		code, lines, _ := runProgram(t, programOptions{}, "consume", "-b", c.brokers, "-e", "-o", "start", "-p", p, "trip.a")
		if code != 0 || strings.Count(lines, "\n") != 100 {
			t.Fatalf("consume: exit code %d, %d lines", code, strings.Count(lines, "\n"))
		}
		code, _, stderr := runProgram(t, programOptions{stdin: lines}, "produce", "-b", c.brokers, "-p", p, "trip.b")
		if code != 0 || !strings.Contains(stderr, "100 records written") {
			t.Fatalf("produce: exit code %d: %s", code, stderr)
		}
	}
	a, b := c.read("trip.a"), c.read("trip.b")
	for partition := range int32(3) {
		if len(b[partition]) != 100 {
			t.Fatalf("partition %d has %d records, want 100", partition, len(b[partition]))
		}
		for i, r := range a[partition] {
			compareRecord(t, "trip.b", b[partition][i], r, partition)
		}
	}
}

// A topic that is deleted and made again while its supervisor runs: nothing of
// the new topic is jumped over (R11).
func TestKafka_R11_TopicMadeAgain(t *testing.T) {
	t.Parallel()
	for _, wait := range []bool{true, false} {
		name := "again-" + strconv.FormatBool(wait)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := kafkaCluster(t)
			c.create(1, nil, name+".in", name+".out")
			c.put(name+".in", numbered(0, 100)...)
			p := c.run(name, nil, nil, misbehaves(t, "good"))
			c.awaitEnd(name)
			at := p.count()
			if _, err := c.admin.DeleteTopics(c.ctx, name+".in"); err != nil {
				t.Fatal(err)
			}
			if wait {
				p.awaitFrom(at, `does not exist.*`+name+`\.in`)
			}
			eventually(t, "the topic is made again", func() bool {
				made, err := c.admin.CreateTopic(c.ctx, 1, 3, nil, name+".in")
				return err == nil && made.Err == nil
			})
			eventually(t, "it has a leader", func() bool { return c.hasLeaders(name+".in", 1) })
			c.client = c.franz() // which does not know the old topic
			c.put(name+".in", numbered(1000, 1300)...)
			eventually(t, "every record of the new topic came out", func() bool {
				got := map[string]bool{}
				for _, r := range c.read(name + ".out")[0] {
					got[string(r.Key)] = true
				}
				return len(got) == 400
			})
			// The brokers count: a join at the start, and one or two for each of the
			// topic's changes.
			if g := c.generation(groupOf(name)); g > 6 {
				t.Errorf("generation %d: the group joined in a storm", g)
			}
			p.stopsWell()
		})
	}
}

// A topic that needs three copies, with one broker away: the write waits, and
// goes on by itself.
func TestKafka_NotEnoughReplicas(t *testing.T) {
	c := kafkaCluster(t)
	c.create(1, nil, "copies.in")
	c.create(1, map[string]*string{"min.insync.replicas": text("3")}, "copies.out")
	p := c.run("copies", nil, nil, misbehaves(t, "good"))
	p.await(`ready`)
	back := c.away("kill", "2")
	c.put("copies.in", numbered(0, 10)...)
	eventually(t, "only two copies are in sync", func() bool {
		described, err := c.admin.ListTopics(c.ctx, "copies.out")
		return err == nil && len(described["copies.out"].Partitions[0].ISR) == 2
	})
	c.put("copies.in", numbered(10, 20)...)
	back()
	c.awaitEnd("copies")
	out := c.read("copies.out")[0]
	if keys(out) != keys(numbered(0, 20)) {
		t.Errorf("written: %s, want every record once", keys(out))
	}
	p.stopsWell()
}
