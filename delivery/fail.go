package delivery

import (
	"fmt"
	"strings"
)

// failure is one thing that fails the stream.
type failure struct {
	reason string
	// accused has the batches it may be charged to (charge.go); how says what
	// they did.
	accused []accusation
	how     how
	// process: the process is gone or has to go; otherwise a conversation that
	// has ended already only notes the failure.
	process bool
	// kill: the process cannot go on. exited: it ended by itself.
	kill, exited bool
	// code is the process's own exit code.
	code int
	// found: it is known whose it is, so that the others need not wait long.
	found bool
}

// fail fails the stream. Unacked batches are void, acked
// ones settle, the wait begins, and the process gets a new conversation or is
// replaced.
func (c *Core) fail(f failure) {
	v := &c.conv
	c.count.failures++
	c.note(NoteFailed, TP{}, f.reason)
	if f.how == "" {
		f.how = howFailed
	}
	f.found = c.judge(&f)
	switch {
	case v.state == Running:
		c.failRunning(f)
	case v.state == Stopping:
		c.failStopping(f)
	case f.process:
		c.failBetween(f)
	}
	// Otherwise it is only noted: the conversation has failed already.
}

func (c *Core) failRunning(f failure) {
	v := &c.conv
	if f.kill {
		c.kill(f.reason)
	}
	c.endRunning()
	v.state = Down
	if c.process.state == processUp {
		c.do(Stop{Process: c.process.number, Abandon: true, Reason: f.reason})
		v.state = Ending
		v.deadline = c.now + max(v.wait, c.cfg.EndTimeout)
	}
	c.goOn(f)
}

// failStopping: there is no new conversation to come, or a reload's already is.
func (c *Core) failStopping(f failure) {
	v := &c.conv
	if f.kill || v.reload {
		c.kill(f.reason)
	}
	c.endRunning()
	v.state = Down
}

// failBetween is a failure of the process in Down, Discovering or Ending.
func (c *Core) failBetween(f failure) {
	expected := c.process.retiring
	if f.kill {
		c.kill(f.reason)
	}
	c.conv.state = Down
	if !expected {
		c.goOn(f)
	}
}

// goOn is what follows a failure: the wait, the next save or the exit.
func (c *Core) goOn(f failure) {
	switch {
	case c.stop.asked:
	case c.cfg.ExitOnFailure:
		c.beginStop(f.reason, max(1, f.code))
	case f.exited && c.cfg.Watch, c.cfg.Attach && (f.exited || f.kill):
		c.awaitSave()
	default:
		c.backoff(f.found)
	}
}

// awaitSave waits for ReloadAsked, for ever.
func (c *Core) awaitSave() {
	c.conv.awaitSave = true
	what := "for the next save"
	if c.cfg.Attach {
		what = "for a program to attach"
	}
	c.note(NoteWaiting, TP{}, what)
}

// violate fails the stream because the process broke the protocol: it is not
// spoken to any more. b is the batch that the violation names, or nil.
func (c *Core) violate(reason string, b *batch) {
	f := failure{process: true, kill: true, reason: "protocol violation: " + reason}
	if b != nil && !b.void {
		f.accused = []accusation{accuse(b)}
		f.reason = fmt.Sprintf("%s (%v)", f.reason, b.part.tp)
	}
	c.fail(f)
}

func join(problems []string) string { return strings.Join(problems, "; ") }
