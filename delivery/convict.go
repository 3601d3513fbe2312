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
	// failedAt is when a convict failed last. cost is what that took from the others
	// as far as it is known, while measuring: the mean over those who had something
	// to do, others in number, of the time in which each got nothing done. shut is
	// the part in which its trial kept them out, pause the time until the next
	// conversation; inVain sums the time of those whose
	// batches were void, voided in number.
	failedAt, cost, shut, pause, inVain time.Duration
	others, voided                      int
	measuring                           bool
	// spent is what the failures before that one had cost, less a tenth of the time
	// since, never below zero.
	spent time.Duration
	// heldBack: a convict's batch waits for the debts.
	heldBack bool
}

const (
	// spacing is the part of the time that the failures of convicts may take from
	// the others, as its reciprocal.
	spacing = 10
	// allowance is what they may take in all before they are spaced: a record that
	// fails for a moment only, in a process that starts quickly, is tried soon and
	// often. A number of tries was rejected: three tries of a record that hangs, in a
	// process that takes a minute to start, are minutes for everybody.
	allowance = 3 * time.Second
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
	ch.first, ch.end, ch.records, ch.record = a.first, max(ch.end, a.end), a.records, a.record
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
	if c.triesAgain(f) {
		text += fmt.Sprintf("; it is tried again in %v at the earliest, and the other partitions carry on", wait)
	}
	c.do(Note{Kind: NoteConvicted, TP: p.tp, Text: text, Offset: ch.record, Tries: ch.tries, Error: p.lastError})
	c.charge(p)
}

// charge notes what a convict's failure costs the others: their live batches,
// which it voids, and the time until they go on.
func (c *Core) charge(convict *partition) {
	k := &c.convicts
	k.spent = max(0, min(k.spent, allowance)+k.cost-(c.now-k.failedAt)/spacing)
	k.failedAt, k.shut, k.measuring = c.now, c.shutOut(convict), true
	k.cost, k.inVain, k.others, k.voided = k.shut, 0, 0, 0
	c.eachPartition(func(p *partition) {
		if p == convict || p.state != owned || p.charge.standing == convicted {
			return
		}
		if p.since >= 0 {
			k.others++
		}
		if !p.live() || p.charge.standing != blameless {
			return
		}
		if p.debt == 0 {
			k.debts = append(k.debts, p)
		}
		// Not its end: what comes again may be smaller, a record at a time even, and
		// then it would take as long to pay as all of them take.
		p.debt, p.debtFrom = p.p.first+1, p.p.sentAt
	})
}

// verdict is what people are told of a conviction.
func verdict(p *partition, h how) string {
	ch := &p.charge
	switch {
	case ch.records > 1:
		return fmt.Sprintf("a batch of %d records %s: %v@%d; they now come one at a time", ch.records, h, p.tp, ch.record)
	case ch.tries > 1:
		return fmt.Sprintf("the same record %s %d times: %v@%d", h, ch.tries, p.tp, ch.record)
	}
	return fmt.Sprintf("a record %s: %v@%d", h, p.tp, ch.record)
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
// lost is lost in them; and counting the longest alone: one batch of an hour
// would make a failure cost the others an hour.
func (c *Core) recovered(p *partition) {
	k := &c.convicts
	if !k.measuring {
		return
	}
	if p == nil {
		k.pause = c.now - k.failedAt
	} else {
		if p.debt == 0 || p.owed != nil || p.debtFrom < 0 {
			return
		}
		k.inVain += c.now - p.debtFrom
		k.voided++
		p.debtFrom = -1
	}
	mean := k.pause
	if k.others > 0 {
		mean = (k.inVain + time.Duration(k.others-k.voided)*k.pause) / time.Duration(k.others)
	}
	k.cost = k.shut + mean
}

// shutOut is how long the others have been kept out for the convict's trials
// since its last failure.
func (c *Core) shutOut(convict *partition) time.Duration {
	shut := convict.charge.shut
	if t := &c.trials; t.part == convict {
		shut += c.now - t.since
	}
	convict.charge.shut = 0
	return shut
}

// spacedUntil is when a convict may be tried as far as the others matter. Until
// its record is known by its offset nothing is put off, and nothing where there
// are no others.
//
// Within the allowance nothing but its own wait spaces it; over it, ten times the
// cost of the last does and not more, so that after a row of failures the next try is
// not put off for ever.
func (c *Core) spacedUntil(p *partition) time.Duration {
	ch, k := &p.charge, &c.convicts
	if ch.standing != convicted || ch.records > 1 || !c.anyOther() {
		return 0
	}
	return k.failedAt + spacing*max(0, min(k.cost, k.spent+k.cost-allowance))
}

// anyOther: there is a partition that is not convicted.
func (c *Core) anyOther() bool {
	for _, in := range c.inlets {
		for _, p := range in.parts {
			if p.state == owned && p.charge.standing != convicted {
				return true
			}
		}
	}
	return false
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
// beginning: the process that comes may have other code. Who is only accused is
// cleared: to try twenty partitions one at a time takes long where the code has
// been mended, and where it has not they are accused again.
func (c *Core) pardon() {
	k := &c.convicts
	k.spent, k.cost, k.measuring = 0, 0, false
	for _, p := range slices.Clone(k.debts) {
		c.pay(p, true)
	}
	c.trials.putOffs, c.trials.next = 0, c.now
	for _, p := range slices.Clone(c.trials.docket) {
		if p.charge.standing == accused {
			c.clear(p)
			continue
		}
		p.charge.tries, p.charge.wait = 0, c.cfg.ReconnectMin
		if p.gate == gateWaiting {
			c.setGate(p, gateOpen, 0)
			c.aim(p)
		}
	}
}
