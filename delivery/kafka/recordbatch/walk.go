package recordbatch

import "ankka-flow/delivery/record"

// checkRecords walks the records of one batch without keeping anything and says
// what is wrong with them, "" when nothing is, and how many headers they have.
// Offsets must rise within the batch and stay within last; a record must fill exactly the
// length it claims, and count records exactly the bytes there are.
//
// It is a pass of its own because a batch is often taken in pieces: only so can
// a bad record late in a batch keep the good ones before it from being delivered.
func checkRecords(b []byte, count, last int) (headers int, problem string) {
	pos, before := 0, -1
	for range count {
		length, i := varint32(b, pos)
		if i < 0 || length < 1 || length > len(b)-i {
			return 0, "a record's length is malformed or beyond the batch"
		}
		pos = i + length
		r := b[:pos]
		_, i = varint64(r, i+1)
		delta, i := varint32(r, i)
		if i < 0 || delta <= before || delta > last {
			return 0, "a record's offset is malformed or out of order"
		}
		before = delta
		if i = skipBytes(r, skipBytes(r, i)); i < 0 {
			return 0, "a record's key or value is beyond its length"
		}
		n, i := varint32(r, i)
		if i < 0 || n < 0 || n > (pos-i)/2 {
			return 0, "a record's number of headers is malformed"
		}
		headers += n
		for ; n > 0 && i >= 0; n-- {
			i = skipHeader(r, i)
		}
		if i != pos {
			return 0, "a record's fields do not add up to its length"
		}
	}
	if pos != len(b) {
		return 0, "bytes are left behind the last record"
	}
	return headers, ""
}

// skipBytes passes a nullable byte string at r[i:]; -1 where it is malformed.
func skipBytes(r []byte, i int) int {
	n, i := varint32(r, i)
	switch {
	case i < 0 || n < -1 || n > len(r)-i:
		return -1
	case n < 0:
		return i
	}
	return i + n
}

// skipHeader is skipBytes for a name, which cannot be null, and a value.
func skipHeader(r []byte, i int) int {
	n, i := varint32(r, i)
	if i < 0 || n < 0 || n > len(r)-i {
		return -1
	}
	return skipBytes(r, i+n)
}

// batch is the records of one batch, checked and decompressed; those from b[pos]
// on are not yet taken.
type batch struct {
	b        []byte
	inflated bool // b is not a part of the fetched data
	pos      int
	count    int
	left     int // records not yet taken
	headers  int // headers in all, to cut the arena to size
	base     int64
	end      int64
	// time is what a record's timestamp delta is added to, or with
	// LogAppendTime the one time of all records.
	time    int64
	oneTime bool
}

// open decompresses and checks the records of the batch with header h, whose
// bytes begin b and whose CRC was found right.
func (h *header) open(b []byte, limits Limits) (batch, error) {
	t := batch{
		b: b[HeaderSize:h.size:h.size], count: h.count, left: h.count,
		base: h.base, end: h.end(), time: h.baseTimestamp,
	}
	if h.is(flagLogAppendTime) {
		t.time, t.oneTime = h.maxTimestamp, true
	}
	if codec := codec(h.attributes & codecMask); codec != codecNone {
		var err error
		if t.b, err = codec.decompress(t.b, limits.maxDecompressed()); err != nil {
			return batch{}, batchError(err, h.base, "%s, %d bytes compressed", codec, h.size-HeaderSize)
		}
		t.inflated = true
	}
	var problem string
	if t.headers, problem = checkRecords(t.b, h.count, h.lastDelta); problem != "" {
		return batch{}, batchError(ErrCorrupt, h.base, "%s", problem)
	}
	return t, nil
}

// next decodes the record at pos, which checkRecords has accepted, into rec and
// returns where it ends. Its headers come from arena.
func (t *batch) next(rec *record.Record, arena *headerArena) (end int) {
	b := t.b
	length, i := varint32(b, t.pos)
	end = i + length
	timestamp, i := varint64(b, i+1)
	delta, i := varint32(b, i)
	rec.Offset = t.base + int64(delta)
	rec.Timestamp = t.time
	if !t.oneTime {
		rec.Timestamp += timestamp
	}
	rec.Key, i = takeBytes(b, i)
	rec.Value, i = takeBytes(b, i)
	rec.Headers = nil
	if n, i := varint32(b, i); n > 0 {
		rec.Headers = arena.take(n, t.headers)
		for k := range rec.Headers {
			h := &rec.Headers[k]
			h.Name, i = takeBytes(b, i)
			h.Value, i = takeBytes(b, i)
		}
	}
	return end
}

// peekOffset is the offset of the record at pos, and where that record ends.
func (t *batch) peekOffset() (offset int64, end int) {
	length, i := varint32(t.b, t.pos)
	end = i + length
	_, i = varint64(t.b, i+1)
	delta, _ := varint32(t.b, i)
	return t.base + int64(delta), end
}

// takeBytes gives a nullable byte string without copying it: nil for null, a
// slice of length 0 for empty (R8). The capacity ends with it, so that nobody who appends
// to it writes into its neighbour.
func takeBytes(b []byte, i int) ([]byte, int) {
	n, i := varint32(b, i)
	if n < 0 {
		return nil, i
	}
	return b[i : i+n : i+n], i + n
}

// headerArena hands out header slices cut from larger ones. A slice once handed
// out is never used again, so a record stays valid as long as somebody holds it;
// the price is that it keeps the others of its chunk (at most 48 KiB) alive.
type headerArena struct{ free []record.Header }

// maxArenaChunk bounds how many headers are allocated at once, but for a record
// that has more.
const maxArenaChunk = 1024

// take gives n headers; inBatch says how many the whole batch has, so that a
// batch with few does not cost a whole chunk.
func (a *headerArena) take(n, inBatch int) []record.Header {
	if n > len(a.free) {
		a.free = make([]record.Header, max(n, min(inBatch, maxArenaChunk)))
	}
	h := a.free[:n:n]
	a.free = a.free[n:]
	return h
}
