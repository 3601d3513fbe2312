package recordbatch

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// Limits bounds what reading may cost.
type Limits struct {
	// MaxDecompressed is how many bytes the records of one batch may decompress
	// to; beyond it the batch is ErrTooLarge. 0 is DefaultMaxDecompressed. It
	// does not count record.Record and record.Header values, 88 and 48 bytes
	// each.
	MaxDecompressed int
}

// DefaultMaxDecompressed is the whole fetch budget: a
// larger batch could not be delivered whatever else waits.
const DefaultMaxDecompressed = 64 << 20

func (l Limits) maxDecompressed() int {
	if l.MaxDecompressed <= 0 {
		return DefaultMaxDecompressed
	}
	return l.MaxDecompressed
}

// codec is how a batch's records are compressed: bits 0-2 of its attributes.
type codec uint8

const (
	codecNone codec = iota
	codecGzip
	codecSnappy
	codecLZ4
	codecZstd
)

func (c codec) String() string {
	switch c {
	case codecNone:
		return "uncompressed"
	case codecGzip:
		return "gzip"
	case codecSnappy:
		return "snappy"
	case codecLZ4:
		return "lz4"
	case codecZstd:
		return "zstd"
	}
	return fmt.Sprintf("unknown codec %d", uint8(c))
}

// decompress returns the records of a batch in a slice of their own, of exactly
// their size. The error wraps ErrCorrupt, ErrUnsupported or ErrTooLarge.
//
// Only snappy says truthfully how much it will give. The others decompress into
// a pooled buffer, which is then copied: the copy costs little beside decompressing, and
// a buffer that grew by doubling would keep up to twice its content alive as long as one
// record of it is held.
func (c codec) decompress(src []byte, limit int) ([]byte, error) {
	var inflate func(dst, src []byte, limit int) ([]byte, error)
	switch c {
	case codecSnappy:
		return snappyDecode(src, limit)
	case codecGzip:
		inflate = gzipAppend
	case codecLZ4:
		inflate = lz4Append
	case codecZstd:
		inflate = zstdAppend
	default:
		return nil, ErrUnsupported
	}
	scratch := scratches.Get().(*[]byte)
	out, err := inflate(slices.Grow((*scratch)[:0], firstGuess(c, src, limit)), src, limit)
	var exact []byte
	if err == nil {
		exact = append(make([]byte, 0, len(out)), out...)
	}
	if cap(out) <= maxScratch {
		*scratch = out[:0]
		scratches.Put(scratch)
	}
	return exact, err
}

// maxScratch is the largest scratch buffer that is kept for the next batch.
const maxScratch = 4 << 20

var scratches = sync.Pool{New: func() any { return new([]byte) }}

// decodedHint is how many bytes src probably decompresses to. What the frame
// says of itself is believed as far as the codec could keep the promise.
func decodedHint(c codec, src []byte) int {
	const usual = 4
	switch c {
	case codecSnappy:
		if n, err := snappyLen(src); err == nil {
			return n
		}
	case codecGzip:
		// The last four bytes are the length, and deflate gains at most 1032.
		if n := len(src); n >= 4 {
			if size := int(binary.LittleEndian.Uint32(src[n-4:])); size <= 1032*n {
				return size
			}
		}
	case codecZstd:
		if n, ok := zstdDeclared(src); ok {
			return n
		}
	}
	return usual * len(src)
}

// firstGuess is what to allocate before the first byte is decompressed: the hint, but
// no more than what the bytes at hand usually justify. What is missing
// is added when decompression has come so far.
func firstGuess(c codec, src []byte, limit int) int {
	return min(decodedHint(c, src), 16*len(src)+4096, limit)
}

// grow makes room for more in dst, by at least a half of what it holds, but never past
// limit bytes. When dst is at the limit it stays as it is.
func grow(dst []byte, limit int) []byte {
	room := min(max(len(dst)/2, 4096), limit-len(dst))
	return slices.Grow(dst, max(room, 0))
}

// gzipDecoder keeps its source beside it, so that a pooled decoder can let go of
// the fetched bytes it read last.
type gzipDecoder struct {
	src bytes.Reader
	z   gzip.Reader
}

var gzips = sync.Pool{New: func() any { return new(gzipDecoder) }}

func gzipAppend(dst, src []byte, limit int) ([]byte, error) {
	d := gzips.Get().(*gzipDecoder)
	defer func() {
		d.src.Reset(nil)
		gzips.Put(d)
	}()
	d.src.Reset(src)
	if err := d.z.Reset(&d.src); err != nil {
		return dst, corruptCodec(err)
	}
	for {
		if len(dst) == cap(dst) {
			dst = grow(dst, limit+1)
		}
		n, err := d.z.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		switch {
		case len(dst) > limit:
			return dst, ErrTooLarge
		case err == io.EOF:
			return dst, nil
		case err != nil:
			return dst, corruptCodec(err)
		}
	}
}

func corruptCodec(err error) error { return fmt.Errorf("%w (%w)", ErrCorrupt, err) }
