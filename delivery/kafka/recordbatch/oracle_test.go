package recordbatch

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"ankka-flow/delivery/record"
)

// franz decodes data with franz-go: its visible records and its next offset.
func franz(t testing.TB, data []byte, from int64, aborted []Aborted) ([]record.Record, int64) {
	t.Helper()
	rp := kmsg.FetchResponseTopicPartition{RecordBatches: data}
	for _, a := range aborted {
		rp.AbortedTransactions = append(rp.AbortedTransactions, kmsg.FetchResponseTopicPartitionAbortedTransaction{ProducerID: a.ProducerID, FirstOffset: a.FirstOffset})
	}
	opts := kgo.ProcessFetchPartitionOpts{Offset: from, IsolationLevel: kgo.ReadCommitted()}
	fp, next := kgo.ProcessFetchPartition(opts, &rp, kgo.DefaultDecompressor(), nil)
	if fp.Err != nil {
		t.Fatalf("franz-go: %v", fp.Err)
	}
	var out []record.Record
	for _, r := range fp.Records {
		out = append(out, fromFranz(r))
	}
	return out, next
}

func fromFranz(r *kgo.Record) record.Record {
	out := record.Record{Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli(), Key: r.Key, Value: r.Value}
	for _, h := range r.Headers {
		out.Headers = append(out.Headers, record.Header{Name: []byte(h.Key), Value: h.Value})
	}
	return out
}

// kafkaGo decodes data with kafka-go's protocol package.
func kafkaGo(t testing.TB, data []byte) []record.Record {
	t.Helper()
	var set protocol.RecordSet
	sized := append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), data...)
	if _, err := set.ReadFrom(bytes.NewReader(sized)); err != nil {
		t.Fatalf("kafka-go: %v", err)
	}
	var out []record.Record
	for {
		r, err := set.Records.ReadRecord()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatalf("kafka-go: %v", err)
		}
		rec := record.Record{Offset: r.Offset, Timestamp: r.Time.UnixMilli(), Key: readBytes(t, r.Key), Value: readBytes(t, r.Value)}
		for _, h := range r.Headers {
			rec.Headers = append(rec.Headers, record.Header{Name: []byte(h.Key), Value: h.Value})
		}
		out = append(out, rec)
	}
}

func readBytes(t testing.TB, b protocol.Bytes) []byte {
	t.Helper()
	out, err := protocol.ReadAll(b)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// built writes records with the Builder, at base offset 0.
func built(records []record.Record, producer int64, epoch int16, sequence int32) []byte {
	var b Builder
	b.Reset(nil)
	for i := range records {
		b.Append(&records[i], records[i].Timestamp)
	}
	return b.Finish(producer, epoch, sequence)
}

func TestR8_OthersReadWhatTheBuilderWrites(t *testing.T) {
	want := numbered(0, 100)
	batch := built(want, 42, 3, 1000)
	got, next := franz(t, batch, 0, nil)
	mustEqual(t, got, want)
	if next != 100 {
		t.Fatalf("franz-go's next offset is %d", next)
	}
	mustEqual(t, kafkaGo(t, batch), want)

	var k kmsg.RecordBatch
	if err := k.ReadFrom(batch); err != nil {
		t.Fatal(err)
	}
	if k.FirstOffset != 0 || k.PartitionLeaderEpoch != -1 || k.Magic != 2 || k.Attributes != 0 || k.LastOffsetDelta != 99 || k.NumRecords != 100 ||
		k.FirstTimestamp != want[0].Timestamp || k.MaxTimestamp != want[99].Timestamp || k.ProducerID != 42 || k.ProducerEpoch != 3 || k.FirstSequence != 1000 {
		k.Records = nil
		t.Fatalf("header %+v", k)
	}
}

func TestR8_OthersReadTheSameFromEveryCodec(t *testing.T) {
	want := numbered(100, 50)
	for _, c := range codecCases() {
		t.Run(c.name, func(t *testing.T) {
			batch := spec{base: 100, baseTime: 99, attributes: c.attributes, records: want, compress: c.compress}.encode()
			if c.name == "lz4 with dependent blocks" { // written by hand, without the header's checksum that others check
				batch = spec{base: 100, baseTime: 99, records: want}.encode()
			}
			for _, from := range []int64{0, 100, 120, 149} {
				theirs, next := franz(t, batch, from, nil)
				r := NewReader(batch, from, nil, Limits{})
				mustEqual(t, readAll(t, r), theirs)
				if r.Next() != next {
					t.Fatalf("next %d, franz-go's %d", r.Next(), next)
				}
			}
			mustEqual(t, kafkaGo(t, batch), want)
		})
	}
}

func TestAbortedTransactionsAsFranzGoReadsThem(t *testing.T) {
	batches := [][]byte{data(0, 1, 3), data(3, 2, 2), marker(5, 1, abort), data(6, 1, 2), marker(8, 2, commit), data(9, 3, 1), marker(10, 1, commit), marker(11, 3, abort)}
	for from := range int64(12) {
		// A broker begins with the batch that holds the offset, and names the
		// transactions whose marker is not behind it.
		log, aborted := batches, []Aborted{{3, 9}}
		for len(log) > 1 && int64(binary.BigEndian.Uint64(log[1])) <= from {
			log = log[1:]
		}
		if from <= 5 {
			aborted = []Aborted{{1, 0}, {3, 9}}
		}
		theirs, next := franz(t, join(log...), from, aborted)
		r := NewReader(join(log...), from, aborted, Limits{})
		mustEqual(t, readAll(t, r), theirs)
		if r.Next() != next {
			t.Fatalf("from %d: next %d, franz-go's %d", from, r.Next(), next)
		}
	}
}

// fakeBroker is a kfake cluster with the topic t of one partition.
func fakeBroker(t testing.TB) (context.Context, string) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx, c.ListenAddrs()[0]
}

// capFetch keeps to the Fetch version that names topics instead of their ids.
func capFetch() kgo.Opt {
	v := kversion.Stable()
	v.SetMaxKeyVersion(1, 10)
	return kgo.MaxVersions(v)
}

func franzClient(t testing.TB, address string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append(opts, kgo.SeedBrokers(address), kgo.DefaultProduceTopic("t"))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// fetch gets the raw bytes of the topic t, read committed, from an offset on.
func fetch(ctx context.Context, t testing.TB, c *kgo.Client, from int64) ([]byte, []Aborted) {
	t.Helper()
	part := kmsg.NewFetchRequestTopicPartition()
	part.FetchOffset, part.PartitionMaxBytes = from, 64<<20
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.Partitions = "t", []kmsg.FetchRequestTopicPartition{part}
	req := kmsg.NewPtrFetchRequest()
	req.MaxBytes, req.MinBytes, req.MaxWaitMillis, req.IsolationLevel = 64<<20, 1, 1000, 1
	req.SessionEpoch = -1
	req.Topics = []kmsg.FetchRequestTopic{topic}
	resp, err := req.RequestWith(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 || resp.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Fatalf("fetching: %+v", resp)
	}
	p := resp.Topics[0].Partitions[0]
	var aborted []Aborted
	for _, a := range p.AbortedTransactions {
		aborted = append(aborted, Aborted{ProducerID: a.ProducerID, FirstOffset: a.FirstOffset})
	}
	return p.RecordBatches, aborted
}

func TestBatchesOfAFranzGoProducer(t *testing.T) {
	for name, codec := range map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	} {
		t.Run(name, func(t *testing.T) {
			ctx, address := fakeBroker(t)
			c := franzClient(t, address, kgo.ProducerBatchCompression(codec), capFetch())
			var want []record.Record
			for round := range 3 {
				var batch []*kgo.Record
				for _, r := range numbered(int64(round*200), 200) {
					want = append(want, r)
					batch = append(batch, toFranz(r))
				}
				if err := c.ProduceSync(ctx, batch...).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
			for _, from := range []int64{0, 1, 199, 200, 555} {
				data, aborted := fetch(ctx, t, c, from)
				r := NewReader(data, from, aborted, Limits{})
				mustEqual(t, readAll(t, r), want[from:])
				if r.Next() != 600 {
					t.Fatalf("from %d: next %d", from, r.Next())
				}
			}
		})
	}
}

func toFranz(r record.Record) *kgo.Record {
	k := &kgo.Record{Timestamp: time.UnixMilli(r.Timestamp), Key: r.Key, Value: r.Value}
	for _, h := range r.Headers {
		k.Headers = append(k.Headers, kgo.RecordHeader{Key: string(h.Name), Value: h.Value})
	}
	return k
}

func TestTransactionsOfAFranzGoProducer(t *testing.T) {
	ctx, address := fakeBroker(t)
	c := franzClient(t, address, kgo.TransactionalID("tx"), capFetch())
	var want []string
	for i, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort, kgo.TryAbort, kgo.TryCommit, kgo.TryAbort} {
		if err := c.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			value := []byte{byte('a' + i)}
			if err := c.ProduceSync(ctx, &kgo.Record{Value: value}).FirstErr(); err != nil {
				t.Fatal(err)
			}
			if end == kgo.TryCommit {
				want = append(want, string(value))
			}
		}
		if err := c.EndTransaction(ctx, end); err != nil {
			t.Fatal(err)
		}
	}
	data, aborted := fetch(ctx, t, c, 0)
	if len(aborted) != 3 {
		t.Fatalf("the broker names %d aborted transactions, want 3", len(aborted))
	}
	r := NewReader(data, 0, aborted, Limits{})
	var got []string
	for _, rec := range readAll(t, r) {
		got = append(got, string(rec.Value))
	}
	if len(got) != len(want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	if r.Next() != 20 { // 5 x (3 records and a marker)
		t.Fatalf("next %d, want 20", r.Next())
	}
}
