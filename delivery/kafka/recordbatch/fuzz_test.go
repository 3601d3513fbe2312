package recordbatch

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"ankka-flow/delivery/record"
)

// FuzzReader gives the Reader anything, with the CRCs made right where the
// lengths allow it, for otherwise nothing behind the CRC would ever be reached.
// No input may panic, allocate more than its size justifies, move Next back or
// return a record out of order.
func FuzzReader(f *testing.F) {
	f.Add([]byte{}, int64(0), int64(0), uint8(1))
	f.Fuzz(func(t *testing.T, data []byte, from, aborted int64, pieces uint8) {
		if len(data) > 64<<10 {
			return
		}
		data = append([]byte(nil), data...)
		for rest := data; ; {
			size, whole := wholeBatch(rest)
			if !whole || size < HeaderSize {
				break
			}
			reseal(rest[:size])
			rest = rest[size:]
		}
		const limit = 1 << 20
		used := allocated(func() { fuzzOnce(t, data, from, aborted, int(pieces)+1, limit) })
		// Decompressed records, zstd's least bound, lz4's overshoot, and 88 and
		// 48 bytes for each record and header, which take at least 7 and 2.
		if most := uint64(len(data)*64 + 2*zstdWindow + 64*limit); used > most {
			t.Fatalf("%d bytes allocated for %d", used, len(data))
		}
	})
}

func fuzzOnce(t *testing.T, data []byte, from, aborted int64, pieces, limit int) {
	r := NewReader(data, from, []Aborted{{ProducerID: aborted, FirstOffset: from}}, Limits{MaxDecompressed: limit})
	DecodedSize(data, Limits{})
	r.FirstPartial()
	last := from - 1
	var dst []record.Record
	for r.More() {
		before := r.Next()
		var err error
		dst, err = r.Read(dst[:0], pieces, 1<<20)
		if r.Next() < before {
			t.Fatalf("next went from %d to %d", before, r.Next())
		}
		if err != nil && (len(dst) > 0 || r.Next() != before && !r.More()) {
			t.Fatalf("%d records beside %v", len(dst), err)
		}
		for i := range dst {
			if dst[i].Offset <= last || dst[i].Offset >= r.Next() {
				t.Fatalf("offset %d behind %d, next %d", dst[i].Offset, last, r.Next())
			}
			last = dst[i].Offset
		}
		if err != nil {
			return
		}
	}
}

// fuzzSeeds are the inputs that testdata/fuzz/FuzzReader holds.
func fuzzSeeds() map[string][]byte {
	seeds := map[string][]byte{}
	for i, c := range codecCases() {
		batch := spec{base: 3, attributes: c.attributes, records: numbered(3, 4), compress: c.compress}.encode()
		seeds[fmt.Sprintf("codec-%02d", i)] = append(batch, batch[:30]...)
	}
	seeds["transactions"] = join(data(0, 7, 2), marker(2, 7, abort), data(3, 7, 1), marker(4, 7, commit))
	seeds["holes"] = join(spec{base: 10, lastDelta: 9, records: []record.Record{{Offset: 12}}}.encode(), spec{base: 20, lastDelta: 4}.encode())
	seeds["log-append-time"] = spec{attributes: flagLogAppendTime, maxTime: 9, records: numbered(0, 2)}.encode()
	seeds["many-headers"] = spec{records: []record.Record{{Headers: make([]record.Header, 300)}}}.encode()
	old := spec{records: numbered(0, 1)}.encode()
	old[atMagic] = 1
	seeds["magic-1"] = old
	return seeds
}

// The committed seeds are what the code above makes; RECORDBATCH_SEEDS=write
// writes them anew.
func TestFuzzSeedsAreCommitted(t *testing.T) {
	dir := filepath.Join("testdata", "fuzz", "FuzzReader")
	for name, data := range fuzzSeeds() {
		if data[atMagic] == 2 && data[atAttributes+1]&codecMask != 0 {
			// A codec's output may change with its library; only its being there counts.
			if os.Getenv("RECORDBATCH_SEEDS") != "write" {
				if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
					t.Error(err)
				}
				continue
			}
		}
		from := int64(binary.BigEndian.Uint64(data))
		want := "go test fuzz v1\n[]byte(" + strconv.Quote(string(data)) + ")\nint64(" + strconv.FormatInt(from, 10) + ")\nint64(7)\nbyte('\\x02')\n"
		if os.Getenv("RECORDBATCH_SEEDS") == "write" {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("seed %s: differs or %v", name, err)
		}
	}
}
