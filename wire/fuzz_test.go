package wire

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/vmihailenco/msgpack/v5"

	"ankka-flow/delivery/record"
)

// goldenFrames are every golden frame, whole.
func goldenFrames(f *testing.F) [][]byte {
	var frames [][]byte
	for i := range goldens {
		frame, err := hex.DecodeString(readGolden(f, goldenPath(i)).Hex)
		if err != nil {
			f.Fatal(err)
		}
		frames = append(frames, frame)
	}
	return frames
}

// FuzzReader: any split of the input gives the same frames and the same end, and
// no length allocates what did not come.
func FuzzReader(f *testing.F) {
	frames := goldenFrames(f)
	f.Add(bytes.Join(frames, nil), []byte{1, 7, 200}, uint8(3))
	f.Add(append([]byte("a banner\n"), frames[1]...), []byte{3}, uint8(0))
	f.Add([]byte(`{"speaks":"JSON"}`), []byte{1}, uint8(0))
	f.Add([]byte("\x00\x40\x00\x01rest"), []byte{2, 2}, uint8(1))
	f.Add([]byte("\x00\x00\x00\x05abc"), []byte{4, 1}, uint8(1))
	f.Add(append(bytes.Clone(frames[7]), "late text"...), []byte{10, 1}, uint8(1))
	f.Fuzz(func(t *testing.T, in, splits []byte, speaksAfter uint8) {
		want, wantErr := framesOf(bytes.NewReader(in), speaksAfter)
		sizes := []int{len(in) + 1}
		for _, s := range splits {
			sizes = append(sizes, int(s))
		}
		for _, r := range []io.Reader{
			iotest.OneByteReader(bytes.NewReader(in)), iotest.DataErrReader(bytes.NewReader(in)), &pieces{sizes: sizes[min(1, len(splits)):], rest: bytes.Clone(in)},
		} {
			got, err := framesOf(r, speaksAfter)
			if strings.Join(got, "|") != strings.Join(want, "|") || codeOf(err) != codeOf(wantErr) {
				t.Fatalf("%d frames and %v; at once %d frames and %v", len(got), err, len(want), wantErr)
			}
		}
		total := 0
		for _, b := range want {
			total += len(b)
		}
		if total > len(in) {
			t.Fatalf("%d bytes of frames from %d bytes", total, len(in))
		}
	})
}

// framesOf is every frame of r, whose owner calls Speaks after the n-th.
func framesOf(r io.Reader, n uint8) (bodies []string, err error) {
	reader := NewReader(r)
	for i := uint8(0); ; i++ {
		if i == n {
			reader.Speaks()
		}
		body, err := reader.Next()
		if err != nil {
			return bodies, err
		}
		bodies = append(bodies, string(body))
	}
}

// codeOf is a violation's code, or the error itself as text.
func codeOf(err error) string {
	var v *Violation
	if errors.As(err, &v) {
		return string(v.Code)
	}
	return err.Error()
}

// FuzzParse: whatever comes, a violation or a message; a message means the same
// to msgpack's own decoder and after another round trip; nothing panics and
// nothing small becomes large.
func FuzzParse(f *testing.F) {
	for _, frame := range goldenFrames(f) {
		f.Add(frame[4:])
	}
	for _, v := range [][]byte{body(f, "emit", 7, "valid", raw{0xdd, 0xff, 0xff, 0xff, 0xff}), body(f, "fail", 7, map[string]any{"later": list{1, "x"}}),
		body(f, "ack", 7, raw(strings.Repeat("\x91", 40)+"\x90")), body(f, "report", 7, list{list{"n", "gauge", nil, 1}})} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		for _, parse := range []func([]byte) (Message, error){ParseFromProcess, ParseFromSupervisor} {
			m, err := parse(in)
			if err != nil {
				var v *Violation
				if !errors.As(err, &v) || v.Error() == "" || len(v.Error()) > 1200 {
					t.Fatalf("the error is no short violation: %v", err)
				}
				continue
			}
			checkOracle(t, in, m)
			checkRoundTrip(t, parse, m)
		}
		checkLineOfFuzz(t, TraceLine(nil, 1, "in", in))
	})
}

// checkOracle decodes what we took with msgpack's own decoder.
func checkOracle(t *testing.T, in []byte, m Message) {
	t.Helper()
	r := bytes.NewReader(in)
	dec := msgpack.NewDecoder(r)
	dec.SetMapDecoder(func(d *msgpack.Decoder) (any, error) { return d.DecodeUntypedMap() })
	v, err := dec.DecodeInterface()
	if err != nil || r.Len() != 0 {
		t.Fatalf("we took what msgpack does not: %v, %d bytes left", err, r.Len())
	}
	all := v.([]any)
	if string(all[0].(string)) != m.Kind() {
		t.Fatalf("kind %v is %s", all[0], m.Kind())
	}
	e, ok := m.(Emit)
	if !ok || e.Records.Len() == 0 {
		return
	}
	for i, got := range e.Records.Append(nil) {
		want := record.Record{Timestamp: record.Now}
		fields := append(all[3].([]any)[i].([]any), nil, nil, nil, nil)
		want.Key, _ = fields[0].([]byte)
		want.Value, _ = fields[1].([]byte)
		if !bytes.Equal(got.Key, want.Key) || !bytes.Equal(got.Value, want.Value) ||
			(got.Key == nil) != (fields[0] == nil) || (got.Value == nil) != (fields[1] == nil) {
			t.Fatalf("record %d is %+v, msgpack has %v", i, got, fields)
		}
		headers, _ := fields[2].([]any)
		if len(headers) != len(got.Headers) {
			t.Fatalf("record %d has %d headers, msgpack has %d", i, len(got.Headers), len(headers))
		}
	}
}

func checkRoundTrip(t *testing.T, parse func([]byte) (Message, error), m Message) {
	t.Helper()
	frame, err := Append(nil, m)
	if err != nil {
		t.Fatalf("%#v cannot be said again: %v", m, err)
	}
	again, err := parse(frame[4:])
	if err != nil {
		t.Fatalf("%#v, said again: %v", m, err)
	}
	if e, ok := m.(Emit); ok {
		f := again.(Emit)
		if !reflect.DeepEqual(e.Records.Append(nil), f.Records.Append(nil)) || e.ID != f.ID || e.Outlet != f.Outlet {
			t.Fatalf("%#v became %#v", e, f)
		}
		return
	}
	second, err := Append(nil, again)
	if err != nil || !bytes.Equal(frame, second) {
		t.Fatalf("%#v became %#v (%v)", m, again, err)
	}
}

func checkLineOfFuzz(t *testing.T, line []byte) {
	t.Helper()
	if bytes.Count(line, []byte("\n")) != 1 || !json.Valid(line) {
		t.Fatalf("not one line of JSON: %q", line)
	}
}
