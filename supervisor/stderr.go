package supervisor

import (
	"bytes"
	"io"
	"unicode/utf8"
)

const (
	// maxLine splits longer lines of stderr, in bytes.
	maxLine = 64 << 10
	// tailLines and tailLineBytes bound what the exit report keeps: 40 KiB.
	tailLines     = 20
	tailLineBytes = 2 << 10
)

// lines cuts a stream into lines: without their newline, the last one also where it has
// none, a longer one than maxLine in pieces. Bytes are passed as they are, NUL, carriage
// returns and escapes included: what a terminal may see is for the receiver to decide.
type lines struct {
	buf  []byte // what came since the last newline; never longer than maxLine
	emit func(line []byte)
}

// write takes what was read, in any pieces.
func (l *lines) write(p []byte) {
	for {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			l.add(p)
			return
		}
		l.add(p[:i])
		l.emit(l.buf)
		l.buf = l.buf[:0]
		p = p[i+1:]
	}
}

// add appends p, which has no newline, and gives pieces out where it gets too long.
func (l *lines) add(p []byte) {
	for len(l.buf)+len(p) > maxLine {
		n := maxLine - len(l.buf)
		l.buf = append(l.buf, p[:n]...)
		p = p[n:]
		whole := wholeRunes(l.buf)
		l.emit(l.buf[:whole])
		l.buf = append(l.buf[:0], l.buf[whole:]...)
	}
	l.buf = append(l.buf, p...)
}

// end gives out the last line where it has no newline.
func (l *lines) end() {
	if len(l.buf) > 0 {
		l.emit(l.buf)
		l.buf = l.buf[:0]
	}
}

// wholeRunes is the length of b without an unfinished UTF-8 character at its end, so that
// splitting a line does not tear a letter. Bytes that are no UTF-8 are not held back.
func wholeRunes(b []byte) int {
	for i := len(b) - 1; i >= 0 && i >= len(b)-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				return i
			}
			break
		}
	}
	return len(b)
}

// tail keeps the last lines in memory that is used again and again.
type tail struct {
	ring [tailLines][]byte
	next int // lines seen so far
}

func (t *tail) add(line []byte) {
	slot := &t.ring[t.next%tailLines]
	*slot = append((*slot)[:0], line[:min(len(line), tailLineBytes)]...)
	t.next++
}

// strings are the kept lines, oldest first.
func (t *tail) strings() []string {
	var out []string
	for i := max(0, t.next-tailLines); i < t.next; i++ {
		out = append(out, string(t.ring[i%tailLines]))
	}
	return out
}

// drainStderr reads r to its end and calls each for every line. It never stops early: a
// process must not block because nobody reads its log.
func drainStderr(r io.Reader, kept *tail, each func(line []byte)) {
	l := lines{buf: make([]byte, 0, 4<<10), emit: func(line []byte) {
		kept.add(line)
		if each != nil {
			each(line)
		}
	}}
	chunk := make([]byte, 64<<10)
	for {
		n, err := r.Read(chunk)
		l.write(chunk[:n])
		if err != nil {
			l.end()
			return
		}
	}
}
