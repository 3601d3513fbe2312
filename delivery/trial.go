package delivery

import (
	"fmt"
	"time"
)

// trials has the accused and the convicts, and the one that is on trial.
//
// A trial is the first batch of an accused partition, or the first record of a
// convict, after its failure. It is alone with the process: the others get
// nothing until the process has drained, or a second is over, and nothing more
// until the trial is answered and written, or another second is over. Then the
// next may be tried, those first whose last trial is longest ago. A trial that
// outlasts its second stays with the process like any other batch.
//
// Where the process does not drain, an accused one's trial is put off: only alone
// does it tell whose failure it was. A convict's goes beside the others: whose it
// is is known, and each pause would cost them a second more.
type trials struct {
	docket []*partition
	// part is drained for or on trial, nil: the others are free. batch is its
	// batch, nil: the process drains.
	part  *partition
	batch *batch
	// since is when the others were closed out, until when they are let in.
	since, until time.Duration
	// next is when the next one may begin: the others get as long as a convict's
	// kept them out. After an accused one's they get a quarter: with twenty that are
	// accused it would otherwise take as long again until it is known who it was.
	next time.Duration
	// putOffs counts the times in a row that the process did not drain.
	putOffs int
	// turns counts trials, for partition.turn.
	turns uint64
}

const (
	trialDrain = time.Second
	trialAlone = time.Second
	// maxPutOffs is how often a trial is put off because the process does not
	// drain. It is counted for all trials together: what keeps the process busy
	// for one keeps it busy for the next, and each pause costs the others a second.
	maxPutOffs = 5
	// trialBreak is the least time between two trials while others wait.
	trialBreak = 50 * time.Millisecond
)

// running is the batch on trial, unanswered and alone; nil: there is none.
func (t *trials) running() *batch {
	if t.batch != nil && t.part.p == t.batch && !t.batch.acked {
		return t.batch
	}
	return nil
}

// hear moves trials on, and returns the partition whose trial has to be
// delivered now. While one is drained for or runs, nothing else is delivered.
func (c *Core) hear() *partition {
	t := &c.trials
	if len(t.docket) == 0 && t.part == nil {
		return nil
	}
	if t.batch != nil && (c.now >= t.until || !c.settling(t.batch)) || t.batch == nil && t.part != nil && !c.triable(t.part) {
		c.adjourn()
	}
	if t.part == nil {
		p := c.summon()
		if p == nil {
			return nil
		}
		t.part, t.since, t.until = p, c.now, c.now+trialDrain
	}
	switch {
	case t.batch != nil:
		return nil
	case c.creditLeft() && (c.drained(t.part) || c.now >= t.until && (t.putOffs >= maxPutOffs || t.part.charge.standing == convicted)):
		return t.part
	case c.now >= t.until:
		c.putOff()
	}
	return nil
}

// settling: a trial is not over before it is written: a refusal of its bytes
// would otherwise meet those of the next one.
func (c *Core) settling(b *batch) bool {
	return b.part.p == b || b.part.w == b && !b.void
}

// drained: nothing but void batches is with the process.
func (c *Core) drained(p *partition) bool {
	return c.with.live == 0 && (!p.charge.refused || c.writing == 0)
}

// adjourn lets the others in again.
func (c *Core) adjourn() {
	t := &c.trials
	if t.part == nil {
		return
	}
	shut := c.now - t.since
	t.next = c.now + max(trialBreak, shut)
	if t.part.charge.standing == accused {
		t.next = c.now + max(trialBreak, shut/4)
	}
	t.part.charge.shut += shut
	t.part, t.batch = nil, nil
}

// putOff gives the process time: 500 ms, and twice as long each time in a row.
func (c *Core) putOff() {
	t := &c.trials
	wait := min(c.cfg.ReconnectMin<<min(t.putOffs, maxPutOffs), c.cfg.ReconnectMax)
	c.note(NotePartition, t.part.tp, fmt.Sprintf("its trial is put off by %v: %d batches are still with the process", wait, c.with.live))
	t.putOffs = min(t.putOffs+1, maxPutOffs)
	c.adjourn()
	t.next = max(t.next, c.now+wait)
}

// summon picks the next one to be tried; nil: none, or not yet.
func (c *Core) summon() *partition {
	t := &c.trials
	if c.now < t.next && (c.with.live > 0 || !c.queue.empty()) {
		return nil
	}
	var first *partition
	for _, p := range t.docket {
		at, ok := c.triableAt(p)
		if ok && c.now >= at && c.triable(p) && (first == nil || p.turn < first.turn) {
			first = p
		}
	}
	return first
}

// triable: a trial is due, and it could be delivered.
func (c *Core) triable(p *partition) bool { return p.charge.due && p.ready() }

// triableAt is when a partition may be tried as far as the clock goes; ok is
// false while it waits for what others have to commit.
func (c *Core) triableAt(p *partition) (at time.Duration, ok bool) {
	ch := &p.charge
	owing := c.owing()
	if ch.standing == convicted {
		return c.spacedUntil(p), !owing
	}
	if owing {
		// Bounded, where a convict's is not: it may well be innocent.
		at = ch.since + c.cfg.ReconnectMax
	}
	return at, true
}

// tried is told of the batch that a trial is.
func (c *Core) tried(p *partition, b *batch) {
	t, ch := &c.trials, &p.charge
	if !ch.due {
		return
	}
	ch.due, ch.trial = false, b.id
	t.turns++
	p.turn = t.turns
	t.batch, t.until = b, c.now+trialAlone
	if ch.standing == accused {
		t.until = c.now + ch.alone
	}
	if c.with.live == 1 {
		t.putOffs = 0
	}
}

func (c *Core) wakeTrials(w *wake) {
	t := &c.trials
	if c.conv.state != Running || c.stop.asked || len(t.docket) == 0 {
		return
	}
	if t.part != nil {
		w.at(t.until)
		return
	}
	for _, p := range t.docket {
		if at, ok := c.triableAt(p); ok && c.triable(p) {
			if at = max(at, t.next); at > c.now { // otherwise it waits for something else
				w.at(at)
			}
		}
	}
}
