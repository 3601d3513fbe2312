package supervisor

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// pipeBytes is what the pipes of frames are enlarged to where the system allows it, so that
// a batch is written in one go while the process works on the last one.
const pipeBytes = 1 << 20

// pipes are both ends of the three pipes. Ours wait in Go's poller, so that closing one
// frees whoever is blocked on it; the child's block, as programs expect.
type pipes struct {
	stdin, stdout, stderr *os.File // ours
	child                 []*os.File
}

func openPipes() (*pipes, error) {
	p := &pipes{}
	var errs [3]error
	var childIn, childOut, childErr *os.File
	childIn, p.stdin, errs[0] = openPipe("stdin", true)
	p.stdout, childOut, errs[1] = openPipe("stdout", false)
	p.stderr, childErr, errs[2] = openPipe("stderr", false)
	p.child = []*os.File{childIn, childOut, childErr}
	if err := errors.Join(errs[:]...); err != nil {
		p.closeAll()
		return nil, fmt.Errorf("opening the pipes of a process: %w", err)
	}
	// Only these carry frames; users without privileges share a limit on pipe memory.
	enlarge(p.stdin)
	enlarge(p.stdout)
	return p, nil
}

// openPipe makes a pipe whose writing (or reading) end is ours.
func openPipe(name string, weWrite bool) (r, w *os.File, err error) {
	fds, err := pipe()
	if err != nil {
		return nil, nil, os.NewSyscallError("pipe", err)
	}
	ours := fds[0]
	if weWrite {
		ours = fds[1]
	}
	if err := syscall.SetNonblock(ours, true); err != nil {
		syscall.Close(fds[0])
		syscall.Close(fds[1])
		return nil, nil, os.NewSyscallError("setnonblock", err)
	}
	return os.NewFile(uintptr(fds[0]), name), os.NewFile(uintptr(fds[1]), name), nil
}

// closeChild closes the child's ends, which only the child may hold after its launch.
func (p *pipes) closeChild() {
	for _, f := range p.child {
		if f != nil {
			f.Close()
		}
	}
}

func (p *pipes) closeAll() {
	p.closeChild()
	for _, f := range []*os.File{p.stdin, p.stdout, p.stderr} {
		if f != nil {
			f.Close()
		}
	}
}

// unread is how many bytes lie in the pipe; 0 where the system does not say.
func unread(f *os.File) int64 {
	n := 0
	if conn, err := f.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) { n = pipeUnread(int(fd)) })
	}
	return int64(n)
}

// source reads a pipe from the process. Once its read deadline has passed it still gives
// what lies in the pipe at that moment, and then io.EOF: a grandchild that holds the other
// end open, or fills it without end, can delay the end no further.
type source struct {
	file  *os.File
	ended bool  // io.EOF was given
	late  bool  // the deadline has passed
	left  int64 // then: what may still be read
}

func (s *source) Read(p []byte) (int, error) {
	if !s.late {
		n, err := s.file.Read(p)
		if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			s.ended = s.ended || err != nil
			return n, err
		}
		s.late, s.left = true, unread(s.file)
	}
	n := s.readNow(p[:min(int64(len(p)), s.left)])
	s.left -= int64(n)
	if n == 0 && len(p) > 0 {
		s.ended = true
		return 0, io.EOF
	}
	return n, nil
}

// readNow reads what is there without waiting, 0 where nothing is.
func (s *source) readNow(p []byte) (n int) {
	conn, err := s.file.SyscallConn()
	if err != nil || len(p) == 0 {
		return 0
	}
	_ = conn.Control(func(fd uintptr) {
		for {
			n, err = unix.Read(int(fd), p)
			if err != unix.EINTR {
				break
			}
		}
	})
	return max(n, 0)
}
