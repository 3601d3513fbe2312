package delivery

import (
	"fmt"
	"time"
)

// flow bounds what is with the process and what is held.
type flow struct {
	// admit is the most batches while limited; owing is how many have yet to
	// commit before the limit is taken away. Zero: not limited.
	admit, owing int
	// voidFullSince is since when nothing but void batches fills the credit,
	// -1: it is not so.
	voidFullSince time.Duration
	// gated counts partitions with gateWaiting.
	gated int
}

// halve admits half as many batches as now, until so many have committed.
func (f *flow) halve(now int) {
	f.admit = max(1, now/2)
	f.owing = max(1, now)
}

func (f *flow) committed(batches uint64) {
	if f.owing == 0 {
		return
	}
	f.owing -= int(min(batches, uint64(f.owing)))
	if f.owing == 0 {
		f.admit = 0
	}
}

// credit is the number of batches that may be with the process.
func (c *Core) credit() int {
	n := c.process.maxInFlight
	if c.flow.admit > 0 {
		n = min(n, c.flow.admit)
	}
	return n
}

// batchBytes is the most bytes of the next batch, whichever inlet it is of.
func (c *Core) batchBytes() int {
	most := 0
	for _, in := range c.inlets {
		most = max(most, in.limit.bytes())
	}
	return most
}

// batchRecords is the most records of the inlet's next batch.
func (in *inlet) batchRecords() int {
	if in.limit.MaxRecords > 0 {
		return in.limit.MaxRecords
	}
	return in.size
}

// batchRecords is the most records of the partition's next batch: a convict gets
// one, and a trial is the old batch whole.
func (p *partition) batchRecords() int {
	switch ch := &p.charge; {
	case ch.standing == convicted:
		return 1
	case ch.due && ch.records > 0:
		return ch.records
	}
	return p.inlet.batchRecords()
}

// creditLeft reports whether one more batch may go to the process. Void
// batches use up credit too: the process still holds them.
func (c *Core) creditLeft() bool {
	all := c.with.live + c.with.owed
	return all-c.with.waiting < c.credit() && (all == 0 || c.with.bytes+c.batchBytes() <= c.cfg.WithProcess)
}

// adapt grows or shrinks an inlet's batches by the last one's round trip.
func (c *Core) adapt(b *batch) {
	in := b.part.inlet
	if in.limit.MaxRecords > 0 || b.judged {
		return
	}
	trip := c.now - b.sentAt
	switch {
	case trip > adaptSlow:
		in.size = max(1, in.size/2)
	case trip < adaptFast && b.full && b.records >= in.size:
		in.size = min(2*in.size, adaptMax)
	}
}

// enqueue lines a partition up for delivery where it has something.
func (c *Core) enqueue(p *partition) {
	if p.available && !p.queued && p.state == owned && !p.charge.due {
		p.queued = true
		c.queue.push(p)
	}
}

// ready is the rule of delivery but for the credit and the trials: R2 (no write
// of W is unknown), R3 (P and owed are empty), R11 (the start is committed).
func (p *partition) ready() bool {
	return p.state == owned && p.available && p.p == nil && p.owed == nil && p.gate == gateOpen &&
		!p.startPending && (p.w == nil || !p.w.unknown)
}

// dispatch delivers to one partition. Not to more: how much credit a batch takes
// is known with its Cut, and that Step delivers the next.
func (c *Core) dispatch() {
	if c.conv.state != Running || c.stop.asked {
		return
	}
	p := c.takeNext()
	if p == nil {
		return
	}
	c.lastID++
	b := &batch{id: c.lastID, part: p, process: c.process.number, first: p.position, sentAt: c.now}
	c.cutting = b
	c.do(Deliver{
		Process: b.process, ID: b.id, TP: p.tp, Offset: p.position, Attempt: p.attempt(),
		MaxRecords: p.batchRecords(), MaxBytes: p.inlet.limit.bytes(),
	})
}

// takeNext is the partition on trial, which excludes all others, or the
// longest-waiting one; nil: nobody, for now.
func (c *Core) takeNext() *partition {
	if p := c.hear(); p != nil || c.trials.part != nil {
		return p
	}
	c.releaseHeldBack()
	for !c.queue.empty() && c.roomLeft() {
		p := c.queue.pop()
		p.queued = false
		if !p.ready() || p.charge.due {
			continue // what changes that lines it up again
		}
		if p.charge.standing == convicted && c.owing() {
			c.convicts.heldBack = true
			continue
		}
		return p
	}
	return nil
}

// roomLeft bounds what is with the process and what is held (R10).
func (c *Core) roomLeft() bool { return c.held <= c.cfg.HoldSoft && c.creditLeft() }

// onCut takes the batch that was sent, or the range without records that has to
// be committed all the same.
func (c *Core) onCut(e Cut) {
	b := c.cutting
	c.cutting = nil
	p := b.part
	if e.Next < p.position || e.Records > 0 && e.Next == p.position {
		panic(fmt.Sprintf("delivery: %v for %v at position %d", e, p.tp, p.position))
	}
	p.available = e.More
	if e.Next == p.position {
		c.enqueue(p)
		return
	}
	b.next, b.records, b.bytes, b.record = e.Next, e.Records, e.Bytes, max(e.First, b.first)
	p.position, p.sought = e.Next, e.Next
	p.p = b
	p.blocked = false
	p.waitsSince(c.now)
	if e.Records == 0 {
		b.acked = true
		c.promote(p)
		return
	}
	b.sent = true
	b.full = e.Records >= p.inlet.batchRecords()
	b.judged = p.charge.standing != blameless
	c.batches[b.id] = b
	c.with.add(b)
	p.delivered(b.first)
	c.tried(p, b)
}

// onOversized closes the gate of a partition whose next record is over the
// limit. Only the first time does it fail the stream: a record that
// cannot pass would otherwise stop the other partitions for ever.
func (c *Core) onOversized(e Oversized) {
	p := c.cutting.part
	c.cutting = nil
	c.setGate(p, gateWaiting, c.now+c.cfg.ReconnectMax)
	p.waitsSince(c.now)
	first := p.oversized != e.Offset
	p.oversized = e.Offset
	limit := ""
	if c.cfg.RecordLimit > 0 {
		limit = fmt.Sprintf(" of %d", c.cfg.RecordLimit)
	}
	reason := fmt.Sprintf("%v@%d: a record of %d bytes is over the protocol's limit%s and blocks its partition; "+
		"move the group behind it, or keep large values elsewhere", p.tp, e.Offset, e.Size, limit)
	if first {
		c.fail(failure{reason: reason, how: howLarge, accused: []accusation{{part: p, first: e.Offset, end: e.Offset + 1, records: 1, record: e.Offset}}})
		c.aim(p)
		return
	}
	p.failures++
	p.lastError = reason
	p.charge.due = false // it needs no trial
	c.aim(p)
	c.note(NotePartition, p.tp, reason)
}

// openGate opens a gate whose time has come: the partition is looked at again.
func (c *Core) openGate(p *partition) {
	if p.gate == gateWaiting && c.now >= p.gateUntil {
		c.setGate(p, gateOpen, 0)
		c.aim(p)
	}
}

// setGate keeps the number of gates that wait for the clock.
func (c *Core) setGate(p *partition, g gate, until time.Duration) {
	if p.gate == gateWaiting {
		c.flow.gated--
	}
	if g == gateWaiting {
		c.flow.gated++
	}
	p.gate, p.gateUntil = g, until
}

// onEmitted holds an emit until its batch's ack, within the limits (R10).
func (c *Core) onEmitted(e Emitted) {
	b := c.batches[e.ID]
	switch {
	case b == nil || b.acked:
		c.notInFlight(e.message(), e.ID, b)
		return
	case !c.conv.declares(e.Outlet):
		c.violate(c.explain(Breach{Kind: BreachOutlet, Message: e.message(), ID: e.ID, Outlet: e.Outlet, Declared: c.conv.outlets}), b)
		return
	case b.void:
		return
	}
	if b.held+e.Bytes > c.cfg.HoldBatch {
		c.fail(failure{
			reason:  fmt.Sprintf("%v: %s", b.part.tp, c.explain(Breach{Kind: BreachHeld, Message: e.message(), ID: b.id, Limit: c.cfg.HoldBatch})),
			accused: []accusation{accuse(b)},
		})
		return
	}
	if c.held+e.Bytes > c.cfg.HoldHard {
		most := c.largestHolder()
		c.flow.halve(c.with.live + c.with.owed)
		c.fail(failure{reason: fmt.Sprintf("held emits are over %d bytes; the largest holder is batch %d of %v with %d",
			c.cfg.HoldHard, most.id, most.part.tp, most.held)})
		return
	}
	c.hold(b, e.Records, e.Bytes)
	c.do(Hold{b.id})
}

// message is the message's kind on the wire.
func (x Emitted) message() string {
	if x.Forward {
		return "forward"
	}
	return "emit"
}

func (c *Core) largestHolder() *batch {
	var most *batch
	c.eachPartition(func(p *partition) {
		for _, b := range [...]*batch{p.p, p.w} {
			if b != nil && (most == nil || b.held > most.held) {
				most = b
			}
		}
	})
	return most
}

// watchCredit starts the clock when nothing but void batches fills the credit.
func (c *Core) watchCredit() {
	full := c.process.state == processUp && c.with.owed > 0 && c.with.live == 0 && !c.creditLeft()
	switch {
	case !full:
		c.flow.voidFullSince = -1
	case c.flow.voidFullSince < 0:
		c.flow.voidFullSince = c.now
	}
}
