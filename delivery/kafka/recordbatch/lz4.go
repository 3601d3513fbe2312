package recordbatch

import (
	"encoding/binary"
	"slices"

	"github.com/pierrec/lz4/v4"
)

const (
	lz4Magic        = 0x184D2204
	lz4Window       = 64 << 10
	lz4Stored       = 1 << 31 // in a block's size: it is not compressed
	lz4HasDictID    = 1 << 0
	lz4HasSum       = 1 << 2
	lz4HasSize      = 1 << 3
	lz4HasBlockSum  = 1 << 4
	lz4Independent  = 1 << 5
	lz4VersionMask  = 0xC0
	lz4Version      = 0x40
	lz4MaxExpansion = 255 // a match length grows by at most 255 a byte
)

// lz4Append walks the frame itself and leaves the blocks to the library. The
// library's Reader holds two buffers of the frame's block size, 4 MiB each
// as most writers set it however little they write, and keeps the last blocks of one
// frame as a dictionary for the next one it reads, so that a forged frame
// could look into another topic's records.
//
// The frame's own xxHash checksums are passed over: the CRC of the batch covers the
// same bytes and was found right.
func lz4Append(dst, src []byte, limit int) ([]byte, error) {
	for len(src) > 0 {
		var err error
		if dst, src, err = lz4Frame(dst, src, limit); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// lz4Frame appends one frame and returns what follows it.
func lz4Frame(dst, src []byte, limit int) (out, rest []byte, err error) {
	if len(src) < 7 || binary.LittleEndian.Uint32(src) != lz4Magic {
		return dst, nil, ErrCorrupt
	}
	flags, blockCode := src[4], src[5]>>4&7
	if flags&lz4VersionMask != lz4Version || flags&lz4HasDictID != 0 || blockCode < 4 {
		return dst, nil, ErrCorrupt
	}
	blockMax := 1 << (8 + 2*blockCode) // 64 KiB to 4 MiB
	skip := 7
	if flags&lz4HasSize != 0 {
		skip += 8
	}
	if len(src) < skip {
		return dst, nil, ErrCorrupt
	}
	src = src[skip:]
	frameStart := len(dst)
	for {
		if len(src) < 4 {
			return dst, nil, ErrCorrupt
		}
		word := binary.LittleEndian.Uint32(src)
		src = src[4:]
		if word == 0 {
			break
		}
		size := int(word &^ lz4Stored)
		if size > blockMax || size > len(src) {
			return dst, nil, ErrCorrupt
		}
		dictStart := len(dst)
		if flags&lz4Independent == 0 {
			dictStart = max(frameStart, len(dst)-lz4Window)
		}
		if dst, err = lz4Block(dst, src[:size], word&lz4Stored != 0, dictStart, blockMax, limit); err != nil {
			return dst, nil, err
		}
		src = src[size:]
		if flags&lz4HasBlockSum != 0 {
			if len(src) < 4 {
				return dst, nil, ErrCorrupt
			}
			src = src[4:]
		}
	}
	if flags&lz4HasSum != 0 {
		if len(src) < 4 {
			return dst, nil, ErrCorrupt
		}
		src = src[4:]
	}
	return dst, src, nil
}

// lz4Block appends one block; dst[dictStart:] is what it may refer back to. A
// block gets all the room it can need, up to blockMax past the limit: the
// library does not say whether a block is bad or the room too small.
func lz4Block(dst, block []byte, stored bool, dictStart, blockMax, limit int) ([]byte, error) {
	at := len(dst)
	if stored {
		dst = append(dst, block...)
	} else {
		room := min(blockMax, lz4MaxExpansion*len(block)+64)
		dst = slices.Grow(dst, room)
		n, err := lz4.UncompressBlockWithDict(block, dst[at:at+room:at+room], dst[dictStart:at:at])
		if err != nil {
			return dst, corruptCodec(err)
		}
		dst = dst[:at+n]
	}
	if len(dst) > limit {
		return dst, ErrTooLarge
	}
	return dst, nil
}
