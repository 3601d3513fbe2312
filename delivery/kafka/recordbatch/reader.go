package recordbatch

import "ankka-flow/delivery/record"

// Reader walks the records of one partition in a Fetch answer: several batches,
// of which the broker may have cut off the last. The zero Reader has nothing to
// read. It is not safe for concurrent use.
//
//  1. Next never goes back but by Rewind and Reset.
//  2. Everything visible between the wanted offset and Next has been returned.
//  3. An error comes alone, after every good record before the bad batch was
//     returned; it comes again at each Read, Next stays before that batch, and
//     nothing of the batch is returned.
//  4. A batch is decompressed when its first record is wanted, one at a time.
type Reader struct {
	data    []byte
	limits  Limits
	off     int   // of the first batch in data that was neither entered nor passed
	checked int   // the batch at this place has passed its checks; -1: none
	walked  int64 // the end of the last batch entered or passed; 0: none yet
	next    int64
	cur     batch // stays after its last record, for Rewind
	aborts  abortFilter
	arena   headerArena
	err     error
}

// NewReader reads data from offset from on. aborted is the answer's list of
// aborted transactions; give nil when transactions are read uncommitted, for some
// brokers send the list all the same. Neither may be changed as long as the
// Reader, or for data a record from it, is in use.
func NewReader(data []byte, from int64, aborted []Aborted, limits Limits) *Reader {
	r := &Reader{}
	r.Reset(data, from, aborted, limits)
	return r
}

// Reset makes r a new Reader as NewReader does. Records already returned stay
// valid. Reset(nil, ...) drops everything that r holds.
func (r *Reader) Reset(data []byte, from int64, aborted []Aborted, limits Limits) {
	r.data, r.limits = data, limits
	r.aborts.reset(aborted)
	r.arena = headerArena{} // its chunk has headers that keep older data alive
	r.restart(from)
}

func (r *Reader) restart(from int64) {
	r.off, r.checked, r.walked, r.next = 0, -1, 0, from
	r.cur, r.err = batch{}, nil
}

// Rewind makes from the position, so that the tail of what Read returned is returned
// again. From the beginning of the batch read last on it costs a walk over that batch; further
// back the data is walked from its beginning, checked and decompressed anew. A
// position before the data or behind it is the caller's to fetch.
func (r *Reader) Rewind(from int64) {
	if r.err != nil || r.cur.count == 0 || from < r.cur.base {
		r.aborts.rewind()
		r.restart(from)
		return
	}
	r.cur.pos, r.cur.left, r.next = 0, r.cur.count, from
}

// Next is the position behind everything walked so far: the offset behind the
// last record returned, or behind the last batch where nothing visible is left of it, with
// control batches, aborted transactions and holes. It is what to commit once
// the records returned are done, and where to fetch next.
func (r *Reader) Next() int64 { return r.next }

// More says whether Read has something to do: a rest of a batch, a whole batch,
// or an error to return. Read may still return no record, when none is visible.
func (r *Reader) More() bool {
	if r.err != nil || r.cur.left > 0 {
		return true
	}
	_, whole := wholeBatch(r.data[r.off:])
	return whole
}

// FirstPartial says how many bytes the first batch of the data takes when the data
// ends within it: the fetch has to be repeated with at least that limit, for
// otherwise it brings the same again for ever. It is 0 when the data is empty
// or begins with a whole batch. The number is the batch's own claim, up to 2
// GiB, and the caller bounds it. (A batch cut off behind others is none of the
// caller's concern: the next fetch, from Next, brings it.)
func (r *Reader) FirstPartial() int {
	if len(r.data) == 0 {
		return 0
	}
	size, whole := wholeBatch(r.data)
	if whole {
		return 0
	}
	return size
}

// Held is how many bytes r keeps alive: the data and, when the batch being read was
// compressed, its decompressed records. Those of earlier batches live on
// only through the records returned from them.
func (r *Reader) Held() int {
	n := len(r.data)
	if r.cur.inflated {
		n += len(r.cur.b)
	}
	return n
}

// Read appends visible records to dst, in offset order, until there are
// maxRecords of them (below 1: none), their sizes (record.Record.Size) would pass
// maxBytes, or no whole batch is left. The first record is given whatever its
// size. Keys, values and headers alias the data or the decompressed batch and
// stay valid as long as somebody holds them. Behind the last record Read passes
// what is not visible anyway, so that Next after the last Read is behind all of it.
//
// The error is nil whenever records were appended; it wraps ErrCorrupt,
// ErrUnsupported or ErrTooLarge and blocks this partition alone.
func (r *Reader) Read(dst []record.Record, maxRecords, maxBytes int) ([]record.Record, error) {
	start := len(dst)
	for room := maxRecords; room > 0 && r.err == nil; room = maxRecords - (len(dst) - start) {
		if r.cur.left == 0 {
			var visible bool
			if visible, r.err = r.enter(); !visible {
				break
			}
		}
		var full bool
		if dst, maxBytes, full = r.take(dst, start, room, maxBytes); full {
			break
		}
	}
	if len(dst) == start {
		return dst, r.err
	}
	if r.cur.left == 0 && r.err == nil {
		_, r.err = r.seekVisible()
	}
	return dst, nil
}

// seekVisible passes the batches of which nothing is visible, up to one of which
// something may be, and says whether there is one. It decompresses nothing but
// control batches.
func (r *Reader) seekVisible() (bool, error) {
	for {
		b := r.data[r.off:]
		if _, whole := wholeBatch(b); !whole {
			return false, nil
		}
		h, err := r.check(b)
		if err != nil {
			return false, err
		}
		r.aborts.reach(h.end() - 1)
		switch {
		case h.count == 0 || h.end() <= r.next && !h.is(flagControl):
		case h.is(flagControl):
			if err := r.control(&h, b); err != nil {
				return false, err
			}
		case !r.aborts.hides(&h):
			return true, nil
		}
		r.off += h.size
		r.walked = h.end()
		r.next = max(r.next, r.walked)
	}
}

// check reads the header of the batch at r.off and, once a batch, its CRC.
func (r *Reader) check(b []byte) (header, error) {
	h, err := parseHeader(b)
	if err != nil || r.checked == r.off {
		return h, err
	}
	if h.base < r.walked {
		return h, batchError(ErrCorrupt, h.base, "the batch before it reaches to offset %d", r.walked-1)
	}
	if err := h.checkCRC(b); err != nil {
		return h, err
	}
	r.checked = r.off
	return h, nil
}

// control tells the filter what the marker in a control batch says.
func (r *Reader) control(h *header, b []byte) error {
	t, err := h.open(b, r.limits)
	if err != nil {
		return err
	}
	var rec record.Record
	t.next(&rec, &r.arena)
	r.aborts.marker(h.producerID, rec.Key)
	return nil
}

// enter makes the next batch of which something may be visible the current one.
func (r *Reader) enter() (bool, error) {
	visible, err := r.seekVisible()
	if !visible {
		return false, err
	}
	b := r.data[r.off:]
	h, err := r.check(b)
	if err != nil {
		return false, err
	}
	if r.cur, err = h.open(b, r.limits); err != nil {
		return false, err
	}
	r.off += h.size
	r.walked = h.end()
	return true, nil
}

// take appends at most room records of the current batch. It returns what is
// left of maxBytes and whether the next record did not fit.
func (r *Reader) take(dst []record.Record, start, room, maxBytes int) ([]record.Record, int, bool) {
	t := &r.cur
	r.skipBelow()
	for ; t.left > 0 && room > 0; room-- {
		n := len(dst)
		if n < cap(dst) {
			dst = dst[:n+1]
		} else {
			dst = append(dst, record.Record{})
		}
		rec, free := &dst[n], r.arena
		end := t.next(rec, &r.arena)
		size := rec.Size()
		if size > maxBytes && n > start {
			*rec, r.arena = record.Record{}, free
			return dst[:n], maxBytes, true
		}
		maxBytes -= size
		t.pos = end
		t.left--
		r.next = rec.Offset + 1
	}
	if t.left == 0 {
		r.next = max(r.next, r.walked)
	}
	return dst, maxBytes, false
}

// skipBelow passes the records below the position: a broker answers with whole
// batches, and Rewind goes back to a batch's beginning.
func (r *Reader) skipBelow() {
	for t := &r.cur; t.left > 0; t.left-- {
		offset, end := t.peekOffset()
		if offset >= r.next {
			return
		}
		t.pos = end
	}
}
