package supervisor

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"ankka-flow/wire"
)

const (
	// pipeGrace is how long after the process's end its pipes may stay open: only a
	// grandchild holds them then. After half of it the group gets SIGKILL, which closes
	// them unless the holder left the group.
	pipeGrace = time.Second
	// exitGrace is how long an end of stdin or stdout waits for an exit that explains it.
	exitGrace = time.Second
)

// live is the goroutine of a process's whole life. It keeps its thread: on Linux the child
// dies with the thread that launched it (the parent-death signal), and a thread of Go's can
// end at any time (a goroutine that locked it returned).
func (p *Process) live(path string, cmd Command, pipes *pipes, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	oom := ownOOMCounter()
	oomBefore := oom.kills()
	child, err := p.opts.Reaper.launch(func() (*os.Process, error) {
		return os.StartProcess(path, cmd.Args, &os.ProcAttr{Dir: cmd.Dir, Env: cmd.Env, Files: pipes.child, Sys: childAttributes()})
	})
	if err != nil {
		started <- launchFailure(path, err)
		return
	}
	p.child, p.pid = child, child.Pid
	pipes.closeChild()

	var loops, readers sync.WaitGroup
	var last lastWords
	loops.Go(func() { p.writeInput() })
	readers.Go(func() { last.halfFrame = p.readOutput(pipes.stdout) })
	readers.Go(func() { drainStderr(&source{file: pipes.stderr}, &last.lines, p.opts.Stderr) })
	if p.opts.ProcessTimeout > 0 {
		loops.Go(func() { p.watch() })
	}
	started <- nil

	awaitEnd(p.pid)
	close(p.ending)
	pipes.stdin.Close() // frees a writer that is blocked, whoever holds the other end
	leftover := p.endGroup(&readers, pipes)
	loops.Wait()
	p.in.abandon()
	exited := p.reap()
	oomRose := ranOutOfMemory(exited.Signal, exited.Killed, oomBefore, oom.kills())
	exited.OutOfMemory, exited.Leftover = oomRose, leftover
	exited.LastLines, exited.HalfFrame = last.lines.strings(), last.halfFrame
	if exited.HalfFrame != nil && exited.Signal == 0 && exited.Code == 0 {
		// Nothing else explains it: the process itself broke off.
		p.events <- Broken{Err: exited.HalfFrame}
	}
	p.events <- exited
	close(p.events)
}

// lastWords is what the readers leave for the exit report; read after both have ended.
type lastWords struct {
	lines     tail
	halfFrame error
}

// launchFailure turns the system's error into one that says what to do.
func launchFailure(path string, err error) error {
	var refused syscall.Errno
	if !errors.As(err, &refused) {
		return fmt.Errorf("launching %s: %w", path, err)
	}
	if e := explain(path, refused); e != nil {
		return e
	}
	return &LaunchError{Path: path, Code: 126, Why: refused.Error(), Err: refused}
}

// endGroup waits for the readers to come to the end of their pipes, which is at once unless
// a grandchild holds them, kills what is left of the group, and returns its names.
func (p *Process) endGroup(readers *sync.WaitGroup, pipes *pipes) []string {
	drained := make(chan struct{})
	go func() { // ends with the readers; awaited below
		readers.Wait()
		close(drained)
	}()
	grace := time.NewTimer(pipeGrace / 2)
	defer grace.Stop()
	select {
	case <-drained:
	case <-grace.C:
	}
	leftover := groupMembers(p.pid)
	p.signalGroup(syscall.SIGKILL)
	// Past this moment the readers take what lies in the pipes and stop.
	limit := time.Now().Add(pipeGrace / 2)
	_ = pipes.stdout.SetReadDeadline(limit)
	_ = pipes.stderr.SetReadDeadline(limit)
	<-drained
	pipes.stdout.Close()
	pipes.stderr.Close()
	return leftover
}

// reap takes the wait status, of this one pid, after which the pid and the group are free.
func (p *Process) reap() Exited {
	state, err := p.opts.Reaper.take(p.child)
	p.group.Lock()
	defer p.group.Unlock()
	p.group.reaped = true
	exited := Exited{Code: -1}
	if err == nil {
		exited = exitedFrom(state.Sys().(syscall.WaitStatus))
	}
	exited.Killed = p.group.killed
	return exited
}

// writeInput is the stdin loop.
func (p *Process) writeInput() {
	err := p.in.run()
	if err == nil || errors.Is(err, fs.ErrClosed) || p.endsWithin(exitGrace) {
		return
	}
	p.report(InputBroken{Err: fmt.Errorf("writing to the process: %w", err)})
}

// readOutput is the stdout loop: frames up to a violation, then anything. It never stops
// before the end of the pipe. It returns the violation where the output ended within a
// frame and the process with it, so that the exit decides what that means.
func (p *Process) readOutput(file *os.File) (halfFrame error) {
	src := &source{file: file}
	r := wire.NewReader(src)
	r.OnStray = func(quoted string) { p.events <- Stray{Text: quoted} }
	for {
		body, err := r.Next()
		if err != nil && src.ended {
			return p.outputEnded(err)
		}
		if err == nil {
			err = p.received(r, body)
		}
		if err != nil {
			p.events <- Broken{Err: err}
			_, _ = io.Copy(io.Discard, src)
			return nil
		}
	}
}

// outputEnded: the pipe ended, cleanly or (a *wire.Violation) within a frame.
func (p *Process) outputEnded(err error) (halfFrame error) {
	var violation *wire.Violation
	broken := errors.As(err, &violation)
	switch {
	case p.endsWithin(exitGrace) && broken:
		return err
	case p.endsWithin(0):
	case broken:
		p.events <- Broken{Err: err}
	default:
		p.events <- OutputClosed{}
	}
	return nil
}

// received parses a frame and gives it to the owner; its error is a *wire.Violation.
func (p *Process) received(r *wire.Reader, body []byte) error {
	p.frames.Add(1)
	if p.opts.Trace != nil {
		p.opts.Trace(false, body)
	}
	message, err := wire.ParseFromProcess(body)
	if err != nil {
		return err
	}
	if _, spec := message.(wire.Spec); spec {
		r.Speaks()
	}
	p.events <- Received{Message: message, Bytes: len(body)}
	return nil
}

// endsWithin waits for the process's end for at most d and says whether it came.
func (p *Process) endsWithin(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.ending:
		return true
	case <-timer.C:
	}
	select {
	case <-p.ending:
		return true
	default:
		return false
	}
}

// report gives the owner an event that an exit makes pointless.
func (p *Process) report(ev Event) {
	select {
	case p.events <- ev:
	case <-p.ending:
	}
}

// watch drives liveness.
func (p *Process) watch() {
	judge := newLiveness(p.opts.ProcessTimeout)
	ticker := time.NewTicker(judge.Interval())
	defer ticker.Stop()
	began, canPong := time.Now(), p.canPong
	var actions []livenessAction
	for {
		var ev livenessEvent
		select {
		case <-p.ending:
			return
		case <-canPong:
			canPong, ev = nil, speaksPing{}
		case <-ticker.C:
			written := p.in.written.Load()
			ev = ticked{At: time.Since(began), Frames: p.frames.Load(), Written: written, Unread: unread(p.stdin)}
		}
		actions = judge.Step(actions[:0], ev)
		for _, a := range actions {
			p.perform(a)
		}
	}
}

func (p *Process) perform(a livenessAction) {
	switch a := a.(type) {
	case sendPing:
		frame, err := wire.Append(nil, wire.Ping{N: a.N})
		if err != nil {
			panic(fmt.Sprintf("supervisor: encoding ping %d: %v", a.N, err))
		}
		p.Control(frame)
	case judgeUnreachable:
		p.report(Unreachable(a))
	}
}
