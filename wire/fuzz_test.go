package wire

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/vmihailenco/msgpack/v5"
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
// to a second reading of the page, to msgpack's own decoder and after another
// round trip; nothing panics and nothing small becomes large.
func FuzzParse(f *testing.F) {
	for _, frame := range goldenFrames(f) {
		f.Add(frame[4:])
	}
	for _, v := range hostile(f) {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		for _, supervisor := range []bool{false, true} {
			checkParse(t, in, supervisor)
		}
		checkLineOfFuzz(t, TraceLine(nil, 1, "in", in))
	})
}

// hostile are bodies that were thought of, beside the golden ones.
func hostile(t testing.TB) [][]byte {
	twice := raw("\x82\xa3sdk\x81\xa4name\xa1a\xa3sdk\x81\xa7version\xa1b")
	return [][]byte{body(t, "emit", 7, "valid", raw{0xdd, 0xff, 0xff, 0xff, 0xff}), body(t, "fail", 7, map[string]any{"later": list{1, "x"}}),
		body(t, "ack", 7, raw(strings.Repeat("\x91", 40)+"\x90")), body(t, "report", 7, list{list{"n", "gauge", nil, 1}}),
		body(t, "report", nil, list{list{"n", "gauge", map[string]any{"a": nil, "b": "c"}, 1.5}}), body(t, "spec", twice), body(t, "ack", 7, map[int]any{1: 2}),
		body(t, "fail", 7, raw("\x82\xa6offset\x01\xa6offset\xc0")), body(t, "log", "info", "m", map[string]any{"nan": math.NaN()})}
}

// FuzzMessage gives every message its kind, so that what changes is what stands
// behind it.
func FuzzMessage(f *testing.F) {
	kinds := append(processKinds[:], supervisorKinds[:]...)
	for _, b := range append(goldenFrames(f), hostile(f)...) {
		if b[0] == 0 {
			b = b[4:]
		}
		for i, kind := range kinds {
			if behind, ok := bytes.CutPrefix(b[1:], appendStr(nil, kind)); ok && b[0]>>4 == 9 {
				f.Add(uint8(i), b[0]&0xf, behind)
			}
		}
	}
	f.Fuzz(func(t *testing.T, kind, elements uint8, behind []byte) {
		i := int(kind) % len(kinds)
		checkParse(t, append(appendStr(appendArray(nil, int(elements)), kinds[i]), behind...), i >= len(processKinds))
	})
}

// checkParse holds one parser against every oracle.
func checkParse(t *testing.T, in []byte, supervisor bool) {
	t.Helper()
	parse := ParseFromProcess
	if supervisor {
		parse = ParseFromSupervisor
	}
	var m Message
	var err error
	grown := allocated(func() { m, err = parse(in) })
	// A value of one byte makes a struct at most: an empty port, which is 64.
	if most := uint64(256*len(in) + 64<<10); grown > most {
		t.Fatalf("%d bytes allocated for %d", grown, len(in))
	}
	want := reference(in, supervisor)
	if err != nil {
		var v *Violation
		if !errors.As(err, &v) || v.Error() == "" || len(v.Error()) > 1200 {
			t.Fatalf("the error is no short violation: %v", err)
		}
		if want != nil && v.Code != CodeRecordTooLarge {
			t.Fatalf("we refuse %x: %v; the page has it as %#v", in, err, want)
		}
		return
	}
	got := m
	if e, ok := m.(Emit); ok {
		records := e.Records.Append(nil)
		if len(records) != e.Records.Len() {
			t.Fatalf("%d records, said to be %d", len(records), e.Records.Len())
		}
		got = refEmit{Emit{ID: e.ID, Outlet: e.Outlet}, records}
	}
	// A NaN is not equal to itself, but reads the same.
	if !reflect.DeepEqual(got, want) && fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", want) {
		t.Fatalf("we read %#v, the page has it as %#v", got, want)
	}
	checkOracle(t, in, m)
	checkRoundTrip(t, parse, m)
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
	if kind := v.([]any)[0]; kind.(string) != m.Kind() {
		t.Fatalf("kind %v is %s", kind, m.Kind())
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
