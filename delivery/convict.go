package delivery

import (
	"fmt"
	"slices"
	"time"
)

// convicts bounds what the convicts may cost the others.
//
// A convict gets batches of one record until it has committed past the batch
// that failed: so the good records before the bad one are committed, and the bad
// one is known by its offset. What fails waits itself, 500 ms and twice as long
// each time up to the maximum backoff; the stream resumes for the others after
// 500 ms. It is tried again for ever, and nothing of it is skipped (R5).
type convicts struct {
	// debts has the partitions with partition.debt.
	debts []*partition
	// failedAt is when a convict failed last; cost what that took from the others
	// as far as it is known, while measuring.
	failedAt, cost time.Duration
	measuring      bool
	// spaced is when a convict may be tried that was tried often.
	spaced time.Duration
	// heldBack: a convict's batch waits for the debts.
	heldBack bool
}

const (
	// spacedTries is how many failures a convict's trials are spaced after: from
	// its fourth try on.
	spacedTries = 4
	// spacing is the part of the time that recovering from them may take, as its
	// reciprocal.
	spacing = 10
)

// convict finds a partition guilty: it, and nobody who was accused beside it.
func (c *Core) convict(a accusation, f *failure) {
	p, ch := a.part, &a.part.charge
	c.pay(p, true) // nothing waits for one that is charged itself
	for _, other := range slices.Clone(c.trials.docket) {
		if other != p && other.charge.standing == accused {
			c.clear(other)
		}
	}
	if ch.standing == blameless {
		c.trials.docket = append(c.trials.docket, p)
	}
	if ch.standing != convicted || ch.first != a.first {
		ch.tries, ch.wait = 0, c.cfg.ReconnectMin
	}
	ch.standing = convicted
	ch.first, ch.end, ch.records = a.first, max(ch.end, a.end), a.records
	ch.refused = f.how == howRefused
	ch.due, ch.trial = f.how != howLarge, 0
	ch.tries++
	wait := ch.wait
	ch.wait = min(2*ch.wait, c.cfg.ReconnectMax)
	if f.how == howLarge {
		wait = c.cfg.ReconnectMax
	}
	c.setGate(p, gateWaiting, c.now+wait)
	text := verdict(p, f.how)
	if !c.stop.asked && !c.cfg.ExitOnFailure && !(f.exited && c.cfg.Watch) && !(c.cfg.Attach && (f.exited || f.kill)) {
		text += fmt.Sprintf("; it is tried again in %v at the earliest, and the other partitions carry on", wait)
	}
	c.note(NoteConvicted, TP{}, text)
	c.charge(p)
}

// charge notes what a convict's failure costs the others: their live batches,
// which it voids, and the time until they go on.
func (c *Core) charge(convict *partition) {
	k := &c.convicts
	k.failedAt, k.cost, k.measuring = c.now, 0, true
	c.eachPartition(func(p *partition) {
		if p == convict || !p.live() || p.state != owned || p.charge.standing != blameless {
			return
		}
		if p.debt == 0 {
			k.debts = append(k.debts, p)
		}
		p.debt, p.debtFrom = p.p.next, p.p.sentAt
	})
}

// verdict is what people are told of a conviction.
func verdict(p *partition, h how) string {
	ch := &p.charge
	switch {
	case ch.records > 1:
		return fmt.Sprintf("a batch of %d records %s: %v@%d; they now come one at a time", ch.records, h, p.tp, ch.first)
	case ch.tries > 1:
		return fmt.Sprintf("the same record %s %d times: %v@%d", h, ch.tries, p.tp, ch.first)
	}
	return fmt.Sprintf("a record %s: %v@%d", h, p.tp, ch.first)
}

// owing: the batch of an owned, unaccused partition that a convict's failure
// voided is not committed yet. No trial begins and no convict is delivered
// meanwhile, so that batches that take ten minutes beside a poisoned partition
// get done. One that is blocked by itself is not waited for.
func (c *Core) owing() bool {
	return slices.ContainsFunc(c.convicts.debts, func(p *partition) bool {
		return p.state == owned && p.charge.standing == blameless && p.committed < p.debt && !p.blocked && p.gate == gateOpen
	})
}

// pay ends a partition's debt where it is committed, or forgiven.
func (c *Core) pay(p *partition, forgiven bool) {
	if p.debt == 0 || !forgiven && p.committed < p.debt {
		return
	}
	p.debt, p.debtFrom = 0, 0
	k := &c.convicts
	k.debts = slices.DeleteFunc(k.debts, func(x *partition) bool { return x == p })
}

// recovered takes down what the last failure of a convict took from the others,
// when the conversation runs again, and when the process has answered what was
// void: from then on a partition can do anew what it lost, and all that it did
// since it began with it was in vain. Counting only the time until the
// conversation runs was rejected: with batches of ten minutes most of what is
// lost is lost in them.
func (c *Core) recovered(p *partition) {
	k := &c.convicts
	if !k.measuring {
		return
	}
	from := k.failedAt
	if p != nil {
		if p.debt == 0 || p.owed != nil {
			return
		}
		from = p.debtFrom
	}
	k.cost = max(k.cost, c.now-from)
	k.spaced = k.failedAt + spacing*k.cost
}

// releaseHeldBack lines the convicts up again that waited for debts.
func (c *Core) releaseHeldBack() {
	if !c.convicts.heldBack || c.owing() {
		return
	}
	c.convicts.heldBack = false
	for _, p := range c.trials.docket {
		c.enqueue(p)
	}
}

// pardon lets every convict be tried at once, and counts its tries from the
// beginning: the process that comes may have other code.
func (c *Core) pardon() {
	k := &c.convicts
	k.spaced, k.measuring = 0, false
	for _, p := range slices.Clone(k.debts) {
		c.pay(p, true)
	}
	c.trials.putOffs, c.trials.next = 0, c.now
	for _, p := range c.trials.docket {
		ch := &p.charge
		ch.tries, ch.wait = 0, c.cfg.ReconnectMin
		if p.gate == gateWaiting {
			c.setGate(p, gateOpen, 0)
			c.aim(p)
		}
	}
}
