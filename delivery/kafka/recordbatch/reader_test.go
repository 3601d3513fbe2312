package recordbatch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"ankka-flow/delivery/record"
)

func TestR8_EveryCodecGivesTheSameRecords(t *testing.T) {
	for _, c := range codecCases() {
		t.Run(c.name, func(t *testing.T) {
			want := numbered(100, 50)
			for i := 30; i < 33; i++ { // repeats, for lz4's dependent blocks
				want[i].Value = bytes.Repeat([]byte("abcde"), 200)
			}
			data := spec{base: 100, baseTime: 1_700_000_000_000, attributes: c.attributes, records: want, compress: c.compress}.encode()
			r := NewReader(data, 100, nil, Limits{})
			mustEqual(t, readAll(t, r), want)
			if r.Next() != 150 {
				t.Fatalf("next %d, want 150", r.Next())
			}
		})
	}
}

func TestReadKeepsToItsLimits(t *testing.T) {
	want := numbered(10, 30)
	data := join(
		spec{base: 10, baseTime: 1_700_000_000_000, records: want[:7]}.encode(),
		spec{base: 17, baseTime: 1_700_000_000_000, records: want[7:], attributes: 1, compress: gzipped}.encode())
	for _, limit := range []struct{ records, bytes int }{{1, math.MaxInt}, {4, math.MaxInt}, {100, 0}, {100, 1}, {100, 17}, {100, 40}, {3, 30}} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			r := NewReader(data, 10, nil, Limits{})
			var got []record.Record
			for r.More() {
				part, err := r.Read(nil, limit.records, limit.bytes)
				if err != nil {
					t.Fatal(err)
				}
				size := 0
				for i := range part {
					size += part[i].Size()
				}
				if len(part) == 0 || len(part) > limit.records || len(part) > 1 && size > limit.bytes {
					t.Fatalf("%d records of %d bytes", len(part), size)
				}
				// Nothing more would have fitted.
				if n := len(got) + len(part); n < len(want) && len(part) < limit.records && size+want[n].Size() <= limit.bytes {
					t.Fatalf("stopped after %d records of %d bytes, the next has %d", len(part), size, want[n].Size())
				}
				got = append(got, part...)
				if r.Next() != got[len(got)-1].Offset+1 {
					t.Fatalf("next %d after offset %d", r.Next(), got[len(got)-1].Offset)
				}
			}
			mustEqual(t, got, want)
		})
	}
}

func TestReadNothingForNoRoom(t *testing.T) {
	r := NewReader(spec{records: numbered(0, 2)}.encode(), 0, nil, Limits{})
	if got, err := r.Read(nil, 0, 100); len(got) != 0 || err != nil || !r.More() || r.Next() != 0 {
		t.Fatal(got, err, r.More(), r.Next())
	}
}

func TestRecordsBelowThePositionAreSkipped(t *testing.T) {
	want := numbered(10, 20)
	data := join(spec{base: 10, records: want[:5]}.encode(), spec{base: 15, records: want[5:12]}.encode(), spec{base: 22, records: want[12:]}.encode())
	for from := int64(0); from <= 31; from++ {
		r := NewReader(data, from, nil, Limits{})
		got := readAll(t, r)
		mustEqual(t, got, want[min(max(from-10, 0), 20):])
		if r.Next() != max(from, 30) {
			t.Fatalf("from %d: next %d", from, r.Next())
		}
	}
}

// Compaction leaves holes between and inside batches, tails without records and batches
// without any.
func TestR11_NextPassesHoles(t *testing.T) {
	some := []record.Record{{Offset: 12}, {Offset: 15}}
	data := join(
		spec{base: 10, lastDelta: 9, records: some}.encode(),
		spec{base: 20, lastDelta: 4, baseTime: -1, maxTime: -1}.encode(),
		spec{base: 40, lastDelta: 2, records: []record.Record{{Offset: 40}}}.encode())
	r := NewReader(data, 10, nil, Limits{})
	got, err := r.Read(nil, 1, 1000)
	if err != nil || len(got) != 1 || r.Next() != 13 {
		t.Fatal(got, err, r.Next())
	}
	// With the last record of a batch, what is empty behind it is passed as well.
	if got, err = r.Read(got, 1, 1000); err != nil || len(got) != 2 || r.Next() != 25 || !r.More() {
		t.Fatal(got, err, r.Next(), r.More())
	}
	if got, err = r.Read(got, 5, 1000); err != nil || len(got) != 3 || r.Next() != 43 || r.More() {
		t.Fatal(got, err, r.Next(), r.More())
	}
	mustEqual(t, got, append(some, record.Record{Offset: 40}))
}

// Behind the last record of a compacted batch nothing is left to deliver, and
// the position must still leave the batch: kafka-go's readers loop here.
func TestR11_NextLeavesABatchWhoseTailIsAHole(t *testing.T) {
	data := spec{base: 10, lastDelta: 9, records: []record.Record{{Offset: 12}}}.encode()
	for _, from := range []int64{13, 19} {
		r := NewReader(data, from, nil, Limits{})
		if got := readAll(t, r); len(got) != 0 || r.Next() != 20 {
			t.Fatalf("from %d: %v, next %d", from, got, r.Next())
		}
	}
}

func TestLogAppendTimeIsTheBatchsMaxTimestamp(t *testing.T) {
	want := numbered(0, 3)
	data := spec{attributes: flagLogAppendTime, baseTime: 5, maxTime: 123456, records: want}.encode()
	for i := range want {
		want[i].Timestamp = 123456
	}
	mustEqual(t, readAll(t, NewReader(data, 0, nil, Limits{})), want)
}

func TestTimestampsBeforeAndAtTheEpoch(t *testing.T) {
	want := []record.Record{{Offset: 0, Timestamp: -1}, {Offset: 1, Timestamp: 0}, {Offset: 2, Timestamp: -62135596800000}, {Offset: 3, Timestamp: math.MaxInt64}}
	data := spec{baseTime: -1, records: want}.encode()
	mustEqual(t, readAll(t, NewReader(data, 0, nil, Limits{})), want)
}

func TestACutTailIsTheEnd(t *testing.T) {
	want := numbered(0, 6)
	first := spec{records: want[:3]}.encode()
	second := spec{base: 3, records: want[3:]}.encode()
	for cut := range len(second) {
		r := NewReader(join(first, second[:cut]), 0, nil, Limits{})
		mustEqual(t, readAll(t, r), want[:3])
		if r.Next() != 3 || r.FirstPartial() != 0 {
			t.Fatalf("cut at %d: next %d, first partial %d", cut, r.Next(), r.FirstPartial())
		}
	}
	for cut := range len(first) {
		r := NewReader(first[:cut], 0, nil, Limits{})
		want := len(first)
		switch {
		case cut == 0:
			want = 0
		case cut < prefixSize:
			want = HeaderSize
		}
		if r.More() || r.FirstPartial() != want {
			t.Fatalf("cut at %d: more %v, first partial %d, want %d", cut, r.More(), r.FirstPartial(), want)
		}
	}
}

// R4: what did not fit is given back and comes again, whole.
func TestR4_RewindReturnsTheTailAgain(t *testing.T) {
	want := numbered(0, 40)
	data := join(
		spec{records: want[:10]}.encode(),
		spec{base: 10, records: want[10:30], attributes: 4, compress: zstdStream}.encode(),
		marker(30, 5, 1),
		spec{base: 31, records: nil, lastDelta: 4}.encode())
	want = want[:30]
	r := NewReader(data, 0, nil, Limits{})
	for _, n := range []int{1, 9, 10, 11, 25, 30} {
		for back := range n + 1 {
			r.Rewind(0)
			if _, err := r.Read(nil, n, math.MaxInt); err != nil {
				t.Fatal(err)
			}
			r.Rewind(int64(n - back))
			if r.Next() != int64(n-back) {
				t.Fatalf("next %d after rewinding from %d by %d", r.Next(), n, back)
			}
			mustEqual(t, readAll(t, r), want[n-back:])
			if r.Next() != 36 {
				t.Fatalf("next %d at the end, want 36", r.Next())
			}
		}
	}
}

func TestABadBatchKeepsTheGoodOnesBeforeIt(t *testing.T) {
	want := numbered(0, 9)
	bad := spec{base: 3, records: want[3:6]}.encode()
	bad[len(bad)-1] ^= 1
	data := join(spec{records: want[:3]}.encode(), bad, spec{base: 6, records: want[6:]}.encode())
	r := NewReader(data, 0, nil, Limits{})
	got, err := r.Read(nil, 100, 1000)
	if err != nil {
		t.Fatalf("the error came with the records: %v", err)
	}
	mustEqual(t, got, want[:3])
	for range 2 {
		if !r.More() || r.Next() != 3 {
			t.Fatalf("more %v, next %d before the bad batch", r.More(), r.Next())
		}
		if got, err := r.Read(nil, 100, 1000); len(got) != 0 || !errors.Is(err, ErrCorrupt) {
			t.Fatal(got, err)
		}
	}
	r.Rewind(1)
	if got, err = r.Read(nil, 100, 1000); err != nil {
		t.Fatal(err)
	}
	mustEqual(t, got, want[1:3])
	r.Reset(data, 6, nil, Limits{})
	if got, err := r.Read(nil, 100, 1000); len(got) != 0 || !errors.Is(err, ErrCorrupt) {
		t.Fatalf("a bad batch was passed unread: %v %v", got, err)
	}
}

// The broken record is the last one, and the batch is taken one record at a time.
func TestNothingOfABatchWithABrokenRecordIsDelivered(t *testing.T) {
	var raw []byte
	for _, rec := range numbered(0, 5) {
		raw = appendKmsgRecord(raw, rec, 0, 0)
	}
	for name, tail := range map[string][]byte{
		"length beyond the batch": {20, 0, 0, 10},
		"length of nothing":       {0},
		"negative length":         {1},
		"endless length":          {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
		"offset out of order":     {12, 0, 0, 8, 1, 1, 0},
		"offset beyond the batch": {12, 0, 0, 12, 1, 1, 0},
		"key beyond the record":   {12, 0, 0, 10, 8, 1, 0},
		"key length -2":           {12, 0, 0, 10, 3, 1, 0},
		"value beyond the record": {12, 0, 0, 10, 1, 8, 0},
		"headers beyond":          {12, 0, 0, 10, 1, 1, 2},
		"negative headers":        {12, 0, 0, 10, 1, 1, 1},
		"null header name":        {16, 0, 0, 10, 1, 1, 2, 1, 1},
		"bytes left in a record":  {14, 0, 0, 10, 1, 1, 0, 0},
		"bytes left behind":       {12, 0, 0, 10, 1, 1, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			data := spec{rawRecords: join(raw, tail), rawCount: 6, lastDelta: 5}.encode()
			r := NewReader(data, 0, nil, Limits{})
			if got, err := r.Read(nil, 1, 1000); len(got) != 0 || !errors.Is(err, ErrCorrupt) {
				t.Fatal(got, err)
			}
		})
	}
	good := spec{rawRecords: join(raw, []byte{12, 0, 0, 10, 1, 1, 0}), rawCount: 6, lastDelta: 5}.encode()
	if got := readAll(t, NewReader(good, 0, nil, Limits{})); len(got) != 6 {
		t.Fatalf("the sound one gave %d records", len(got))
	}
}

func TestHeadersThatCannotBe(t *testing.T) {
	two := numbered(0, 2)
	change := func(f func(b []byte)) []byte {
		b := spec{records: two}.encode()
		f(b)
		return reseal(b)
	}
	u32 := func(at int, v uint32) []byte {
		return change(func(b []byte) { binary.BigEndian.PutUint32(b[at:], v) })
	}
	late := spec{base: 1, records: []record.Record{{Offset: 1}}}.encode()
	for name, c := range map[string]struct {
		data []byte
		want error
	}{
		"magic 0":                    {change(func(b []byte) { b[atMagic] = 0 }), ErrUnsupported},
		"magic 1":                    {change(func(b []byte) { b[atMagic] = 1 }), ErrUnsupported},
		"magic 3":                    {change(func(b []byte) { b[atMagic] = 3 }), ErrUnsupported},
		"codec 5":                    {change(func(b []byte) { b[atAttributes+1] = 5 }), ErrUnsupported},
		"codec 7":                    {change(func(b []byte) { b[atAttributes+1] = 7 }), ErrUnsupported},
		"length too small":           {u32(atLength, 48), ErrCorrupt},
		"negative length":            {u32(atLength, 1<<31), ErrCorrupt},
		"negative base offset":       {u32(0, 1<<31), ErrCorrupt},
		"offsets that overflow":      {change(func(b []byte) { binary.BigEndian.PutUint64(b, math.MaxInt64) }), ErrCorrupt},
		"negative last offset delta": {u32(atLastOffsetDelta, 1<<31), ErrCorrupt},
		"negative count":             {u32(atCount, 1<<31), ErrCorrupt},
		"more records than offsets":  {u32(atCount, 3), ErrCorrupt},
		"fewer records than bytes":   {u32(atCount, 1), ErrCorrupt},
		"no records but bytes":       {u32(atCount, 0), ErrCorrupt},
		"more records than bytes":    {spec{rawRecords: []byte{0}, rawCount: 1 << 30, lastDelta: math.MaxInt32}.encode(), ErrCorrupt},
		"a bad CRC":                  {func() []byte { b := spec{records: two}.encode(); b[atCRC]++; return b }(), ErrCorrupt},
		"overlapping batches":        {join(spec{records: two}.encode(), late), ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			r := NewReader(c.data, 0, nil, Limits{})
			var err error
			for err == nil && r.More() {
				_, err = r.Read(nil, 100, 1000)
			}
			if !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
		})
	}
}

// Every byte of a batch is changed in every bit. The CRC covers all but base
// offset, length, leader epoch and magic; a changed base offset moves the offsets and
// nothing else, and no reader can see it.
func TestR8_AFlippedBitNeverChangesARecord(t *testing.T) {
	want := numbered(256, 4)
	for _, c := range codecCases() {
		t.Run(c.name, func(t *testing.T) {
			batch := spec{base: 256, attributes: c.attributes, records: want, compress: c.compress}.encode()
			for bit := range 8 * len(batch) {
				b := bytes.Clone(batch)
				b[bit/8] ^= 1 << (bit % 8)
				r := NewReader(b, 0, nil, Limits{})
				got, err := r.Read(nil, 100, 1000)
				if err != nil {
					if len(got) != 0 {
						t.Fatalf("bit %d: records beside %v", bit, err)
					}
					continue
				}
				at := bit / 8
				switch {
				case at < atLength:
					moved := int64(binary.BigEndian.Uint64(b))
					for i := range got {
						got[i].Offset += 256 - moved
					}
					mustEqual(t, got, want)
				case at < atLeaderEpoch && len(got) == 0 && r.FirstPartial() > 0: // a length beyond the data
				case at >= atLeaderEpoch && at < atMagic:
					mustEqual(t, got, want)
				default:
					t.Fatalf("bit %d (byte %d) went unnoticed", bit, at)
				}
			}
		})
	}
}

func TestRewindCanGoForward(t *testing.T) {
	want := numbered(0, 9)
	data := join(spec{records: want[:3]}.encode(), spec{base: 3, records: want[3:6]}.encode(), spec{base: 6, records: want[6:]}.encode())
	for to := range int64(10) {
		r := NewReader(data, 0, nil, Limits{})
		if _, err := r.Read(nil, 1, 1000); err != nil {
			t.Fatal(err)
		}
		r.Rewind(to)
		mustEqual(t, readAll(t, r), want[to:])
	}
}

// A reused Reader would otherwise keep old data alive through the headers that it
// handed out of the chunk it still cuts from.
func TestR10_ResetLetsGoOfOlderHeaders(t *testing.T) {
	r := NewReader(spec{records: numbered(0, 30)}.encode(), 0, nil, Limits{})
	if _, err := r.Read(nil, 4, 1000); err != nil || r.arena.free == nil {
		t.Fatal(err, r.arena.free)
	}
	r.Reset(nil, 0, nil, Limits{})
	if r.arena.free != nil || r.cur.b != nil || r.data != nil {
		t.Fatalf("still held: %+v", r)
	}
}

func TestVarintsAreBounded(t *testing.T) {
	ff := func(n int, last byte) []byte { return append(bytes.Repeat([]byte{0xff}, n), last) }
	for _, c := range []struct {
		b        []byte
		v32, v64 int64
		n32, n64 int // -1: malformed
	}{
		{nil, 0, 0, -1, -1},
		{[]byte{0}, 0, 0, 1, 1},
		{[]byte{1}, -1, -1, 1, 1},
		{[]byte{0x7f}, -64, -64, 1, 1},
		{[]byte{0x80, 1}, 64, 64, 2, 2},
		{[]byte{0xff, 0x7f}, -8192, -8192, 2, 2},
		{[]byte{0x80, 0x80, 1}, 8192, 8192, 3, 3},
		{[]byte{0x80}, 0, 0, -1, -1},
		{[]byte{0x80, 0x80}, 0, 0, -1, -1},
		{ff(4, 0x0f), math.MinInt32, math.MinInt32, 5, 5},
		{ff(4, 0x1f), 0, math.MinInt32 * 2, -1, 5},
		{append(ff(4, 0x80), 0), 0, 1 << 27 * -1, -1, 6},
		{ff(9, 1), 0, math.MinInt64, -1, 10},
		{ff(9, 2), 0, 0, -1, -1},
		{append(ff(9, 0x81), 0), 0, 0, -1, -1},
	} {
		if v, n := varint32(c.b, 0); n != c.n32 || n > 0 && int64(v) != c.v32 {
			t.Errorf("varint32(% x) = %d, %d; want %d, %d", c.b, v, n, c.v32, c.n32)
		}
		if v, n := varint64(c.b, 0); n != c.n64 || n > 0 && v != c.v64 {
			t.Errorf("varint64(% x) = %d, %d; want %d, %d", c.b, v, n, c.v64, c.n64)
		}
	}
	if _, n := varint64([]byte{1}, -1); n != -1 {
		t.Errorf("reading on from a malformed place gave %d", n)
	}
}

func TestRecordsOutliveTheirReader(t *testing.T) {
	want := numbered(0, 3000)
	data := join(
		spec{records: want[:1500], attributes: 3, compress: lz4ed()}.encode(),
		spec{base: 1500, records: want[1500:], attributes: 1, compress: gzipped}.encode())
	r := NewReader(data, 0, nil, Limits{})
	got := readAll(t, r)
	other := spec{records: numbered(0, 3000), attributes: 3, compress: lz4ed()}.encode()
	for range 3 {
		r.Reset(other, 0, nil, Limits{})
		readAll(t, r)
	}
	mustEqual(t, got, want)
}

// Who appends to a key must not write into the value behind it.
func TestSlicesEndWithTheirContent(t *testing.T) {
	data := spec{records: numbered(0, 1)}.encode()
	before := bytes.Clone(data)
	for _, rec := range readAll(t, NewReader(data, 0, nil, Limits{})) {
		_ = append(rec.Key, "overwritten"...)
		_ = append(rec.Headers[0].Name, "overwritten"...)
	}
	if !slices.Equal(data, before) {
		t.Fatal("appending to a key changed the batch")
	}
}
