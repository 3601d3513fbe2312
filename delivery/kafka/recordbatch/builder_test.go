package recordbatch

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"ankka-flow/delivery/record"
)

func TestBuilderAppendsBehindWhatIsThere(t *testing.T) {
	want := numbered(0, 3)
	prefix := []byte("a request's beginning")
	var b Builder
	b.Reset(bytes.Clone(prefix))
	if b.Len() != HeaderSize || b.Count() != 0 {
		t.Fatal(b.Len(), b.Count())
	}
	for i := range want {
		b.Append(&want[i], want[i].Timestamp)
	}
	length, count := b.Len(), b.Count()
	out := b.Finish(1, 2, 3)
	if count != 3 || !bytes.HasPrefix(out, prefix) || len(out) != len(prefix)+length {
		t.Fatalf("%d records, %d bytes, announced %d behind %d", count, len(out), length, len(prefix))
	}
	if !bytes.Equal(out[len(prefix):], built(want, 1, 2, 3)) {
		t.Fatal("the batch depends on where it stands")
	}
}

func TestBuilderKeepsTheLargestTimestamp(t *testing.T) {
	for _, times := range [][]int64{{5, 9, 7}, {-9, -5, -7}, {9, 5}, {0}, {-1}} {
		var records []record.Record
		most := times[0]
		for i, ts := range times {
			records = append(records, record.Record{Offset: int64(i), Timestamp: ts})
			most = max(most, ts)
		}
		batch := built(records, -1, -1, -1)
		h, err := parseHeader(batch)
		if err != nil || h.maxTimestamp != most || h.baseTimestamp != times[0] {
			t.Fatalf("%v: base %d, max %d, %v", times, h.baseTimestamp, h.maxTimestamp, err)
		}
		mustEqual(t, readAll(t, NewReader(batch, 0, nil, Limits{})), records)
	}
}

func TestR9_StampChangesTheProducerAndNothingElse(t *testing.T) {
	records := numbered(0, 10)
	batch := built(records, 1, 2, 3)
	Stamp(batch, 1<<40, 9, 1<<30)
	if !bytes.Equal(batch, built(records, 1<<40, 9, 1<<30)) {
		t.Fatal("a stamped batch differs from one built so")
	}
	mustEqual(t, readAll(t, NewReader(batch, 0, nil, Limits{})), records)
}

func TestFinishOfAnEmptyBatchPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Fatal("it did not")
		}
	}()
	var b Builder
	b.Reset(nil)
	b.Finish(1, 2, 3)
}

func genBytes() *rapid.Generator[[]byte] {
	return rapid.OneOf(
		rapid.Just[[]byte](nil),
		rapid.Just([]byte{}),
		rapid.SliceOfN(rapid.Byte(), 1, 10),
		rapid.Map(rapid.IntRange(60, 9000), func(n int) []byte { return bytes.Repeat([]byte{'x'}, n) }),
	)
}

func genRecord() *rapid.Generator[record.Record] {
	header := rapid.Custom(func(t *rapid.T) record.Header {
		name := rapid.OneOf(rapid.Just([]byte("same")), rapid.SliceOfN(rapid.Byte(), 0, 4)).Draw(t, "name")
		return record.Header{Name: name, Value: genBytes().Draw(t, "header value")}
	})
	return rapid.Custom(func(t *rapid.T) record.Record {
		r := record.Record{
			Timestamp: rapid.OneOf(rapid.Int64Range(-5, 5), rapid.Int64Range(1_700_000_000_000, 1_700_000_100_000), rapid.Int64()).Draw(t, "timestamp"),
			Key:       genBytes().Draw(t, "key"), Value: genBytes().Draw(t, "value"),
		}
		if h := rapid.SliceOfN(header, 0, 4).Draw(t, "headers"); len(h) > 0 {
			r.Headers = h
		}
		return r
	})
}

func TestR8_RoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		records := rapid.SliceOfN(genRecord(), 1, 30).Draw(rt, "records")
		var b Builder
		b.Reset(nil)
		for i := range records {
			records[i].Offset = int64(i)
			before := b.Len()
			b.Append(&records[i], records[i].Timestamp)
			if added, most := b.Len()-before, EncodedSize(&records[i]); added > most || most > added+17 {
				rt.Fatalf("appending took %d bytes, EncodedSize said %d", added, most)
			}
		}
		batch := b.Finish(1, 2, 3)
		equal := func(got []record.Record) {
			if len(got) != len(records) {
				rt.Fatalf("%d records, want %d", len(got), len(records))
			}
			for i := range got {
				if d := diff(got[i], records[i]); d != "" {
					rt.Fatalf("record %d: %s", i, d)
				}
			}
		}
		got, err := NewReader(batch, 0, nil, Limits{}).Read(nil, 100, 1<<30)
		if err != nil {
			rt.Fatal(err)
		}
		equal(got)
		for _, r := range records { // franz-go's end after some 290 years
			if r.Timestamp > 1<<41 || r.Timestamp < -1<<41 {
				return
			}
		}
		theirs, _ := franz(t, batch, 0, nil)
		equal(theirs)
	})
}

// A partition of several batches, of every codec, with holes before, in and behind them,
// read from anywhere in pieces of any size, with rewinding in between.
func TestR11_AnyWayThroughALogIsTheSame(t *testing.T) {
	codecs := codecCases()
	rapid.Check(t, func(rt *rapid.T) {
		var log []byte
		var all []record.Record
		next := rapid.Int64Range(0, 1<<40).Draw(rt, "start")
		start := next
		for range rapid.IntRange(1, 5).Draw(rt, "batches") {
			c := rapid.SampledFrom(codecs).Draw(rt, "codec")
			s := spec{base: next + rapid.Int64Range(0, 3).Draw(rt, "hole"), attributes: c.attributes, compress: c.compress, baseTime: 1000}
			at := s.base
			for _, r := range rapid.SliceOfN(genRecord(), 0, 8).Draw(rt, "records") {
				r.Offset = at + rapid.Int64Range(0, 2).Draw(rt, "gap")
				at = r.Offset + 1
				s.records = append(s.records, r)
			}
			s.lastDelta = int32(max(at-s.base-1, 0) + rapid.Int64Range(0, 3).Draw(rt, "tail"))
			log = append(log, s.encode()...)
			all = append(all, s.records...)
			next = s.base + int64(s.lastDelta) + 1
		}
		from := rapid.Int64Range(start, next).Draw(rt, "from")
		r := NewReader(log, from, nil, Limits{})
		want := all
		for len(want) > 0 && want[0].Offset < from {
			want = want[1:]
		}
		var got []record.Record
		rewinds := 3
		for r.More() {
			before, had := r.Next(), len(got)
			var err error
			if got, err = r.Read(got, rapid.IntRange(1, 9).Draw(rt, "max records"), rapid.IntRange(0, 9000).Draw(rt, "max bytes")); err != nil {
				rt.Fatal(err)
			}
			if r.Next() < before || len(got) > had && r.Next() <= got[len(got)-1].Offset {
				rt.Fatalf("next went from %d to %d behind %d records", before, r.Next(), len(got)-had)
			}
			if rewinds > 0 && len(got) > 0 && rapid.Bool().Draw(rt, "rewind") {
				rewinds--
				keep := rapid.IntRange(0, len(got)-1).Draw(rt, "keep")
				r.Rewind(got[keep].Offset)
				got = got[:keep]
			}
		}
		if len(got) != len(want) || r.Next() != next {
			rt.Fatalf("%d records to %d, want %d to %d", len(got), r.Next(), len(want), next)
		}
		for i := range got {
			if d := diff(got[i], want[i]); d != "" {
				rt.Fatalf("record %d: %s", i, d)
			}
		}
	})
}
