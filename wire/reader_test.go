package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
)

// frame is a frame with that body.
func frame(body string) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(body)))) + body
}

// readAll is every frame's body, and the error that ended them.
func readAll(r *Reader) (bodies []string, err error) {
	for {
		body, err := r.Next()
		if err != nil {
			return bodies, err
		}
		bodies = append(bodies, string(body))
	}
}

// wantViolation fails unless err is a violation with exactly that text.
func wantViolation(t *testing.T, err error, code Code, text string) {
	t.Helper()
	var v *Violation
	if !errors.As(err, &v) {
		t.Fatalf("got %v, want a violation: %s", err, text)
	}
	if v.Code != code || v.Error() != text {
		t.Errorf("violation\n got %s: %s\nwant %s: %s", v.Code, v, code, text)
	}
}

func TestCase5_AnySplitOfTheInput(t *testing.T) {
	var in strings.Builder
	var want []string
	for i := range 1000 {
		body := strings.Repeat("x", 1+i%300)
		want = append(want, body)
		in.WriteString(frame(body))
	}
	for name, r := range map[string]io.Reader{
		"at once":          strings.NewReader(in.String()),
		"a byte a read":    iotest.OneByteReader(strings.NewReader(in.String())),
		"half reads":       iotest.HalfReader(strings.NewReader(in.String())),
		"end with data":    iotest.DataErrReader(strings.NewReader(in.String())),
		"frame by frame":   &pieces{sizes: []int{5, 6, 7}, rest: []byte(in.String())},
		"length then body": &pieces{sizes: []int{4, 1}, rest: []byte(in.String())},
	} {
		got, err := readAll(NewReader(r))
		if !errors.Is(err, io.EOF) || strings.Join(got, "|") != strings.Join(want, "|") {
			t.Errorf("%s: %d frames and %v, want %d and EOF", name, len(got), err, len(want))
		}
	}
}

// pieces is a reader whose reads have the given sizes, over and over.
type pieces struct {
	sizes []int
	rest  []byte
	i     int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	size := max(1, p.sizes[p.i%len(p.sizes)])
	p.i++
	n := copy(b, p.rest[:min(size, len(p.rest))])
	p.rest = p.rest[n:]
	return n, nil
}

func TestCase1_TextBeforeSpecIsSkippedAndTold(t *testing.T) {
	r := NewReader(strings.NewReader("Hello\nworld\n" + frame("a") + frame("b")))
	body, err := r.Next()
	if string(body) != "a" || err != nil {
		t.Fatalf("got %q, %v", body, err)
	}
	if got := r.Stray(); got != `"Hello\nworld\n"` {
		t.Errorf("stray %s", got)
	}
	if got := r.Stray(); got != "" {
		t.Errorf("told twice: %s", got)
	}
	if body, err := r.Next(); string(body) != "b" || err != nil || r.Stray() != "" {
		t.Errorf("got %q, %v", body, err)
	}
}

func TestCase1_TextIsToldAtOnce(t *testing.T) {
	in, out := io.Pipe()
	told := make(chan string, 1)
	r := NewReader(in)
	r.OnStray = func(quoted string) { told <- quoted }
	frames := make(chan string)
	go func() {
		body, _ := r.Next()
		frames <- string(body)
	}()
	_, _ = out.Write([]byte("loading a model"))
	if got := <-told; got != `"loading a model"` {
		t.Errorf("told %s", got)
	}
	_, _ = out.Write([]byte(frame("a")))
	if got := <-frames; got != "a" || r.Stray() != "" {
		t.Errorf("frame %q, stray %q", got, r.Stray())
	}
}

func TestCase1_TextWithoutEndIsBounded(t *testing.T) {
	calls := 0
	r := NewReader(&pieces{sizes: []int{10}, rest: []byte(strings.Repeat("chatter..\n", 10000) + frame("a"))})
	r.OnStray = func(string) { calls++ }
	if body, err := r.Next(); string(body) != "a" || err != nil || calls != maxStrays+1 {
		t.Errorf("%q, %v, told %d times", body, err, calls)
	}
	quiet := NewReader(strings.NewReader(strings.Repeat("chatter..\n", 10000) + frame("a")))
	if _, err := quiet.Next(); err != nil || len(quiet.Stray()) > 100 {
		t.Errorf("%v, %d bytes of stray text", err, len(quiet.Stray()))
	}
}

func TestCase2_TextAfterSpecIsQuoted(t *testing.T) {
	for text, quoted := range map[string]string{
		"/home/x":                  `"/home/x"`,
		strings.Repeat("long", 30): `"` + strings.Repeat("long", 16) + `..."`,
	} {
		r := NewReader(strings.NewReader(frame("spec") + text + frame("a")))
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
		r.Speaks()
		_, err := r.Next()
		wantViolation(t, err, CodeStrayText, "the process wrote "+quoted+" to stdout, which carries the protocol; print to stderr")
		if _, again := r.Next(); again != err {
			t.Errorf("after the violation: %v", again)
		}
	}
}

func TestCase3_TextAsABodyIsNoArray(t *testing.T) {
	body, err := NewReader(strings.NewReader(frame("hello"))).Next()
	if err != nil {
		t.Fatal(err)
	}
	_, err = ParseFromProcess(body)
	wantViolation(t, err, CodeNotArray, `expected an array [kind, ...], got an int: "hello"; did two threads write to stdout at once?`)
}

func TestCase6_HalfAFrame(t *testing.T) {
	whole := frame("spec") + frame("0123456789")
	for cut, want := range map[int]string{
		9:  "stdout ended inside a frame: 1 of the 4 bytes of its length came; write whole frames, and flush, before exiting",
		11: "stdout ended inside a frame: 3 of the 4 bytes of its length came; write whole frames, and flush, before exiting",
		12: "stdout ended inside a frame: 0 of 10 bytes came; write whole frames, and flush, before exiting",
		21: "stdout ended inside a frame: 9 of 10 bytes came; write whole frames, and flush, before exiting",
	} {
		_, err := readAll(NewReader(strings.NewReader(whole[:cut])))
		code := CodeHalfFrame
		if cut < 12 {
			code = CodeHalfLength
		}
		wantViolation(t, err, code, want)
	}
	if _, err := readAll(NewReader(strings.NewReader(whole[:8]))); err != io.EOF {
		t.Errorf("a clean end: %v", err)
	}
}

func TestCase7_FrameLimit(t *testing.T) {
	for _, size := range []int{1, 65531, 65535, 65536, 65541, 1 << 20, MaxFrame - 1, MaxFrame} {
		body := strings.Repeat("v", size)
		got, err := NewReader(strings.NewReader(frame(body))).Next()
		if err != nil || string(got) != body {
			t.Errorf("%d bytes: %d came, %v", size, len(got), err)
		}
	}
	_, err := NewReader(strings.NewReader(frame(strings.Repeat("v", MaxFrame+1)))).Next()
	wantViolation(t, err, CodeFrameTooLarge, "a frame of 4194305 bytes is announced, the limit is 4194304; split what you emit over several frames")
	_, err = NewReader(strings.NewReader(frame(""))).Next()
	wantViolation(t, err, CodeEmptyFrame, "an empty frame: its length is 0; a frame holds one msgpack array [kind, ...]")
}

func TestHostileLengthsDoNotAllocate(t *testing.T) {
	for _, length := range []string{"\x00\xff\xff\xff", "\x00\x40\x00\x01"} {
		r := NewReader(strings.NewReader(length + "rest"))
		if grown := allocated(func() { _, _ = r.Next() }); grown > 16<<10 {
			t.Errorf("length %x allocated %d bytes", length, grown)
		}
	}
}

// allocated is how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestCase10_JSON(t *testing.T) {
	for text, quoted := range map[string]string{
		`{"ok":true}` + "\n": `"{\"ok\":true}\n"`,
		" \n[1]":             `" \n[1]"`,
	} {
		_, err := NewReader(strings.NewReader(text)).Next()
		wantViolation(t, err, CodeJSON, "the process speaks JSON; the protocol is msgpack (it wrote "+quoted+"): send frames, as PROTOCOL.md describes them")
	}
	r := NewReader(iotest.OneByteReader(strings.NewReader(" \n{}")))
	if _, err := r.Next(); !isCode(err, CodeJSON) {
		t.Errorf("byte by byte: %v", err)
	}
	banner := NewReader(strings.NewReader("v1 {not JSON}" + frame("a")))
	if body, err := banner.Next(); err != nil || string(body) != "a" {
		t.Errorf("a banner with braces: %v", err)
	}
}

func isCode(err error, code Code) bool {
	var v *Violation
	return errors.As(err, &v) && v.Code == code
}

func TestCase11_TwoThreadsWithoutALock(t *testing.T) {
	a, _ := Append(nil, Ack{ID: 1})
	b, _ := Append(nil, Log{Level: LevelInfo, Message: "hello"})
	mixed := bytes.Join([][]byte{a[:4], b[:4], a[4:], b[4:]}, nil)
	r := NewReader(bytes.NewReader(mixed))
	r.Speaks()
	body, err := r.Next()
	if err == nil {
		_, err = ParseFromProcess(body)
	}
	if !isCode(err, CodeNotArray) {
		t.Errorf("the first mixed frame was taken: %v", err)
	}
}

func TestCase9_AReaderPoisonsNoOther(t *testing.T) {
	bad, good := NewReader(strings.NewReader("\x00\x00\x00\x09half")), NewReader(strings.NewReader(frame("a")))
	if _, err := bad.Next(); !isCode(err, CodeHalfFrame) {
		t.Errorf("the first: %v", err)
	}
	if body, err := good.Next(); err != nil || string(body) != "a" {
		t.Errorf("the second: %q, %v", body, err)
	}
}

func TestReaderPassesOnItsSourcesError(t *testing.T) {
	broken := errors.New("broken")
	for _, in := range []string{"", "\x00\x00", "\x00\x00\x00\x09half"} {
		_, err := NewReader(io.MultiReader(strings.NewReader(in), iotest.ErrReader(broken))).Next()
		if !errors.Is(err, broken) || isCode(err, CodeHalfFrame) {
			t.Errorf("after %q: %v", in, err)
		}
	}
}

// A print whose newline is a write of its own is told once.
func TestReaderTellsNothingOfWhiteSpace(t *testing.T) {
	frame := []byte{0, 0, 0, 1, 0x90}
	r := NewReader(io.MultiReader(strings.NewReader("hello"), strings.NewReader("\n"), strings.NewReader(" \t"), bytes.NewReader(frame)))
	var told []string
	r.OnStray = func(quoted string) { told = append(told, quoted) }
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	if len(told) != 1 || told[0] != `"hello"` {
		t.Errorf("told %q, want only hello", told)
	}
}
