package group

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrMalformed is wrapped by every decoding error of this package: the bytes
// end too early, a length is negative where null is not allowed, or a count
// is larger than the bytes that follow could hold. The driver gets it; the
// request counts as failed with an unknown outcome (RequestFailed), since
// whatever wrote those bytes may have acted on the request.
var ErrMalformed = errors.New("malformed group message")

// reader walks the body of one message. The first failure sticks: everything
// read after it is zero, so decoders read straight on and look at err once.
// Nothing is allocated on the word of a count alone (see count).
type reader struct {
	src []byte
	at  int
	err error
}

func (r *reader) fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s at byte %d of %d", ErrMalformed, what, r.at, len(r.src))
	}
}

func (r *reader) left() int { return len(r.src) - r.at }

func (r *reader) take(n int, what string) []byte {
	if r.err != nil {
		return nil
	}
	if n < 0 || n > r.left() {
		r.fail(what)
		return nil
	}
	b := r.src[r.at : r.at+n]
	r.at += n
	return b
}

func (r *reader) int16(what string) int16 {
	if b := r.take(2, what); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *reader) int32(what string) int32 {
	if b := r.take(4, what); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *reader) int64(what string) int64 {
	if b := r.take(8, what); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// string reads a string and takes null for the empty one: old brokers send
// null where the schema says it cannot be, and Java reads it the same way.
func (r *reader) string(what string) string {
	n := r.int16(what)
	if n == -1 {
		return ""
	}
	return string(r.take(int(n), what))
}

// bytes reads a nullable byte field into memory of its own: answers are read
// from pooled buffers.
func (r *reader) bytes(what string) []byte {
	n := r.int32(what)
	if n == -1 || r.err != nil {
		return nil
	}
	b := r.take(int(n), what)
	if b == nil {
		return nil
	}
	return append(make([]byte, 0, len(b)), b...)
}

// count reads an array's length; null counts as empty. Each element takes at
// least min bytes, so a count that the rest cannot hold is refused before
// anything is allocated for it.
func (r *reader) count(min int, what string) int {
	n := int(r.int32(what))
	if n == -1 || r.err != nil {
		return 0
	}
	if n < 0 || n > r.left()/min {
		r.fail(what)
		return 0
	}
	return n
}

func (r *reader) int32s(what string) []int32 {
	n := r.count(4, what)
	if n == 0 {
		return nil
	}
	out := make([]int32, n)
	for i := range out {
		out[i] = r.int32(what)
	}
	return out
}

// strings guards the sum too: an element is at least its two bytes of length.
func (r *reader) strings(what string) []string {
	n := r.count(2, what)
	if n == 0 {
		return nil
	}
	out := make([]string, 0, n)
	for range n {
		out = append(out, r.string(what))
	}
	return out
}

func appendInt16(dst []byte, v int16) []byte { return binary.BigEndian.AppendUint16(dst, uint16(v)) }
func appendInt32(dst []byte, v int32) []byte { return binary.BigEndian.AppendUint32(dst, uint32(v)) }
func appendInt64(dst []byte, v int64) []byte { return binary.BigEndian.AppendUint64(dst, uint64(v)) }

func appendString(dst []byte, s string) []byte {
	if len(s) > 1<<15-1 {
		panic(fmt.Sprintf("group: a string of %d bytes does not fit a Kafka string; names are checked in the configuration", len(s)))
	}
	return append(appendInt16(dst, int16(len(s))), s...)
}

// appendOptional writes "" as null: group.instance.id has no empty value.
func appendOptional(dst []byte, s string) []byte {
	if s == "" {
		return appendInt16(dst, -1)
	}
	return appendString(dst, s)
}

func appendBytes(dst, b []byte) []byte {
	if b == nil {
		return appendInt32(dst, -1)
	}
	return append(appendInt32(dst, int32(len(b))), b...)
}

func appendInt32s(dst []byte, vs []int32) []byte {
	dst = appendInt32(dst, int32(len(vs)))
	for _, v := range vs {
		dst = appendInt32(dst, v)
	}
	return dst
}
