package supervisor

import (
	"errors"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// input is the process's stdin: two queues and the one goroutine that writes them.
//
//  1. At most one frame is begun; it is finished before another begins.
//  2. A control frame goes before every data frame that is not begun.
//  3. A data frame leaves the queue, under mu, in the same step that makes it begun; so
//     withdraw, under mu too, finds it unwritten or does not find it.
//  4. Nobody but the writer ever waits.
type input struct {
	file    inputEnd
	ending  <-chan struct{}
	trace   func(toProcess bool, body []byte)
	release func(frame []byte)
	wake    chan struct{} // holds one token: something changed
	written atomic.Int64  // bytes that went into the pipe

	mu       sync.Mutex
	controls [][]byte
	datas    []dataFrame
	closing  bool // no frame is taken any more
	ended    bool // the writer has returned
}

// inputEnd is what the frames are written into. Close lets the process read the end of its
// input, and frees a writer that is blocked.
type inputEnd interface {
	io.Closer
	SyscallConn() (syscall.RawConn, error)
}

type dataFrame struct {
	id    uint64
	frame []byte
}

// work is what the writer does next.
type work int

const (
	workNothing work = iota
	workControl
	workData
	workEnd
)

func newInput(file inputEnd, ending <-chan struct{}, opts Options) *input {
	return &input{file: file, ending: ending, trace: opts.Trace, release: opts.Release, wake: make(chan struct{}, 1)}
}

func (in *input) control(frame []byte) {
	in.mu.Lock()
	if !in.closing && !in.ended {
		in.controls = append(in.controls, frame)
	}
	in.mu.Unlock()
	in.nudge()
}

func (in *input) data(id uint64, frame []byte) {
	in.mu.Lock()
	taken := !in.ended
	if taken {
		in.datas = append(in.datas, dataFrame{id: id, frame: frame})
	}
	in.mu.Unlock()
	if !taken {
		in.releaseFrame(frame)
	}
	in.nudge()
}

func (in *input) withdraw(id uint64) bool {
	in.mu.Lock()
	i := slices.IndexFunc(in.datas, func(d dataFrame) bool { return d.id == id })
	if i < 0 {
		in.mu.Unlock()
		return false
	}
	frame := in.datas[i].frame
	in.datas = slices.Delete(in.datas, i, i+1)
	in.mu.Unlock()
	in.releaseFrame(frame)
	return true
}

func (in *input) close() {
	in.mu.Lock()
	in.closing = true
	in.mu.Unlock()
	in.nudge()
}

func (in *input) nudge() {
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

func (in *input) releaseFrame(frame []byte) {
	if in.release != nil {
		in.release(frame)
	}
}

// next takes the next frame out of its queue: from here on it is begun.
func (in *input) next() ([]byte, work) {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case len(in.controls) > 0:
		frame := in.controls[0]
		in.controls = slices.Delete(in.controls, 0, 1)
		return frame, workControl
	case in.closing:
		return nil, workEnd
	case len(in.datas) > 0:
		frame := in.datas[0].frame
		in.datas = slices.Delete(in.datas, 0, 1)
		return frame, workData
	}
	return nil, workNothing
}

// run writes until CloseInput, the end of the process, or an error of the pipe, which it
// returns. It closes the pipe. Frames that are not begun stay in the queue, so that
// withdraw goes on telling the truth; abandon drops them.
func (in *input) run() error {
	defer in.file.Close()
	conn, err := in.file.SyscallConn()
	if err != nil {
		return err
	}
	for {
		frame, kind := in.next()
		switch kind {
		case workEnd:
			return nil
		case workNothing:
			select {
			case <-in.wake:
			case <-in.ending:
				return nil
			}
			continue
		}
		if in.trace != nil && len(frame) >= lengthBytes {
			in.trace(true, frame[lengthBytes:])
		}
		err := in.write(conn, frame)
		if kind == workData {
			in.releaseFrame(frame)
		}
		if err != nil {
			return err
		}
	}
}

// lengthBytes stand before the body of every frame.
const lengthBytes = 4

// write puts a frame into the pipe, as much at a time as there is room for, and counts every
// piece: what the process reads while we are blocked shows in the count. Closing the pipe
// frees it at once. (os.File.Write would count a frame of 4 MiB only when all of it is in.)
func (in *input) write(conn syscall.RawConn, frame []byte) error {
	var failed error
	err := conn.Write(func(fd uintptr) bool {
		for len(frame) > 0 {
			n, err := unix.Write(int(fd), frame)
			switch {
			case n > 0:
				frame = frame[n:]
				in.written.Add(int64(n))
			case errors.Is(err, unix.EINTR):
			case errors.Is(err, unix.EAGAIN):
				return false
			default:
				failed = os.NewSyscallError("write", err)
				return true
			}
		}
		return true
	})
	return errors.Join(failed, err)
}

// abandon is called when the process has ended and the writer has returned: what is queued
// will never be written.
func (in *input) abandon() {
	in.mu.Lock()
	in.ended = true
	datas := in.datas
	in.controls, in.datas = nil, nil
	in.mu.Unlock()
	for _, d := range datas {
		in.releaseFrame(d.frame)
	}
}
