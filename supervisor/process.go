package supervisor

import (
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Command is what to launch.
type Command struct {
	// Args are passed as they are; no shell is involved. Args[0] is looked up in the PATH of
	// Env, or is a path from Dir where it has a slash.
	Args []string
	// Dir is the working directory, "" for our own.
	Dir string
	// Env is the whole environment of the child; Environment makes it.
	Env []string
}

// Options are fixed for a process's life. The zero value is usable.
type Options struct {
	// Stderr is called with every line of stderr, without its newline, in order, the last one
	// also where it has no newline; a line over 64 KiB comes in pieces. Bytes are passed as
	// they came (NUL, carriage returns and escapes included). It is called from one goroutine
	// and must not keep the slice. While it blocks, the process's writes to stderr block; while
	// it blocks for ever, Exited never comes. nil: the lines are read and dropped.
	Stderr func(line []byte)
	// Trace is called with the body of every frame, in both directions, from two goroutines at
	// once, and must not keep the slice. It is called before the first byte is written, and for
	// a frame from the process before it is parsed. nil: none.
	Trace func(toProcess bool, body []byte)
	// Release is called once for every frame given to Data when the process no longer needs it:
	// written, withdrawn, or never to be written because the process is gone. Its memory may
	// then be used again. It is called from any goroutine, also within Withdraw, and must not
	// call back. nil: none.
	Release func(frame []byte)
	// ProcessTimeout is FLOW_PROCESS_TIMEOUT: a process that SpeaksPing is Unreachable after
	// this long without a sign of life. 0: never.
	ProcessTimeout time.Duration
	// Reaper is told of the process, so that it leaves its status alone. nil: there is none.
	Reaper *Reaper
}

// eventQueue is how many events wait for the owner before the stdout reader does. A frame is
// at most 4 MiB, so this holds 64 MiB at the very most.
const eventQueue = 16

// Process is one child, from its launch to its wait status. Its methods may be called from
// any goroutine, at any time, also after its end, when they do nothing. None of them blocks.
//
// The owner must receive from Events until that is closed, also after Kill: reading the
// process's output goes no further than the owner does.
type Process struct {
	opts   Options
	pid    int
	child  *os.Process
	events chan Event
	in     *input
	stdin  *os.File      // the pipe that in writes
	stdout *os.File      // the pipe that readOutput reads
	ending chan struct{} // closed when the wait status is known

	frames atomic.Uint64 // that came from the process
	// inputRead is the most that InputRead has answered: at the end of the process, when
	// the pipe is closed and cannot be asked, the answer must not jump to all of it.
	inputRead atomic.Int64
	canPong   chan struct{} // closed by SpeaksPing
	pongOnce  sync.Once

	// group guards the group's id against being signalled after it may belong to somebody
	// else: once the child is reaped, its pid, which names the group, is free.
	group struct {
		sync.Mutex
		reaped bool
		killed bool // we sent SIGKILL
	}
}

// Start launches cmd in a process group of its own and returns when it runs. A program that
// cannot be launched is a *LaunchError; any other error is ours (no pipe could be made).
func Start(cmd Command, opts Options) (*Process, error) {
	path, err := resolve(cmd)
	if err != nil {
		return nil, err
	}
	pipes, err := openPipes()
	if err != nil {
		return nil, err
	}
	p := &Process{
		opts:    opts,
		events:  make(chan Event, eventQueue),
		ending:  make(chan struct{}),
		canPong: make(chan struct{}),
	}
	p.stdin, p.stdout = pipes.stdin, pipes.stdout
	p.in = newInput(pipes.stdin, p.ending, opts)
	started := make(chan error, 1)
	go p.live(path, cmd, pipes, started)
	if err := <-started; err != nil {
		pipes.closeAll()
		return nil, err
	}
	return p, nil
}

// Events are what happens to the process, Exited last; closed after it.
func (p *Process) Events() <-chan Event { return p.events }

// Control queues a whole frame that overtakes queued data (ping, stop, revoke, discover,
// start, refuse). Queued frames have no bound here: the caller has few of them at a time.
func (p *Process) Control(frame []byte) { p.in.control(frame) }

// Data queues a whole frame under an id that never repeats in the process's life. At most
// one data frame is begun at a time. The frame belongs to the process until Release; the
// memory of what is queued is for the caller to bound.
func (p *Process) Data(id uint64, frame []byte) { p.in.data(id, frame) }

// Withdraw takes a queued data frame back. True: nothing of it was written and nothing will
// be. False: its first byte was (R3: the process has it), or the id is unknown.
func (p *Process) Withdraw(id uint64) bool { return p.in.withdraw(id) }

// CloseInput ends the process's stdin after the control frames that are queued now and the
// data frame that is begun. Data that is not begun is not written any more (and can still be
// withdrawn). Frames queued later are dropped.
func (p *Process) CloseInput() { p.in.close() }

// InputRead is how many bytes of its stdin the process has read, of all that was ever
// written; it never falls. Where the system does not say what lies in a pipe that we write
// (anything but Linux), it counts what was written.
func (p *Process) InputRead() int64 {
	written := p.in.written.Load()
	// Taken after written: what is written in between can only make the answer too small.
	read := max(0, written-unread(p.stdin))
	for {
		before := p.inputRead.Load()
		if read <= before {
			return before
		}
		if p.inputRead.CompareAndSwap(before, read) {
			return read
		}
	}
}

// OutputUnread is how many bytes lie in the process's stdout that were not read.
func (p *Process) OutputUnread() int64 { return unread(p.stdout) }

// Terminate sends SIGTERM to the group, and SIGCONT so that a stopped process can see it.
func (p *Process) Terminate() {
	p.signalGroup(syscall.SIGTERM)
	p.signalGroup(syscall.SIGCONT)
}

// Kill sends SIGKILL to the group, and where the system says who they are (Linux) to every
// descendant of the child in another group: a wrapper such as tini gives its program one of
// its own, and cannot pass this signal on.
func (p *Process) Kill() {
	p.group.Lock()
	defer p.group.Unlock()
	if p.group.reaped {
		return
	}
	p.group.killed = true
	elsewhere := descendants(p.pid) // while its parents live and are known
	// The one error is that nobody is left.
	_ = syscall.Kill(-p.pid, syscall.SIGKILL)
	for _, pid := range elsewhere {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// Signal sends sig to the child alone (HUP, USR1, USR2 and WINCH are forwarded so).
func (p *Process) Signal(sig os.Signal) {
	// The one error is that it has exited, which Events tells.
	_ = p.child.Signal(sig)
}

// Pid is the child's process id, which is its group's as well.
func (p *Process) Pid() int { return p.pid }

// SpeaksPing says that the process answers pings: from now on it may be pinged and found
// Unreachable. Without it, it never is.
func (p *Process) SpeaksPing() { p.pongOnce.Do(func() { close(p.canPong) }) }

// signalGroup does nothing once the child is reaped.
func (p *Process) signalGroup(sig syscall.Signal) {
	p.group.Lock()
	defer p.group.Unlock()
	if !p.group.reaped {
		// The one error is that nobody is left in it.
		_ = syscall.Kill(-p.pid, sig)
	}
}
