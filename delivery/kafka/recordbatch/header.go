package recordbatch

import (
	"encoding/binary"
	"hash/crc32"
	"math"
)

// HeaderSize is the number of bytes in a batch before its records.
const HeaderSize = 61

// Offsets of the fields; doc.go has the whole layout.
const (
	atLength          = 8
	atLeaderEpoch     = 12
	atMagic           = 16
	atCRC             = 17
	atAttributes      = 21
	atLastOffsetDelta = 23
	atBaseTimestamp   = 27
	atMaxTimestamp    = 35
	atProducerID      = 43
	atProducerEpoch   = 51
	atBaseSequence    = 53
	atCount           = 57

	// prefixSize is what stands before the bytes that the length counts.
	prefixSize = 12
)

const (
	codecMask         = 0x07
	flagLogAppendTime = 0x08
	flagTransactional = 0x10
	flagControl       = 0x20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// header is the fixed part of one batch.
type header struct {
	base          int64
	size          int // of the whole batch in bytes
	attributes    int16
	lastDelta     int
	baseTimestamp int64
	maxTimestamp  int64
	producerID    int64
	count         int
}

// end is the offset behind everything the batch covers.
func (h *header) end() int64 { return h.base + int64(h.lastDelta) + 1 }

func (h *header) is(flag int16) bool { return h.attributes&flag != 0 }

// wholeBatch says how many bytes the batch at the beginning of b claims and
// whether they are there. A claim below a header's size counts as whole:
// parseHeader refuses it.
func wholeBatch(b []byte) (size int, whole bool) {
	if len(b) < prefixSize {
		return HeaderSize, false
	}
	length := int(int32(binary.BigEndian.Uint32(b[atLength:])))
	return prefixSize + length, length < HeaderSize-prefixSize || length <= len(b)-prefixSize
}

// parseHeader reads the header of the batch that b begins with, for which
// wholeBatch was true. It checks everything but the CRC.
func parseHeader(b []byte) (header, error) {
	base := int64(binary.BigEndian.Uint64(b))
	size, _ := wholeBatch(b)
	if len(b) > atMagic && size > atMagic && b[atMagic] != 2 {
		return header{}, batchError(ErrUnsupported, base, "message format %d, only format 2 (Kafka 0.11 and later) is read", int8(b[atMagic]))
	}
	if size < HeaderSize {
		return header{}, batchError(ErrCorrupt, base, "length %d is less than a batch's header takes", size-prefixSize)
	}
	h := header{
		base:          base,
		size:          size,
		attributes:    int16(binary.BigEndian.Uint16(b[atAttributes:])),
		lastDelta:     int(int32(binary.BigEndian.Uint32(b[atLastOffsetDelta:]))),
		baseTimestamp: int64(binary.BigEndian.Uint64(b[atBaseTimestamp:])),
		maxTimestamp:  int64(binary.BigEndian.Uint64(b[atMaxTimestamp:])),
		producerID:    int64(binary.BigEndian.Uint64(b[atProducerID:])),
		count:         int(int32(binary.BigEndian.Uint32(b[atCount:]))),
	}
	switch {
	case base < 0 || h.lastDelta < 0 || base > math.MaxInt64-int64(h.lastDelta)-1:
		return header{}, batchError(ErrCorrupt, base, "impossible offsets: last offset delta %d", h.lastDelta)
	case h.count < 0 || h.count > h.lastDelta+1:
		return header{}, batchError(ErrCorrupt, base, "%d records in %d offsets", h.count, h.lastDelta+1)
	case h.count == 0 && size > HeaderSize && !h.is(codecMask):
		return header{}, batchError(ErrCorrupt, base, "no records in %d bytes", size-HeaderSize)
	}
	return h, nil
}

// checkCRC compares the CRC that the batch carries with that of its bytes.
func (h *header) checkCRC(b []byte) error {
	want := binary.BigEndian.Uint32(b[atCRC:])
	if got := crc32.Checksum(b[atAttributes:h.size], castagnoli); got != want {
		return batchError(ErrCorrupt, h.base, "CRC-32C is %08x, its bytes give %08x", want, got)
	}
	return nil
}

// DecodedSize estimates the bytes that the whole batches in data take once
// decompressed, without decompressing them: exact where nothing is compressed or the
// codec says so, otherwise four times the compressed size; a batch counts at
// most limits.MaxDecompressed. It is for budgets (R10): nothing may rely on it,
// as a hostile batch can lie, and what stops such a batch is Limits. It stops at
// the first batch that cannot be read.
func DecodedSize(data []byte, limits Limits) int {
	total := 0
	for {
		size, whole := wholeBatch(data)
		if !whole || size < HeaderSize {
			return total
		}
		codec := codec(binary.BigEndian.Uint16(data[atAttributes:]) & codecMask)
		payload := data[HeaderSize:size]
		if codec == codecNone {
			total += len(payload)
		} else {
			total += min(decodedHint(codec, payload), limits.maxDecompressed())
		}
		data = data[size:]
	}
}
