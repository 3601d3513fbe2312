package recordbatch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"testing"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ankka-flow/delivery/record"
)

// benchRecords is what a partition's 1 MiB holds: values of 100 bytes, keys of 8.
func benchRecords(n, headers int) []record.Record {
	out := make([]record.Record, n)
	for i := range out {
		out[i] = record.Record{
			Offset: int64(i), Timestamp: 1_700_000_000_000 + int64(i/10),
			Key: fmt.Appendf(nil, "key-%04d", i%1000), Value: fmt.Appendf(nil, `{"cart":%d,"text":"%s"}`, i, bytes.Repeat([]byte("ab "), 26)),
		}
		for h := range headers {
			out[i].Headers = append(out[i].Headers, record.Header{Name: fmt.Appendf(nil, "name-%d", h), Value: []byte("value")})
		}
	}
	return out
}

type benchData struct {
	name    string
	records int
	data    []byte
}

func benchCases() []benchData {
	var out []benchData
	const n = 8000
	plain, headed := benchRecords(n, 0), benchRecords(n, 2)
	add := func(name string, s spec) { out = append(out, benchData{name, n, s.encode()}) }
	add("plain", spec{baseTime: 1_700_000_000_000, records: plain})
	add("headers", spec{baseTime: 1_700_000_000_000, records: headed})
	for _, c := range codecCases() {
		switch c.name {
		case "gzip", "xerial snappy", "lz4 with independent blocks", "zstd as a stream":
			add(c.name, spec{baseTime: 1_700_000_000_000, attributes: c.attributes, records: plain, compress: c.compress})
		}
	}
	var small []byte
	for i := range n {
		small = append(small, spec{base: int64(i), baseTime: 1_700_000_000_000, records: plain[i : i+1]}.encode()...)
	}
	return append(out, benchData{"a batch a record", n, small})
}

// BenchmarkRead compares this package with the two libraries on the same bytes in
// one run: judge the ratio, not the number.
func BenchmarkRead(b *testing.B) {
	for _, c := range benchCases() {
		for _, who := range []struct {
			name string
			read func(data []byte) int
		}{{"ours", oursReader()}, {"ours in pieces of 500", piecesReader(500)}, {"franz-go", franzReader()}, {"kafka-go", kafkaGoReader()}} {
			b.Run(c.name+"/"+who.name, func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(c.data)))
				for b.Loop() {
					if n := who.read(c.data); n != c.records {
						b.Fatalf("%d records", n)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*c.records), "ns/record")
			})
		}
	}
}

func oursReader() func([]byte) int {
	var r Reader
	var dst []record.Record
	return func(data []byte) int {
		r.Reset(data, 0, nil, Limits{})
		dst = dst[:0]
		for r.More() {
			var err error
			if dst, err = r.Read(dst, math.MaxInt, math.MaxInt); err != nil {
				panic(err)
			}
		}
		return len(dst)
	}
}

func piecesReader(most int) func([]byte) int {
	var r Reader
	var dst []record.Record
	return func(data []byte) (n int) {
		r.Reset(data, 0, nil, Limits{})
		for r.More() {
			var err error
			if dst, err = r.Read(dst[:0], most, 512<<10); err != nil {
				panic(err)
			}
			n += len(dst)
		}
		return n
	}
}

func franzReader() func([]byte) int {
	decompressor := kgo.DefaultDecompressor()
	return func(data []byte) int {
		rp := kmsg.FetchResponseTopicPartition{RecordBatches: data}
		fp, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{}, &rp, decompressor, nil)
		if fp.Err != nil {
			panic(fp.Err)
		}
		return len(fp.Records)
	}
}

func kafkaGoReader() func([]byte) int {
	var sized []byte
	return func(data []byte) (n int) {
		sized = append(binary.BigEndian.AppendUint32(sized[:0], uint32(len(data))), data...)
		var set protocol.RecordSet
		if _, err := set.ReadFrom(bytes.NewReader(sized)); err != nil {
			panic(err)
		}
		for {
			r, err := set.Records.ReadRecord()
			if errors.Is(err, io.EOF) {
				return n
			}
			if err != nil {
				panic(err)
			}
			for _, b := range []protocol.Bytes{r.Key, r.Value} {
				if _, err := protocol.ReadAll(b); err != nil {
					panic(err)
				}
			}
			n++
		}
	}
}

func BenchmarkBuild(b *testing.B) {
	records := benchRecords(1000, 1)
	var builder Builder
	var buf []byte
	b.Run("ours", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			builder.Reset(buf[:0])
			for i := range records {
				builder.Append(&records[i], records[i].Timestamp)
			}
			buf = builder.Finish(1, 0, 0)
		}
		b.SetBytes(int64(len(buf)))
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(records)), "ns/record")
	})
}

func TestReadingUncompressedRecordsAllocatesNothing(t *testing.T) {
	data := spec{records: benchRecords(1000, 0)}.encode()
	read := oursReader()
	if n := testing.AllocsPerRun(20, func() { read(data) }); n != 0 {
		t.Fatalf("%v allocations for 1000 records", n)
	}
	withHeaders := spec{records: benchRecords(1000, 2)}.encode()
	if n := testing.AllocsPerRun(20, func() { read(withHeaders) }); n > 4 {
		t.Fatalf("%v allocations for 1000 records with 2 headers each", n)
	}
}

func TestBuildingIntoAReusedBufferAllocatesNothing(t *testing.T) {
	records := benchRecords(1000, 2)
	var b Builder
	var buf []byte
	if n := testing.AllocsPerRun(20, func() {
		b.Reset(buf[:0])
		for i := range records {
			b.Append(&records[i], 5)
		}
		buf = b.Finish(1, 2, 3)
	}); n != 0 {
		t.Fatalf("%v allocations for 1000 records", n)
	}
}
