package supervisor

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// linesOf is what comes out when s arrives whole and byte by byte, which must not differ.
func linesOf(t *testing.T, s string) []string {
	t.Helper()
	read := func(r io.Reader) (got []string) {
		drainStderr(r, &tail{}, func(line []byte) { got = append(got, string(line)) })
		return got
	}
	whole := read(strings.NewReader(s))
	if single := read(iotest.OneByteReader(strings.NewReader(s))); !slices.Equal(whole, single) {
		t.Errorf("read byte by byte it gives %d lines, whole %d", len(single), len(whole))
	}
	return whole
}

func TestStderrLines(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	for _, c := range []struct {
		name, in string
		want     []string
	}{
		{"nothing", "", nil},
		{"whole lines", "a\nb\n", []string{"a", "b"}},
		{"the last one without newline", "a\nfatal", []string{"a", "fatal"}},
		{"an empty line is a line", "a\n\nb\n\n", []string{"a", "", "b", ""}},
		{"NUL, carriage return and escapes are kept", "\x00\r\n\x1b[31m\n", []string{"\x00\r", "\x1b[31m"}},
		{"a line of exactly the limit", x(maxLine) + "\nb\n", []string{x(maxLine), "b"}},
		{"one byte longer", x(maxLine+1) + "\nb\n", []string{x(maxLine), "x", "b"}},
		{"twice the limit without newline", x(2 * maxLine), []string{x(maxLine), x(maxLine)}},
		{"no letter is torn", x(maxLine-1) + "ä\n", []string{x(maxLine - 1), "ä"}},
		{"bytes that are no text are not held back", x(maxLine-1) + "\xff\xfe\n", []string{x(maxLine-1) + "\xff", "\xfe"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := linesOf(t, c.in); !slices.Equal(got, c.want) {
				t.Errorf("got %d lines, want %d; got %.80q want %.80q", len(got), len(c.want), got, c.want)
			}
		})
	}
}

func TestTailKeepsTheLastLinesInBoundedMemory(t *testing.T) {
	var kept tail
	for i := range 1000 {
		kept.add([]byte(fmt.Sprintf("%d %s", i, strings.Repeat("y", maxLine-10))))
	}
	got := kept.strings()
	if len(got) != tailLines {
		t.Fatalf("%d lines kept, want %d", len(got), tailLines)
	}
	for i, line := range got {
		if want := fmt.Sprintf("%d y", 1000-tailLines+i); !strings.HasPrefix(line, want) || len(line) != tailLineBytes {
			t.Errorf("line %d: %d bytes %.10q, want %d beginning %q", i, len(line), line, tailLineBytes, want)
		}
	}
}
