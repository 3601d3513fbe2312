package wire

import (
	"encoding/binary"
	"slices"
	"strconv"

	"ankka-flow/delivery/record"
)

// RawRecords are an emit's records as they stand in its frame, validated when
// the frame was parsed. They alias it. The zero value holds none.
type RawRecords struct {
	raw     []byte // the arrays, one after another, without the header before them
	n       int
	headers int
	bytes   int
	frame   int // bytes of the frame's body, which the records keep alive
}

// Len is the number of records.
func (r RawRecords) Len() int { return r.n }

// Bytes is the sum of the records' record.Record.Size.
func (r RawRecords) Bytes() int { return r.bytes }

// Held is the number of bytes that it costs to hold the records: the frame that
// they keep alive, extra elements and all, and what Append makes of them. It is
// what a bound on memory has to count (R10), for Bytes says nothing of a million
// empty headers.
func (r RawRecords) Held() int {
	return r.frame + r.n*recordBytes + r.headers*headerBytes
}

// What a record.Record and a record.Header take in memory, without their bytes.
const (
	recordBytes = 88
	headerBytes = 48
)

// Append appends the records to dst. Their bytes alias the frame; their headers,
// of all records together, are one allocation, and there is no other but dst's
// growth. A record without a timestamp gets record.Now.
func (r RawRecords) Append(dst []record.Record) []record.Record {
	// Grow, not an exact make: a process that emits record by record appends to
	// the same list a thousand times.
	dst = slices.Grow(dst, r.n)
	slab := make([]record.Header, 0, r.headers)
	c := cursor{b: r.raw}
	for range r.n {
		dst = append(dst, record.Record{})
		slab = c.emitted(&dst[len(dst)-1], slab)
	}
	return dst
}

// EncodeRecords is records as an emit carries them: for a process written in Go.
// record.Now becomes nil. It does not judge their sizes; parsing does.
func EncodeRecords(records []record.Record) RawRecords {
	r := RawRecords{n: len(records)}
	for i := range records {
		rec := &records[i]
		r.raw = append(r.raw, 0x94)
		r.raw = appendBinOrNil(r.raw, rec.Key)
		r.raw = appendBinOrNil(r.raw, rec.Value)
		r.raw = appendHeaders(r.raw, rec.Headers)
		if rec.Timestamp == record.Now {
			r.raw = append(r.raw, 0xc0)
		} else {
			r.raw = appendInt(r.raw, rec.Timestamp)
		}
		r.headers += len(rec.Headers)
		r.bytes += rec.Size()
	}
	r.frame = len(r.raw)
	return r
}

// How deep the arrays of a record stand.
const (
	levelRecord = 3
	levelHeader = 5
)

// emitted reads one emitted record [key, value, headers, timestamp_ms], its
// headers into slab, whose spare capacity holds them (RawRecords counts first).
func (c *cursor) emitted(rec *record.Record, slab []record.Header) []record.Header {
	n := c.arrayLen("array")
	rec.Timestamp = record.Now
	if n > 0 {
		rec.Key = c.binOrNil()
	}
	if n > 1 {
		rec.Value = c.binOrNil()
	}
	if n > 2 {
		rec.Headers, slab = c.headers(slab)
	}
	if n > 3 && !c.isNil() {
		rec.Timestamp = c.integer()
	}
	for ; n > 4; n-- {
		c.skip()
	}
	return slab
}

// headers reads a validated record's headers into slab; nil or none is nil.
func (c *cursor) headers(slab []record.Header) (own, rest []record.Header) {
	if c.isNil() {
		return nil, slab
	}
	n := c.arrayLen("array")
	if n == 0 {
		return nil, slab
	}
	first := len(slab)
	for range n {
		parts := c.arrayLen("array")
		slab = append(slab, record.Header{Name: c.bin("bin"), Value: c.binOrNil()})
		for ; parts > 2; parts-- {
			c.skip()
		}
	}
	return slab[first:len(slab):len(slab)], slab
}

// checkEmitted walks the records of an emit once: every type, every length,
// every record's size. What it lets through, Append reads without asking.
func (c *cursor) checkEmitted(outlet string) RawRecords {
	c.at("records")
	var r RawRecords
	if c.isNil() {
		return r
	}
	r.n = c.arrayLen("array")
	first := c.off
	for c.i = 0; c.i < r.n && c.err == nil; c.i++ {
		start := c.off
		c.checkRecord(&r)
		if size := c.off - start; size > MaxRecord && c.err == nil {
			c.at("records[#]")
			c.fail(CodeRecordTooLarge, "OUTLET", quote(outlet), "SIZE", strconv.Itoa(size))
		}
	}
	if c.err != nil {
		return RawRecords{}
	}
	r.raw = c.b[first:c.off:c.off]
	r.frame = len(c.b)
	return r
}

// checkRecord walks one emitted record and counts it into r.
func (c *cursor) checkRecord(r *RawRecords) {
	c.at("records[#]")
	n := c.arrayLen("array")
	if n > 0 {
		c.at("records[#].key")
		r.bytes += len(c.binOrNil())
	}
	if n > 1 {
		c.at("records[#].value")
		r.bytes += len(c.binOrNil())
	}
	if n > 2 {
		c.checkHeaders(r)
	}
	if n > 3 {
		c.at("records[#].timestamp_ms")
		c.timestampOrNow()
	}
	c.extra(levelRecord, n-4)
}

// checkHeaders walks a record's headers and counts them into r.
func (c *cursor) checkHeaders(r *RawRecords) {
	c.at("records[#].headers")
	if c.isNil() {
		return
	}
	n := c.arrayLen("array")
	r.headers += n
	for c.j = 0; c.j < n && c.err == nil; c.j++ {
		name, value := c.header()
		r.bytes += len(name) + len(value)
	}
}

// header reads one header [name, value], both of which must be there: a header
// is no record, and a name alone is more likely a mistake than a null value.
func (c *cursor) header() (name, value []byte) {
	c.at("records[#].headers[#]")
	n := c.arrayLen("array [name, value]")
	if n < 2 {
		if c.err == nil {
			c.bad("an array [name, value]", strconv.Itoa(n)+" elements")
		}
		return nil, nil
	}
	c.at("records[#].headers[#].name")
	name = c.bin("bin")
	c.at("records[#].headers[#].value")
	value = c.binOrNil()
	c.extra(levelHeader, n-2)
	return name, value
}

// timestampOrNow is an emitted record's timestamp: record.Now for nil.
func (c *cursor) timestampOrNow() int64 {
	if c.isNil() {
		return record.Now
	}
	return c.timestamp()
}

// timestamp is milliseconds since 1970, or -1 for none.
func (c *cursor) timestamp() int64 {
	t := c.integer()
	if t < record.NoTimestamp {
		c.bad("-1 or more", strconv.FormatInt(t, 10))
	}
	return t
}

// extra passes over n trailing elements that this minor version does not know, of
// an array at the given level; the message's own array is level 1.
func (c *cursor) extra(level, n int) {
	if n <= 0 {
		return
	}
	c.depth = level - 1
	c.skipMany(n, c.skip)
}

// RecordSize is the number of bytes of r's array as a batch's frame holds it:
// what MaxRecord limits.
func RecordSize(r *record.Record) int {
	n := 1 + intSize(r.Offset) + intSize(r.Timestamp) + binSize(r.Key) + binSize(r.Value) + arraySize(len(r.Headers))
	for i := range r.Headers {
		h := &r.Headers[i]
		n += 1 + nameSize(h.Name) + binSize(h.Value)
	}
	return n
}

// appendRecord appends a delivered record [offset, timestamp_ms, key, value,
// headers], RecordSize bytes.
func appendRecord(dst []byte, r *record.Record) []byte {
	dst = append(dst, 0x95)
	dst = appendInt(dst, r.Offset)
	dst = appendInt(dst, r.Timestamp)
	dst = appendBinOrNil(dst, r.Key)
	dst = appendBinOrNil(dst, r.Value)
	return appendHeaders(dst, r.Headers)
}

func appendHeaders(dst []byte, headers []record.Header) []byte {
	dst = appendArray(dst, len(headers))
	for i := range headers {
		dst = append(dst, 0x92)
		dst = appendBin(dst, headers[i].Name)
		dst = appendBinOrNil(dst, headers[i].Value)
	}
	return dst
}

func appendBinOrNil(dst, b []byte) []byte {
	if b == nil {
		return append(dst, 0xc0)
	}
	return appendBin(dst, b)
}

func appendBin(dst, b []byte) []byte {
	switch n := len(b); {
	case n < 1<<8:
		dst = append(dst, 0xc4, byte(n))
	case n < 1<<16:
		dst = append(dst, 0xc5, byte(n>>8), byte(n))
	default:
		dst = binary.BigEndian.AppendUint32(append(dst, 0xc6), uint32(n))
	}
	return append(dst, b...)
}

func appendStr(dst []byte, s string) []byte {
	switch n := len(s); {
	case n < 32:
		dst = append(dst, 0xa0|byte(n))
	case n < 1<<8:
		dst = append(dst, 0xd9, byte(n))
	case n < 1<<16:
		dst = append(dst, 0xda, byte(n>>8), byte(n))
	default:
		dst = binary.BigEndian.AppendUint32(append(dst, 0xdb), uint32(n))
	}
	return append(dst, s...)
}

func appendArray(dst []byte, n int) []byte {
	switch {
	case n < 16:
		return append(dst, 0x90|byte(n))
	case n < 1<<16:
		return append(dst, 0xdc, byte(n>>8), byte(n))
	}
	return binary.BigEndian.AppendUint32(append(dst, 0xdd), uint32(n))
}

// appendInt appends n in the fewest bytes, positive numbers as unsigned: what
// every msgpack library does, so that their bytes and ours are equal.
func appendInt(dst []byte, n int64) []byte {
	switch {
	case n >= 0 && n < 0x80, n < 0 && n >= -32:
		return append(dst, byte(n))
	case n >= 0 && n < 1<<8:
		return append(dst, 0xcc, byte(n))
	case n >= 0 && n < 1<<16:
		return append(dst, 0xcd, byte(n>>8), byte(n))
	case n >= 0 && n < 1<<32:
		return binary.BigEndian.AppendUint32(append(dst, 0xce), uint32(n))
	case n >= 0:
		return binary.BigEndian.AppendUint64(append(dst, 0xcf), uint64(n))
	case n >= -1<<7:
		return append(dst, 0xd0, byte(n))
	case n >= -1<<15:
		return append(dst, 0xd1, byte(n>>8), byte(n))
	case n >= -1<<31:
		return binary.BigEndian.AppendUint32(append(dst, 0xd2), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(dst, 0xd3), uint64(n))
}

func intSize(n int64) int {
	switch {
	case n >= -32 && n < 0x80:
		return 1
	case n >= 0 && n < 1<<8, n < 0 && n >= -1<<7:
		return 2
	case n >= 0 && n < 1<<16, n < 0 && n >= -1<<15:
		return 3
	case n >= 0 && n < 1<<32, n < 0 && n >= -1<<31:
		return 5
	}
	return 9
}

// binSize is the size of b as bin, or of nil.
func binSize(b []byte) int {
	if b == nil {
		return 1
	}
	return nameSize(b)
}

// nameSize is the size of b as bin, also where b is nil: a header's name is
// never null.
func nameSize(b []byte) int {
	switch n := len(b); {
	case n < 1<<8:
		return 2 + n
	case n < 1<<16:
		return 3 + n
	default:
		return 5 + n
	}
}

func arraySize(n int) int {
	switch {
	case n < 16:
		return 1
	case n < 1<<16:
		return 3
	}
	return 5
}
