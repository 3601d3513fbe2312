package kafka

import (
	"fmt"
	"math/rand/v2"
	"testing"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"ankka-flow/delivery/record"
)

// The values of Java's UtilsTest.testMurmur2.
func TestR6_Murmur2IsJavas(t *testing.T) {
	for key, want := range map[string]int32{
		"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536, "a-little-bit-longer-string": -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971, "abc": 479470107,
	} {
		if got := int32(murmur2([]byte(key))); got != want {
			t.Errorf("murmur2(%q) = %d, want %d", key, got, want)
		}
	}
}

func TestR6_KeysLandWhereOtherClientsPutThem(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	fg := kgo.StickyKeyPartitioner(nil).ForTopic("t")
	for range 20_000 {
		key := make([]byte, rng.IntN(40))
		for i := range key {
			key[i] = byte(rng.Uint32())
		}
		n := 1 + rng.IntN(50)
		ids := make([]int, n)
		for i := range ids {
			ids[i] = i
		}
		got := int(partitionOf(key, int32(n)))
		if want := (kafkago.Murmur2Balancer{}).Balance(kafkago.Message{Key: key}, ids...); got != want {
			t.Fatalf("key %x of %d partitions: %d, kafka-go says %d", key, n, got, want)
		}
		if want := fg.Partition(&kgo.Record{Key: key}, n); got != want {
			t.Fatalf("key %x of %d partitions: %d, franz-go says %d", key, n, got, want)
		}
	}
}

type placed struct {
	partition int32
	values    []string
}

func spreadAll(p *partitioner, recs []record.Record, n int32, maxBytes int, usable func(int32) bool) (out []placed) {
	p.spread(recs, n, maxBytes, usable, func(partition int32, c portion, bytes int) {
		pl := placed{partition: partition}
		for i := range c.len() {
			pl.values = append(pl.values, string(c.record(i).Value))
		}
		out = append(out, pl)
	})
	return out
}

func allUsable(int32) bool { return true }

func TestR6_KeylessRecordsGoTogetherAndAreSpread(t *testing.T) {
	var p partitioner
	count := map[int32]int{}
	for range 400 {
		got := spreadAll(&p, values(1, 10, nil), 8, 1<<20, func(i int32) bool { return i != 3 })
		if len(got) != 1 || len(got[0].values) != 10 {
			t.Fatalf("one write's keyless records: %v", got)
		}
		count[got[0].partition]++
	}
	for i := range int32(8) {
		if i == 3 && count[i] != 0 || i != 3 && (count[i] < 50 || count[i] > 120) {
			t.Errorf("partition %d got %d of 400", i, count[i])
		}
	}
	if got := spreadAll(&p, values(1, 1, nil), 8, 1<<20, func(int32) bool { return false }); len(got) != 1 {
		t.Errorf("without any leader: %v", got)
	}
}

func TestR6_OrderIsKeptPerPartitionAndSizesAreBounded(t *testing.T) {
	var p partitioner
	var recs []record.Record
	for i := range 1000 {
		recs = append(recs, record.Record{Key: fmt.Appendf(nil, "%d", i%37), Value: fmt.Appendf(nil, "%04d", i)})
	}
	last, total := map[int32]string{}, 0
	p.spread(recs, 5, 500, allUsable, func(partition int32, c portion, bytes int) {
		if bytes > 500 {
			t.Errorf("a portion of %d bytes", bytes)
		}
		for i := range c.len() {
			r := c.record(i)
			if to := partitionOf(r.Key, 5); to != partition {
				t.Fatalf("key %s on %d, not %d", r.Key, partition, to)
			}
			if string(r.Value) <= last[partition] {
				t.Fatalf("%s behind %s", r.Value, last[partition])
			}
			last[partition] = string(r.Value)
			total++
		}
	})
	if total != 1000 {
		t.Errorf("%d records", total)
	}
	if got := spreadAll(&p, []record.Record{{Value: make([]byte, 900)}, {Value: []byte("x")}}, 1, 500, allUsable); len(got) != 2 {
		t.Errorf("a record over the limit goes alone: %d portions", len(got))
	}
	if got := spreadAll(&p, nil, 4, 500, allUsable); got != nil {
		t.Errorf("nothing: %v", got)
	}
}
