package record

import "math"

// NoTimestamp is the Timestamp of a consumed record that has none (Kafka's -1).
const NoTimestamp int64 = -1

// Now is the Timestamp of an emitted record that is to be stamped when it is
// written. It is not a time that Kafka can carry.
const Now int64 = math.MinInt64

// Header is one header of a record. Order and duplicates count (R8).
type Header struct {
	// Name is any bytes, not only UTF-8; Kafka knows no null name.
	Name []byte
	// Value is nil for null; empty and null are different (R8).
	Value []byte
}

// Record is one record. Key and Value are nil for null and non-nil with length
// zero for empty (R8). The slices usually alias a larger buffer, a fetch answer
// or a frame: who keeps a Record keeps that buffer, and nobody may write into
// them.
type Record struct {
	// Offset is the record's place in its inlet partition; unused in an emit.
	Offset int64
	// Timestamp is milliseconds since 1970, NoTimestamp or, in an emit, Now.
	Timestamp int64
	Key       []byte
	Value     []byte
	Headers   []Header
}

// Size is what a record counts for in every limit of ours that is given in
// bytes: its key, value, header names and header values.
func (r *Record) Size() int {
	n := len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += len(r.Headers[i].Name) + len(r.Headers[i].Value)
	}
	return n
}
