package recordbatch

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// Aborted is one entry of a Fetch answer's list of aborted transactions.
type Aborted struct {
	// ProducerID is whose transaction it was. The epoch plays no part: with
	// transaction version 2 the marker's epoch is the data's + 1.
	ProducerID int64
	// FirstOffset is where the transaction's first record lies.
	FirstOffset int64
}

// abortFilter knows which producers are inside an aborted transaction at the place
// the walk has reached. Batches are given to it in the order of the log, each
// once.
//
//  1. An entry becomes active at the first batch that reaches its FirstOffset.
//  2. While it is active the producer's transactional batches are not visible.
//  3. Only an abort marker of that producer ends it. A commit marker does not:
//     it can belong to an earlier transaction that the list does not have.
//  4. An abort marker of a producer without an active entry changes nothing:
//     the fetch began behind the transaction's records.
//
// A producer has at most one open transaction, so a set is enough; counting
// entries would leave a producer active for ever when compaction took a marker.
type abortFilter struct {
	list   []Aborted // by FirstOffset
	at     int       // how many of list have become active
	active map[int64]struct{}
}

// reset takes the list of another answer. Brokers send it sorted; the protocol
// does not promise it. The caller's slice is not changed.
func (f *abortFilter) reset(list []Aborted) {
	byOffset := func(a, b Aborted) int { return cmp.Compare(a.FirstOffset, b.FirstOffset) }
	if !slices.IsSortedFunc(list, byOffset) {
		list = slices.Clone(list)
		slices.SortFunc(list, byOffset)
	}
	f.list = list
	f.rewind()
}

// rewind goes back to the beginning of the answer.
func (f *abortFilter) rewind() {
	f.at = 0
	clear(f.active)
}

// reach activates the entries that begin at or before last, the last offset of a
// batch (Java's consumer does the same; the base offset would do as well, for a
// batch belongs to one transaction).
func (f *abortFilter) reach(last int64) {
	for f.at < len(f.list) && f.list[f.at].FirstOffset <= last {
		if f.active == nil {
			f.active = make(map[int64]struct{})
		}
		f.active[f.list[f.at].ProducerID] = struct{}{}
		f.at++
	}
}

func (f *abortFilter) hides(h *header) bool {
	if !h.is(flagTransactional) {
		return false
	}
	_, aborted := f.active[h.producerID]
	return aborted
}

// marker takes the key of a control record: version, then type 0 (abort) or 1
// (commit). Other types are none of a consumer's business.
func (f *abortFilter) marker(producerID int64, key []byte) {
	if len(key) >= 4 && binary.BigEndian.Uint16(key[2:]) == 0 {
		delete(f.active, producerID)
	}
}
