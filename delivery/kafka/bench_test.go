package kafka

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"ankka-flow/delivery"
	"ankka-flow/delivery/record"
)

// BenchmarkConsume reads the same records by Fetch and Cut, and by franz-go,
// from one broker in this process, whose own cost is in both.
func BenchmarkConsume(b *testing.B) {
	for _, size := range []int{100, 1024} {
		for _, partitions := range []int32{1, 8} {
			cl := newCluster(b, kfake.SyntheticFetch(kfake.SyntheticBatch{RecordBytes: size}), kfake.SeedTopics(partitions, "t"))
			name := fmt.Sprintf("%dB/%dpartitions", size, partitions)
			b.Run(name+"/ours", func(b *testing.B) { benchOurs(b, cl) })
			b.Run(name+"/franz-go", func(b *testing.B) { benchFranz(b, cl) })
		}
	}
}

func benchOurs(b *testing.B, cl *kfake.Cluster) {
	c, err := NewClient(Config{Brokers: cl.ListenAddrs()})
	if err != nil {
		b.Fatal(err)
	}
	events := make(chan delivery.Event, 16)
	k := c.Consume(Inlet{Name: "in", Topic: "t", Group: fmt.Sprint("g", time.Now().UnixNano())}, func(ev delivery.Event) {
		events <- ev
	})
	defer c.Close()
	defer func() {
		go func() {
			for range events {
			}
		}()
		k.Close()
		close(events)
	}()
	var buf []record.Record
	b.ReportAllocs()
	begun := false
	for n := 0; n < b.N; {
		switch ev := (<-events).(type) {
		case delivery.Assigned:
			for _, s := range ev.Starts {
				k.Seek(s.Partition, s.Offset)
			}
		case delivery.Fetched:
			if !begun {
				begun = true
				b.ResetTimer()
			}
			for more := true; more && n < b.N; {
				buf, _, _, more, err = k.Cut(ev.TP.Partition, buf, 1000, 512<<10)
				if err != nil {
					b.Fatal(err)
				}
				n += len(buf)
			}
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
}

func benchFranz(b *testing.B, cl *kfake.Cluster) {
	kcl, err := kgo.NewClient(kgo.SeedBrokers(cl.ListenAddrs()...), kgo.ConsumeTopics("t"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		b.Fatal(err)
	}
	defer kcl.Close()
	b.ReportAllocs()
	begun := false
	for n := 0; n < b.N; {
		fs := kcl.PollRecords(context.Background(), 1000)
		if err := fs.Err(); err != nil {
			b.Fatal(err)
		}
		if !begun {
			begun = true
			b.ResetTimer()
		}
		n += fs.NumRecords()
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
}
