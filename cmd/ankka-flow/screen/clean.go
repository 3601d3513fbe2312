package screen

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// Clean appends a line of foreign origin to dst as a terminal, or a file that
// somebody reads at one, may have it. Colours and other attributes (SGR) stay where
// color says so; every other escape sequence, which could move the cursor or set
// the terminal up, goes. A control character is shown as \xNN, but for the tab; what
// is not UTF-8 stays as it is. A carriage return in the middle, by which programs
// draw over their own line, is not among them: see Parts.
func Clean(dst, line []byte, color bool) []byte {
	from, colored := 0, false
	for i := 0; i < len(line); {
		c := line[i]
		if c >= 0x20 && c != 0x7f || c == '\t' {
			i++
			continue
		}
		dst = append(dst, line[from:i]...)
		n := 1
		switch {
		case c != escape:
			dst = fmt.Appendf(dst, `\x%02x`, c)
		default:
			n = sequence(line[i:])
			if color && isColor(line[i:i+n]) {
				dst, colored = append(dst, line[i:i+n]...), true
			}
		}
		i += n
		from = i
	}
	dst = append(dst, line[from:]...)
	if colored { // what the program left on would dye what follows
		dst = append(dst, "\x1b[0m"...)
	}
	return dst
}

// Parts calls each for every piece of a line between carriage returns: a progress
// bar is drawn over and over on one line, and its last state is no more of it than
// the others. Empty pieces are left out, but for that of an empty line.
func Parts(line []byte, each func(part []byte)) {
	if bytes.IndexByte(line, '\r') < 0 {
		each(line)
		return
	}
	any := false
	for part := range bytes.SplitSeq(line, []byte("\r")) {
		if len(part) > 0 {
			any = true
			each(part)
		}
	}
	if !any {
		each(nil)
	}
}

const escape = 0x1b

// sequence is the length of the escape sequence that b begins with: CSI up to its
// final byte, OSC and the other strings up to their end, or two bytes. One that is not
// whole goes to the end of b.
func sequence(b []byte) int {
	if len(b) < 2 {
		return len(b)
	}
	switch b[1] {
	case '[':
		for i := 2; i < len(b); i++ {
			if b[i] >= 0x40 && b[i] <= 0x7e {
				return i + 1
			}
			if b[i] < 0x20 || b[i] > 0x7e { // no such sequence: what follows is text
				return i
			}
		}
		return len(b)
	case ']', 'P', 'X', '^', '_':
		for i := 2; i < len(b); i++ {
			if b[i] == 0x07 {
				return i + 1
			}
			if b[i] == escape {
				return min(i+2, len(b))
			}
		}
		return len(b)
	}
	_, n := utf8.DecodeRune(b[1:])
	return 1 + n
}

// isColor: ESC [ digits and separators m.
func isColor(b []byte) bool {
	if len(b) < 3 || b[1] != '[' || b[len(b)-1] != 'm' {
		return false
	}
	for _, c := range b[2 : len(b)-1] {
		if c != ';' && c != ':' && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}
