package wire

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/vmihailenco/msgpack/v5"
)

// TooLargeError is a message of ours that no frame can hold. It is for the
// caller, who must say less: it never reaches the process.
type TooLargeError struct {
	Kind string
	// Size is the frame's body in bytes, above MaxFrame, or for a batch that of
	// the record at Record, above MaxRecord; otherwise Record is -1.
	Size   int
	Record int
}

// Error names the message, its size and the limit.
func (e *TooLargeError) Error() string {
	if e.Record >= 0 {
		return fmt.Sprintf("record %d of a %s has %d bytes as encoded, the limit is %d", e.Record, e.Kind, e.Size, MaxRecord)
	}
	return fmt.Sprintf("a %s frame of %d bytes is over the limit of %d", e.Kind, e.Size, MaxFrame)
}

// Append appends m as one whole frame, length included, to dst. Equal messages
// give equal bytes. On a *TooLargeError, or for a value that the protocol cannot
// carry (in Config or Fields), dst comes back as it was.
func Append(dst []byte, m Message) ([]byte, error) {
	start := len(dst)
	out, err := appendMessage(append(dst, 0, 0, 0, 0), m)
	if err != nil {
		return dst, err
	}
	size := len(out) - start - 4
	if size > MaxFrame {
		return dst, &TooLargeError{Kind: m.Kind(), Size: size, Record: -1}
	}
	binary.BigEndian.PutUint32(out[start:], uint32(size))
	return out, nil
}

// appendMessage appends m's array. The frequent ones are written by hand.
func appendMessage(dst []byte, m Message) ([]byte, error) {
	switch m := m.(type) {
	case Batch:
		return appendBatch(dst, m)
	case Revoke:
		return appendKindNumber(dst, KindRevoke, m.ID), nil
	case Ping:
		return appendKindNumber(dst, KindPing, m.N), nil
	case Ack:
		return appendKindNumber(dst, KindAck, m.ID), nil
	case Pong:
		return appendKindNumber(dst, KindPong, m.N), nil
	case Stopped:
		return appendStr(append(dst, 0x91), KindStopped), nil
	case Emit:
		dst = appendStr(append(dst, 0x94), KindEmit)
		dst = appendStr(appendInt(dst, int64(m.ID)), m.Outlet)
		return append(appendArray(dst, m.Records.n), m.Records.raw...), nil
	case Forward:
		dst = appendStr(append(dst, 0x94), KindForward)
		dst = appendStr(appendInt(dst, int64(m.ID)), m.Outlet)
		if m.All {
			return append(dst, 0xc0), nil
		}
		dst = appendArray(dst, len(m.Indexes))
		for _, i := range m.Indexes {
			dst = appendInt(dst, int64(i))
		}
		return dst, nil
	}
	return appendValue(dst, values(m))
}

func appendKindNumber(dst []byte, kind string, n uint64) []byte {
	return appendInt(appendStr(append(dst, 0x92), kind), int64(n))
}

// appendBatch is BatchEncoder for a batch that is whole already: it has the
// fixed-width header too, so that both write the same bytes. The frame's length
// is Append's to write, and Finish's is overwritten by the same.
func appendBatch(dst []byte, m Batch) ([]byte, error) {
	if len(m.Records) == 0 {
		return nil, fmt.Errorf("batch %d has no records; the protocol has no empty batch", m.ID)
	}
	var e BatchEncoder
	e.Begin(dst[:len(dst)-4], m.ID, m.Inlet, m.Partition)
	for i := range m.Records {
		switch e.Append(&m.Records[i]) {
		case RecordTooLarge:
			return nil, &TooLargeError{Kind: KindBatch, Size: RecordSize(&m.Records[i]), Record: i}
		case FrameFull:
			return nil, &TooLargeError{Kind: KindBatch, Size: e.Len() + RecordSize(&m.Records[i]), Record: -1}
		}
	}
	return e.Finish(m.Attempt), nil
}

// values is a message that is not frequent as what msgpack encodes: its array,
// with maps for its maps. Fields that say nothing are left out.
func values(m Message) []any {
	switch m := m.(type) {
	case Discover:
		return []any{KindDiscover, map[string]any{
			"protocol": m.Protocol, "supervisor": m.Supervisor,
			"max_frame_bytes": m.MaxFrameBytes, "max_record_bytes": m.MaxRecordBytes,
		}}
	case Refuse:
		return []any{KindRefuse, texts(m.Problems)}
	case Start:
		return []any{KindStart, map[string]any{
			"conversation": m.Conversation, "instance": m.Instance,
			"pipeline": m.Pipeline, "streamlet": m.Streamlet, "config": scalarMap(m.Config),
			"errors": textMap(m.Errors), "inlets": textMap(m.Inlets), "outlets": textMap(m.Outlets),
		}}
	case Stop:
		return []any{KindStop, map[string]any{"mode": m.Mode.String(), "reason": m.Reason}}
	case Spec:
		return []any{KindSpec, m.Descriptor.values(), map[string]any{
			"ping": m.Capabilities.Ping, "max_in_flight": m.Capabilities.MaxInFlight, "errors": m.Capabilities.Errors,
		}}
	case Fail:
		info := map[string]any{"message": m.Message}
		put(info, "offset", m.Offset, m.HasOffset)
		put(info, "kind", m.KindName, m.KindName != "")
		put(info, "detail", m.Detail, m.Detail != "")
		return []any{KindFail, m.ID, info}
	case Status:
		info := map[string]any{}
		put(info, "offset", m.Offset, m.HasOffset)
		put(info, "attempt", m.Attempt, m.Attempt != 0)
		put(info, "waiting", m.Waiting, m.Waiting)
		put(info, "next_attempt_ms", int64(m.NextAttempt/time.Millisecond), m.NextAttempt != 0)
		put(info, "error", m.Error, m.Error != "")
		return []any{KindStatus, m.ID, info}
	case Report:
		return reportValues(m)
	case Log:
		if m.Fields == nil {
			return []any{KindLog, m.Level.String(), m.Message}
		}
		return []any{KindLog, m.Level.String(), m.Message, scalarMap(m.Fields)}
	}
	panic(fmt.Sprintf("wire: no encoding for %T", m))
}

func reportValues(m Report) []any {
	series := make([]any, len(m.Series))
	for i, s := range m.Series {
		kind := "counter"
		if s.Gauge {
			kind = "gauge"
		}
		series[i] = []any{s.Name, kind, textMap(s.Labels), s.Value}
	}
	if m.HasID {
		return []any{KindReport, m.ID, series}
	}
	return []any{KindReport, nil, series}
}

func put(m map[string]any, key string, value any, said bool) {
	if said {
		m[key] = value
	}
}

// textMap is a copy of m, never nil: nil would be encoded as nil, and what is due
// is a map.
func textMap(m map[string]string) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

// scalarMap is a copy of m, never nil, in which what is no scalar becomes
// something that clean refuses.
func scalarMap(m map[string]any) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		switch v.(type) {
		case string, bool, float64, int64:
			out[k] = v
		default:
			out[k] = noScalar{v}
		}
	}
	return out
}

type noScalar struct{ value any }

func texts(s []string) []any {
	out := make([]any, len(s))
	for i, t := range s {
		out[i] = t
	}
	return out
}

// appendValue appends v with msgpack's encoder: sorted keys and the shortest
// integers, as appendInt writes them.
func appendValue(dst []byte, v any) ([]byte, error) {
	v, err := clean(v)
	if err != nil {
		return nil, err
	}
	w := sliceWriter(dst)
	enc := msgpack.NewEncoder(&w)
	enc.SetSortMapKeys(true)
	enc.UseCompactInts(true)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encoding a message: %w", err)
	}
	return w, nil
}

// clean is v, whose arrays and maps are ours, fit for the wire: every text in
// UTF-8 (a reason may quote what came from anywhere, and other languages'
// decoders refuse the whole frame for it), every integer within MaxInteger. It
// refuses what the protocol has no type for.
func clean(v any) (any, error) {
	switch v := v.(type) {
	case nil, bool, float64:
		return v, nil
	case string:
		return utf8Text(v), nil
	case int:
		return v, cleanInt(int64(v))
	case int64:
		return v, cleanInt(v)
	case uint64:
		if v > MaxInteger {
			return nil, fmt.Errorf("the integer %d is outside the protocol's 2^53 - 1", v)
		}
		return v, nil
	case []any:
		for i := range v {
			var err error
			if v[i], err = clean(v[i]); err != nil {
				return nil, err
			}
		}
		return v, nil
	case map[string]any:
		return cleanMap(v)
	case noScalar:
		return nil, fmt.Errorf("a %T has no place in the protocol; string, bool, int64 and float64 have", v.value)
	}
	panic(fmt.Sprintf("wire: a message has a %T", v))
}

func cleanInt(n int64) error {
	if n > MaxInteger || n < -MaxInteger {
		return fmt.Errorf("the integer %d is outside the protocol's 2^53 - 1", n)
	}
	return nil
}

func cleanMap(m map[string]any) (any, error) {
	out := make(map[string]any, len(m))
	for k, v := range m {
		c, err := clean(v)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k, err)
		}
		out[utf8Text(k)] = c
	}
	return out, nil
}

// utf8Text is s with U+FFFD for what is no UTF-8 in it.
func utf8Text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// sliceWriter appends what is written: msgpack's encoder wants a writer, and
// bytes.Buffer would cost a copy.
type sliceWriter []byte

// Write appends p. It does not fail.
func (w *sliceWriter) Write(p []byte) (int, error) {
	*w = append(*w, p...)
	return len(p), nil
}

// WriteByte appends b. It does not fail.
func (w *sliceWriter) WriteByte(b byte) error {
	*w = append(*w, b)
	return nil
}
