package emulator

import (
	"bytes"
	"fmt"
	"strings"
)

// Terminal is a terminal with all of its history. It wraps what is longer than a row,
// and when it becomes narrower wraps what stands there.
type Terminal struct {
	width int
	rows  []row
	at    int // the row of the cursor
	col   int
	rest  []byte // of a sequence that is not whole yet
}

// row is one row; wrapped: it goes on in the next one.
type row struct {
	text    []byte
	wrapped bool
}

// New makes an empty terminal.
func New(width int) *Terminal { return &Terminal{width: width, rows: make([]row, 1)} }

// Write implements io.Writer and never fails.
func (t *Terminal) Write(p []byte) (int, error) {
	data := append(t.rest, p...)
	t.rest = nil
	for len(data) > 0 {
		n := t.one(data)
		if n == 0 {
			t.rest = bytes.Clone(data)
			break
		}
		data = data[n:]
	}
	return len(p), nil
}

// one takes a character or a sequence and returns its length; 0: it is not whole.
func (t *Terminal) one(data []byte) int {
	switch c := data[0]; {
	case c == '\r':
		t.col = 0
	case c == '\n':
		t.at, t.col = t.at+1, 0 // the system puts a carriage return before it
		if t.at == len(t.rows) {
			t.rows = append(t.rows, row{})
		}
	case c == 0x1b:
		return t.sequence(data)
	case c < 0x20 && c != '\t' || c == 0x7f:
		panic(fmt.Sprintf("emulator: control character %#x", c))
	default:
		t.put(c)
	}
	return 1
}

func (t *Terminal) put(c byte) {
	if t.col == t.width {
		t.rows[t.at].wrapped = true
		t.at, t.col = t.at+1, 0
		if t.at == len(t.rows) {
			t.rows = append(t.rows, row{})
		}
	}
	r := &t.rows[t.at]
	for len(r.text) <= t.col {
		r.text = append(r.text, ' ')
	}
	r.text[t.col] = c
	t.col++
}

func (t *Terminal) sequence(data []byte) int {
	end := 2
	for end < len(data) && (data[end] < 0x40 || data[end] > 0x7e) {
		end++
	}
	if end >= len(data) {
		return 0
	}
	text := string(data[1 : end+1])
	n := 0
	switch {
	case strings.HasSuffix(text, "m"):
	case text == "[J":
		t.rows = t.rows[:t.at+1]
		t.rows[t.at].text = t.rows[t.at].text[:min(t.col, len(t.rows[t.at].text))]
		t.rows[t.at].wrapped = false
	case strings.HasSuffix(text, "A"):
		if _, err := fmt.Sscanf(text, "[%dA", &n); err != nil || n > t.at {
			panic(fmt.Sprintf("emulator: %q from row %d", text, t.at))
		}
		t.at -= n
	default:
		panic(fmt.Sprintf("emulator: sequence %q", text))
	}
	return end + 1
}

// Resize makes it narrower or wider: lines are wrapped anew, and the cursor stays at
// its character, as in most terminals.
func (t *Terminal) Resize(width int) {
	var rows []row
	at, col, line := 0, 0, []byte{}
	cursor := -1
	for i, r := range t.rows {
		if i == t.at {
			cursor = len(line) + t.col
		}
		line = append(line, r.text...)
		if r.wrapped {
			continue
		}
		first := len(rows)
		for len(line) > width {
			rows = append(rows, row{bytes.Clone(line[:width]), true})
			line = line[width:]
		}
		rows = append(rows, row{text: bytes.Clone(line)})
		if cursor >= 0 {
			// Behind the last character of a full row it stays there.
			at = first + max(0, cursor-1)/width
			col = cursor - (at-first)*width
			cursor = -1
		}
		line = line[:0]
	}
	t.width, t.rows, t.at, t.col = width, rows, at, col
}

// Lines are the lines that were written, each whole however it is wrapped.
func (t *Terminal) Lines() []string {
	var lines []string
	var line []byte
	for _, r := range t.rows {
		line = append(line, r.text...)
		if !r.wrapped {
			lines = append(lines, string(line))
			line = nil
		}
	}
	return lines
}

// Row is the row of the cursor, and its column.
func (t *Terminal) Row() (text string, column int) { return string(t.rows[t.at].text), t.col }
