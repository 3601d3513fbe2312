package delivery

import (
	"fmt"
	"slices"
	"time"
)

type partitionState uint8

const (
	lost partitionState = iota
	owned
	// revoking: taken away, and what is acked may still settle.
	revoking
	suspended
)

type gate uint8

const (
	gateOpen gate = iota
	// gateWaiting: nothing is delivered until partition.gateUntil.
	gateWaiting
)

// partition is one inlet partition. It guarantees, and valid checks:
//  1. committed <= confirmed <= position (R1, R2);
//  2. W ends where P begins, and the position is where the last of them ends (R2);
//  3. at most one batch is with the process: owed, or an unacked P (R3);
//  4. a lost partition has neither P nor a live W (R7).
type partition struct {
	tp    TP
	inlet *inlet
	state partitionState
	// tenure counts how often it was taken over; a commit that was sent in an
	// older one says nothing about this one.
	tenure uint64

	// position is the offset the next batch begins at, confirmed (C) the end of
	// the last batch that is written, committed (K) the last committed offset.
	// committed is -1 before a start that was looked up is committed (R11).
	position, confirmed, committed int64
	startPending                   bool

	// p is with the process or acked and waiting for w, w is being written,
	// owed is void and unanswered.
	p, w, owed *batch

	// sought is where the consumer stands, -1: it fetches nothing.
	sought    int64
	available bool
	queued    bool

	gate      gate
	gateUntil time.Duration
	// oversized is the offset of the last oversized record, -1: none.
	oversized int64
	blocked   bool

	// failures and lastError are about the offset that the partition stands at:
	// a commit clears them.
	failures  int
	lastError string
	// since is when the oldest thing uncommitted was first seen, -1: none.
	since time.Duration
	tries []try

	charge charge
	// turn is when it was tried last, in trials; 0: never.
	turn uint64
	// debt is what has to be committed for the batch that a convict's failure voided
	// to count as done again, 0: none;
	// debtFrom is when that batch was delivered.
	debt     int64
	debtFrom time.Duration

	dirty bool
	// pending is what was confirmed and is not in a commit yet.
	pending tally
}

// tally counts batches and their records in and out.
type tally struct{ batches, in, out uint64 }

func (t *tally) add(o tally) { t.batches += o.batches; t.in += o.in; t.out += o.out }
func (t *tally) sub(o tally) { t.batches -= o.batches; t.in -= o.in; t.out -= o.out }

// try says how often a batch beginning at offset was delivered.
type try struct {
	offset int64
	n      int
}

// maxTries bounds partition.tries: behind the confirmed end there are at most
// three beginnings (W, P and the next), more only when partitions come back
// elsewhere.
const maxTries = 4

func newPartition(in *inlet, n int32) *partition {
	return &partition{
		tp: TP{in.name, n}, inlet: in,
		sought: -1, oversized: -1, since: -1,
	}
}

// valid panics where a guarantee is broken: that is a mistake in this package.
func (p *partition) valid() {
	bad := p.state != lost && (p.committed > p.confirmed || p.confirmed > p.position)
	end := p.confirmed
	if p.w != nil && !p.w.void {
		bad = bad || p.w.first != end || p.state == lost
		end = p.w.next
	}
	if p.p != nil {
		bad = bad || p.p.first != end || p.state == lost || p.p.void
		bad = bad || p.owed != nil && !p.p.acked
		end = p.p.next
	}
	if p.state != lost {
		bad = bad || end != p.position
	}
	if bad {
		panic(fmt.Sprintf("delivery: partition %v is broken: state %d, K %d, C %d, position %d, P %+v, W %+v, owed %+v",
			p.tp, p.state, p.committed, p.confirmed, p.position, p.p, p.w, p.owed))
	}
}

// own takes a partition over from where it was committed, whatever was before.
func (c *Core) own(p *partition, s Start) {
	p.state = owned
	p.tenure++
	p.position, p.confirmed, p.committed = s.Offset, s.Offset, s.Offset
	p.startPending = s.LookedUp
	if s.LookedUp {
		p.committed = -1
		c.markDirty(p)
	}
	p.blocked, p.available, p.sought, p.since = false, false, -1, -1
	p.failures, p.lastError = 0, ""
	p.pending = tally{}
	p.prune()
	c.aim(p)
	c.promote(p)
}

// resume goes on with a suspended partition that came back with what was in
// flight still valid (R7).
func (c *Core) resume(p *partition, s Start) {
	p.state = owned
	p.committed = s.Offset
	if p.confirmed > p.committed {
		c.markDirty(p)
	}
	p.sought = -1
	c.pay(p, false) // the answer to a commit may have been lost with the generation
	c.acquit(p)
	c.aim(p)
	c.promote(p)
}

// continues reports R7's condition for one partition.
func (p *partition) continues(s Start) bool {
	return p.state == suspended && !p.startPending && p.committed <= s.Offset && s.Offset <= p.confirmed
}

// lose makes everything of the partition void; revoke tells the process.
func (c *Core) lose(p *partition, revoke bool) {
	if p.state == lost {
		return
	}
	c.voidP(p, revoke)
	c.voidW(p)
	p.state = lost
	c.pay(p, true)
	c.clear(p)
	p.turn = 0
	c.setGate(p, gateOpen, 0)
	p.available, p.blocked, p.startPending = false, false, false
	p.sought, p.since = -1, -1
	p.failures, p.lastError = 0, ""
	p.pending = tally{}
}

// voidP makes what stands in P void and puts the position back to its first
// record. A batch that the process has not answered is owed from then on (R3).
func (c *Core) voidP(p *partition, revoke bool) {
	b := p.p
	if b == nil {
		return
	}
	p.p = nil
	p.position = b.first
	p.untried(b)
	if b.acked || c.process.state == processNone {
		if !b.acked {
			c.with.remove(b)
		}
		c.forget(b)
		if b.sent {
			c.do(Drop{b.id})
		}
		return
	}
	c.with.turnVoid()
	b.void = true
	p.owed = b
	c.unhold(b)
	if c.process.state == processUp {
		c.do(Withdraw{Process: b.process, ID: b.id, Revoke: revoke})
	}
	c.do(Drop{b.id})
}

// voidW makes a batch void that is being written. What of its write is on the
// way cannot be taken back, and what is not must not start (R7): it keeps the
// slot until it is answered, so that nothing newer of the partition is written
// beside it, also when the partition has come back (R2).
func (c *Core) voidW(p *partition) {
	b := p.w
	if b == nil || b.void {
		return
	}
	b.void = true
	c.unhold(b)
	c.do(CancelWrite{b.id})
}

// answered frees a partition from the void batch that the process held (R3).
func (c *Core) answered(b *batch) {
	p := b.part
	c.with.remove(b)
	c.forget(b)
	p.owed = nil
	if c.conv.state == Running { // otherwise the next one's begin is when it can go on
		c.recovered(p)
	}
	c.aim(p)
}

// promote moves an acked batch on: into W and to the broker, or, without emits,
// behind everything that is confirmed. Nothing overtakes W (R2), no write
// starts in a suspended partition (R7) or before the epoch is raised (R9).
func (c *Core) promote(p *partition) {
	if p.state != owned && p.state != revoking {
		return
	}
	for p.w == nil && p.p != nil && p.p.acked {
		b := p.p
		if b.emits > 0 && c.epoch != epochGood {
			return
		}
		p.p = nil
		c.enqueue(p)
		if b.emits == 0 {
			c.confirm(p, b)
			if b.sent {
				c.do(Drop{b.id})
			}
			continue
		}
		p.w = b
		c.startWrite(b)
	}
}

// confirm moves the confirmed end behind b (R1): from now on it is committed.
func (c *Core) confirm(p *partition, b *batch) {
	p.confirmed = b.next
	if b.sent {
		p.pending.add(tally{1, uint64(b.records), uint64(b.emits)})
	}
	c.forget(b)
	p.prune()
	c.markDirty(p)
}

// aim makes the consumer fetch from the position, or not at all while nothing
// may be delivered for long or ever again, so that the prefetch is given back.
func (c *Core) aim(p *partition) {
	if p.state != owned {
		p.sought, p.available = -1, false
		return
	}
	if p.owed != nil || p.gate != gateOpen || c.stop.asked {
		if p.sought >= 0 {
			c.do(Pause{p.tp})
		}
		p.sought, p.available = -1, false
		return
	}
	if p.sought != p.position {
		c.do(Seek{p.tp, p.position})
		p.sought, p.available = p.position, false
	}
	c.enqueue(p)
}

// attempt is the number of the next delivery of a batch at the position.
func (p *partition) attempt() int {
	for _, t := range p.tries {
		if t.offset == p.position {
			return t.n + 1
		}
	}
	return 1
}

// delivered counts a delivery of a batch at offset.
func (p *partition) delivered(offset int64) {
	for i := range p.tries {
		if p.tries[i].offset == offset {
			p.tries[i].n++
			return
		}
	}
	if len(p.tries) == maxTries {
		p.tries = slices.Delete(p.tries, 0, 1)
	}
	p.tries = append(p.tries, try{offset, 1})
}

// prune forgets the tries that are confirmed: they are not delivered again.
func (p *partition) prune() {
	keep := p.tries[:0]
	for _, t := range p.tries {
		if t.offset >= p.confirmed {
			keep = append(keep, t)
		}
	}
	p.tries = keep
}

// cleared is what a commit does to the stall: it ends, and what is left begins
// a new one.
func (p *partition) cleared(now time.Duration) {
	ch := &p.charge
	if ch.standing == blameless || p.committed > ch.first {
		p.failures = 0 // otherwise what failed is still ahead
	}
	if ch.standing == blameless || p.committed >= ch.end {
		p.lastError = "" // otherwise it says why its records come one at a time
	}
	p.since = -1
	switch {
	case p.w != nil && !p.w.void:
		p.since = p.w.sentAt
	case p.p != nil:
		p.since = p.p.sentAt
	case p.confirmed > p.committed || p.available:
		p.since = now
	}
}

func (p *partition) waitsSince(now time.Duration) {
	if p.since < 0 {
		p.since = now
	}
}
