package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// Reader cuts frames out of a process's stdout and tells text from frames.
//
// Every frame's first byte is 0x00 and no text's is. Until Speaks, text before a
// frame is skipped and told, by OnStray as it comes or by Stray; text that begins
// with { or [ is a process that speaks another protocol. After Speaks, any text
// is a violation. After an error Next only returns that error again: a stream
// that is out of step cannot be trusted again (its process is killed; the next
// one gets a Reader of its own).
//
// A Reader is used by one goroutine, which blocks in Next; it ends when the
// io.Reader does. A frame's bytes are allocated only once its length is known to
// be at most MaxFrame.
type Reader struct {
	// OnStray, if not nil, is called from Next for each piece of text that is
	// skipped, quoted, as soon as it was read, and Stray is then always "". After
	// maxStrays calls a last one says that there will be no more.
	OnStray func(quoted string)

	r      io.Reader
	buf    []byte // read and not yet used: buf[start:end]
	start  int
	end    int
	speaks bool
	begun  bool // something other than white space came
	stray  []byte
	strays int
	err    error
}

const (
	readSize  = 64 << 10
	maxStrays = 100
)

// NewReader reads frames from r, in pieces of at most 64 KiB or straight into a
// frame.
func NewReader(r io.Reader) *Reader {
	return &Reader{r: r, buf: make([]byte, readSize)}
}

// Speaks says that the process has answered discovery: from now on text is a
// violation. It is called by the goroutine that calls Next.
func (r *Reader) Speaks() { r.speaks = true }

// Stray is the text skipped since it was last called, quoted and cut after 64
// bytes; "" when there was none, or when OnStray was told.
func (r *Reader) Stray() string {
	if len(r.stray) == 0 {
		return ""
	}
	q := quote(r.stray)
	r.stray = r.stray[:0]
	return q
}

// Next is the next frame's body, freshly allocated and the caller's own. io.EOF
// is the end of the stream between two frames; a *Violation is the process's
// fault; any other error is the io.Reader's.
func (r *Reader) Next() ([]byte, error) {
	if r.err != nil {
		return nil, r.err
	}
	body, err := r.next()
	if err != nil {
		r.err = err
	}
	return body, err
}

func (r *Reader) next() ([]byte, error) {
	if err := r.skipText(); err != nil {
		return nil, err
	}
	for r.end-r.start < 4 {
		if err := r.fill(); err != nil {
			if errors.Is(err, io.EOF) {
				return nil, (&Violation{Code: CodeHalfLength}).fill("COUNT", strconv.Itoa(r.end-r.start))
			}
			return nil, err
		}
	}
	size := binary.BigEndian.Uint32(r.buf[r.start:])
	r.start += 4
	if size > MaxFrame {
		return nil, (&Violation{Code: CodeFrameTooLarge}).fill("SIZE", strconv.FormatUint(uint64(size), 10))
	}
	if size == 0 {
		return nil, (&Violation{Code: CodeEmptyFrame}).fill()
	}
	body := make([]byte, size)
	n := copy(body, r.buf[r.start:r.end])
	r.start += n
	for n < len(body) {
		m, err := r.r.Read(body[n:])
		n += m
		if n == len(body) {
			break
		}
		if errors.Is(err, io.EOF) {
			return nil, (&Violation{Code: CodeHalfFrame}).fill("COUNT", strconv.Itoa(n), "SIZE", strconv.Itoa(len(body)))
		}
		if err != nil {
			return nil, fmt.Errorf("reading a frame from the process: %w", err)
		}
	}
	return body, nil
}

// skipText reads until a frame's first byte stands at start.
func (r *Reader) skipText() error {
	for {
		if r.start == r.end {
			if err := r.fill(); err != nil {
				return err
			}
			continue
		}
		have := r.buf[r.start:r.end]
		if have[0] == 0 {
			r.begun = true
			return nil
		}
		text := upToZero(have)
		if r.speaks {
			return (&Violation{Code: CodeStrayText}).fill("TEXT", quote(text))
		}
		if !r.begun && speaksJSON(text) {
			return (&Violation{Code: CodeJSON}).fill("TEXT", quote(text))
		}
		r.begun = r.begun || !blank(text)
		r.tell(text)
		r.start += len(text)
	}
}

// tell passes on text that is skipped, within bounds: a process may print for
// hours before it speaks. White space alone tells nobody anything; it comes
// where a print's text and its newline are two writes.
func (r *Reader) tell(text []byte) {
	if blank(text) {
		return
	}
	if r.OnStray == nil {
		if room := maxQuote + 1 - len(r.stray); room > 0 {
			r.stray = append(r.stray, text[:min(room, len(text))]...)
		}
		return
	}
	if r.strays++; r.strays <= maxStrays {
		r.OnStray(quote(text))
	} else if r.strays == maxStrays+1 {
		r.OnStray(`"..." (and more, which is not shown)`)
	}
}

// fill reads once, behind what is there.
func (r *Reader) fill() error {
	if r.start > 0 {
		copy(r.buf, r.buf[r.start:r.end])
		r.end -= r.start
		r.start = 0
	}
	n, err := r.r.Read(r.buf[r.end:])
	r.end += n
	if n > 0 || err == nil {
		return nil // an error that came with bytes comes again without them
	}
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	return fmt.Errorf("reading from the process: %w", err)
}

// upToZero is b before its first 0x00: the text, without the frames after it.
func upToZero(b []byte) []byte {
	for i, c := range b {
		if c == 0 {
			return b[:i]
		}
	}
	return b
}

func speaksJSON(text []byte) bool {
	for _, c := range text {
		switch c {
		case ' ', '\t', '\r', '\n':
		case '{', '[':
			return true
		default:
			return false
		}
	}
	return false
}

func blank(text []byte) bool {
	for _, c := range text {
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return false
		}
	}
	return true
}
