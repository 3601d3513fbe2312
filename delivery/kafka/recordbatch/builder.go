package recordbatch

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"

	"ankka-flow/delivery/record"
)

// Builder writes one batch, uncompressed: Reset, Append for each record, then
// Finish. It is not safe for concurrent use; used again it allocates only where
// dst is too small.
type Builder struct {
	buf   []byte
	start int // where the batch begins in buf
	count int32
	base  int64 // timestamp of the first record
	max   int64 // largest timestamp
}

// Reset begins a batch behind dst, whose bytes stay as they are. Whatever was
// appended since the last Finish is dropped.
func (b *Builder) Reset(dst []byte) {
	*b = Builder{buf: append(dst, make([]byte, HeaderSize)...), start: len(dst)}
}

// Append adds a record with this timestamp in milliseconds (r.Timestamp and
// r.Offset play no part: the caller has resolved record.Now). Null and
// empty stay apart for the key, the value and header values; headers keep their order
// and duplicates (R8). A header's nil Name is written as an empty one, for Kafka
// knows no null name. The bytes of r are copied.
//
// The caller bounds what it appends, by Len and EncodedSize; a batch past 2 GiB panics.
func (b *Builder) Append(r *record.Record, timestamp int64) {
	if b.count == 0 {
		b.base, b.max = timestamp, timestamp
	}
	b.max = max(b.max, timestamp)
	timeDelta, offsetDelta := timestamp-b.base, int64(b.count)
	body := 1 + varintSize(timeDelta) + varintSize(offsetDelta) + fieldsSize(r)
	if body > math.MaxInt32-b.Len() {
		panic(fmt.Sprintf("recordbatch: a record of %d bytes appended to a batch of %d", body, b.Len()))
	}
	buf := appendVarint(b.buf, int64(body))
	buf = append(buf, 0) // attributes: Kafka defines none
	buf = appendVarint(buf, timeDelta)
	buf = appendVarint(buf, offsetDelta)
	buf = appendBytes(buf, r.Key)
	buf = appendBytes(buf, r.Value)
	buf = appendVarint(buf, int64(len(r.Headers)))
	for i := range r.Headers {
		h := &r.Headers[i]
		buf = appendVarint(buf, int64(len(h.Name)))
		buf = append(buf, h.Name...)
		buf = appendBytes(buf, h.Value)
	}
	b.buf = buf
	b.count++
}

// Len is how many bytes the batch has so far, its header included.
func (b *Builder) Len() int { return len(b.buf) - b.start }

// Count is how many records the batch has; a sequence number goes on by as many.
func (b *Builder) Count() int { return int(b.count) }

// Finish completes the batch and returns dst of Reset with the batch behind it.
// The base offset is 0 and the leader epoch -1, as a producer sends them. Give
// producer id, epoch and base sequence -1 each for a producer that is not
// idempotent. A broker refuses an empty batch, so finishing one panics.
func (b *Builder) Finish(producerID int64, epoch int16, baseSequence int32) []byte {
	if b.count == 0 {
		panic("recordbatch: Finish of a batch without records")
	}
	h := b.buf[b.start:]
	binary.BigEndian.PutUint32(h[atLength:], uint32(len(h)-prefixSize))
	binary.BigEndian.PutUint32(h[atLeaderEpoch:], math.MaxUint32)
	h[atMagic] = 2
	binary.BigEndian.PutUint32(h[atLastOffsetDelta:], uint32(b.count-1))
	binary.BigEndian.PutUint64(h[atBaseTimestamp:], uint64(b.base))
	binary.BigEndian.PutUint64(h[atMaxTimestamp:], uint64(b.max))
	binary.BigEndian.PutUint32(h[atCount:], uint32(b.count))
	Stamp(h, producerID, epoch, baseSequence)
	out := b.buf
	*b = Builder{}
	return out
}

// Stamp gives a finished batch, and nothing behind it, another producer id,
// epoch and base sequence, in place, and corrects its CRC. Only for bytes that
// were certainly never appended: bytes that may have been are never edited (R9).
func Stamp(batch []byte, producerID int64, epoch int16, baseSequence int32) {
	binary.BigEndian.PutUint64(batch[atProducerID:], uint64(producerID))
	binary.BigEndian.PutUint16(batch[atProducerEpoch:], uint16(epoch))
	binary.BigEndian.PutUint32(batch[atBaseSequence:], uint32(baseSequence))
	binary.BigEndian.PutUint32(batch[atCRC:], crc32.Checksum(batch[atAttributes:], castagnoli))
}

// EncodedSize is the most that Append adds for r to any batch; it is at most 17
// bytes more than what Append does add.
func EncodedSize(r *record.Record) int {
	const length, attributes, timeDelta, offsetDelta = 5, 1, 10, 5
	return length + attributes + timeDelta + offsetDelta + fieldsSize(r)
}

// fieldsSize is what key, value and headers take.
func fieldsSize(r *record.Record) int {
	n := bytesSize(r.Key) + bytesSize(r.Value) + varintSize(int64(len(r.Headers)))
	for i := range r.Headers {
		name := r.Headers[i].Name
		n += varintSize(int64(len(name))) + len(name) + bytesSize(r.Headers[i].Value)
	}
	return n
}

func bytesSize(b []byte) int { return varintSize(int64(len(b))) + len(b) }

// appendBytes writes a nullable byte string: null is the length -1, which takes one
// byte as the length 0 does.
func appendBytes(dst, b []byte) []byte {
	if b == nil {
		return appendVarint(dst, -1)
	}
	return append(appendVarint(dst, int64(len(b))), b...)
}
