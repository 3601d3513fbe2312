package kafka

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"ankka-flow/delivery"
	"ankka-flow/delivery/record"
)

// A pinned out goes where it is told, whatever the keys say, and keeps its
// order with what is spread around it.
func TestPinnedRecordsGoWhereTheyAreTold(t *testing.T) {
	cluster := newCluster(t, kfake.SeedTopics(3, "out"))
	client := newTestClient(t, cluster.ListenAddrs())
	answers := make(chan delivery.Event, 16)
	producer := client.Produce(ProducerConfig{}, func(ev delivery.Event) { answers <- ev })
	defer func() {
		if err := producer.Close(testContext(t)); err != nil {
			t.Error(err)
		}
	}()
	var records []record.Record
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		records = append(records, record.Record{Key: []byte(key), Value: []byte(key), Timestamp: record.Now})
	}
	two := int32(2)
	producer.Write(1, delivery.TP{}, []Out{{Topic: "out", Records: records, Pin: &two}})
	if ev := <-answers; ev != (delivery.Written{ID: 1}) {
		t.Fatalf("got %v", ev)
	}
	for p, want := range []int64{0, 0, 5} {
		if got := cluster.PartitionInfo("out", int32(p)).HighWatermark; got != want {
			t.Errorf("partition %d has %d records, want %d", p, got, want)
		}
	}
}
