package wire

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// cursor reads msgpack strictly from one frame's body. The first breach sticks in
// err, and every read after it returns a zero value, so that a parser reads its
// fields in a row and asks once. Nothing is allocated on a length's word: each is
// held against the bytes that are left.
//
// place, i, j and name say where in the message the next read is; they become
// text only in a violation, for building it before would cost more than the read.
type cursor struct {
	b   []byte
	off int
	err *Violation

	kind  string
	id    uint64
	hasID bool

	place string // as "records[#].headers[#].name": # are i and j in turn
	i, j  int
	name  string // replaces $ in place: a map's key
	depth int    // of the container being read
}

// at sets the place of the reads that follow.
func (c *cursor) at(place string) { c.place = place }

// field is the place as text.
func (c *cursor) field() string {
	s := strings.Replace(c.place, "#", strconv.Itoa(c.i), 1)
	s = strings.Replace(s, "#", strconv.Itoa(c.j), 1)
	return strings.Replace(s, "$", quote(c.name), 1)
}

// fail records a violation at the present place, unless there is one already.
func (c *cursor) fail(code Code, words ...string) {
	if c.err != nil {
		return
	}
	v := &Violation{Code: code, Kind: c.kind, Field: c.field(), Batch: c.id, HasBatch: c.hasID}
	c.err = v.fill(words...)
	c.off = len(c.b)
}

// wrong is a value of the wrong type: c.off stands at its first byte.
func (c *cursor) wrong(want string) {
	switch {
	case c.err != nil:
	case c.off >= len(c.b):
		c.overrun("value", 1)
	case isExt(c.b[c.off]):
		c.fail(CodeExtension)
	default:
		c.fail(CodeWrongType, "WANT", want, "GOT", typeName(c.b[c.off]))
	}
}

// bad is a value of the right type that may not be.
func (c *cursor) bad(want, got string) { c.fail(CodeBadValue, "WANT", want, "GOT", got) }

// overrun is a length that the frame does not hold.
func (c *cursor) overrun(unit string, n uint64) {
	rest := 0
	if c.off < len(c.b) {
		rest = len(c.b) - c.off
	}
	if n != 1 {
		unit += "s"
	}
	c.fail(CodeOverrun, "COUNT", strconv.FormatUint(n, 10), "UNIT", unit, "REST", strconv.Itoa(rest))
}

// code is the next value's first byte, not taken. 0xc1, which msgpack never
// uses, stands for the frame's end.
func (c *cursor) code() byte {
	if c.off < len(c.b) {
		return c.b[c.off]
	}
	if c.err == nil {
		c.overrun("value", 1)
	}
	return neverUsed
}

// neverUsed is the one byte that begins no msgpack value.
const neverUsed = 0xc1

// sized takes a header byte and the big-endian length of width bytes after it.
func (c *cursor) sized(width int) (uint64, bool) {
	if len(c.b)-c.off < 1+width {
		c.off++
		c.overrun("byte", uint64(width))
		return 0, false
	}
	p := c.b[c.off+1:]
	c.off += 1 + width
	switch width {
	case 1:
		return uint64(p[0]), true
	case 2:
		return uint64(binary.BigEndian.Uint16(p)), true
	case 4:
		return uint64(binary.BigEndian.Uint32(p)), true
	}
	return binary.BigEndian.Uint64(p), true
}

// take is the next n bytes, aliased.
func (c *cursor) take(n uint64) []byte {
	if n > uint64(len(c.b)-c.off) {
		c.overrun("byte", n)
		return nil
	}
	p := c.b[c.off : c.off+int(n) : c.off+int(n)]
	c.off += int(n)
	return p
}

// isNil takes a nil, if that is what comes.
func (c *cursor) isNil() bool {
	if c.off < len(c.b) && c.b[c.off] == 0xc0 {
		c.off++
		return true
	}
	return false
}

// bin is a byte string: not nil, of length zero where it is empty. want names
// what is due in a violation's text.
func (c *cursor) bin(want string) []byte {
	width := 0
	switch c.code() {
	case 0xc4:
		width = 1
	case 0xc5:
		width = 2
	case 0xc6:
		width = 4
	default:
		c.wrong(want)
		return nil
	}
	n, ok := c.sized(width)
	if !ok {
		return nil
	}
	return c.take(n)
}

// binOrNil is a byte string or nil: null and empty stay apart (R8).
func (c *cursor) binOrNil() []byte {
	// Short ones are most of what comes: this saves a third of a record's time.
	if b := c.b[c.off:]; len(b) > 1 && b[0] == 0xc4 && len(b)-2 >= int(b[1]) {
		n := int(b[1])
		c.off += 2 + n
		return b[2 : 2+n : 2+n]
	}
	if c.isNil() {
		return nil
	}
	return c.bin("bin or nil")
}

// strBytes is a text's bytes, aliased and not yet known to be UTF-8.
func (c *cursor) strBytes() []byte {
	b := c.code()
	width := 0
	switch {
	case b>>5 == 0b101:
		c.off++
		return c.take(uint64(b & 0x1f))
	case b == 0xd9:
		width = 1
	case b == 0xda:
		width = 2
	case b == 0xdb:
		width = 4
	default:
		c.wrong("str")
		return nil
	}
	n, ok := c.sized(width)
	if !ok {
		return nil
	}
	return c.take(n)
}

// str is a text, copied. What is no UTF-8 in it becomes U+FFFD.
func (c *cursor) str() string { return utf8Text(string(c.strBytes())) }

// boolOrNil is a bool, false for nil.
func (c *cursor) boolOrNil() bool {
	switch c.code() {
	case 0xc2, 0xc0:
		c.off++
		return false
	case 0xc3:
		c.off++
		return true
	}
	c.wrong("bool")
	return false
}

// integer is a signed number within MaxInteger of zero.
func (c *cursor) integer() int64 {
	b := c.code()
	if b < 0x80 || b >= 0xe0 {
		c.off++
		return int64(int8(b))
	}
	if b < 0xcc || b > 0xd3 {
		c.wrong("int")
		return 0
	}
	signed := b >= 0xd0
	width := 1 << (b & 3)
	raw, ok := c.sized(width)
	if !ok {
		return 0
	}
	if !signed {
		if raw > MaxInteger {
			c.fail(CodeInteger, "NUMBER", strconv.FormatUint(raw, 10))
			return 0
		}
		return int64(raw)
	}
	shift := 64 - 8*width
	n := int64(raw<<shift) >> shift
	if n > MaxInteger || n < -MaxInteger {
		c.fail(CodeInteger, "NUMBER", strconv.FormatInt(n, 10))
		return 0
	}
	return n
}

// natural is an integer that is not negative.
func (c *cursor) natural() uint64 {
	n := c.integer()
	if n < 0 {
		c.bad("0 or more", strconv.FormatInt(n, 10))
		return 0
	}
	return uint64(n)
}

// naturalUpTo is an integer from 0 to limit.
func (c *cursor) naturalUpTo(limit uint64) uint64 {
	n := c.natural()
	if n > limit {
		c.bad("at most "+strconv.FormatUint(limit, 10), strconv.FormatUint(n, 10))
		return 0
	}
	return n
}

// number is an int or a float.
func (c *cursor) number() float64 {
	switch c.code() {
	case 0xca:
		raw, _ := c.sized(4)
		return float64(math.Float32frombits(uint32(raw)))
	case 0xcb:
		raw, _ := c.sized(8)
		return math.Float64frombits(raw)
	}
	if b := c.code(); b < 0x80 || b >= 0xe0 || b >= 0xcc && b <= 0xd3 {
		return float64(c.integer())
	}
	c.wrong("int or float")
	return 0
}

// scalar is a str, bool, int or float, as string, bool, int64 or float64.
func (c *cursor) scalar() any {
	b := c.code()
	switch {
	case b>>5 == 0b101, b >= 0xd9 && b <= 0xdb:
		return c.str()
	case b == 0xc2, b == 0xc3:
		return c.boolOrNil()
	case b == 0xca, b == 0xcb:
		return c.number()
	case b < 0x80, b >= 0xe0, b >= 0xcc && b <= 0xd3:
		return c.integer()
	}
	c.wrong("str, int, float or bool")
	return nil
}

// arrayLen is an array's number of elements, which the frame has bytes for.
func (c *cursor) arrayLen(want string) int {
	b := c.code()
	if b>>4 == 0x9 {
		c.off++
		return c.fits(uint64(b&0xf), 1, "element")
	}
	width := 0
	switch b {
	case 0xdc:
		width = 2
	case 0xdd:
		width = 4
	default:
		c.wrong(want)
		return 0
	}
	n, ok := c.sized(width)
	if !ok {
		return 0
	}
	return c.fits(n, 1, "element")
}

// mapLen is a map's number of keys, which the frame has bytes for; 0 for nil.
func (c *cursor) mapLen() int {
	b := c.code()
	width := 0
	switch {
	case b == 0xc0:
		c.off++
		return 0
	case b>>4 == 0x8:
		c.off++
		return c.fits(uint64(b&0xf), 2, "key")
	case b == 0xde:
		width = 2
	case b == 0xdf:
		width = 4
	default:
		c.wrong("map")
		return 0
	}
	n, ok := c.sized(width)
	if !ok {
		return 0
	}
	return c.fits(n, 2, "key")
}

// fits is n, if the frame can hold n things of at least size bytes.
func (c *cursor) fits(n, size uint64, unit string) int {
	if n*size > uint64(len(c.b)-c.off) {
		c.overrun(unit, n)
		return 0
	}
	return int(n)
}

// skip passes over one value of any type, which must be well formed and within
// every limit: what is ignored is still no extension type and no bomb.
func (c *cursor) skip() {
	b := c.code()
	switch {
	case c.err != nil:
	case b == 0xc0, b == 0xc2, b == 0xc3:
		c.off++
	case b>>5 == 0b101, b >= 0xd9 && b <= 0xdb:
		c.strBytes()
	case b >= 0xc4 && b <= 0xc6:
		c.bin("bin")
	case b == 0xca, b == 0xcb:
		c.number()
	case b < 0x80, b >= 0xe0, b >= 0xcc && b <= 0xd3:
		c.integer()
	case b>>4 == 0x9, b == 0xdc, b == 0xdd:
		c.skipMany(c.arrayLen("array"), c.skip)
	case b>>4 == 0x8, b == 0xde, b == 0xdf:
		c.skipMany(c.mapLen(), c.skipPair)
	default:
		c.wrong("a msgpack value")
	}
}

// skipPair passes over a key of a map, which is text there too, and its value.
func (c *cursor) skipPair() {
	c.strBytes()
	c.skip()
}

// skipMany passes over n of what one passes over, one level down.
func (c *cursor) skipMany(n int, one func()) {
	if c.depth++; c.depth > MaxDepth {
		c.fail(CodeDepth)
	}
	for ; n > 0 && c.err == nil; n-- {
		one()
	}
	c.depth--
}

// isExt says whether b begins a value of an extension type.
func isExt(b byte) bool { return b >= 0xc7 && b <= 0xc9 || b >= 0xd4 && b <= 0xd8 }

// typeName is what begins with b, as violations name it.
func typeName(b byte) string {
	switch {
	case b < 0x80, b >= 0xe0, b >= 0xcc && b <= 0xd3:
		return "int"
	case b>>4 == 0x8, b == 0xde, b == 0xdf:
		return "map"
	case b>>4 == 0x9, b == 0xdc, b == 0xdd:
		return "array"
	case b>>5 == 0b101, b >= 0xd9 && b <= 0xdb:
		return "str"
	case b == 0xc0:
		return "nil"
	case b == 0xc2, b == 0xc3:
		return "bool"
	case b >= 0xc4 && b <= 0xc6:
		return "bin"
	case b == 0xca, b == 0xcb:
		return "float"
	case isExt(b):
		return "ext"
	}
	return fmt.Sprintf("byte 0x%02x", b)
}
