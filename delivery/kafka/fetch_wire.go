package kafka

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"ankka-flow/delivery/kafka/recordbatch"
)

const (
	fetchKey = 1
	// fetchVersion is the last that always goes to the leader: from 11 on a
	// follower may answer, and a lagging one answers OFFSET_OUT_OF_RANGE to a
	// valid offset. It has zstd.
	fetchVersion = 10
)

// fetchAsk is one partition of a fetch request.
type fetchAsk struct {
	partition int32
	offset    int64
	limit     int // bytes
}

// fetchRequest is one request to one leader, for partitions of one topic.
type fetchRequest struct {
	topic       string
	uncommitted bool
	maxWait     time.Duration
	maxBytes    int
	asks        []fetchAsk
}

// appendTo appends the request's body.
func (q *fetchRequest) appendTo(dst []byte) []byte {
	dst = appendInt32(dst, -1) // not a replica
	dst = appendInt32(dst, int32(q.maxWait/time.Millisecond))
	dst = appendInt32(dst, 1) // least bytes
	dst = appendInt32(dst, int32(q.maxBytes))
	dst = append(dst, isolation(q.uncommitted))
	dst = appendInt32(dst, 0)  // no fetch session
	dst = appendInt32(dst, -1) // and none to be made
	dst = appendInt32(dst, 1)
	dst = appendString(dst, q.topic)
	dst = appendInt32(dst, int32(len(q.asks)))
	for _, a := range q.asks {
		dst = appendInt32(dst, a.partition)
		dst = appendInt32(dst, -1) // leader epoch: not known
		dst = appendInt64(dst, a.offset)
		dst = appendInt64(dst, -1) // log start: for followers only
		dst = appendInt32(dst, int32(a.limit))
	}
	return appendInt32(dst, 0) // forgotten partitions
}

// fetched is one partition of a fetch answer. data is memory of its own, so
// that a small rest does not keep the whole answer.
type fetched struct {
	partition int32
	code      int16
	end       End
	aborted   []recordbatch.Aborted
	data      []byte
}

// fetchReader reads fetch answers from a connection, partition by partition.
type fetchReader struct {
	buf  *bufio.Reader
	left int // bytes of the frame that are not read
	err  error
	tmp  [8]byte
}

func (r *fetchReader) read(p []byte) {
	if r.err != nil {
		return
	}
	if len(p) > r.left {
		r.err = fmt.Errorf("%w: a fetch answer ends early", errMalformed)
		return
	}
	r.left -= len(p)
	_, r.err = io.ReadFull(r.buf, p)
}

func (r *fetchReader) int16() int16 {
	r.read(r.tmp[:2])
	if r.err != nil {
		return 0
	}
	return int16(binary.BigEndian.Uint16(r.tmp[:]))
}

func (r *fetchReader) int32() int32 {
	r.read(r.tmp[:4])
	if r.err != nil {
		return 0
	}
	return int32(binary.BigEndian.Uint32(r.tmp[:]))
}

func (r *fetchReader) int64() int64 {
	r.read(r.tmp[:8])
	if r.err != nil {
		return 0
	}
	return int64(binary.BigEndian.Uint64(r.tmp[:]))
}

// count reads an array's length; null is empty. least is what an element
// takes at least.
func (r *fetchReader) count(least int) int {
	n := int(r.int32())
	if r.err != nil || n < 0 {
		return 0
	}
	if n > r.left/least {
		r.err = fmt.Errorf("%w: %d elements announced in %d bytes", errMalformed, n, r.left)
		return 0
	}
	return n
}

// skip passes n bytes.
func (r *fetchReader) skip(n int) {
	if r.err != nil {
		return
	}
	if n < 0 || n > r.left {
		r.err = fmt.Errorf("%w: a fetch answer ends early", errMalformed)
		return
	}
	r.left -= n
	_, r.err = r.buf.Discard(n)
}

// answer reads one answer frame. wanted says whether a partition's records are
// still wanted before memory is allocated for them; each takes every partition
// in turn. The result is the throttle time and the code of the whole.
func (r *fetchReader) answer(correlation int32, wanted func(int32) bool, each func(fetched)) (throttle time.Duration, code int16, err error) {
	r.left, r.err = 4, nil
	size := int(r.int32())
	if r.err == nil && (size < 4 || size > maxAnswer) {
		r.err = fmt.Errorf("%w: a frame of %d bytes", errMalformed, size)
	}
	r.left = size
	if got := r.int32(); r.err == nil && got != correlation {
		r.err = fmt.Errorf("%w: correlation id %d where %d was due", errMalformed, got, correlation)
	}
	throttle = time.Duration(r.int32()) * time.Millisecond
	code = r.int16()
	r.int32() // fetch session
	for n := r.count(6); n > 0 && r.err == nil; n-- {
		r.skip(int(max(r.int16(), 0))) // the topic: there is only one
		for m := r.count(38); m > 0 && r.err == nil; m-- {
			f := r.partition(wanted)
			if r.err == nil {
				each(f)
			}
		}
	}
	if r.err == nil {
		r.skip(r.left)
	}
	return throttle, code, r.err
}

func (r *fetchReader) partition(wanted func(int32) bool) fetched {
	f := fetched{partition: r.int32(), code: r.int16()}
	f.end = End{HighWatermark: r.int64(), LastStable: r.int64(), LogStart: r.int64()}
	for n := r.count(16); n > 0 && r.err == nil; n-- {
		f.aborted = append(f.aborted, recordbatch.Aborted{ProducerID: r.int64(), FirstOffset: r.int64()})
	}
	size := int(r.int32())
	if r.err != nil || size <= 0 {
		return f
	}
	if size > r.left {
		r.err = fmt.Errorf("%w: a fetch answer ends early", errMalformed)
		return f
	}
	if !wanted(f.partition) {
		r.skip(size)
		return f
	}
	f.data = make([]byte, size)
	r.read(f.data)
	return f
}

// Places in a batch's header, as in package recordbatch.
const (
	batchLengthAt    = 8
	batchMagicAt     = 16
	batchLastDeltaAt = 23
	batchHeader      = 61
)

// wholeBatches walks the headers of the batches in data: how many bytes are
// whole batches, and the offset behind the last of them (at least from). It
// judges nothing else; what it cannot walk is left in whole, for the Reader to
// refuse, and readable is false, so that nothing behind it is asked for.
func wholeBatches(data []byte, from int64) (whole int, next int64, readable bool) {
	next = from
	for {
		b := data[whole:]
		if len(b) < batchLengthAt+4 {
			return whole, next, true
		}
		size := int(int32(binary.BigEndian.Uint32(b[batchLengthAt:])))
		if size < batchHeader-batchLengthAt-4 || len(b) > batchMagicAt && b[batchMagicAt] != 2 {
			return len(data), next, false
		}
		if size += batchLengthAt + 4; size > len(b) {
			return whole, next, true
		}
		base := int64(binary.BigEndian.Uint64(b))
		delta := int32(binary.BigEndian.Uint32(b[batchLastDeltaAt:]))
		if base < 0 || delta < 0 {
			return len(data), next, false
		}
		next = max(next, base+int64(delta)+1)
		whole += size
	}
}
