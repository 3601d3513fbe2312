//go:build kafka

package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/twmb/franz-go/pkg/kgo"
)

// lagOf is the lag's series of a partition of a run's inlet.
func lagOf(name string, partition int) string {
	return fmt.Sprintf(`kafka_consumer_consumer_fetch_manager_metrics_records_lag{client_id="%s.case.in",partition="%d",topic="%s_in"}`, name, partition, name)
}

// On a real broker too the lag is right within a second: idle, growing, with the
// records of a transaction that is open, committed or aborted, and its markers.
func TestKafka_LagWithTransactions(t *testing.T) {
	t.Parallel()
	c := kafkaCluster(t)
	c.create(1, nil, "lagtx.in", "lagtx.out")
	hold := newHeld(t)
	p := c.run("lagtx", nil, nil, misbehaves(t, "hold", "--until", hold.path))
	url := statusOf(p)
	lag := lagOf("lagtx", 0)
	lagWithin(t, url, lag, 0)
	for i := range 3 {
		c.put("lagtx.in", numbered(i, i+1)...)
		lagWithin(t, url, lag, float64(i+1))
	}
	hold.all()
	c.awaitEnd("lagtx")
	lagWithin(t, url, lag, 0)
	writer := c.franz(kgo.TransactionalID("lagtx"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for i := range 4 {
		if err := writer.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		records := numbered(0, 5)
		for _, r := range records {
			r.Topic = "lagtx.in"
		}
		if err := writer.ProduceSync(c.ctx, records...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		lagWithin(t, url, lag, 0) // nobody can read it
		if err := writer.EndTransaction(c.ctx, kgo.TransactionEndTry(i%2 == 0)); err != nil {
			t.Fatal(err)
		}
		c.awaitEnd("lagtx") // behind the marker
		lagWithin(t, url, lag, 0)
	}
	if got := metrics(t, url)[`ankka_flow_committed_records_total{inlet="in"}`]; got != 13 {
		t.Errorf("%v records were committed, want 3 and the 10 of the transactions that were", got)
	}
	p.stopsWell()
}

// What the cleaner took away at the log's end is not behind when it is passed over.
func TestKafka_LagWithCompaction(t *testing.T) {
	t.Parallel()
	c := kafkaCluster(t)
	c.create(1, map[string]*string{
		"cleanup.policy": text("compact"), "segment.ms": text("200"), "min.cleanable.dirty.ratio": text("0.001"),
		"min.compaction.lag.ms": text("0"), "delete.retention.ms": text("0"),
	}, "lagcompact.in")
	c.create(1, nil, "lagcompact.out")
	for range 20 {
		c.put("lagcompact.in", numbered(0, 10)...)
	}
	written := 200
	eventually(t, "the cleaner has left holes", func() bool {
		c.put("lagcompact.in", numbered(0, 10)...) // a segment is closed by a record that comes later than its time
		written += 10
		return len(c.read("lagcompact.in")[0]) < 100
	})
	hold := newHeld(t)
	p := c.run("lagcompact", nil, nil, misbehaves(t, "hold", "--until", hold.path))
	url := statusOf(p)
	p.await(`holding batch`)
	lag := lagOf("lagcompact", 0)
	behind := func() float64 { return float64(int64(written) - max(0, c.committed("lagcompact")[0])) }
	eventually(t, "what is not committed is behind", func() bool { return metrics(t, url)[lag] == behind() })
	hold.all()
	c.awaitEnd("lagcompact")
	lagWithin(t, url, lag, 0)
	if got := metrics(t, url)[`ankka_flow_committed_records_total{inlet="in"}`]; got >= float64(written) {
		t.Errorf("%v records were committed of %d; compaction left fewer", got, written)
	}
	p.stopsWell()
}

// A partition that goes to another member comes with its lag, which grows there, and
// is exactly 0 when it is committed, also after it came back.
func TestKafka_LagAfterARebalance(t *testing.T) {
	t.Parallel()
	c := kafkaCluster(t)
	c.create(2, nil, "lagmoves.in", "lagmoves.out")
	hold := newHeld(t)
	command := misbehaves(t, "hold", "--until", hold.path)
	first := c.run("lagmoves", nil, nil, command)
	one := statusOf(first)
	c.awaitAssigned("lagmoves", 2)
	c.onePerPartition("lagmoves.in", 2, "k")
	lagWithin(t, one, lagOf("lagmoves", 0), 1)
	lagWithin(t, one, lagOf("lagmoves", 1), 1)
	second := c.run("lagmoves", nil, nil, command)
	two := statusOf(second)
	c.awaitAssigned("lagmoves", 1, 1)
	theirs := 0
	eventually(t, "the second shows the partition that it has", func() bool {
		m := metrics(t, two)
		for partition := range 2 {
			if _, ok := m[lagOf("lagmoves", partition)]; ok {
				theirs = partition
				return true
			}
		}
		return false
	})
	lagWithin(t, two, lagOf("lagmoves", theirs), 1)
	eventually(t, "the first shows its other one alone", func() bool {
		_, ok := metrics(t, one)[lagOf("lagmoves", theirs)]
		return !ok
	})
	c.onePerPartition("lagmoves.in", 2, "l")
	lagWithin(t, two, lagOf("lagmoves", theirs), 2)
	lagWithin(t, one, lagOf("lagmoves", 1-theirs), 2)
	hold.all()
	c.awaitEnd("lagmoves")
	lagWithin(t, two, lagOf("lagmoves", theirs), 0)
	second.stopsWell()
	c.awaitAssigned("lagmoves", 2)
	for partition := range 2 {
		lagWithin(t, one, lagOf("lagmoves", partition), 0)
	}
	first.stopsWell()
}

// promtool, the real one, has nothing to say of a run's metrics; and the linter that
// other tests use judges as it does, of these and of some that are wrong.
func TestKafka_PromtoolPassesTheMetrics(t *testing.T) {
	t.Parallel()
	c := kafkaCluster(t)
	c.create(1, nil, "prom.in", "prom.out")
	c.put("prom.in", numbered(0, 100)...)
	p := c.run("prom", nil, nil, misbehaves(t, "good"))
	url := statusOf(p)
	c.awaitEnd("prom")
	eventually(t, "the latencies are counted", func() bool { return metrics(t, url)[`ankka_flow_delivery_seconds{inlet="in"}`] > 0 })
	_, body := get(t, url+"/metrics")
	p.stopsWell()
	if n := strings.Count(body, "_seconds_bucket{"); n < 50 {
		t.Errorf("%d buckets of histograms", n)
	}
	for name, tt := range map[string]struct {
		text string
		good bool
	}{
		"ours":                        {body, true},
		"a counter without _total":    {"# HELP a b\n# TYPE a counter\na 1\n", false},
		"a gauge with it":             {"# HELP a_total b\n# TYPE a_total gauge\na_total 1\n", false},
		"no help":                     {"# TYPE a gauge\na 1\n", false},
		"milliseconds":                {"# HELP a_milliseconds b\n# TYPE a_milliseconds gauge\na_milliseconds 1\n", false},
		"buckets without a histogram": {"# HELP a_bucket b\n# TYPE a_bucket gauge\na_bucket{le=\"1\"} 1\n", false},
		"ours, spoiled":               {strings.ReplaceAll(body, "_seconds_bucket{", "_milliseconds_bucket{"), false},
	} {
		command := exec.Command(filepath.Join(repository, "scripts/promtool"), "check", "metrics")
		command.Stdin = strings.NewReader(tt.text)
		said, err := command.CombinedOutput()
		if (err == nil) != tt.good || (len(said) == 0) != tt.good {
			t.Errorf("%s: promtool: %v\n%s", name, err, said)
		}
		problems, err := promlint.New(strings.NewReader(tt.text)).Lint()
		if (err == nil && len(problems) == 0) != tt.good {
			t.Errorf("%s: the linter: %v %v", name, problems, err)
		}
	}
}
