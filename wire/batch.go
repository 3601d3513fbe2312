package wire

import (
	"encoding/binary"

	"ankka-flow/delivery/record"
)

// Fit is what became of a record that was to be appended to a batch.
type Fit uint8

const (
	// Fits: the record was appended.
	Fits Fit = iota
	// FrameFull: nothing was appended; the record begins the next batch.
	FrameFull
	// RecordTooLarge: nothing was appended; the record is over MaxRecord and fits
	// no frame (R10: named by topic, partition and offset, which the caller has).
	RecordTooLarge
)

// BatchEncoder writes a batch's frame record by record: nobody need know their
// number before, for the header that counts them has a fixed width and is filled
// in by Finish. Appending a record allocates only where dst must grow.
//
// Begin, then Append and Len and Count in any number, then Finish. An encoder is
// used again by the next Begin; it is not safe for concurrent use.
type BatchEncoder struct {
	buf    []byte
	frame  int // where this frame's length stands in buf
	counts int // where the number of records stands
	n      int
}

// batchTail is the most bytes that Finish adds: the map of info with its attempt.
const batchTail = 1 + 8 + 9

// Begin starts a batch's frame behind what dst holds. inlet is a port's name, at
// most 63 bytes.
func (e *BatchEncoder) Begin(dst []byte, id uint64, inlet string, partition int32) {
	e.frame, e.n = len(dst), 0
	dst = append(dst, 0, 0, 0, 0, 0x96)
	dst = appendStr(dst, KindBatch)
	dst = appendInt(dst, int64(id))
	dst = appendStr(dst, inlet)
	dst = appendInt(dst, int64(partition))
	dst = append(dst, 0xdd)
	e.counts = len(dst)
	e.buf = append(dst, 0, 0, 0, 0)
}

// Append appends r, if the frame still holds it.
func (e *BatchEncoder) Append(r *record.Record) Fit {
	size := RecordSize(r)
	if size > MaxRecord {
		return RecordTooLarge
	}
	if e.Len()+size > MaxFrame {
		return FrameFull
	}
	e.buf = appendRecord(e.buf, r)
	e.n++
	return Fits
}

// Len is the most bytes that the frame's body will have if it is finished now.
func (e *BatchEncoder) Len() int { return len(e.buf) - e.frame - 4 + batchTail }

// Count is the number of records appended.
func (e *BatchEncoder) Count() int { return e.n }

// Finish completes the frame and returns dst with it appended. attempt is Batch's
// Attempt, 0: not said. A batch without records is the caller's mistake.
func (e *BatchEncoder) Finish(attempt int) []byte {
	if e.n == 0 {
		panic("wire: BatchEncoder.Finish without a record; the protocol has no empty batch")
	}
	buf := e.buf
	if attempt > 0 {
		buf = append(buf, 0x81)
		buf = appendStr(buf, "attempt")
		buf = appendInt(buf, int64(attempt))
	} else {
		buf = append(buf, 0x80)
	}
	binary.BigEndian.PutUint32(buf[e.counts:], uint32(e.n))
	binary.BigEndian.PutUint32(buf[e.frame:], uint32(len(buf)-e.frame-4))
	e.buf = nil
	return buf
}
