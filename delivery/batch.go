package delivery

import "time"

// batch is one batch from its Deliver until it is confirmed, or void and
// answered. Its life, and where it stands meanwhile:
//
//	with the process, live     P, unacked     counts in the credit
//	acked, waiting for W       P, acked       (a range without records begins here)
//	being written              W
//	void, unanswered           owed           counts in the credit (R3)
//	void, being written        W, void        until the write is answered
type batch struct {
	id   uint64
	part *partition
	// process is the launch it was sent to.
	process uint64
	// first and next are the offsets it covers, next exclusive.
	first, next    int64
	records, bytes int
	// record is the offset of its first record: first may lie in a range without
	// any.
	record int64
	// sent is false for a range without records.
	sent bool
	// judged: its partition was accused or convicted, so that its size says
	// nothing about how large batches may be.
	judged bool
	// full: it had as many records as it was allowed.
	full   bool
	sentAt time.Duration
	// emits and held are the records and bytes of its held emits.
	emits, held int
	acked, void bool
	// waiting is what the process said last by status.
	waiting bool
	// unknown: its write may or may not have happened, so far.
	unknown bool
}

// withProcess is what the process holds: live and void batches.
type withProcess struct {
	// live and owed count batches; waiting counts those of both that the
	// process said to wait with.
	live, owed, waiting int
	bytes               int
}

func (w *withProcess) add(b *batch) {
	w.live++
	w.bytes += b.bytes
}

// turnVoid moves a live batch to the owed ones.
func (w *withProcess) turnVoid() {
	w.live--
	w.owed++
}

func (w *withProcess) remove(b *batch) {
	if b.void {
		w.owed--
	} else {
		w.live--
	}
	if b.waiting {
		w.waiting--
	}
	w.bytes -= b.bytes
}

// hold books an emit of a batch.
func (c *Core) hold(b *batch, records, bytes int) {
	b.emits += records
	b.held += bytes
	c.held += bytes
}

// forget ends a batch: no event names it any more.
func (c *Core) forget(b *batch) {
	c.unhold(b)
	delete(c.batches, b.id)
}

func (c *Core) unhold(b *batch) {
	c.held -= b.held
	b.held = 0
}
