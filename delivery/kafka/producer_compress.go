package kafka

import (
	"encoding/binary"

	kafkago "github.com/segmentio/kafka-go"

	"ankka-flow/delivery/kafka/recordbatch"
)

// batchMaker makes the bytes of record batches, one after another.
type batchMaker struct {
	recordbatch.Builder
	codec codec  // nil: none
	plain []byte // the batch before it is compressed
}

// codec is what we use of kafka-go's.
type codec = kafkago.CompressionCodec

func newBatchMaker(c kafkago.Compression) batchMaker {
	if c == 0 {
		return batchMaker{}
	}
	return batchMaker{codec: c.Codec()}
}

// Places in a batch's header, as package recordbatch documents them.
const (
	lengthAt       = 8
	lengthFrom     = 12 // the length counts what is behind it
	attributesAt   = 21
	compressedMask = 7
)

// compress appends the plain batch to dst with its records compressed, or as it
// is where that does not help. The checksum is left to Stamp.
func (b *batchMaker) compress(dst []byte) []byte {
	start := len(dst)
	out := appender{append(dst, b.plain[:batchOverhead]...)}
	w := b.codec.NewWriter(&out)
	_, err := w.Write(b.plain[batchOverhead:])
	if err2 := w.Close(); err == nil {
		err = err2
	}
	// The writer below cannot fail; if the codec does, plain is as good.
	if err != nil || len(out.b)-start >= len(b.plain) {
		return append(out.b[:start], b.plain...)
	}
	h := out.b[start:]
	binary.BigEndian.PutUint32(h[lengthAt:], uint32(len(h)-lengthFrom))
	attributes := binary.BigEndian.Uint16(h[attributesAt:])
	binary.BigEndian.PutUint16(h[attributesAt:], attributes&^compressedMask|uint16(b.codec.Code()))
	return out.b
}

type appender struct{ b []byte }

// Write appends, and never fails.
func (a *appender) Write(p []byte) (int, error) {
	a.b = append(a.b, p...)
	return len(p), nil
}
