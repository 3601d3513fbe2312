package kafka

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// errMalformed is wrapped where an answer cannot be read: it ends too early or
// counts more elements than its bytes could hold. The connection it came from
// is closed, since nothing behind it can be trusted.
var errMalformed = errors.New("malformed answer from the broker")

// decoder walks one answer. The first failure sticks and everything read after
// it is zero, so that callers look at err once, at the end. What it returns
// aliases the answer.
type decoder struct {
	src []byte
	at  int
	err error
	// flexible: text, array and tags read what versions with tagged fields
	// have (KIP-482).
	flexible bool
}

func (d *decoder) take(n int) []byte {
	if d.err != nil {
		return nil
	}
	if n < 0 || n > len(d.src)-d.at {
		d.err = fmt.Errorf("%w: %d bytes wanted at byte %d of %d", errMalformed, n, d.at, len(d.src))
		return nil
	}
	b := d.src[d.at : d.at+n : d.at+n]
	d.at += n
	return b
}

func (d *decoder) int8() int8 {
	if b := d.take(1); b != nil {
		return int8(b[0])
	}
	return 0
}

func (d *decoder) int16() int16 {
	if b := d.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (d *decoder) int32() int32 {
	if b := d.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (d *decoder) int64() int64 {
	if b := d.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// string reads a string; null counts as empty.
func (d *decoder) string() string {
	n := d.int16()
	if n < 0 {
		return ""
	}
	return string(d.take(int(n)))
}

// uvarint reads an unsigned variable-length number of at most 32 bits.
func (d *decoder) uvarint() uint32 {
	if d.err != nil {
		return 0
	}
	v, n := binary.Uvarint(d.src[d.at:min(d.at+5, len(d.src))])
	if n <= 0 || v > math.MaxUint32 {
		d.err = fmt.Errorf("%w: no number at byte %d of %d", errMalformed, d.at, len(d.src))
		return 0
	}
	d.at += n
	return uint32(v)
}

// text reads a string in the version's form; null counts as empty.
func (d *decoder) text() string {
	if !d.flexible {
		return d.string()
	}
	n := d.uvarint() // one more than the length, 0: null
	if n == 0 {
		return ""
	}
	return string(d.take(int(n - 1)))
}

// array reads an array's length in the version's form; as count.
func (d *decoder) array(least int) int {
	if !d.flexible {
		return d.count(least)
	}
	n := int(d.uvarint()) - 1 // -1: null
	if d.err != nil || n < 0 {
		return 0
	}
	return d.fits(n, least)
}

// tags passes over tagged fields, where the version has them.
func (d *decoder) tags() {
	if !d.flexible {
		return
	}
	for n := d.uvarint(); n > 0 && d.err == nil; n-- {
		d.uvarint()
		d.take(int(d.uvarint()))
	}
}

// count reads an array's length; null counts as empty. least is what one
// element takes at least, so that nothing is allocated on the word of a count.
func (d *decoder) count(least int) int {
	n := int(d.int32())
	if d.err != nil || n < 0 {
		return 0
	}
	return d.fits(n, least)
}

// fits refuses a count of elements that the rest cannot hold.
func (d *decoder) fits(n, least int) int {
	if n > (len(d.src)-d.at)/least {
		d.err = fmt.Errorf("%w: %d elements announced in %d bytes", errMalformed, n, len(d.src)-d.at)
		return 0
	}
	return n
}

func appendInt16(dst []byte, v int16) []byte { return binary.BigEndian.AppendUint16(dst, uint16(v)) }
func appendInt32(dst []byte, v int32) []byte { return binary.BigEndian.AppendUint32(dst, uint32(v)) }
func appendInt64(dst []byte, v int64) []byte { return binary.BigEndian.AppendUint64(dst, uint64(v)) }

func appendBool(dst []byte, v bool) []byte {
	if v {
		return append(dst, 1)
	}
	return append(dst, 0)
}

func appendUvarint(dst []byte, v uint64) []byte { return binary.AppendUvarint(dst, v) }

// appendCompactString is appendString for versions with tagged fields.
func appendCompactString(dst []byte, s string) []byte {
	return append(appendUvarint(dst, uint64(len(s))+1), s...)
}

// appendString writes a string. Kafka's are at most 32,767 bytes; names are
// checked where they are configured, so a longer one is cut and refused by the
// broker rather than checked again here.
func appendString(dst []byte, s string) []byte {
	if len(s) > 1<<15-1 {
		s = s[:1<<15-1]
	}
	return append(appendInt16(dst, int16(len(s))), s...)
}
