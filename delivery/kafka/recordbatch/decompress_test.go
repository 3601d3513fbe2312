package recordbatch

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"runtime"
	"testing"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"

	"ankka-flow/delivery/record"
)

func TestR10_DecompressionStopsAtTheLimit(t *testing.T) {
	records := []record.Record{{Value: bytes.Repeat([]byte("x"), 100_000)}, {Offset: 1, Value: []byte("y")}}
	var plain []byte
	for _, r := range records {
		plain = appendKmsgRecord(plain, r, 0, 0)
	}
	for _, c := range codecCases()[1:] {
		t.Run(c.name, func(t *testing.T) {
			data := spec{attributes: c.attributes, records: records, compress: c.compress}.encode()
			mustEqual(t, readAll(t, NewReader(data, 0, nil, Limits{MaxDecompressed: len(plain)})), records)
			for _, limit := range []int{len(plain) - 1, len(plain) / 2, 1} {
				r := NewReader(data, 0, nil, Limits{MaxDecompressed: limit})
				if got, err := r.Read(nil, 10, 10); len(got) != 0 || !errors.Is(err, ErrTooLarge) {
					t.Fatalf("limit %d: %d records, %v", limit, len(got), err)
				}
			}
		})
	}
}

// A small frame that declares a large window, as a streaming writer at a high
// level does, is no large frame.
func TestZstdWindowsDoNotCount(t *testing.T) {
	for _, window := range []int{8 << 20, 64 << 20} {
		compress := func(b []byte) []byte {
			var buf bytes.Buffer
			w := zstdEncoder(zstd.WithWindowSize(window))
			w.Reset(&buf)
			for _, half := range [][]byte{b[:len(b)/2], b[len(b)/2:]} { // flushed, so that the size is not known
				if _, err := w.Write(half); err != nil {
					t.Fatal(err)
				}
				if err := w.Flush(); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			return buf.Bytes()
		}
		want := numbered(0, 30)
		data := spec{attributes: 4, records: want, compress: compress}.encode()
		mustEqual(t, readAll(t, NewReader(data, 0, nil, Limits{MaxDecompressed: 1 << 20})), want)
		if window == zstdWindow { // also where the blocks, by their number alone, could give more than the limit
			mustEqual(t, readAll(t, NewReader(data, 0, nil, Limits{MaxDecompressed: 10_000})), want)
		}
	}
}

// What a frame claims is allocated only as far as its bytes justify it.
func TestR10_AClaimedSizeAllocatesNothing(t *testing.T) {
	claim := func(b []byte, at int, v uint32) []byte {
		binary.LittleEndian.PutUint32(b[at:], v)
		return b
	}
	short := []byte("some records that are none")
	gz := gzipped(short)
	noise := make([]byte, 0, 50_000) // what deflate cannot compress
	for sum := sha256.Sum256(nil); len(noise) < cap(noise); sum = sha256.Sum256(sum[:]) {
		noise = append(noise, sum[:min(len(sum), cap(noise)-len(noise))]...)
	}
	noisy := gzipped(noise)
	for name, c := range map[string]struct {
		codec codec
		src   []byte
	}{
		"raw snappy":     {codecSnappy, append(binary.AppendUvarint(nil, 60<<20), snappy.Encode(nil, short)[1:]...)},
		"xerial length":  {codecSnappy, append(bytes.Clone(xerialMagic), 0, 0, 0, 1, 0, 0, 0, 1, 0x7f, 0xff, 0xff, 0xff, 1, 2, 3)},
		"gzip":           {codecGzip, claim(gz, len(gz)-4, 60<<20)},
		"gzip, noise":    {codecGzip, claim(noisy, len(noisy)-4, 40<<20)},
		"lz4 block size": {codecLZ4, append([]byte{0x04, 0x22, 0x4D, 0x18, 0x60, 0x70, 0}, 0xff, 0xff, 0xff, 0x7f, 1, 2, 3)},
		"zstd":           {codecZstd, []byte{0x28, 0xB5, 0x2F, 0xFD, 0xA0, 0, 0, 0xC0, 3, 1, 0, 0}},
		"zstd skippable": {codecZstd, []byte{0x50, 0x2A, 0x4D, 0x18, 0xff, 0xff, 0xff, 0x7f, 1}},
		"empty":          {codecZstd, nil},
	} {
		t.Run(name, func(t *testing.T) {
			data := spec{attributes: int16(c.codec), rawRecords: append([]byte{}, c.src...), rawCount: 1}.encode()
			r := NewReader(data, 0, nil, Limits{})
			if got := allocated(func() {
				if _, err := r.Read(nil, 1, 1); !errors.Is(err, ErrCorrupt) {
					t.Errorf("got %v", err)
				}
			}); got > 2<<20 {
				t.Errorf("%d bytes allocated for %d", got, len(data))
			}
		})
	}
}

// allocated is how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Blocks of a frame may refer to the blocks before them, not to another frame.
func TestLZ4DependentBlocks(t *testing.T) {
	repeated := bytes.Repeat([]byte("twenty bytes exactly"), 5)
	frame := lz4dependent(repeated)
	if len(frame) > 100 {
		t.Fatalf("a frame of %d bytes has no matches", len(frame))
	}
	got, err := codecLZ4.decompress(frame, 1000)
	if err != nil || !bytes.Equal(got, repeated) {
		t.Fatalf("%q, %v", got, err)
	}
	independent := bytes.Clone(frame)
	independent[4] |= lz4Independent
	if got, err := codecLZ4.decompress(independent, 1000); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("an independent block looked back: %q, %v", got, err)
	}
	backOnly := append(bytes.Clone(frame[:7]), 9, 0, 0, 0, 0x0B, 20, 0, 5<<4, 'a', 'b', 'c', 'd', 'e', 0, 0, 0, 0)
	if got, err := codecLZ4.decompress(join(frame, backOnly), 1000); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("a block looked into the frame before: %q, %v", got, err)
	}
	if got, err := codecLZ4.decompress(join(frame, frame), 1000); err != nil || len(got) != 200 {
		t.Fatalf("two frames: %d bytes, %v", len(got), err)
	}
}

func TestDecodedSize(t *testing.T) {
	records := benchRecords(2000, 0)
	plain := len(spec{records: records}.encode()) - HeaderSize
	for _, c := range codecCases() {
		t.Run(c.name, func(t *testing.T) {
			batch := spec{records: records, attributes: c.attributes, compress: c.compress}.encode()
			want := plain
			if c.name == "lz4 with dependent blocks" || c.attributes == 3 || c.name == "zstd as a stream" {
				want = 4 * (len(batch) - HeaderSize) // these do not say
			}
			if got := DecodedSize(join(batch, batch, batch[:80]), Limits{}); got != 2*want {
				t.Errorf("got %d, want %d", got, 2*want)
			}
			if c.attributes != 0 {
				if got := DecodedSize(batch, Limits{MaxDecompressed: 1000}); got != 1000 {
					t.Errorf("got %d over a limit of 1000", got)
				}
			}
			r := NewReader(batch, 0, nil, Limits{})
			if r.Held() != len(batch) {
				t.Errorf("held %d before reading, want %d", r.Held(), len(batch))
			}
			if _, err := r.Read(nil, 1, 1); err != nil {
				t.Fatal(err)
			}
			if want := len(batch) + plain; c.attributes != 0 && r.Held() != want {
				t.Errorf("held %d, want %d", r.Held(), want)
			}
		})
	}
}
