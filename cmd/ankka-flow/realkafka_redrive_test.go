//go:build kafka

package main

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Connect's dead letters go back to their partitions, once: the groups that keep the progress
// are a real cluster's. The topics are made by the program too.
func TestKafka_Redrive(t *testing.T) {
	t.Parallel()
	c := kafkaCluster(t)
	does := func(args ...string) *program {
		t.Helper()
		p := startProgram(t, programOptions{dir: t.TempDir(), env: []string{"FLOW_BROKERS=" + c.brokers}}, args...)
		p.endsWith(0)
		return p
	}
	does("topics", "create", "redriven.in", "redriven.dlq", "-p", "3", "-r", "3")
	const n = 1500
	var letters []*kgo.Record
	for i := range n {
		letters = append(letters, &kgo.Record{Key: fmt.Append(nil, i), Value: fmt.Append(nil, i), Headers: headersFrom(
			"own", "__connect.errors.topic=older", "__connect.errors.topic=redriven.in", fmt.Sprintf("__connect.errors.partition=%d", i%3), "__connect.errors.exception.message")})
	}
	c.put("redriven.dlq", letters...)
	does("dead-letters", "redrive", "redriven.dlq", "--yes").says("1500 records of redriven.dlq redriven")
	does("dead-letters", "redrive", "redriven.dlq", "--yes").says("0 records of redriven.dlq redriven, left: 1500 redriven before")
	seen := map[string]bool{}
	for partition, log := range c.read("redriven.in") {
		for _, r := range log {
			var i int32
			if _, err := fmt.Sscan(string(r.Value), &i); err != nil || i%3 != partition || string(r.Key) != string(r.Value) || seen[string(r.Key)] ||
				fmt.Sprint(r.Headers) != fmt.Sprint(headersFrom("own", "__flow.errors.redrives=1")) {
				t.Errorf("in partition %d: %s", partition, recordText(r))
			}
			seen[string(r.Key)] = true
		}
	}
	if len(seen) != n {
		t.Errorf("%d of %d came back", len(seen), n)
	}
}
