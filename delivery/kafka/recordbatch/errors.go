package recordbatch

import (
	"errors"
	"fmt"
)

// Each error of a Reader wraps one of these, names the base offset of the batch
// and goes to the fetch loop, which lets it block that partition and no other.
// Fetching again helps only against ErrCorrupt, and only when the bytes were
// damaged on their way.
var (
	// ErrCorrupt: the CRC does not match, or lengths, counts or offsets
	// contradict each other.
	ErrCorrupt = errors.New("corrupt record batch")
	// ErrUnsupported: a message format older than version 2 (magic 0 or 1), a
	// newer one, or a codec that is not known here.
	ErrUnsupported = errors.New("unsupported record batch")
	// ErrTooLarge: the records decompress to more than Limits.MaxDecompressed.
	// Whoever set the limit has to raise it, or the topic has to be written in
	// smaller batches.
	ErrTooLarge = errors.New("record batch decompresses to more than the limit")
)

// batchError says which batch is meant: its base offset is what a person needs
// to look at it with a console consumer.
func batchError(kind error, base int64, format string, args ...any) error {
	return fmt.Errorf("%w: batch at offset %d: %s", kind, base, fmt.Sprintf(format, args...))
}
