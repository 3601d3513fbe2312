package wire

import (
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"ankka-flow/delivery/record"
)

// The shapes of a batch and an emit as msgpack's Marshal and Unmarshal want them.
type (
	plainHeader struct {
		//lint:ignore U1000 msgpack reads its tag
		_msgpack    struct{} `msgpack:",as_array"`
		Name, Value []byte
	}
	plainIn struct {
		//lint:ignore U1000 msgpack reads its tag
		_msgpack          struct{} `msgpack:",as_array"`
		Offset, Timestamp int64
		Key, Value        []byte
		Headers           []plainHeader
	}
	plainOut struct {
		//lint:ignore U1000 msgpack reads its tag
		_msgpack   struct{} `msgpack:",as_array"`
		Key, Value []byte
		Headers    []plainHeader
		Timestamp  *int64
	}
	plainBatch struct {
		//lint:ignore U1000 msgpack reads its tag
		_msgpack  struct{} `msgpack:",as_array"`
		Kind      string
		ID        uint64
		Inlet     string
		Partition int32
		Records   []plainIn
		Info      map[string]int
	}
	plainEmit struct {
		//lint:ignore U1000 msgpack reads its tag
		_msgpack struct{} `msgpack:",as_array"`
		Kind     string
		ID       uint64
		Outlet   string
		Records  []plainOut
	}
)

const benchRecords = 1000

func perRecord(b *testing.B) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchRecords, "ns/record")
}

// BenchmarkEncodeBatch: a batch of 1,000 records of about 100 bytes.
func BenchmarkEncodeBatch(b *testing.B) {
	for _, headers := range []int{0, 2} {
		p := payload(benchRecords, headers)
		name := []string{"plain", "", "headers"}[headers]
		b.Run("ours/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.encode()
			}
			perRecord(b)
		})
		batch := plainBatch{Kind: KindBatch, ID: 1, Inlet: "in", Partition: 3, Info: map[string]int{"attempt": 1}}
		for _, r := range p.records {
			batch.Records = append(batch.Records, plainIn{Offset: r.Offset, Timestamp: r.Timestamp, Key: r.Key, Value: r.Value, Headers: plainHeaders(r.Headers)})
		}
		b.Run("msgpack.Marshal/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := msgpack.Marshal(&batch); err != nil {
					b.Fatal(err)
				}
			}
			perRecord(b)
		})
	}
}

// BenchmarkDecodeEmit: the emit that answers it, validated and made into records.
func BenchmarkDecodeEmit(b *testing.B) {
	for _, headers := range []int{0, 2} {
		p := payload(benchRecords, headers)
		name := []string{"plain", "", "headers"}[headers]
		b.Run("ours/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.parse()
				p.append()
			}
			perRecord(b)
		})
		b.Run("msgpack.Unmarshal/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var e plainEmit
				if err := msgpack.Unmarshal(p.body, &e); err != nil {
					b.Fatal(err)
				}
			}
			perRecord(b)
		})
	}
}

// BenchmarkParseForward: the answer that carries no records.
func BenchmarkParseForward(b *testing.B) {
	frame, err := Append(nil, Forward{ID: 1, Outlet: "out", All: true})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseFromProcess(frame[4:]); err != nil {
			b.Fatal(err)
		}
	}
}

func plainHeaders(headers []record.Header) []plainHeader {
	var out []plainHeader
	for _, h := range headers {
		out = append(out, plainHeader{Name: h.Name, Value: h.Value})
	}
	return out
}
