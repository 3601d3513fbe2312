package delivery

import (
	"fmt"
	"time"
)

type processState uint8

const (
	processNone processState = iota
	// processLaunching: Launch was given out.
	processLaunching
	processUp
	// processDying: Kill was given out; Exited follows, and until then nothing
	// that it said counts.
	processDying
)

// process is the child as far as the core needs to know it.
type process struct {
	state processState
	// number counts launches from 1.
	number uint64
	// firstID is the first id of a batch that it can have got.
	firstID uint64
	// everLaunched: a launch has worked once, so that a later failure is no
	// reason to exit.
	everLaunched bool
	maxInFlight  int
	// killWhy kills it as soon as it is launched.
	killWhy string
	// retiring: its input is closed; killBy is when it is killed, 0: never.
	retiring bool
	killBy   time.Duration
	// closedBy is when a closed stdout fails the stream, 0: it is open.
	closedBy time.Duration
}

func (c *Core) launch() {
	c.process = process{
		state: processLaunching, number: c.process.number + 1, firstID: c.lastID + 1,
		everLaunched: c.process.everLaunched, maxInFlight: defaultCredit,
	}
	c.do(Launch{c.process.number})
}

// kill ends the process at once, also one that is just being launched.
func (c *Core) kill(why string) {
	switch c.process.state {
	case processLaunching:
		c.process.killWhy = why
	case processUp:
		c.process.state = processDying
		c.do(Kill{c.process.number, why})
	}
}

// retire closes the process's input, and kills it at killBy (0: never).
func (c *Core) retire(killBy time.Duration) {
	p := &c.process
	if p.state != processUp || p.retiring {
		return
	}
	p.retiring, p.killBy = true, killBy
	c.do(CloseInput{p.number})
}

// applyProcess steps the events of the process. One of a process that is over
// or being killed is stale (R12); only its end still matters.
func (c *Core) applyProcess(ev Event) {
	number, end := processOf(ev)
	p := &c.process
	if number != p.number || p.state == processNone || p.state == processDying && !end {
		c.stale(ev)
		return
	}
	switch e := ev.(type) {
	case Launched:
		c.onLaunched(e)
	case LaunchFailed:
		c.onLaunchFailed(e)
	case Exited:
		c.onExited(e)
	case SpecGood:
		c.onSpecGood(e)
	case SpecRefused:
		c.onSpecRefused(e)
	case Withdrawn:
		c.onWithdrawn(e)
	case Emitted:
		c.onEmitted(e)
	case Acked:
		c.onAcked(e)
	case Failed:
		c.onFailed(e)
	case Statused:
		c.onStatused(e)
	case StoppedByProcess:
		c.onStopped(e)
	case Violated:
		c.violate(e.Reason, c.batches[e.ID])
	case OutputClosed:
		c.onOutputClosed()
	case Unreachable:
		c.fail(failure{process: true, kill: true, accused: c.suspects(), how: howEnded, reason: "the process is unreachable: " + e.Reason})
	}
}

// processOf is the process an event belongs to, and whether it is its end.
func processOf(ev Event) (number uint64, end bool) {
	switch e := ev.(type) {
	case Launched:
		return e.Process, false
	case LaunchFailed:
		return e.Process, true
	case SpecGood:
		return e.Process, false
	case SpecRefused:
		return e.Process, false
	case Withdrawn:
		return e.Process, true // one that is killed answers it too
	case Emitted:
		return e.Process, false
	case Acked:
		return e.Process, false
	case Failed:
		return e.Process, false
	case Statused:
		return e.Process, false
	case StoppedByProcess:
		return e.Process, false
	case Violated:
		return e.Process, false
	case OutputClosed:
		return e.Process, false
	case Unreachable:
		return e.Process, false
	case Exited:
		return e.Process, true
	}
	panic(fmt.Sprintf("delivery: no such event: %v", ev))
}

func (c *Core) onLaunched(e Launched) {
	p := &c.process
	if p.state != processLaunching {
		c.stale(e)
		return
	}
	p.state = processUp
	p.everLaunched = true
	c.note(NoteProcess, TP{}, fmt.Sprintf("pid %d", e.PID))
	switch {
	case p.killWhy != "":
		c.kill(p.killWhy)
	case c.stop.asked:
		// stopProgress closes its input
	default:
		c.do(Discover{p.number})
	}
}

func (c *Core) onLaunchFailed(e LaunchFailed) {
	if c.process.state != processLaunching {
		c.stale(e)
		return
	}
	c.process.state = processNone
	first := !c.process.everLaunched
	switch {
	case first && !c.cfg.Watch && !c.cfg.Attach:
		c.beginStop(e.Reason, e.Code)
		c.fail(failure{process: true, reason: e.Reason})
	default:
		c.fail(failure{process: true, exited: true, reason: e.Reason, code: e.Code})
	}
}

// onExited takes the process's end. Owed batches are answered by it (R3).
func (c *Core) onExited(e Exited) {
	p := &c.process
	wasDying := p.state == processDying
	expected := wasDying || p.retiring
	p.state = processNone
	c.eachPartition(func(p *partition) {
		if p.owed != nil {
			c.answered(p.owed)
		}
	})
	c.note(NoteProcess, TP{}, e.Reason)
	if expected {
		c.endRunning()
		return
	}
	c.fail(failure{process: true, exited: true, accused: c.suspects(), how: howEnded, reason: "the process ended: " + e.Reason, code: e.Code})
}

func (c *Core) onSpecRefused(e SpecRefused) {
	v := &c.conv
	if c.stop.asked {
		c.stale(e)
		return
	}
	if v.state != Discovering || v.spec {
		c.violate(c.explain(Breach{Kind: BreachUnasked, Message: "spec"}), nil)
		return
	}
	c.do(Refuse{c.process.number, e.Problems})
	v.state = Down
	c.process.retiring, c.process.killBy = true, c.now+c.cfg.ReloadTimeout
	if c.cfg.Watch || c.cfg.Attach {
		c.note(NoteFailed, TP{}, "refused: "+join(e.Problems))
		c.awaitSave()
		return
	}
	c.beginStop("refused: "+join(e.Problems), 1)
}

// onWithdrawn: no byte of the batch was sent, so nothing is owed for it. It is
// live where a finishing stop took back what had not been begun.
func (c *Core) onWithdrawn(e Withdrawn) {
	b := c.batches[e.ID]
	switch {
	case b == nil || b.acked:
		c.stale(e)
	case b.void:
		c.answered(b)
	default:
		c.takeBack(b)
		c.aim(b.part)
	}
}

// notInFlight is an emit or an answer for a batch that the process does not
// hold.
func (c *Core) notInFlight(message string, id uint64, b *batch) {
	breach := Breach{Kind: BreachNeverSent, Message: message, ID: id}
	if id >= c.process.firstID && id <= c.lastID {
		breach.Kind = BreachAnswered
	}
	c.violate(c.explain(breach), b)
}

// takeBack ends a live batch that the process answered with fail or never got.
func (c *Core) takeBack(b *batch) {
	p := b.part
	c.with.remove(b)
	c.forget(b)
	p.p = nil
	p.position = b.first
	p.untried(b)
	c.do(Drop{b.id})
}

func (c *Core) onAcked(e Acked) {
	b := c.batches[e.ID]
	switch {
	case b == nil || b.acked:
		c.notInFlight("ack", e.ID, b)
	case b.void:
		c.answered(b)
	default:
		c.with.remove(b)
		b.acked, b.waiting = true, false
		c.adapt(b)
		c.enqueue(b.part)
		c.promote(b.part)
	}
}

func (c *Core) onFailed(e Failed) {
	b := c.batches[e.ID]
	switch {
	case b == nil || b.acked:
		c.notInFlight("fail", e.ID, b)
	case b.void:
		c.answered(b)
	default:
		p := b.part
		c.takeBack(b)
		at := ""
		if e.Offset >= 0 {
			at = fmt.Sprintf("@%d", e.Offset)
		}
		c.fail(failure{reason: fmt.Sprintf("%v%s: batch %d failed: %s", p.tp, at, b.id, e.Message), accused: []accusation{accuse(b)}})
		c.aim(p)
	}
}

func (c *Core) onStatused(e Statused) {
	b := c.batches[e.ID]
	if b == nil || b.acked {
		return // an unknown id is ignored (PROTOCOL.md, status)
	}
	if b.waiting != e.Waiting {
		b.waiting = e.Waiting
		if e.Waiting {
			c.with.waiting++
		} else {
			c.with.waiting--
		}
	}
	if e.Error != "" && !b.void {
		b.part.lastError = e.Error
	}
}

// onOutputClosed: nothing can be heard from it any more. Usually it is dying, and
// its exit, which says more, is only a moment away: that is waited for.
func (c *Core) onOutputClosed() {
	if !c.process.retiring && c.process.closedBy == 0 {
		c.process.closedBy = c.now + closedGrace
	}
}

// expireProcess kills what is over its time.
func (c *Core) expireProcess() {
	p := &c.process
	if p.state != processUp {
		return
	}
	if p.retiring && p.killBy > 0 && c.now >= p.killBy {
		c.kill("it did not exit in time")
		return
	}
	if p.closedBy > 0 && c.now >= p.closedBy {
		c.fail(failure{process: true, kill: true, accused: c.suspects(), how: howEnded, reason: "the process closed its stdout and lives"})
		return
	}
	if since := c.flow.voidFullSince; since >= 0 && c.now >= since+c.cfg.ProcessTimeout {
		c.fail(failure{process: true, kill: true,
			reason: fmt.Sprintf("the process answered none of %d void batches for %v", c.with.owed, c.cfg.ProcessTimeout)})
		return
	}
	if b := c.overdue(); b != nil {
		f := failure{process: true, kill: true, how: howLate,
			reason: fmt.Sprintf("%v: batch %d was not answered within %v (FLOW_BATCH_TIMEOUT)", b.part.tp, b.id, c.cfg.BatchTimeout)}
		if !b.void {
			f.accused = []accusation{accuse(b)}
		}
		c.fail(f)
	}
}

// oldest is the batch that is longest with the process; nil: none.
func (c *Core) oldest() *batch {
	var old *batch
	c.eachPartition(func(p *partition) {
		for _, b := range [...]*batch{p.owed, p.p} {
			if b != nil && !b.acked && (old == nil || b.sentAt < old.sentAt) {
				old = b
			}
		}
	})
	return old
}

func (c *Core) overdue() *batch {
	if c.cfg.BatchTimeout == 0 {
		return nil
	}
	if b := c.oldest(); b != nil && c.now >= b.sentAt+c.cfg.BatchTimeout {
		return b
	}
	return nil
}

func (c *Core) wakeProcess(w *wake) {
	p := &c.process
	if p.state != processUp {
		return
	}
	if p.retiring && p.killBy > 0 {
		w.at(p.killBy)
	}
	if p.closedBy > 0 {
		w.at(p.closedBy)
	}
	if c.flow.voidFullSince >= 0 {
		w.at(c.flow.voidFullSince + c.cfg.ProcessTimeout)
	}
	if c.cfg.BatchTimeout > 0 {
		if b := c.oldest(); b != nil {
			w.at(b.sentAt + c.cfg.BatchTimeout)
		}
	}
}
