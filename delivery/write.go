package delivery

import "fmt"

// startWrite lines a batch's Write up behind this Step's Deliver.
func (c *Core) startWrite(b *batch) {
	c.writing++
	c.starting = append(c.starting, b)
}

func (c *Core) flushWrites() {
	for i, b := range c.starting {
		c.do(Write{b.id})
		c.starting[i] = nil
	}
	c.starting = c.starting[:0]
}

// writtenBatch finds the batch of a write's answer. An id without a running
// write is a mistake of the driver, not a race: a write is always awaited, also
// when it is void.
func (c *Core) writtenBatch(id uint64, ev Event) *batch {
	b := c.batches[id]
	if b == nil || b.part.w != b {
		panic(fmt.Sprintf("delivery: %v answers no running write", ev))
	}
	return b
}

// settle takes the last answer to a write and frees W.
func (c *Core) settle(b *batch) *partition {
	c.writing--
	b.part.w = nil
	return b.part
}

func (c *Core) onWritten(e Written) {
	b := c.writtenBatch(e.ID, e)
	p := c.settle(b)
	if b.void {
		c.count.stale++
		c.forget(b)
	} else {
		c.confirm(p, b)
	}
	c.promote(p)
	c.enqueue(p)
}

func (c *Core) onWriteUnknown(e WriteUnknown) {
	b := c.writtenBatch(e.ID, e)
	b.unknown = true
	if !b.void {
		b.part.lastError = e.Reason
	}
}

// onRefused fails the stream and accuses, unless the batch was void: then the
// partition's next owner will meet the same answer.
func (c *Core) onRefused(e Refused) {
	b := c.writtenBatch(e.ID, e)
	if b.void {
		c.rewind(b)
		c.count.stale++
		return
	}
	charged := c.refusedBatches(b, e.Accused)
	c.rewind(b)
	reason := fmt.Sprintf("%v: the write of batch %d was refused: %s", b.part.tp, b.id, e.Reason)
	c.fail(failure{reason: reason, how: howRefused, accused: charged})
	c.aim(b.part)
}

// refusedBatches has the batches whose records were in the refused bytes: b and
// those that are written now, or that were accused when their own write was
// answered.
func (c *Core) refusedBatches(b *batch, accused []TP) []accusation {
	var all []accusation
	for _, tp := range accused {
		p := c.partition(tp)
		switch {
		case p == nil || p.state == lost:
		case p == b.part:
			all = append(all, accuse(b))
		case p.w != nil && !p.w.void:
			all = append(all, accuse(p.w))
		case p.charge.standing != blameless:
			all = append(all, accusation{part: p, first: p.charge.first, end: p.charge.end, records: p.charge.records, record: p.charge.record})
		}
	}
	return all
}

// onUnsettled has the epoch raised, also for a void batch: its old bytes may be
// queued anywhere (R9). The raise is asked for at once and not when the other
// writes are answered: those of them that were certainly not appended wait for
// it, and go out under the new epoch.
func (c *Core) onUnsettled(e Unsettled) {
	b := c.writtenBatch(e.ID, e)
	raise := c.epoch == epochGood
	c.epoch = epochRaising // before the slot is free: nothing may take it
	c.rewind(b)
	if raise {
		c.do(RaiseEpoch{})
	}
	reason := fmt.Sprintf("%v: the write of batch %d cannot be settled: %s", b.part.tp, b.id, e.Reason)
	if b.part.state != lost {
		b.part.lastError = reason
	}
	c.fail(failure{reason: reason})
	if !b.void {
		c.aim(b.part)
	}
}

// rewind ends a write that did not succeed: what stands behind it is void and
// the position is the confirmed end. The caller aims there.
func (c *Core) rewind(b *batch) {
	p := c.settle(b)
	void := b.void
	c.forget(b)
	if void {
		c.promote(p)
		c.enqueue(p)
		return
	}
	c.voidP(p, false)
	p.position = p.confirmed
	p.untried(b)
}

func (c *Core) onEpochRaised(e EpochRaised) {
	if c.epoch != epochRaising {
		c.stale(e)
		return
	}
	c.epoch = epochGood
	c.eachPartition(c.promote)
}
