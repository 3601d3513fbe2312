package recordbatch

import (
	"bytes"
	"encoding/binary"

	"github.com/klauspost/compress/snappy"
)

// Snappy comes in two shapes: one raw block, as librdkafka and many others write
// it, and the framing of Java's xerial library: a header of 16 bytes (magic,
// version, lowest compatible version), then blocks, each behind its length.
var xerialMagic = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

const xerialHeaderSize = 16

// eachSnappyBlock calls f with every raw block of src, until f fails.
func eachSnappyBlock(src []byte, f func(block []byte) error) error {
	if len(src) < xerialHeaderSize || !bytes.HasPrefix(src, xerialMagic) {
		return f(src)
	}
	for src = src[xerialHeaderSize:]; len(src) > 0; {
		if len(src) < 4 {
			return ErrCorrupt
		}
		n := int64(binary.BigEndian.Uint32(src))
		if n > int64(len(src)-4) {
			return ErrCorrupt
		}
		if err := f(src[4 : 4+n]); err != nil {
			return err
		}
		src = src[4+n:]
	}
	return nil
}

// snappyLen is how many bytes src decompresses to, as its blocks declare it.
// Snappy's best element makes 64 bytes of 3, so a block that promises more is
// refused before anything is allocated for it.
func snappyLen(src []byte) (total int, err error) {
	err = eachSnappyBlock(src, func(block []byte) error {
		n, err := snappy.DecodedLen(block)
		if err != nil {
			return corruptCodec(err)
		}
		if n > 22*len(block) {
			return ErrCorrupt
		}
		total += n
		return nil
	})
	return total, err
}

func snappyDecode(src []byte, limit int) ([]byte, error) {
	total, err := snappyLen(src)
	if err != nil {
		return nil, err
	}
	if total > limit {
		return nil, ErrTooLarge
	}
	out := make([]byte, 0, total)
	err = eachSnappyBlock(src, func(block []byte) error {
		// It decodes in place because the capacity holds what the block declares.
		b, err := snappy.Decode(out[len(out):total], block)
		if err != nil {
			return corruptCodec(err)
		}
		out = out[:len(out)+len(b)]
		return nil
	})
	return out, err
}
