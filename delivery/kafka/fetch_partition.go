package kafka

import (
	"fmt"
	"slices"
	"time"

	"ankka-flow/delivery/kafka/recordbatch"
	"ankka-flow/delivery/record"
)

// End is what is known about the ends of a partition's log; -1: not known.
type End struct {
	// HighWatermark is the offset behind the last record that every replica
	// in sync has.
	HighWatermark int64
	// LastStable is the offset before which every transaction has ended: what
	// read_committed can see, so lag counts up to it.
	LastStable int64
	// LogStart is the first offset that retention has left.
	LogStart int64
}

const (
	// chunkBytes is what one fetch asks of a partition. Two of them are the 1
	// MiB that a partition may hold, so that it refetches at half.
	chunkBytes = 512 << 10
	// largestChunk bounds what is asked for where a batch does not fit.
	largestChunk = prefetchBudget / 2

	retryFirst = 100 * time.Millisecond
	retryMost  = time.Second
	// corruptFirst and corruptMost are the waits before bytes that cannot be
	// read are fetched again: they may have been damaged on their way.
	corruptFirst = 500 * time.Millisecond
	corruptMost  = 30 * time.Second
)

// chunk is the whole batches of one answer for one partition.
type chunk struct {
	start, end int64
	data       []byte
	aborted    []recordbatch.Aborted
}

// partition is the prefetch of one partition; the fetcher's mutex guards it.
// It outlives its assignment, so that a late Cut still has a position.
type partition struct {
	id      int32
	owned   bool
	running bool   // between Seek and Pause
	blocked bool   // an error that only a Seek ends
	pos     int64  // of the next Cut
	next    int64  // of the next fetch
	flight  uint64 // the fetch that is under way; an answer to another is dropped
	stuck   bool   // what is fetched cannot be walked to its end: fetch nothing behind it

	chunks []chunk // fetched, not read out
	open   bool    // reader reads chunks[0]
	reader recordbatch.Reader
	recent []chunk // read out by the last Cut of all, kept for CutBack
	held   int     // bytes of chunks; charged to the budget

	behind  bool   // there is more at the broker, as far as we know
	empties int    // answers in a row without data although there should be some
	limit   int    // bytes to ask for
	fails   int    // failures in a row
	bad     int    // batches refused in a row, by Cut
	told    bool   // the failure was told
	said    string // what was logged of what is in the way here; empty: nothing since a batch was read
	retryAt time.Time
	orphan  time.Time // since when it has no leader; zero: it has one
	end     End
}

// wants: a fetch for it should be under way, but for its backoff and leader.
func (p *partition) wants() bool {
	return p.owned && p.running && !p.blocked && !p.stuck && p.flight == 0 && p.held <= chunkBytes
}

// drop gives the prefetch back. The answer to a running fetch is not wanted.
func (f *fetcher) drop(p *partition) {
	p.flight = 0
	p.chunks, p.recent, p.open, p.stuck = nil, nil, false, false
	p.reader.Reset(nil, 0, nil, recordbatch.Limits{})
	f.c.budget.charge(-p.held)
	p.held = 0
}

// forgetRecent lets go of what the last Cut, of whatever partition, read out:
// CutBack is called before another Cut or not at all.
func (f *fetcher) forgetRecent() {
	if p := f.partitions[f.lastCut]; p != nil {
		clear(p.recent)
		p.recent = p.recent[:0]
	}
}

// seek begins to fetch from an offset on, as Consumer.Seek says. It reports
// whether there is something to cut already.
func (f *fetcher) seek(id int32, offset int64) (ready bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.partition(id)
	if p.owned && p.running && !p.blocked && p.pos == offset && p.bad == 0 {
		return len(p.chunks) > 0
	}
	f.drop(p)
	p.pos, p.next = offset, offset
	p.running, p.blocked = true, false
	p.behind, p.empties, p.limit = true, 0, chunkBytes
	p.fails, p.bad, p.told, p.retryAt = 0, 0, false, time.Time{}
	f.wake()
	return false
}

// pause stops fetching a partition and gives its prefetch back.
func (f *fetcher) pause(id int32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.partition(id)
	f.drop(p)
	p.running = false
}

// cut takes records, as Consumer.Cut says.
func (f *fetcher) cut(id int32, dst []record.Record, maxRecords, maxBytes int) (recs []record.Record, first, next int64, more bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.partition(id)
	f.forgetRecent()
	f.lastCut = id
	dst = dst[:0]
	first = p.pos
	if !p.owned || !p.running {
		return dst, first, first, false, nil
	}
	for len(dst) < maxRecords && len(p.chunks) > 0 {
		var full bool
		dst, full, err = f.cutChunk(p, dst, maxRecords, &maxBytes)
		if full || err != nil {
			break
		}
	}
	if err != nil && len(dst) == 0 {
		return dst, first, p.pos, false, f.refuse(p, err)
	}
	if p.pos > first {
		p.bad, p.said = 0, ""
	}
	return dst, first, p.pos, len(p.chunks) > 0, nil
}

// cutChunk reads from the first chunk on; full says that the limits are met.
// It moves a chunk that is read out to recent.
func (f *fetcher) cutChunk(p *partition, dst []record.Record, maxRecords int, room *int) ([]record.Record, bool, error) {
	c := p.chunks[0]
	if !p.open {
		p.reader.Reset(c.data, p.pos, c.aborted, recordbatch.Limits{})
		p.open = true
	}
	before := len(dst)
	dst, err := p.reader.Read(dst, maxRecords-before, *room)
	if before > 0 && len(dst) == before+1 && dst[before].Size() > *room {
		// The reader gives its first record whatever its size; here it is not
		// the batch's first.
		offset := dst[before].Offset
		dst[before] = record.Record{}
		p.reader.Rewind(offset)
		p.pos = offset
		return dst[:before], true, nil
	}
	for i := range dst[before:] {
		*room -= dst[before+i].Size()
	}
	p.pos = max(p.pos, p.reader.Next())
	if err != nil || p.reader.More() {
		return dst, true, err
	}
	p.pos = max(p.pos, c.end)
	p.chunks = p.chunks[1:]
	p.recent = append(p.recent, c)
	p.open = false
	p.held -= len(c.data)
	f.c.budget.charge(-len(c.data))
	if p.wants() {
		f.wake()
	}
	return dst, false, nil
}

// cutBack makes offset, which the last Cut took, the position again.
func (f *fetcher) cutBack(id int32, offset int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.partition(id)
	if offset >= p.pos || !p.owned || !p.running {
		return
	}
	p.pos = offset
	if p.open && offset >= p.chunks[0].start {
		p.reader.Rewind(offset)
		return
	}
	for n := len(p.recent) - 1; n >= 0 && p.pos < p.firstChunk(); n-- {
		c := p.recent[n]
		p.recent = p.recent[:n]
		p.chunks = slices.Insert(p.chunks, 0, c)
		p.held += len(c.data)
		f.c.budget.charge(len(c.data))
	}
	p.open = false
}

// firstChunk is where what is fetched begins.
func (p *partition) firstChunk() int64 {
	if len(p.chunks) == 0 {
		return p.next
	}
	return p.chunks[0].start
}

// refuse takes a batch that cannot be read out of the way: it is fetched again
// after a wait, and nothing behind it is delivered meanwhile (R5). What cannot
// be mended by fetching again blocks the partition.
func (f *fetcher) refuse(p *partition, err error) error {
	f.drop(p)
	p.next, p.behind = p.pos, true
	p.bad++
	blocked := !isCorrupt(err)
	p.blocked = blocked
	p.retryAt = time.Now().Add(backoff(corruptFirst, corruptMost, p.bad))
	f.wake()
	f.stops(p, err.Error(), blocked)
	return err
}

// stops tells what is in the way at a partition's position, and logs it once: a
// new conversation, which seeks, meets the same again. lasting: fetching again
// does not mend it, a person has to.
func (f *fetcher) stops(p *partition, reason string, lasting bool) {
	f.failed(p.id, reason, lasting)
	if p.said == reason {
		return
	}
	p.said = reason
	f.c.log.Log(f.ctx, levelOf(lasting), fmt.Sprintf("%s/%d cannot be read on: %s", f.in.Topic, p.id, reason),
		"inlet", f.in.Name, "topic", f.in.Topic, "partition", p.id, "offset", p.pos)
}

// backoff doubles from first to most; n counts from 1.
func backoff(first, most time.Duration, n int) time.Duration {
	for ; n > 1 && first < most; n-- {
		first *= 2
	}
	return min(first, most)
}
