package kafka

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"ankka-flow/delivery"
	"ankka-flow/delivery/kafka/sequence"
	"ankka-flow/delivery/record"
)

func benchRecords(n, size int, keyed bool) []record.Record {
	recs := make([]record.Record, n)
	for i := range recs {
		recs[i] = record.Record{Value: make([]byte, size), Timestamp: record.Now}
		if keyed {
			recs[i].Key = fmt.Appendf(nil, "key-%d", i)
		}
	}
	return recs
}

// BenchmarkBuild is what a record costs from Write's records to a request's
// bytes, the network left out: partitioning, the machine, the batch.
func BenchmarkBuild(b *testing.B) {
	for _, partitions := range []int32{1, 8} {
		b.Run(fmt.Sprintf("100B/partitions=%d", partitions), func(b *testing.B) {
			const n = 1000
			recs := benchRecords(n, 100, true)
			m := sequence.New(sequence.Config{})
			var spread partitioner
			var builder batchMaker
			var actions []sequence.Action
			var handle, write uint64
			step := func(ev sequence.Event) { actions = m.Step(actions, 0, ev) }
			b.ReportAllocs()
			records := 0
			for b.Loop() {
				write++
				actions = actions[:0]
				chunks := map[uint64]portion{}
				step(sequence.Begun{Write: write})
				spread.spread(recs, partitions, 1_000_000, func(int32) bool { return true }, func(to int32, c portion, bytes int) {
					handle++
					chunks[handle] = c
					step(sequence.Added{Write: write, Piece: sequence.Piece{Handle: handle, Partition: sequence.Partition{Topic: "t", Index: to}, Records: c.len(), Bytes: bytes}})
				})
				step(sequence.Ended{Write: write})
				if write == 1 {
					step(sequence.IDGranted{ID: 1})
				}
				for i := 0; i < len(actions); i++ {
					a, ok := actions[i].(sequence.Send)
					if !ok {
						continue
					}
					pl := &payload{id: a.ID, sequence: a.Sequence, estimate: a.Bytes + batchOverhead}
					for _, s := range a.Spans {
						c := chunks[s.Handle]
						pl.spans = append(pl.spans, span{&c, s.From, s.To})
					}
					pl.build(&builder, 1)
					pl.free()
					step(sequence.Answered{Batch: a.Batch})
				}
				records += n
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(records), "ns/record")
		})
	}
}

// BenchmarkProduce writes to kfake, whose own cost is in both: synchronously,
// 1,000 records of 100 B a write, beside franz-go's ProduceSync; and with eight
// inlet partitions that each have one write under way.
func BenchmarkProduce(b *testing.B) {
	const n = 1000
	b.Run("ours", func(b *testing.B) {
		cl := newCluster(b, kfake.SeedTopics(1, "out"))
		c := newTestClient(b, cl.ListenAddrs())
		done := make(chan struct{}, 1)
		p := c.Produce(ProducerConfig{}, func(delivery.Event) { done <- struct{}{} })
		defer p.Close(context.Background())
		recs := benchRecords(n, 100, true)
		outs := []Out{{Topic: "out", Records: recs}}
		id := uint64(0)
		b.ReportAllocs()
		for b.Loop() {
			id++
			p.Write(id, delivery.TP{}, outs)
			<-done
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/record")
	})
	b.Run("franz-go", func(b *testing.B) {
		cl := newCluster(b, kfake.SeedTopics(1, "out"))
		kc, err := kgo.NewClient(kgo.SeedBrokers(cl.ListenAddrs()...), kgo.DefaultProduceTopic("out"), kgo.ProducerBatchCompression(kgo.NoCompression()),
			kgo.ProducerLinger(0), kgo.MaxBufferedRecords(100_000))
		if err != nil {
			b.Fatal(err)
		}
		defer kc.Close()
		src := benchRecords(n, 100, true)
		recs := make([]*kgo.Record, n)
		b.ReportAllocs()
		for b.Loop() {
			for i := range recs {
				recs[i] = &kgo.Record{Key: src[i].Key, Value: src[i].Value}
			}
			if err := kc.ProduceSync(context.Background(), recs...).FirstErr(); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/record")
	})
	b.Run("ours/8 writes under way", func(b *testing.B) {
		cl := newCluster(b, kfake.SeedTopics(1, "out"))
		c := newTestClient(b, cl.ListenAddrs())
		done := make(chan uint64, 16)
		p := c.Produce(ProducerConfig{}, func(ev delivery.Event) { done <- ev.(delivery.Written).ID })
		defer p.Close(context.Background())
		outs := []Out{{Topic: "out", Records: benchRecords(n, 100, true)}}
		id := uint64(0)
		for range 8 {
			id++
			p.Write(id, delivery.TP{}, outs)
		}
		b.ReportAllocs()
		for b.Loop() {
			<-done
			id++
			p.Write(id, delivery.TP{}, outs)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/record")
		for range 8 {
			select {
			case <-done:
			case <-time.After(20 * time.Second):
				b.Fatal("a write is not answered")
			}
		}
	})
}
