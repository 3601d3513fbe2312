package delivery

import (
	"slices"
	"time"
)

// commitState is an inlet's commits: at most one is outstanding, and it carries
// the newest confirmed end of every partition that moved (coalesced).
type commitState struct {
	dirty []*partition
	// sent is the outstanding commit, in the order of its offsets.
	sent        []sentOffset
	outstanding bool
	sequence    uint64
	// next is when the next one may be sent, backoff what a retry waits.
	next, backoff time.Duration
	// abandoned: it was refused during a stop, and is not tried again.
	abandoned bool
}

type sentOffset struct {
	part   *partition
	tenure uint64
	offset int64
	tally  tally
}

// markDirty puts a partition on the list of the next commit.
func (c *Core) markDirty(p *partition) {
	if !p.dirty {
		p.dirty = true
		p.inlet.commit.dirty = append(p.inlet.commit.dirty, p)
	}
}

// commit sends an inlet's commit where one is due.
func (c *Core) commit(in *inlet) {
	s := &in.commit
	if !in.live || s.outstanding || len(s.dirty) == 0 || s.abandoned || c.now < c.commitAt(in) {
		return
	}
	slices.SortFunc(s.dirty, func(a, b *partition) int { return int(a.tp.Partition) - int(b.tp.Partition) })
	s.sent = s.sent[:0]
	for _, p := range s.dirty {
		p.dirty = false
		if (p.state == owned || p.state == revoking) && p.confirmed > p.committed {
			s.sent = append(s.sent, sentOffset{p, p.tenure, p.confirmed, p.pending})
		}
	}
	s.dirty = s.dirty[:0]
	if len(s.sent) == 0 {
		return
	}
	offsets := make([]PartitionOffset, len(s.sent))
	for i, o := range s.sent {
		offsets[i] = PartitionOffset{o.part.tp.Partition, o.offset}
	}
	c.lastCommit++
	s.sequence = c.lastCommit
	s.outstanding = true
	s.next = c.now + c.cfg.CommitInterval
	c.do(Commit{Inlet: in.name, Generation: in.generation, Sequence: s.sequence, Offsets: offsets})
}

// commitAt is when the inlet's next commit may be sent. Nothing is saved by
// coalescing when nothing more is to come: a stop and a revocation flush.
func (c *Core) commitAt(in *inlet) time.Duration {
	if in.commit.backoff == 0 && (c.stop.asked || len(in.releasing) > 0) {
		return c.now
	}
	return in.commit.next
}

func (c *Core) onCommitted(e Committed) {
	in := c.inlet(e.Inlet)
	if in == nil || !in.commit.outstanding || in.commit.sequence != e.Sequence {
		c.stale(e)
		return
	}
	s := &in.commit
	s.outstanding = false
	for _, o := range s.sent {
		p := o.part
		if p.tenure != o.tenure || p.state == lost {
			continue
		}
		if e.Outcome == CommitDone {
			c.committed(p, o)
		} else if p.confirmed > p.committed {
			c.markDirty(p)
		}
	}
	switch e.Outcome {
	case CommitDone:
		s.backoff = 0
	case CommitRetry, CommitStale:
		s.backoff = min(max(2*s.backoff, c.cfg.CommitInterval), commitRetryMax)
		s.next = c.now + s.backoff
	case CommitRefused:
		c.fail(failure{reason: "the commit of " + in.name + " was refused: " + e.Reason})
		s.backoff = c.cfg.ReconnectMin
		s.next = max(c.conv.waitUntil, c.now+s.backoff)
		s.abandoned = c.stop.asked
		if s.abandoned {
			c.stop.over("a commit was refused: " + e.Reason)
		}
	}
}

// committed takes a confirmed commit in.
func (c *Core) committed(p *partition, o sentOffset) {
	p.pending.sub(o.tally)
	c.count.committed.add(o.tally)
	c.flow.committed(o.tally.batches)
	if o.offset <= p.committed {
		return
	}
	p.committed = o.offset
	if p.startPending {
		p.startPending = false
		c.enqueue(p)
	}
	p.cleared(c.now)
	c.pay(p, false)
	c.acquit(p)
}
