package wire

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
)

// body is a message's body from Go values, by msgpack's own encoder; raw is bytes
// that stand as they are.
func body(t testing.TB, values ...any) []byte {
	t.Helper()
	out := appendArray(nil, len(values))
	for _, v := range values {
		if r, ok := v.(raw); ok {
			out = append(out, r...)
			continue
		}
		b, err := msgpack.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b...)
	}
	return out
}

type raw []byte

type list = []any

// violations is every violation's text as it comes out, once at least.
func violations(t testing.TB) []struct {
	err  error
	code Code
	text string
} {
	parse := func(b []byte) error { _, err := ParseFromProcess(b); return err }
	read := func(in string) error {
		r := NewReader(strings.NewReader(in))
		_, err := r.Next()
		return err
	}
	afterSpec := func(in string) error {
		r := NewReader(strings.NewReader(in))
		r.Speaks()
		_, err := r.Next()
		return err
	}
	emit := func(records any) error { return parse(body(t, "emit", 7, "valid", records)) }
	return []struct {
		err  error
		code Code
		text string
	}{
		{afterSpec("Hello world\n"), CodeStrayText, `the process wrote "Hello world\n" to stdout, which carries the protocol; print to stderr`},
		{read("{}"), CodeJSON, `the process speaks JSON; the protocol is msgpack (it wrote "{}"): send frames, as PROTOCOL.md describes them`},
		{read("\x00\x40\x00\x01"), CodeFrameTooLarge, `a frame of 4194305 bytes is announced, the limit is 4194304; split what you emit over several frames`},
		{read("\x00\x00\x00\x00"), CodeEmptyFrame, `an empty frame: its length is 0; a frame holds one msgpack array [kind, ...]`},
		{parse(nil), CodeEmptyFrame, `an empty frame: its length is 0; a frame holds one msgpack array [kind, ...]`},
		{read("\x00\x00"), CodeHalfLength, `stdout ended inside a frame: 2 of the 4 bytes of its length came; write whole frames, and flush, before exiting`},
		{read("\x00\x00\x00\x09half"), CodeHalfFrame, `stdout ended inside a frame: 4 of 9 bytes came; write whole frames, and flush, before exiting`},

		{parse([]byte("hello")), CodeNotArray, `expected an array [kind, ...], got an int: "hello"; did two threads write to stdout at once?`},
		{parse(raw{0x81, 0xa1, 'a', 1}), CodeNotArray, `expected an array [kind, ...], got a map: "\x81\xa1a\x01"; did two threads write to stdout at once?`},
		{parse(append(body(t, "ack", 7), 1, 2)), CodeTrailingBytes, `ack of batch 7: 2 bytes follow the message's array; a frame holds one array and its length counts just that`},
		{parse(body(t, "akc", 7)), CodeUnknownKind, `unknown message "akc"; a process sends spec, emit, forward, ack, fail, status, report, log, pong, stopped`},
		{parse(body(t, "batch", 7)), CodeUnknownKind, `unknown message "batch"; a process sends spec, emit, forward, ack, fail, status, report, log, pong, stopped`},
		{parse(body(t)), CodeBadValue, `a frame: the kind must be the first element of the array, not left out`},
		{parse(body(t, 1)), CodeWrongType, `a frame: the kind must be str, got int`},
		{parse(body(t, raw("\xc4\x03ack"), 7)), CodeWrongType, `a frame: the kind must be str, got bin`},
		{parse(body(t, "ack")), CodeWrongType, `ack: id must be given, got nothing: the message ends before it`},
		{parse(body(t, "ack", nil)), CodeWrongType, `ack: id must be int, got nil`},
		{parse(body(t, "ack", 1.0)), CodeWrongType, `ack: id must be int, got float`},
		{parse(body(t, "ack", "7")), CodeWrongType, `ack: id must be int, got str`},
		{parse(body(t, "ack", -1)), CodeBadValue, `ack: id must be 0 or more, not -1`},
		{parse(body(t, "ack", raw{0xcf, 0, 0x20, 0, 0, 0, 0, 0, 0})), CodeInteger, `ack: id is 9007199254740992; integers stay within 2^53 - 1 of 0: send a larger one as text`},
		{emit(list{list{"k1"}}), CodeWrongType, `emit of batch 7: records[0].key must be bin or nil, got str`},
		{emit(list{list{}, list{nil, "v"}}), CodeWrongType, `emit of batch 7: records[1].value must be bin or nil, got str`},
		{emit(list{list{nil, nil, list{list{"name", bin("v")}}}}), CodeWrongType, `emit of batch 7: records[0].headers[0].name must be bin, got str`},
		{emit(list{list{nil, nil, list{list{nil, bin("v")}}}}), CodeWrongType, `emit of batch 7: records[0].headers[0].name must be bin, got nil`},
		{emit(list{list{nil, nil, list{list{bin("n"), nil}, list{bin("n"), "v"}}}}), CodeWrongType, `emit of batch 7: records[0].headers[1].value must be bin or nil, got str`},
		{emit(list{list{nil, nil, list{list{bin("n")}}}}), CodeBadValue, `emit of batch 7: records[0].headers[0] must be an array [name, value], not 1 elements`},
		{emit(list{list{nil, nil, nil, -2}}), CodeBadValue, `emit of batch 7: records[0].timestamp_ms must be -1 or more, not -2`},
		{emit(list{nil}), CodeWrongType, `emit of batch 7: records[0] must be array, got nil`},
		{emit("x"), CodeWrongType, `emit of batch 7: records must be array, got str`},
		{parse(body(t, "emit", 7, raw("\xc4\x05valid"), list{})), CodeWrongType, `emit of batch 7: outlet must be str, got bin`},
		{emit(raw{0xdd, 0xff, 0xff, 0xff, 0xff}), CodeOverrun, `emit of batch 7: records is said to have 4294967295 elements, but 0 bytes are left in the frame; write one frame at a time, whole`},
		{emit(raw{0x91, 0x91, 0xc6, 0, 0x10, 0, 0, 'x'}), CodeOverrun, `emit of batch 7: records[0].key is said to have 1048576 bytes, but 1 bytes are left in the frame; write one frame at a time, whole`},
		{emit(append(make(raw, 0, 99), 0x91, 0x91, 0xc4, 2, 'x')), CodeOverrun, `emit of batch 7: records[0].key is said to have 2 bytes, but 1 bytes are left in the frame; write one frame at a time, whole`},
		{emit(raw{0x91, 0x91, 0xc5, 0}), CodeOverrun, `emit of batch 7: records[0].key is said to have 2 bytes, but 1 bytes are left in the frame; write one frame at a time, whole`},
		{emit(raw{0x92, 0x90, 0x91}), CodeOverrun, `emit of batch 7: records[1] is said to have 1 element, but 0 bytes are left in the frame; write one frame at a time, whole`},
		{emit(raw{0x91, 0x91, 0xd4, 1, 1}), CodeExtension, `emit of batch 7: records[0].key is of a msgpack extension type; the protocol has none: send text, numbers or bytes`},
		{parse(body(t, "ack", 7, raw{0xd6, 0xff, 0, 0, 0, 0})), CodeExtension, `ack of batch 7: an extra element is of a msgpack extension type; the protocol has none: send text, numbers or bytes`},
		{parse(body(t, "ack", 7, raw{0xc1})), CodeWrongType, `ack of batch 7: an extra element must be a msgpack value, got byte 0xc1`},
		{parse(body(t, "ack", 7, map[int]any{1: 2})), CodeWrongType, `ack of batch 7: an extra element must be str, got int`},
		{parse(body(t, "ack", 7, raw(strings.Repeat("\x91", 40)+"\x90"))), CodeDepth, `ack of batch 7: an extra element nests deeper than 32 arrays and maps; no message needs more than 5`},
		{emit(list{list{nil, make([]byte, MaxRecord)}}), CodeRecordTooLarge, `emit of batch 7: records[0] for outlet "valid" has 4128775 bytes as encoded, the limit is 4128768; store large values elsewhere and emit a reference`},
		{parse(body(t, "report", nil, make(list, 1001))), CodeTooManySeries, `report: series has 1001 series, the limit is 1000; split the report, or use fewer labels`},
		{parse(body(t, "report", 7, list{list{"n", "histogram", nil, 1}})), CodeBadValue, `report of batch 7: series[0].kind must be "counter" or "gauge", not "histogram"`},
		{parse(body(t, "report", 7, list{list{"n", "counter", nil, -1}})), CodeBadValue, `report of batch 7: series[0].number must be 0 or more, for a counter's number is an increment, not -1`},
		{parse(body(t, "report", 7, list{list{"n", "gauge", nil, math.NaN()}})), CodeBadValue, `report of batch 7: series[0].number must be a finite number, not NaN`},
		{parse(body(t, "report", 7, list{list{"n", "gauge"}})), CodeBadValue, `report of batch 7: series[0] must be an array [name, kind, labels, number], not 2 elements`},
		{parse(body(t, "forward", 7, "valid", list{0, -1})), CodeBadValue, `forward of batch 7: indexes[1] must be 0 or more, not -1`},
		{parse(body(t, "forward", 7, "valid", list{MaxInteger})), "", ""},
		{parse(body(t, "fail", 7, "no")), CodeWrongType, `fail of batch 7: info must be map, got str`},
		{parse(body(t, "fail", 7, map[string]any{"offset": "x"})), CodeWrongType, `fail of batch 7: info.offset must be int, got str`},
		{parse(body(t, "fail", 7, map[int]any{1: 2})), CodeWrongType, `fail of batch 7: info (a key) must be str, got int`},
		{parse(body(t, "fail", 7, map[string]any{"later": raw{}, "x": nil})), "", ""},
		{parse(body(t, "log", "info", "m", map[string]any{"a": list{}})), CodeWrongType, `log: fields["a"] must be str, int, float or bool, got array`},
		{parse(body(t, "spec", nil)), CodeWrongType, `spec: descriptor must be map, got nil`},
		{parse(body(t, "spec", map[string]any{}, map[string]any{"max_in_flight": 0})), CodeBadValue, `spec: capabilities.max_in_flight must be 1 or more, not 0`},
		{parse(body(t, "spec", map[string]any{"streamlet": map[string]any{"inlets": list{map[string]any{"name": 1}}}})), CodeWrongType, `spec: descriptor.streamlet.inlets[0].name must be str, got int`},

		{NotInFlight(KindAck, 7, false), CodeNeverSent, `ack of batch 7: no batch of that id was ever sent; answer with the id that the batch came with`},
		{NotInFlight(KindEmit, 7, true), CodeAnswered, `emit of batch 7: that batch was answered before; emit before the ack, and answer every batch once`},
		{UnknownOutlet(KindEmit, 7, "vaild", []string{"review", "valid"}), CodeOutlet, `emit of batch 7: no outlet "vaild" is declared; declared are: review, valid`},
		{UnknownOutlet(KindForward, 7, "x", nil), CodeOutlet, `forward of batch 7: no outlet "x" is declared; declared are: none`},
		{IndexOutOfRange(7, 100, 100), CodeIndex, `forward of batch 7: indexes hold 100, but the batch has 100 records; an index counts from 0`},
		{OutOfPlace(KindStopped, "before a stop"), CodeOutOfPlace, `stopped: not allowed before a stop; PROTOCOL.md has the table of who may send what when`},
		{HeldTooMuch(KindEmit, 7), CodeHeldTooMuch, `emit of batch 7: its emits hold more than 67108864 bytes before its ack; emit less a record, or set batch.max-records lower`},
		{SpecExpected(KindAck), CodeSpecExpected, `ack: the first message must be spec, the answer to discover`},
	}
}

func TestViolations(t *testing.T) {
	seen := map[Code]bool{}
	for _, v := range violations(t) {
		if v.code == "" {
			if v.err != nil {
				t.Errorf("a violation where none is due: %v", v.err)
			}
			continue
		}
		seen[v.code] = true
		wantViolation(t, v.err, v.code, v.text)
	}
	for _, tmpl := range templates {
		if !seen[tmpl.Code] {
			t.Errorf("no test for violation %s", tmpl.Code)
		}
	}
}

// TestViolationsNameTheBatch: a violation that names none accuses nobody.
func TestViolationsNameTheBatch(t *testing.T) {
	_, err := ParseFromProcess(body(t, "emit", 7, "valid", list{list{"k"}}))
	var v *Violation
	if !errors.As(err, &v) || !v.HasBatch || v.Batch != 7 || v.Kind != KindEmit || v.Field != "records[0].key" {
		t.Errorf("got %+v", v)
	}
	_, err = ParseFromProcess(body(t, "ack", "7"))
	if !errors.As(err, &v) || v.HasBatch || v.Kind != KindAck || v.Field != "id" {
		t.Errorf("got %+v", v)
	}
}

// TestViolationsStayShort: whatever a process sends, the text is fit for a log.
func TestViolationsStayShort(t *testing.T) {
	long := strings.Repeat("#$\x00\xff", 50000)
	for _, b := range [][]byte{
		body(t, long), []byte(long), body(t, "report", 1, list{list{"n", long, nil, 1}}),
		body(t, "log", "info", "m", map[string]any{long: nil, long + "x": list{}}),
		body(t, "fail", 1, map[string]any{long: raw{}, "offset": long}),
		body(t, "emit", 1, long, list{list{nil, make([]byte, MaxRecord)}}),
		body(t, "fail", 1, map[string]any{long: math.MaxInt64}),
	} {
		_, err := ParseFromProcess(b)
		if err == nil || len(err.Error()) > 1000 {
			t.Errorf("%.80q: an error of %d bytes", b, len(fmt.Sprint(err)))
		}
	}
	if text := UnknownOutlet(KindEmit, 1, long, []string{"a"}).Error(); len(text) > 1000 {
		t.Errorf("an unknown outlet: %d bytes", len(text))
	}
}
