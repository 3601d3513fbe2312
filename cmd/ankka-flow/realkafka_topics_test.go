//go:build kafka

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// twoInlets is a streamlet with the inlets in and late.
func twoInlets(t *testing.T) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "streamlet.py")
	text := `from ankka_flow import JsonInlet, JsonOutlet, Streamlet, serve
class Case(Streamlet):
    name = "case"
    inlet = JsonInlet("in", schema_name="any")
    late = JsonInlet("late", schema_name="any")
    out = JsonOutlet("out", schema_name="any")
    def process_record(self, record, ctx):
        return self.out.emit(record)
serve(Case())
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"python3", path}
}

// A topic that is missing beside one that exists, made after the start, grown
// while two members run, and deleted: each is said or taken up within seconds,
// new partitions are read from their first record, and the groups do not join
// in a storm.
func TestKafka_Case54_TopicsComeGrowAndGo(t *testing.T) {
	t.Parallel()
	c := kafkaCluster(t)
	c.create(2, nil, "grow.in", "grow.out")
	begin := time.Now()
	a := c.run("grow", nil, nil, twoInlets(t))
	a.await(`WRN topics +.*grow\.late.*waited for`)
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("the missing topic was named after %.1f s", took.Seconds())
	}
	c.put("grow.in", numbered(0, 100)...)
	total := func(n int) {
		t.Helper()
		eventually(t, fmt.Sprintf("%d keys came out", n), func() bool { return len(c.seen("grow")) == n })
	}
	total(100) // the inlet whose topic is there does not wait for the other
	c.create(1, nil, "grow.late")
	c.put("grow.late", numbered(100, 150)...)
	total(150)

	b := c.run("grow", nil, nil, twoInlets(t))
	c.awaitAssigned("grow", 1, 1)
	if _, err := c.admin.UpdatePartitions(c.ctx, 5, "grow.in"); err != nil {
		t.Fatal(err)
	}
	begin = time.Now()
	eventually(t, "the new partitions have leaders", func() bool { return c.hasLeaders("grow.in", 5) })
	writer := c.franz(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for i, r := range numbered(150, 200) { // at once, before anybody of ours looks
		r.Topic, r.Partition = "grow.in", int32(2+i%3)
		eventually(t, "it is written to the new partition", func() bool {
			writer.ForceMetadataRefresh() // one broker knows of it before another
			return writer.ProduceSync(c.ctx, r).FirstErr() == nil
		})
	}
	c.awaitAssigned("grow", 2, 3)
	total(200)
	t.Logf("new partitions were shared and read %.1f s after they were there", time.Since(begin).Seconds())

	at, before := a.count(), c.generation(groupOf("grow"))
	if _, err := c.admin.DeleteTopics(c.ctx, "grow.late"); err != nil {
		t.Fatal(err)
	}
	a.awaitFrom(at, `WRN .*does not exist.*grow\.late`)
	c.put("grow.in", numbered(200, 300)...)
	total(300)
	for group, most := range map[string]int32{groupOf("grow"): before, "grow.case.late": 10} {
		if g := c.generation(group); g > most {
			t.Errorf("group %s is at generation %d, want at most %d", group, g, most)
		}
	}
	if before > 10 {
		t.Errorf("generation %d after two joins and one growth", before)
	}
	a.stopsWell()
	b.stopsWell()
}

// A committed offset behind the log's end, or before its start: that partition
// is blocked and says where and why, its commit stays, the others go on; with
// the policy it goes on where that says (R11).
func TestKafka_Case58_OffsetsOutsideTheLog(t *testing.T) {
	t.Parallel()
	c := kafkaCluster(t)
	c.create(3, nil, "outside.in", "outside.out")
	for n := range 20 {
		c.onePerPartition("outside.in", 3, fmt.Sprintf("k%d", n))
	}
	if _, err := c.admin.DeleteRecords(c.ctx, offsetsOf("outside.in", map[int32]int64{0: 10})); err != nil {
		t.Fatal(err)
	}
	set := map[int32]int64{0: 5, 1: 50, 2: 15}
	if err := c.admin.CommitAllOffsets(c.ctx, groupOf("outside"), offsetsOf("outside.in", set)); err != nil {
		t.Fatal(err)
	}
	p := c.run("outside", nil, nil, misbehaves(t, "good"))
	p.await(`ERR .*outside\.in/0 cannot be read on: offset 5 .*outside the log.*10 to 20.*auto\.offset\.reset`)
	p.await(`ERR .*outside\.in/1 cannot be read on: offset 50 .*outside the log.*0 to 20`)
	eventually(t, "the healthy partition goes on", func() bool { return c.committed("outside")[2] == 20 })
	if at := c.committed("outside"); at[0] != 5 || at[1] != 50 {
		t.Errorf("committed at %v, want 5 and 50 still on 0 and 1", at)
	}
	if out := flat(c.read("outside.out")); len(out) != 5 {
		t.Errorf("%d records came out, want the 5 of the healthy partition", len(out))
	}
	p.stopsWell()
	p = c.run("outside", nil, []string{"-c", c.config("auto.offset.reset: earliest")}, misbehaves(t, "good"))
	c.awaitEnd("outside")
	if out := flat(c.read("outside.out")); len(out) != 5+10+20 {
		t.Errorf("%d records came out, want 35: from the log's start where the offset was outside", len(out))
	}
	p.stopsWell()
}

func offsetsOf(topic string, at map[int32]int64) kadm.Offsets {
	offsets := kadm.Offsets{}
	for p, o := range at {
		offsets.AddOffset(topic, p, o, -1)
	}
	return offsets
}

// requestLog lets every broker write each request that it gets to its log, or
// no longer.
func (c *realCluster) requestLog(level string) {
	c.t.Helper()
	for _, node := range []string{"1", "2", "3"} {
		request := kmsg.NewPtrIncrementalAlterConfigsRequest()
		resource := kmsg.NewIncrementalAlterConfigsRequestResource()
		resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeBrokerLogger, node
		config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		config.Name, config.Value = "kafka.request.logger", &level
		resource.Configs = append(resource.Configs, config)
		request.Resources = append(request.Resources, resource)
		var id int32
		if _, err := fmt.Sscan(node, &id); err != nil {
			c.t.Fatal(err)
		}
		answer, err := c.client.Broker(int(id)).RetriableRequest(c.ctx, request)
		if err != nil {
			c.t.Fatal(err)
		}
		for _, r := range answer.(*kmsg.IncrementalAlterConfigsResponse).Resources {
			if r.ErrorCode != 0 {
				c.t.Fatalf("broker %s: code %d, %s", node, r.ErrorCode, *r.ErrorMessage)
			}
		}
	}
}

// On a cluster with 2,000 topics only ours are asked for.
func TestKafka_TwoThousandTopics(t *testing.T) {
	t.Parallel()
	c := kafkaCluster(t)
	c.create(1, nil, "many.in", "many.out")
	var names []string
	for n := range 2000 {
		names = append(names, fmt.Sprintf("many-%04d", n))
	}
	for i := 0; i < len(names); i += 500 {
		made, err := c.admin.CreateTopics(c.ctx, 1, 1, nil, names[i:i+500]...)
		if err == nil {
			err = made.Error()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	c.requestLog("DEBUG")
	begin := time.Now()
	p := c.run("many", nil, []string{"-c", c.config("client.id: one-of-many")}, misbehaves(t, "good"))
	c.put("many.in", numbered(0, 100)...)
	c.awaitEnd("many")
	t.Logf("started and committed %.1f s after the start beside 2,000 topics; peak memory %d KiB", time.Since(begin).Seconds(), peakMemory(t, p.cmd.Process.Pid))
	p.stopsWell()
	c.requestLog("INFO")
	asked := 0
	ours := regexp.MustCompile(`"clientId":"(one-of-many|ankka-flow)"`)
	for _, node := range []string{"1", "2", "3"} {
		log, err := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(c.setting("KAFKA_CA"))), node, "kafka.log"))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(string(log), "\n") {
			if !strings.Contains(line, `"requestApiKeyName":"METADATA"`) || !ours.MatchString(line) {
				continue
			}
			asked++
			if strings.Contains(line, `"topics":null`) || strings.Contains(line, "many-0") {
				t.Fatalf("every topic was asked for: %.600s", line)
			}
		}
	}
	if asked == 0 {
		t.Error("no Metadata request of ours is in the brokers' logs")
	}
	if _, err := c.admin.DeleteTopics(c.ctx, names...); err != nil {
		t.Error(err)
	}
}
