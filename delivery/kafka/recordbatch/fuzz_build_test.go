package recordbatch

import (
	"encoding/binary"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"ankka-flow/delivery/record"
)

// script turns a fuzzer's bytes into choices; once they are used up it chooses 0.
type script struct{ b []byte }

func (s *script) byte() byte {
	if len(s.b) == 0 {
		return 0
	}
	b := s.b[0]
	s.b = s.b[1:]
	return b
}

// bytes are null, empty, or up to 300 of the bytes that follow.
func (s *script) bytes() []byte {
	n := int(s.byte())
	switch {
	case n == 0:
		return nil
	case n > 250:
		n = 300
	}
	n = min(n-1, len(s.b))
	out := append([]byte{}, s.b[:n]...)
	s.b = s.b[n:]
	return out
}

func (s *script) records() []record.Record {
	var out []record.Record
	offset := int64(0)
	for len(s.b) > 0 && len(out) < 40 {
		var time [8]byte
		copy(time[3:], s.bytes()) // 40 bits: franz-go counts nanoseconds in 64
		r := record.Record{Offset: offset, Timestamp: int64(binary.BigEndian.Uint64(time[:])), Key: s.bytes(), Value: s.bytes()}
		for range s.byte() % 4 {
			r.Headers = append(r.Headers, record.Header{Name: append([]byte{}, s.bytes()...), Value: s.bytes()})
		}
		out = append(out, r)
		offset++
	}
	return out
}

// FuzzBuild: what the Builder writes, franz-go and we read as it was, compressed
// in any way, behind holes, in a transaction that was aborted or committed, and
// from any offset.
func FuzzBuild(f *testing.F) {
	for i, c := range []string{"", "\x02abc\x01\x02k\x00\x03\x01\x01", "\xffaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\x03kk\x03vv\x02\x03nn\x03vv\x01\x00"} {
		f.Add([]byte(c), uint8(i), uint8(3), int64(0))
	}
	cases := codecCases()
	f.Fuzz(func(t *testing.T, b []byte, codec, from uint8, holes int64) {
		if len(b) > 16<<10 {
			return
		}
		records := (&script{b}).records()
		if len(records) == 0 {
			return
		}
		mustEqual(t, readAll(t, NewReader(built(records, 1, 2, 3), 0, nil, Limits{})), records)
		theirs, next := franz(t, built(records, 1, 2, 3), 0, nil)
		mustEqual(t, theirs, records)
		if next != int64(len(records)) {
			t.Fatalf("franz-go goes on at %d", next)
		}
		checkCompressed(t, records, cases[int(codec)%len(cases)], int64(from), holes)
	})
}

// checkCompressed has the records in a transaction of producer 7, aborted or not,
// whose offsets have holes, and the marker behind it.
func checkCompressed(t *testing.T, records []record.Record, c codecCase, from, holes int64) {
	t.Helper()
	for i := range records {
		records[i].Offset = int64(i) + int64(i)*(holes&7)
	}
	last := records[len(records)-1].Offset
	batch := spec{producer: 7, attributes: c.attributes | flagTransactional, records: records, compress: c.compress}.encode()
	for _, kind := range []byte{abort, commit} {
		log := join(batch, marker(last+1, 7, kind), data(last+2, 8, 2))
		var aborted []Aborted
		if kind == abort {
			aborted = []Aborted{{ProducerID: 7}}
		}
		from = min(from, last)
		r := NewReader(log, from, aborted, Limits{})
		got := readAll(t, r)
		if c.name != "lz4 with dependent blocks" { // written by hand, without the header's checksum that others check
			theirs, next := franz(t, log, from, aborted)
			mustEqual(t, got, theirs)
			if r.Next() != next {
				t.Fatalf("%s: next %d, franz-go's %d", c.name, r.Next(), next)
			}
		}
		want := 2
		for i := range records {
			if kind == commit && records[i].Offset >= from {
				want++
			}
		}
		if len(got) != want {
			t.Fatalf("%s, marker %d: %d records, want %d", c.name, kind, len(got), want)
		}
	}
	var k kmsg.RecordBatch
	if err := k.ReadFrom(batch); err != nil || int(k.NumRecords) != len(records) {
		t.Fatalf("franz-go's batch has %d records: %v", k.NumRecords, err)
	}
}
