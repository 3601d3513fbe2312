package wire

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"ankka-flow/delivery/record"
)

// inboundOf is a record whose array has exactly size bytes in a batch.
func inboundOf(size int) record.Record {
	r := record.Record{Value: []byte{}}
	r.Value = make([]byte, size-RecordSize(&r))
	r.Value = r.Value[:len(r.Value)-(RecordSize(&r)-size)]
	return r
}

func TestCase7_RecordLimitIn(t *testing.T) {
	for _, size := range []int{65531, 65535, 65536, 65541, 1 << 20, MaxRecord - 1, MaxRecord} {
		r := inboundOf(size)
		if RecordSize(&r) != size {
			t.Fatalf("the test's record has %d bytes, want %d", RecordSize(&r), size)
		}
		var e BatchEncoder
		e.Begin(nil, 1, "in", 0)
		if fit := e.Append(&r); fit != Fits {
			t.Fatalf("%d bytes: %v", size, fit)
		}
		frame := e.Finish(1)
		m, err := ParseFromSupervisor(frame[4:])
		if err != nil || !reflect.DeepEqual(m.(Batch).Records, []record.Record{r}) {
			t.Errorf("%d bytes: came back otherwise (%v)", size, err)
		}
	}
	r := inboundOf(MaxRecord + 1)
	var e BatchEncoder
	e.Begin(nil, 1, "in", 0)
	before := e.Len()
	if fit := e.Append(&r); fit != RecordTooLarge || e.Len() != before || e.Count() != 0 {
		t.Errorf("limit + 1: %v, %d bytes, %d records", fit, e.Len()-before, e.Count())
	}
	_, err := Append(nil, Batch{ID: 1, Inlet: "in", Records: []record.Record{{}, r}})
	var large *TooLargeError
	if !errors.As(err, &large) || large.Record != 1 || large.Size != MaxRecord+1 {
		t.Errorf("Append: %v", err)
	}
}

func TestCase7_RecordLimitOut(t *testing.T) {
	emit := func(size int) []byte {
		// 0x94, key nil, bin 32 header, headers, timestamp
		r := []record.Record{{Timestamp: record.Now, Value: make([]byte, size-1-1-5-1-1)}}
		m := Emit{ID: 7, Outlet: "valid", Records: EncodeRecords(r)}
		if len(m.Records.raw) != size {
			t.Fatalf("the test's record has %d bytes, want %d", len(m.Records.raw), size)
		}
		frame, err := Append(nil, m)
		if err != nil {
			t.Fatal(err)
		}
		return frame[4:]
	}
	for _, size := range []int{65600, 1 << 20, MaxRecord - 1, MaxRecord} {
		m, err := ParseFromProcess(emit(size))
		if err != nil {
			t.Errorf("%d bytes: %v", size, err)
		} else if e := m.(Emit); e.Records.Len() != 1 || e.Records.Bytes() != size-9 {
			t.Errorf("%d bytes: %d records of %d", size, e.Records.Len(), e.Records.Bytes())
		}
	}
	_, err := ParseFromProcess(emit(MaxRecord + 1))
	wantViolation(t, err, CodeRecordTooLarge, `emit of batch 7: records[0] for outlet "valid" has 4128769 bytes as encoded, the limit is 4128768; store large values elsewhere and emit a reference`)
}

func TestFrameLimitOfABatch(t *testing.T) {
	var e BatchEncoder
	e.Begin(nil, MaxInteger, strings.Repeat("i", 63), math.MaxInt32)
	half := inboundOf(MaxFrame / 2)
	if fit := e.Append(&half); fit != Fits {
		t.Fatal(fit)
	}
	rest := MaxFrame - e.Len()
	over, exact := inboundOf(rest+1), inboundOf(rest)
	before := e.Len()
	if fit := e.Append(&over); fit != FrameFull || e.Len() != before || e.Count() != 1 {
		t.Fatalf("a record too much: %v, %d bytes, %d records", fit, e.Len()-before, e.Count())
	}
	if fit := e.Append(&exact); fit != Fits || e.Len() != MaxFrame {
		t.Fatalf("the exact record: %v, %d bytes", fit, e.Len())
	}
	frame := e.Finish(math.MaxInt64)
	if len(frame) != 4+MaxFrame {
		t.Errorf("the fullest frame has %d bytes, want %d", len(frame)-4, MaxFrame)
	}
	body, err := NewReader(strings.NewReader(string(frame))).Next()
	if err != nil || len(body) != MaxFrame {
		t.Errorf("reading it: %v", err)
	}
}

func TestFrameLimitOfAMessage(t *testing.T) {
	size := func(text int) (int, error) {
		frame, err := Append([]byte("kept"), Refuse{Problems: []string{strings.Repeat("x", text)}})
		if err != nil && string(frame) != "kept" {
			t.Error("dst was changed")
		}
		return len(frame) - 8, err
	}
	around, err := size(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	around -= 1 << 20
	if n, err := size(MaxFrame - around); err != nil || n != MaxFrame {
		t.Errorf("the limit: %d bytes, %v", n, err)
	}
	_, err = size(MaxFrame - around + 1)
	var large *TooLargeError
	if !errors.As(err, &large) || large.Size != MaxFrame+1 || large.Record != -1 {
		t.Errorf("the limit + 1: %v", err)
	}
}

func TestFailTextIsCut(t *testing.T) {
	parse := func(text string) string {
		frame, err := Append(nil, Fail{ID: 1, Message: text, KindName: text, Detail: text})
		if err != nil {
			t.Fatal(err)
		}
		m, err := ParseFromProcess(frame[4:])
		if err != nil {
			t.Fatal(err)
		}
		f := m.(Fail)
		if f.KindName != f.Message || f.Detail != f.Message {
			t.Error("the three texts are cut otherwise")
		}
		return f.Message
	}
	whole := strings.Repeat("x", MaxText)
	if got := parse(whole); got != whole {
		t.Errorf("%d bytes became %d", MaxText, len(got))
	}
	if got := parse(whole + "y"); len(got) != MaxText || !strings.HasSuffix(got, "x"+cutMark) {
		t.Errorf("%d bytes became %d: ...%q", MaxText+1, len(got), got[len(got)-40:])
	}
	for shift := range 4 {
		text := strings.Repeat("x", shift) + strings.Repeat("🛒", MaxText/4+1)
		got := parse(text)
		if !utf8.ValidString(got) || len(got) > MaxText || len(got) < MaxText-3 || !strings.HasSuffix(got, cutMark) {
			t.Errorf("shifted by %d: %d bytes, valid %v", shift, len(got), utf8.ValidString(got))
		}
	}
}

func TestStatusErrorIsCut(t *testing.T) {
	for size, want := range map[int]string{MaxText: "x", MaxText + 1: cutMark} {
		frame, err := Append(nil, Status{ID: 1, Error: strings.Repeat("x", size)})
		if err != nil {
			t.Fatal(err)
		}
		m, err := ParseFromProcess(frame[4:])
		if s, _ := m.(Status); err != nil || len(s.Error) != MaxText || !strings.HasSuffix(s.Error, want) {
			t.Errorf("%d bytes: %v, became %d", size, err, len(s.Error))
		}
	}
}

func TestSeriesLimit(t *testing.T) {
	report := func(n int) error {
		frame, err := Append(nil, Report{Series: make([]Series, n)})
		if err != nil {
			t.Fatal(err)
		}
		_, err = ParseFromProcess(frame[4:])
		return err
	}
	if err := report(1000); err != nil {
		t.Error(err)
	}
	if err := report(1001); !isCode(err, CodeTooManySeries) {
		t.Errorf("1,001 series: %v", err)
	}
}

func TestIntegerLimit(t *testing.T) {
	for text, ok := range map[string]bool{
		"\xcf\x00\x1f\xff\xff\xff\xff\xff\xff": true,  // 2^53 - 1
		"\xcf\x00\x20\x00\x00\x00\x00\x00\x00": false, // 2^53
		"\xcf\xff\xff\xff\xff\xff\xff\xff\xff": false,
		"\xd3\x00\x1f\xff\xff\xff\xff\xff\xff": true,
		"\xd3\x00\x20\x00\x00\x00\x00\x00\x00": false,
		"\xd3\xff\xe0\x00\x00\x00\x00\x00\x01": true,  // -(2^53 - 1)
		"\xd3\xff\xe0\x00\x00\x00\x00\x00\x00": false, // -2^53
		"\xd3\x80\x00\x00\x00\x00\x00\x00\x00": false,
	} {
		// In a place that takes any integer, and in one that is ignored.
		for _, b := range [][]byte{
			body(t, "log", "info", "m", raw("\x81\xa1n"+text)),
			body(t, "ack", 1, raw(text)),
		} {
			_, err := ParseFromProcess(b)
			if (err == nil) != ok || err != nil && !isCode(err, CodeInteger) {
				t.Errorf("%x: %v", text, err)
			}
		}
	}
	if _, err := Append(nil, Start{Config: map[string]any{"n": int64(MaxInteger + 1)}}); err == nil {
		t.Error("Append took 2^53 in a config")
	}
	if _, err := Append(nil, Start{Config: map[string]any{"n": int64(-MaxInteger)}}); err != nil {
		t.Error(err)
	}
	for _, v := range []any{[]int{1}, []any{int64(1)}, map[string]any{}, nil, []byte("x")} {
		if _, err := Append(nil, Log{Fields: map[string]any{"n": v}}); err == nil {
			t.Errorf("Append took %T in a log's fields", v)
		}
		if _, err := Append(nil, Start{Config: map[string]any{"n": v}}); err == nil {
			t.Errorf("Append took %T in a config", v)
		}
	}
}

func TestDepthLimit(t *testing.T) {
	nested := func(n int) raw { return raw(strings.Repeat("\x91", n-1) + "\x90") }
	// The message is level 1, and a record's extra element's array level 4.
	for name, at := range map[string]func(n int) []byte{
		"an extra element": func(n int) []byte { return body(t, "ack", 1, nested(n-1)) },
		"an unknown key":   func(n int) []byte { return body(t, "fail", 1, raw("\x81\xa1x"+string(nested(n-2)))) },
		"an extra element of record": func(n int) []byte {
			return body(t, "emit", 1, "o", raw("\x91\x95\xc0\xc0\xc0\xc0"+string(nested(n-3))))
		},
	} {
		if _, err := ParseFromProcess(at(MaxDepth)); err != nil {
			t.Errorf("%s: depth %d: %v", name, MaxDepth, err)
		}
		if _, err := ParseFromProcess(at(MaxDepth + 1)); !isCode(err, CodeDepth) {
			t.Errorf("%s: depth %d: %v", name, MaxDepth+1, err)
		}
	}
}

// TestHostileHeadersDoNotAllocate: every header of the protocol, claiming 2^32 - 1.
func TestHostileHeadersDoNotAllocate(t *testing.T) {
	array, dict, text, blob := raw("\xdd\xff\xff\xff\xff"), raw("\xdf\xff\xff\xff\xff"), raw("\xdb\xff\xff\xff\xff"), raw("\xc6\xff\xff\xff\xff")
	process := [][]byte{array, body(t, text), body(t, "emit", 1, text), body(t, "emit", 1, "o", array),
		body(t, "emit", 1, "o", raw("\x91"+string(array))), body(t, "emit", 1, "o", raw("\x91\x91"+string(blob))),
		body(t, "emit", 1, "o", raw("\x91\x93\xc0\xc0"+string(array))), body(t, "emit", 1, "o", raw("\x91\x93\xc0\xc0\x91\x92"+string(blob))),
		body(t, "forward", 1, "o", array), body(t, "fail", 1, dict), body(t, "report", 1, array), body(t, "log", "info", "m", dict),
		body(t, "log", "info", text), body(t, "spec", dict), body(t, "ack", 1, array), body(t, "ack", 1, dict), body(t, "ack", 1, blob)}
	for i, b := range process {
		var err error
		grown := allocated(func() { _, err = ParseFromProcess(b) })
		if !isCode(err, CodeOverrun) || grown > 16<<10 {
			t.Errorf("message %d: %d bytes allocated, %v", i, grown, err)
		}
	}
	supervisor := [][]byte{body(t, "batch", 1, "i", 0, array), body(t, "batch", 1, "i", 0, raw("\x91\x95\x00\x00\xc0\xc0"+string(array))),
		body(t, "refuse", array), body(t, "start", dict), body(t, "start", raw("\x81\xa6config"+string(dict)))}
	for i, b := range supervisor {
		var err error
		grown := allocated(func() { _, err = ParseFromSupervisor(b) })
		if !isCode(err, CodeOverrun) || grown > 16<<10 {
			t.Errorf("supervisor's message %d: %d bytes allocated, %v", i, grown, err)
		}
	}
}

// TestBytesInsideAFrameBoundAllocation: many small things in a frame whose header
// is honest make no more than a small multiple of it.
func TestBytesInsideAFrameBoundAllocation(t *testing.T) {
	const n = 1 << 20
	lots := raw(string([]byte{0xdd, 0, n >> 16, n >> 8 & 0xff, n & 0xff}) + strings.Repeat("\x90", n))
	b := body(t, "emit", 1, "o", lots)
	var m Message
	grown := allocated(func() { m, _ = ParseFromProcess(b) })
	if m.(Emit).Records.Len() != n || grown > 16<<10 {
		t.Errorf("%d records, %d bytes allocated for parsing", m.(Emit).Records.Len(), grown)
	}
	ints := raw(string([]byte{0xdd, 0, n >> 16, n >> 8 & 0xff, n & 0xff}) + strings.Repeat("\x00", n))
	grown = allocated(func() { m, _ = ParseFromProcess(body(t, "forward", 1, "o", ints)) })
	if len(m.(Forward).Indexes) != n || grown > 16*n+4<<20 {
		t.Errorf("%d indexes, %d bytes allocated", len(m.(Forward).Indexes), grown)
	}
}

// TestTextIsUTF8 in both directions: Python's decoder refuses a frame otherwise.
func TestTextIsUTF8(t *testing.T) {
	broken, mended := "a\xffb", "a\uFFFDb"
	frame, err := Append(nil, Start{Pipeline: broken, Config: map[string]any{broken: broken}, Inlets: map[string]string{"in": broken}})
	if err != nil {
		t.Fatal(err)
	}
	m, err := ParseFromSupervisor(frame[4:])
	s, _ := m.(Start)
	if err != nil || bytes.Contains(frame, []byte(broken)) || s.Pipeline != mended || s.Config[mended] != mended || s.Inlets["in"] != mended {
		t.Errorf("%v, %+v", err, s)
	}
	got, err := ParseFromProcess(body(t, "fail", 1, map[string]any{"message": broken}))
	if err != nil || got.(Fail).Message != mended {
		t.Errorf("%v, %+v", err, got)
	}
}
