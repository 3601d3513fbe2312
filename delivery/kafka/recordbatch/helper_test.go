package recordbatch

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"testing"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ankka-flow/delivery/record"
)

// spec describes a batch; encode writes it with franz-go's kmsg, so that what
// the Reader is shown was not written by this package.
type spec struct {
	base, producer    int64
	attributes        int16
	lastDelta         int32 // 0: that of the last record
	baseTime, maxTime int64
	records           []record.Record // Offset and Timestamp absolute
	compress          func([]byte) []byte
	rawRecords        []byte // instead of records
	rawCount          int32
	epoch             int16
}

func (s spec) encode() []byte {
	var payload []byte
	for _, r := range s.records {
		payload = appendKmsgRecord(payload, r, s.base, s.baseTime)
	}
	count, last := int32(len(s.records)), s.lastDelta
	if s.rawRecords != nil {
		payload, count = s.rawRecords, s.rawCount
	} else if last == 0 && count > 0 {
		last = int32(s.records[count-1].Offset - s.base)
	}
	if s.compress != nil {
		payload = s.compress(payload)
	}
	b := kmsg.RecordBatch{
		FirstOffset: s.base, Length: int32(HeaderSize - prefixSize + len(payload)), PartitionLeaderEpoch: 7, Magic: 2,
		Attributes: s.attributes, LastOffsetDelta: last, FirstTimestamp: s.baseTime, MaxTimestamp: s.maxTime,
		ProducerID: s.producer, ProducerEpoch: s.epoch, NumRecords: count, Records: payload,
	}
	return reseal(b.AppendTo(nil))
}

// reseal corrects the CRC of a batch that a test has changed.
func reseal(b []byte) []byte {
	binary.BigEndian.PutUint32(b[atCRC:], crc32.Checksum(b[atAttributes:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

func appendKmsgRecord(dst []byte, r record.Record, base, baseTime int64) []byte {
	k := kmsg.Record{TimestampDelta64: r.Timestamp - baseTime, OffsetDelta: int32(r.Offset - base), Key: r.Key, Value: r.Value}
	for _, h := range r.Headers {
		k.Headers = append(k.Headers, kmsg.Header{Key: string(h.Name), Value: h.Value})
	}
	k.Length = int32(len(k.AppendTo(nil)) - 1) // the length 0 took one byte
	return k.AppendTo(dst)
}

type codecCase struct {
	name       string
	attributes int16
	compress   func([]byte) []byte
}

func codecCases() []codecCase {
	return []codecCase{
		{"uncompressed", 0, nil},
		{"gzip", 1, gzipped},
		{"raw snappy", 2, func(b []byte) []byte { return snappy.Encode(nil, b) }},
		{"xerial snappy", 2, xerial(32 << 10)},
		{"xerial snappy in small blocks", 2, xerial(50)},
		{"lz4 with independent blocks", 3, lz4ed(lz4.BlockSizeOption(lz4.Block64Kb))},
		{"lz4 with dependent blocks", 3, lz4dependent},
		{"lz4 with every checksum and the size", 3, func(b []byte) []byte {
			return lz4ed(lz4.BlockChecksumOption(true), lz4.ChecksumOption(true), lz4.SizeOption(uint64(len(b))))(b)
		}},
		{"zstd with its size", 4, func(b []byte) []byte { return zstdEncoder().EncodeAll(b, nil) }},
		{"zstd as a stream", 4, zstdStream},
	}
}

func gzipped(b []byte) []byte {
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	mustWrite(w, b)
	return buf.Bytes()
}

func xerial(block int) func([]byte) []byte {
	return func(b []byte) []byte {
		out := append(bytes.Clone(xerialMagic), 0, 0, 0, 1, 0, 0, 0, 1)
		for len(b) > 0 {
			n := min(block, len(b))
			e := snappy.Encode(nil, b[:n])
			out = append(binary.BigEndian.AppendUint32(out, uint32(len(e))), e...)
			b = b[n:]
		}
		return out
	}
}

func lz4ed(opts ...lz4.Option) func([]byte) []byte {
	return func(b []byte) []byte {
		var buf bytes.Buffer
		w := lz4.NewWriter(&buf)
		if err := w.Apply(opts...); err != nil {
			panic(err)
		}
		mustWrite(w, b)
		return buf.Bytes()
	}
}

// lz4dependent writes a frame by hand, for the library writes independent blocks
// only. A block that repeats the 20 bytes before it is a match into the block
// before; the others are literals.
func lz4dependent(b []byte) []byte {
	const n = 20
	out := binary.LittleEndian.AppendUint32(nil, lz4Magic)
	out = append(out, lz4Version, 4<<4, 0) // the header's checksum is not read
	for at := 0; at < len(b); at += n {
		chunk := b[at:min(at+n, len(b))]
		var block []byte
		if at >= n && len(chunk) == n && bytes.Equal(chunk, b[at-n:at]) {
			// A match of 15 (4 and 11) at distance 20, then 5 literals, as a block has to end.
			block = append([]byte{0x0B, n, 0, 5 << 4}, chunk[15:]...)
		} else {
			block = append([]byte{0xF0, byte(len(chunk) - 15)}, chunk...)
			if len(chunk) < 15 {
				block = append([]byte{byte(len(chunk)) << 4}, chunk...)
			}
		}
		out = append(binary.LittleEndian.AppendUint32(out, uint32(len(block))), block...)
	}
	return append(out, 0, 0, 0, 0)
}

func zstdEncoder(opts ...zstd.EOption) *zstd.Encoder {
	w, err := zstd.NewWriter(nil, append(opts, zstd.WithEncoderConcurrency(1))...)
	if err != nil {
		panic(err)
	}
	return w
}

func zstdStream(b []byte) []byte {
	var buf bytes.Buffer
	w := zstdEncoder()
	w.Reset(&buf)
	mustWrite(w, b)
	return buf.Bytes()
}

func mustWrite(w io.WriteCloser, b []byte) {
	if _, err := w.Write(b); err != nil {
		panic(err)
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
}

// numbered makes n records from offset base on, a third each with null, empty
// and filled parts.
func numbered(base int64, n int) []record.Record {
	var out []record.Record
	for i := range n {
		r := record.Record{Offset: base + int64(i), Timestamp: 1_700_000_000_000 + int64(i)}
		switch i % 3 {
		case 0:
			r.Key, r.Value = fmt.Appendf(nil, "key-%d", i), fmt.Appendf(nil, "value-%d", base+int64(i))
			r.Headers = []record.Header{{Name: []byte("h"), Value: []byte("1")}, {Name: []byte("h"), Value: nil}, {Name: []byte{0xff}, Value: []byte{}}}
		case 1:
			r.Key, r.Value = []byte{}, nil
		case 2:
			r.Key, r.Value = nil, []byte{}
		}
		out = append(out, r)
	}
	return out
}

func readAll(t testing.TB, r *Reader) []record.Record {
	t.Helper()
	var out []record.Record
	for r.More() {
		var err error
		if out, err = r.Read(out, math.MaxInt, math.MaxInt); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// diff says where two records differ, null and empty apart (R8); "" nowhere.
func diff(got, want record.Record) string {
	same := func(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }
	switch {
	case got.Offset != want.Offset:
		return fmt.Sprintf("offset %d, want %d", got.Offset, want.Offset)
	case got.Timestamp != want.Timestamp:
		return fmt.Sprintf("timestamp %d, want %d", got.Timestamp, want.Timestamp)
	case !same(got.Key, want.Key):
		return fmt.Sprintf("key %#v, want %#v", got.Key, want.Key)
	case !same(got.Value, want.Value):
		return fmt.Sprintf("value %#v, want %#v", got.Value, want.Value)
	case len(got.Headers) != len(want.Headers):
		return fmt.Sprintf("%d headers, want %d", len(got.Headers), len(want.Headers))
	}
	for i := range got.Headers {
		g, w := got.Headers[i], want.Headers[i]
		if !bytes.Equal(g.Name, w.Name) || !same(g.Value, w.Value) {
			return fmt.Sprintf("header %d is %#v, want %#v", i, g, w)
		}
	}
	return ""
}

func mustEqual(t testing.TB, got, want []record.Record) {
	t.Helper()
	for i := range min(len(got), len(want)) {
		if d := diff(got[i], want[i]); d != "" {
			t.Fatalf("record %d: %s", i, d)
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
}

func join(batches ...[]byte) []byte { return bytes.Join(batches, nil) }
