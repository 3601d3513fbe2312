package recordbatch

// Nearly every varint of a record has one byte or two (lengths and offsets from
// 64 to 8191), so those come first. Malformed input gives the position -1,
// and reading on from -1 gives -1 again, so that a run of fields needs one check.

// varint32 reads a zigzag varint of at most 5 bytes and 32 bits at b[i:].
func varint32(b []byte, i int) (v, next int) {
	if uint(i) < uint(len(b)) {
		c := int(b[i])
		if c < 0x80 {
			return c>>1 ^ -(c & 1), i + 1
		}
		if i++; i < len(b) && b[i] < 0x80 {
			return (c&0x7f|int(b[i])<<7)>>1 ^ -(c & 1), i + 1
		}
		i--
	}
	u, next := slowUvarint(b, i, 5)
	if u > 1<<32-1 {
		return 0, -1
	}
	return int(u>>1) ^ -int(u&1), next
}

// varint64 reads a zigzag varint of at most 10 bytes and 64 bits at b[i:].
func varint64(b []byte, i int) (v int64, next int) {
	if uint(i) < uint(len(b)) {
		c := int64(b[i])
		if c < 0x80 {
			return c>>1 ^ -(c & 1), i + 1
		}
		if i++; i < len(b) && b[i] < 0x80 {
			return (c&0x7f|int64(b[i])<<7)>>1 ^ -(c & 1), i + 1
		}
		i--
	}
	u, next := slowUvarint(b, i, 10)
	return int64(u>>1) ^ -int64(u&1), next
}

func slowUvarint(b []byte, i, maxBytes int) (u uint64, next int) {
	if i < 0 {
		return 0, -1
	}
	for n := 0; n < maxBytes && i+n < len(b); n++ {
		c := b[i+n]
		if n == 9 && c > 1 {
			return 0, -1
		}
		u |= uint64(c&0x7f) << (7 * n)
		if c < 0x80 {
			return u, i + n + 1
		}
	}
	return 0, -1
}

func zigzag(v int64) uint64 { return uint64(v<<1) ^ uint64(v>>63) }

func appendVarint(dst []byte, v int64) []byte {
	u := zigzag(v)
	for u >= 0x80 {
		dst = append(dst, byte(u)|0x80)
		u >>= 7
	}
	return append(dst, byte(u))
}

func varintSize(v int64) int {
	n := 1
	for u := zigzag(v); u >= 0x80; u >>= 7 {
		n++
	}
	return n
}
