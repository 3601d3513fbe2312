package screen

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"ankka-flow/cmd/ankka-flow/screen/emulator"
)

// shown is a screen on an emulated terminal.
func shown(width *int) (*Screen, *emulator.Terminal) {
	terminal := emulator.New(*width)
	return New(terminal, func() int { return *width }, true), terminal
}

func write(t *testing.T, s *Screen, text string) {
	t.Helper()
	if n, err := s.Write([]byte(text)); n != len(text) || err != nil {
		t.Fatalf("Write: %d, %v", n, err)
	}
}

// Lines scroll above the live line, which stands once, at the bottom, and is gone
// when it is taken away.
func TestLiveLineStaysAtTheBottom(t *testing.T) {
	width := 40
	s, terminal := shown(&width)
	write(t, s, "before\n")
	s.Set("1 in/s")
	write(t, s, "one\n")
	s.Set("22 in/s")
	write(t, s, "two\nthree\n")
	s.Set("3 in/s")
	if got, want := terminal.Lines(), []string{"before", "one", "two", "three", "3 in/s"}; !slices.Equal(got, want) {
		t.Errorf("shown %q, want %q", got, want)
	}
	write(t, s, "without a newline")
	s.Set("")
	write(t, s, "after\n")
	if got, want := terminal.Lines(), []string{"before", "one", "two", "three", "without a newline", "after", ""}; !slices.Equal(got, want) {
		t.Errorf("shown %q, want %q", got, want)
	}
}

// It is never wider than the terminal, lines that are leave it where it is, and a
// terminal that is made narrower or wider keeps neither a rest of it nor eats a line.
func TestLiveLineFitsTheWidth(t *testing.T) {
	long := strings.Repeat("figures ", 20)
	for _, widths := range [][2]int{{40, 40}, {80, 30}, {80, 7}, {30, 80}, {5, 3}, {10, 1}} {
		width := widths[0]
		s, terminal := shown(&width)
		write(t, s, "first\n")
		s.Set(long)
		write(t, s, strings.Repeat("x", 200)+"\n")
		width = widths[1]
		terminal.Resize(width)
		s.Set(long)
		write(t, s, "last\n")
		lines := terminal.Lines()
		if want := []string{"first", strings.Repeat("x", 200), "last", long[:min(len(long), width-1)]}; !slices.Equal(lines, want) {
			t.Errorf("%v: shown %q, want %q", widths, lines, want)
		}
		if row, column := terminal.Row(); column >= width && width > 1 || len(row) >= width && width > 1 {
			t.Errorf("%v: the cursor is at column %d of row %q", widths, column, row)
		}
	}
}

// A text that stands there is not drawn again: a terminal over a slow line, and the
// selection in it, are left alone.
func TestSameTextIsNotDrawnAgain(t *testing.T) {
	var out bytes.Buffer
	s := New(&out, func() int { return 80 }, false)
	s.Set("x")
	n := out.Len()
	s.Set("x")
	if out.Len() != n {
		t.Errorf("%q was written again", out.String()[n:])
	}
}

// Case 65: lines of 200 KiB from several sides, with a live line that changes:
// every line is whole.
func TestCase65_LinesAreNeverTorn(t *testing.T) {
	width := 100
	s, terminal := shown(&width)
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := range 5 {
				line := fmt.Sprintf("%d/%d ", w, i) + strings.Repeat(string(rune('a'+w)), 200<<10) + "\n"
				if _, err := s.Write([]byte(line)); err != nil {
					t.Error(err)
				}
				s.Set(fmt.Sprintf("%d lines", i))
			}
		})
	}
	writers.Wait()
	s.Set("")
	seen := map[string]bool{}
	for _, line := range terminal.Lines() {
		name, rest, _ := strings.Cut(line, " ")
		if line == "" {
			continue
		}
		if seen[name] || len(rest) != 200<<10 || strings.Trim(rest, rest[:1]) != "" {
			t.Fatalf("a line %.20q of %d bytes", line, len(line))
		}
		seen[name] = true
	}
	if len(seen) != 20 {
		t.Errorf("%d lines, want 20", len(seen))
	}
}

func TestClean(t *testing.T) {
	for _, c := range []struct{ line, colored, plain string }{
		{"plain \t é \xff", "plain \t é \xff", "plain \t é \xff"},
		{"\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m\x1b[0m", "red"},
		{"\x1b[1;38:5:9mred", "\x1b[1;38:5:9mred\x1b[0m", "red"},
		{"a\x1b[2Jb\x1b[10;10Hc\x1b[?1049hd", "abcd", "abcd"},
		{"\x1b]0;title\x07x\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\", "xlink", "xlink"},
		{"\x1bcreset\x1b(0", "reset0", "reset0"},
		{"nul\x00 bell\x07 back\x08 del\x7f", `nul\x00 bell\x07 back\x08 del\x7f`, `nul\x00 bell\x07 back\x08 del\x7f`},
		{"cut \x1b[3", "cut ", "cut "},
		{"cut \x1b", "cut ", "cut "},
		{"\x1b[3\x01x", `\x01x`, `\x01x`},
		{"", "", ""},
	} {
		if got := string(Clean(nil, []byte(c.line), true)); got != c.colored {
			t.Errorf("%q colored: %q, want %q", c.line, got, c.colored)
		}
		if got := string(Clean([]byte("|"), []byte(c.line), false)); got != "|"+c.plain {
			t.Errorf("%q plain: %q, want %q", c.line, got, "|"+c.plain)
		}
	}
}

func TestParts(t *testing.T) {
	for line, want := range map[string][]string{
		"":               {""},
		"x":              {"x"},
		"windows\r":      {"windows"},
		"\r 10%\r 20%\r": {" 10%", " 20%"},
		"\r":             {""},
		"two\rin one":    {"two", "in one"},
	} {
		var got []string
		Parts([]byte(line), func(part []byte) { got = append(got, string(part)) })
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

// Whatever a line holds, what is shown has neither a control character nor, without
// color, an escape.
func FuzzClean(f *testing.F) {
	f.Add([]byte("\x1b[31mred\x1b[0m\x1b]0;t\x07\r\x00"))
	f.Fuzz(func(t *testing.T, line []byte) {
		got := Clean(nil, line, false)
		for _, c := range got {
			if c < 0x20 && c != '\t' || c == 0x7f {
				t.Fatalf("%q became %q", line, got)
			}
		}
		if _, err := emulator.New(10).Write(Clean(nil, line, true)); err != nil {
			t.Fatal(err)
		}
	})
}
