package supervisor

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ankka-flow/wire"
)

// maxSocketPath is how many bytes the path of a Unix socket may have: what the system's
// structure holds, less its end.
const maxSocketPath = len(unix.RawSockaddrUnix{}.Path) - 1

const (
	// successorGrace is how long a program that connects waits for the end of the one before
	// it: who ends a debugger and starts it again is not refused for being quick.
	successorGrace = 2 * time.Second
	// refusalTime bounds the writing of a refusal to a program that does not read.
	refusalTime = time.Second
)

// Listener is the Unix socket at which programs that were started by hand attach, one at a
// time. Its methods may be called from any goroutine.
type Listener struct {
	path   string
	socket *net.UnixListener
	lock   *os.File
	came   chan<- string
	second func(pid int)
	done   chan struct{}
	loop   sync.WaitGroup

	mu      sync.Mutex
	waiting *Attached // came and was not taken yet
	last    *Attached // the newest that was let in
}

// Listen opens the socket at path, for its user alone (mode 0600). came is told of each
// program that is let in, which Take then gives; second, of each that is not because
// another one is attached. The error says what to do: the path is too long, taken by another
// supervisor, or by something that is no socket. One that a dead supervisor left is removed.
func Listen(path string, came chan<- string, second func(pid int)) (*Listener, error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("%s: the path has %d bytes, and that of a Unix socket at most %d; name a shorter one with FLOW_ATTACH", path, len(path), maxSocketPath)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("making the folder of the socket: %w", err)
	}
	lock, err := lockSocket(path)
	if err != nil {
		return nil, err
	}
	socket, err := bind(path)
	if err != nil {
		_ = lock.Close()
		return nil, err
	}
	l := &Listener{path: path, socket: socket, lock: lock, came: came, second: second, done: make(chan struct{})}
	l.loop.Go(l.accept)
	return l, nil
}

// lockSocket keeps other supervisors away from the path; the kernel lets go of it with us.
func lockSocket(path string) (*os.File, error) {
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the socket: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("%s: another ankka-flow run --attach listens there (%w); end it, or name another path with FLOW_ATTACH", path, err)
	}
	return lock, nil
}

// bind makes the socket in a folder that nobody else may enter and moves it to its path when
// its mode is right: at no moment may another user connect.
func bind(path string) (*net.UnixListener, error) {
	info, err := os.Lstat(path)
	switch {
	case err == nil && info.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("%s is there and is no socket; remove it, or name another path with FLOW_ATTACH", path)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("looking at the socket: %w", err)
	}
	private, err := os.MkdirTemp(filepath.Dir(path), ".a")
	if err != nil {
		return nil, fmt.Errorf("making the socket: %w", err)
	}
	defer os.RemoveAll(private)
	made := filepath.Join(private, "s")
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: made, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("making the socket: %w; a shorter path may do, by FLOW_ATTACH", err)
	}
	socket.SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(made, 0o600), os.Rename(made, path)); err != nil {
		_ = socket.Close()
		return nil, fmt.Errorf("making the socket: %w", err)
	}
	return socket, nil
}

// Path is where the socket is.
func (l *Listener) Path() string { return l.path }

// Take gives the program that came. It is the owner's from then on, as one of Start.
func (l *Listener) Take(opts Options) (*Attached, error) {
	l.mu.Lock()
	a := l.waiting
	l.waiting = nil
	l.mu.Unlock()
	if a == nil {
		return nil, errors.New("no program is attached")
	}
	a.begin(opts)
	return a, nil
}

// Close ends the listening and a program that came and was not taken. It waits for the
// listener's goroutine.
func (l *Listener) Close() {
	close(l.done)
	_ = l.socket.Close()
	l.loop.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting != nil {
		_ = l.waiting.conn.Close()
	}
	_ = os.Remove(l.path)
	_ = l.lock.Close()
}

// accept is the listener's goroutine.
func (l *Listener) accept() {
	for {
		conn, err := l.socket.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // no descriptor is left, say: the next one may be better
			select {
			case <-l.done:
				return
			case <-time.After(100 * time.Millisecond):
			}
			continue
		}
		l.admit(conn)
	}
}

// admit lets a program in, or refuses it because another one is attached.
func (l *Listener) admit(conn *net.UnixConn) {
	pid := peerPid(conn)
	if l.last != nil {
		grace := time.NewTimer(successorGrace)
		defer grace.Stop()
		select {
		case <-l.last.ended:
		case <-l.done:
		case <-grace.C:
			refuse(conn, fmt.Sprintf("another program is attached, pid %d; end it first", l.last.pid))
			if l.second != nil {
				l.second(pid)
			}
			return
		}
	}
	a := newAttached(conn, pid)
	l.mu.Lock()
	l.waiting, l.last = a, a
	l.mu.Unlock()
	select {
	case l.came <- "a program attached":
	case <-l.done:
	}
}

// refuse says why, as the frame that every SDK prints, and hangs up.
func refuse(conn *net.UnixConn, why string) {
	defer conn.Close()
	frame, err := wire.Append(nil, wire.Refuse{Problems: []string{why}})
	if err != nil {
		panic(fmt.Sprintf("supervisor: encoding refuse: %v", err))
	}
	// It may be gone already, and then needs no answer.
	_ = conn.SetWriteDeadline(time.Now().Add(refusalTime))
	_, _ = conn.Write(frame)
}

// Attached is a program that was started by hand, at the other end of a socket. It is used as
// a Process is; its end is that of the connection. Nothing that it does is timed, and what
// becomes of it after the connection is its own affair.
type Attached struct {
	conn   *net.UnixConn
	pid    int
	opts   Options
	events chan Event
	in     *input
	ended  chan struct{} // closed when the connection is over
	killed atomic.Bool   // we closed it
}

func newAttached(conn *net.UnixConn, pid int) *Attached {
	return &Attached{conn: conn, pid: pid, events: make(chan Event, eventQueue), ended: make(chan struct{})}
}

// halfClosed closes a socket in one direction: the other side reads the end, and may still
// answer.
type halfClosed struct{ *net.UnixConn }

func (h halfClosed) Close() error { return h.CloseWrite() }

func (a *Attached) begin(opts Options) {
	a.opts = opts
	a.in = newInput(halfClosed{a.conn}, a.ended, opts)
	go a.live()
}

// live is the goroutine of the connection. It ends with it, and the owner awaits it: Events
// is closed.
func (a *Attached) live() {
	var writer sync.WaitGroup
	writer.Go(func() { // ends with the connection; awaited below
		if a.in.run() != nil {
			_ = a.conn.Close() // nothing more can be said
		}
	})
	a.read()
	close(a.ended)
	_ = a.conn.Close()
	writer.Wait()
	a.in.abandon()
	a.events <- Exited{Code: -1, Killed: a.killed.Load(), Disconnected: true}
	close(a.events)
}

// read gives the owner what comes, up to the end of the connection or a violation; what
// follows that is thrown away until somebody hangs up.
func (a *Attached) read() {
	r := wire.NewReader(a.conn)
	r.OnStray = func(quoted string) { a.events <- Stray{Text: quoted} }
	for {
		body, err := r.Next()
		var violation *wire.Violation
		if err != nil && !errors.As(err, &violation) {
			return
		}
		if err == nil {
			err = a.received(r, body)
		}
		if err != nil {
			a.events <- Broken{Err: err}
			_, _ = io.Copy(io.Discard, a.conn)
			return
		}
	}
}

func (a *Attached) received(r *wire.Reader, body []byte) error {
	if a.opts.Trace != nil {
		a.opts.Trace(false, body)
	}
	message, err := wire.ParseFromProcess(body)
	if err != nil {
		return err
	}
	if _, spec := message.(wire.Spec); spec {
		r.Speaks()
	}
	a.events <- Received{Message: message, Bytes: len(body)}
	return nil
}

// Events are as Process's; Exited says that the connection is over.
func (a *Attached) Events() <-chan Event { return a.events }

// Control is as Process's.
func (a *Attached) Control(frame []byte) { a.in.control(frame) }

// Data is as Process's.
func (a *Attached) Data(id uint64, frame []byte) { a.in.data(id, frame) }

// Withdraw is as Process's.
func (a *Attached) Withdraw(id uint64) bool { return a.in.withdraw(id) }

// CloseInput lets the program read the end of its input, as Process's does.
func (a *Attached) CloseInput() { a.in.close() }

// Terminate hangs up: the program is not ours to be signalled.
func (a *Attached) Terminate() { a.Kill() }

// Kill hangs up.
func (a *Attached) Kill() {
	select {
	case <-a.ended:
	default:
		a.killed.Store(true)
	}
	_ = a.conn.Close()
}

// Pid is the program's process id; 0 where the system does not say.
func (a *Attached) Pid() int { return a.pid }

// SpeaksPing changes nothing: whoever sits at a breakpoint answers no ping.
func (a *Attached) SpeaksPing() {}
