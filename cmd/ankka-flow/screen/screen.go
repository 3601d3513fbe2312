package screen

import (
	"io"
	"strconv"
	"sync"
)

// Screen writes whole lines above a live line. Its methods may be called from any
// goroutine.
type Screen struct {
	out   io.Writer
	width func() int
	// dress is put around the live line, as faint and back to normal.
	before, after string

	mu    sync.Mutex
	live  string // wanted
	drawn int    // columns of the live line that stands there; 0: none does
	buf   []byte
}

// New makes a Screen without a live line, which hands through what is written.
// width is the terminal's columns now, asked for at each drawing; 0: unknown, and
// then nothing is drawn. faint draws the live line so.
func New(out io.Writer, width func() int, faint bool) *Screen {
	s := &Screen{out: out, width: width}
	if faint {
		s.before, s.after = "\x1b[2m", "\x1b[0m"
	}
	return s
}

// Write implements io.Writer: lines, each with its newline (which the last may
// lack), in one write to the terminal, so that none is torn by another.
func (s *Screen) Write(lines []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live == "" && s.drawn == 0 {
		return s.out.Write(lines)
	}
	s.begin()
	s.buf = append(s.buf, lines...)
	if n := len(lines); n > 0 && lines[n-1] != '\n' {
		s.buf = append(s.buf, '\n')
	}
	if err := s.end(); err != nil {
		return 0, err
	}
	return len(lines), nil
}

// Set makes text the live line: one line of printable ASCII, cut to the terminal's
// width. "" takes it away. What stands there already is not drawn again, unless
// the terminal has become too narrow for it.
func (s *Screen) Set(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if text == s.live && s.drawn == s.columns(text) {
		return
	}
	s.live = text
	s.begin()
	_ = s.end() // the terminal is gone, and nobody is left to tell
}

// begin takes the live line away. A terminal that became narrower has wrapped it:
// then it is as many rows as it needs now. (One that cuts instead of wrapping loses
// a line of the log from sight by that; few are left, and the history has it.)
func (s *Screen) begin() {
	s.buf = s.buf[:0]
	if s.drawn == 0 {
		return
	}
	s.buf = append(s.buf, '\r')
	if w := s.width(); w > 0 && s.drawn > w {
		s.buf = append(s.buf, "\x1b["+strconv.Itoa((s.drawn-1)/w)+"A"...)
	}
	s.buf = append(s.buf, "\x1b[J"...)
}

// end draws the live line below what was written and sends everything at once.
func (s *Screen) end() error {
	s.drawn = s.columns(s.live)
	if s.drawn > 0 {
		s.buf = append(s.buf, s.before...)
		s.buf = append(s.buf, s.live[:s.drawn]...)
		s.buf = append(s.buf, s.after...)
	}
	if len(s.buf) == 0 {
		return nil
	}
	_, err := s.out.Write(s.buf)
	if cap(s.buf) > keptBytes {
		s.buf = nil
	}
	return err
}

// keptBytes is how large a buffer is kept for the next line.
const keptBytes = 64 << 10

// columns is how much of a text is drawn. The last column stays free: some
// terminals wrap as soon as it is filled.
func (s *Screen) columns(text string) int {
	return max(0, min(len(text), s.width()-1))
}
