package recordbatch

import (
	"testing"

	"ankka-flow/delivery/record"
)

const abort, commit = 0, 1

// marker is a control batch as a broker writes it.
func marker(offset, producer int64, kind byte) []byte {
	return spec{
		base: offset, producer: producer, attributes: flagTransactional | flagControl,
		records: []record.Record{{Offset: offset, Key: []byte{0, 0, 0, kind}, Value: []byte{0, 0, 0, 0, 0, 0}}},
	}.encode()
}

// data is a transactional batch of n records.
func data(offset, producer int64, n int) []byte {
	s := spec{base: offset, producer: producer, attributes: flagTransactional}
	for i := range n {
		s.records = append(s.records, record.Record{Offset: offset + int64(i)})
	}
	return s.encode()
}

func TestAbortedTransactions(t *testing.T) {
	for name, c := range map[string]struct {
		data    []byte
		from    int64
		aborted []Aborted
		want    []int64
		next    int64
	}{
		"committed": {
			data: join(data(0, 1, 2), marker(2, 1, commit)),
			want: []int64{0, 1}, next: 3,
		},
		"aborted": {
			data:    join(data(0, 1, 2), marker(2, 1, abort), data(3, 1, 1), marker(4, 1, commit)),
			aborted: []Aborted{{1, 0}}, want: []int64{3}, next: 5,
		},
		"two producers beside each other": {
			data:    join(data(0, 1, 1), data(1, 2, 1), data(2, 1, 1), marker(3, 1, abort), data(4, 2, 1), marker(5, 2, commit)),
			aborted: []Aborted{{1, 0}}, want: []int64{1, 4}, next: 6,
		},
		"a producer outside transactions is never hidden": {
			data:    join(spec{producer: 1, records: []record.Record{{Offset: 0}}}.encode(), marker(1, 1, abort)),
			aborted: []Aborted{{1, 0}}, want: []int64{0}, next: 2,
		},
		"read uncommitted": {
			data: join(data(0, 1, 2), marker(2, 1, abort)),
			want: []int64{0, 1}, next: 3,
		},
		"the fetch begins inside the transaction": {
			data: join(data(0, 1, 4), marker(4, 1, abort), data(5, 1, 1), marker(6, 1, commit)), from: 2,
			aborted: []Aborted{{1, 0}}, want: []int64{5}, next: 7,
		},
		"an abort marker whose transaction the list does not have": {
			data:    join(marker(7, 1, abort), data(8, 1, 1), marker(9, 1, commit), data(10, 1, 1), marker(11, 1, abort)),
			from:    7,
			aborted: []Aborted{{1, 10}}, want: []int64{8}, next: 12,
		},
		"a commit marker of an earlier transaction ends nothing": {
			data:    join(data(0, 1, 1), marker(1, 1, commit), data(2, 1, 1), data(3, 1, 1), marker(4, 1, abort)),
			aborted: []Aborted{{1, 2}}, want: []int64{0}, next: 5,
		},
		"the answer begins before the position": {
			data: join(data(0, 1, 2), marker(2, 1, abort), data(3, 1, 3), marker(6, 1, commit)), from: 5,
			aborted: []Aborted{{1, 0}}, want: []int64{5}, next: 7,
		},
		"only an abort marker ends an entry": {
			data:    join(data(0, 1, 1), marker(1, 1, commit), data(2, 1, 1), marker(3, 1, abort), data(4, 1, 1)),
			aborted: []Aborted{{1, 0}}, want: []int64{4}, next: 5,
		},
		"a commit marker of another producer ends nothing": {
			data:    join(data(0, 1, 1), data(1, 2, 1), marker(2, 2, commit), data(3, 1, 1), marker(4, 1, abort)),
			aborted: []Aborted{{1, 0}}, want: []int64{1}, next: 5,
		},
		"the same producer aborts twice": {
			data:    join(data(0, 1, 1), marker(1, 1, abort), data(2, 1, 1), marker(3, 1, commit), data(4, 1, 1), marker(5, 1, abort), data(6, 1, 1), marker(7, 1, commit)),
			aborted: []Aborted{{1, 0}, {1, 4}}, want: []int64{2, 6}, next: 8,
		},
		"an unsorted list": {
			data:    join(data(0, 1, 1), marker(1, 1, abort), data(2, 2, 1), marker(3, 2, abort), data(4, 1, 1), marker(5, 1, commit)),
			aborted: []Aborted{{2, 2}, {1, 0}}, want: []int64{4}, next: 6,
		},
		"the marker was cut off": {
			data:    join(data(0, 1, 2), marker(2, 1, abort)[:70]),
			aborted: []Aborted{{1, 0}}, want: nil, next: 2,
		},
		"a control batch that compaction emptied": {
			data: join(spec{lastDelta: 0, attributes: flagTransactional | flagControl, producer: 1}.encode(), data(1, 1, 1)),
			want: []int64{1}, next: 2,
		},
		"a control record of another type": {
			data:    join(data(0, 1, 1), marker(1, 1, 2), data(2, 1, 1), marker(3, 1, abort)),
			aborted: []Aborted{{1, 0}}, want: nil, next: 4,
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, most := range []int{1, 100} {
				r := NewReader(c.data, c.from, c.aborted, Limits{})
				var got []record.Record
				for range 2 { // a second time from the start
					r.Rewind(c.from)
					got = nil
					for r.More() {
						var err error
						if got, err = r.Read(got, len(got)+most, 1000); err != nil {
							t.Fatal(err)
						}
					}
				}
				var want []record.Record
				for _, offset := range c.want {
					want = append(want, record.Record{Offset: offset})
				}
				mustEqual(t, got, want)
				if r.Next() != c.next {
					t.Fatalf("next %d, want %d", r.Next(), c.next)
				}
			}
		})
	}
}

// With transaction version 2 the marker carries the data's epoch + 1.
func TestAMarkersEpochPlaysNoPart(t *testing.T) {
	first := spec{producer: 1, epoch: 3, attributes: flagTransactional, records: []record.Record{{Offset: 0}}}.encode()
	end := spec{base: 1, producer: 1, epoch: 4, attributes: flagTransactional | flagControl, records: []record.Record{{Offset: 1, Key: []byte{0, 0, 0, abort}}}}.encode()
	second := spec{base: 2, producer: 1, epoch: 4, attributes: flagTransactional, records: []record.Record{{Offset: 2}}}.encode()
	got := readAll(t, NewReader(join(first, end, second), 0, []Aborted{{1, 0}}, Limits{}))
	mustEqual(t, got, []record.Record{{Offset: 2}})
}
