package recordbatch

import (
	"errors"
	"sync"

	"github.com/klauspost/compress/zstd"
)

const (
	zstdMaxBlock = 128 << 10
	// zstdWindow is the window that every decoder has to allow (RFC 8878,
	// 3.1.1.1.2), and that streaming writers declare however little they write.
	zstdWindow = 8 << 20
)

// zstdDecoder remembers its bound, for changing it costs allocations.
type zstdDecoder struct {
	d     *zstd.Decoder
	bound uint64
}

// zstds decode one frame after another in the caller's goroutine; with a concurrency of one
// a decoder starts none.
var zstds = sync.Pool{New: func() any {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
	if err != nil {
		panic("recordbatch: making a zstd decoder: " + err.Error())
	}
	return &zstdDecoder{d: d}
}}

// zstdAppend bounds the library twice over, since its one setting for memory also
// bounds the window that a frame may declare, which costs nothing here: the output is the window.
//
//  1. Where the blocks cannot give more than limit, any window is fine.
//  2. Otherwise the library stops at limit, or at zstdWindow where that is more.
//
// Its setting to stop at the buffer's capacity would suit better, but there a
// buffer too small cannot be told from damage.
func zstdAppend(dst, src []byte, limit int) ([]byte, error) {
	most, err := zstdMost(src)
	if err != nil {
		return dst, err
	}
	bound := uint64(max(limit, zstdWindow))
	if most <= limit {
		bound = zstd.MaxWindowSize
	}
	z := zstds.Get().(*zstdDecoder)
	defer zstds.Put(z)
	if z.bound != bound {
		if err := z.d.ResetWithOptions(nil, zstd.WithDecoderMaxMemory(bound)); err != nil {
			return dst, corruptCodec(err)
		}
		z.bound = bound
	}
	out, err := z.d.DecodeAll(src, dst)
	switch {
	case errors.Is(err, zstd.ErrDecoderSizeExceeded), errors.Is(err, zstd.ErrWindowSizeExceeded), err == nil && len(out) > limit:
		return dst, ErrTooLarge
	case err != nil:
		return dst, corruptCodec(err)
	}
	return out, nil
}

// zstdMost walks the frames and adds up the most that each block can give.
func zstdMost(src []byte) (total int, err error) {
	for len(src) > 0 {
		var h zstd.Header
		if err := h.Decode(src); err != nil {
			return 0, corruptCodec(err)
		}
		if src = src[min(h.HeaderSize, len(src)):]; h.Skippable {
			if int64(h.SkippableSize) > int64(len(src)) {
				return 0, ErrCorrupt
			}
			src = src[h.SkippableSize:]
			continue
		}
		most, rest, err := zstdBlocks(src)
		if err != nil || h.HasCheckSum && len(rest) < 4 {
			return 0, ErrCorrupt
		}
		if h.HasCheckSum {
			rest = rest[4:]
		}
		total, src = total+most, rest
	}
	return total, nil
}

// zstdBlocks walks the blocks of one frame: three bytes of last (1 bit), type (2)
// and size (21), then the content (RFC 8878, 3.1.1.2).
func zstdBlocks(src []byte) (most int, rest []byte, err error) {
	for {
		if len(src) < 3 {
			return 0, nil, ErrCorrupt
		}
		head := int(src[0]) | int(src[1])<<8 | int(src[2])<<16
		src = src[3:]
		size, content := head>>3, head>>3
		switch head >> 1 & 3 {
		case 0: // stored
			most += size
		case 1: // one byte, repeated
			most, content = most+size, 1
		case 2:
			most += zstdMaxBlock
		default:
			return 0, nil, ErrCorrupt
		}
		if content > len(src) {
			return 0, nil, ErrCorrupt
		}
		src = src[content:]
		if head&1 != 0 {
			return most, src, nil
		}
	}
}

// zstdDeclared is the size that the first frame declares, if its blocks could give it.
func zstdDeclared(src []byte) (size int, ok bool) {
	var h zstd.Header
	if err := h.Decode(src); err != nil || !h.HasFCS {
		return 0, false
	}
	most, err := zstdMost(src)
	if err != nil || h.FrameContentSize > uint64(most) {
		return 0, false
	}
	return int(h.FrameContentSize), true
}
