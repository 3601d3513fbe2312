package delivery

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// inlet is one inlet port: its group membership and its commits.
type inlet struct {
	name string
	// subscribed is from Subscribe to Leave; live is while a generation lives:
	// then writes may start and commits be sent. joined is whether a
	// generation came since Subscribe or Lost.
	subscribed, live, joined bool
	generation               int32
	// parts has every partition ever seen, by number: one that is lost may
	// still be owed an answer by the process or by the broker.
	parts []*partition

	commit commitState
	// suspended: the next Assigned says which partitions are given back.
	// draining: its running writes are awaited, and then told by Release.
	suspended, draining bool
	// releasing has the revoked partitions, to be released by revokeBy.
	releasing []int32
	revokeBy  time.Duration
	// size is the adaptive number of records of a batch.
	size int
	// limit bounds its batches.
	limit BatchLimit
}

// inlet finds a subscribed inlet; nil means that the event is stale.
func (c *Core) inlet(name string) *inlet {
	for _, in := range c.inlets {
		if in.name == name && in.subscribed {
			return in
		}
	}
	return nil
}

// partition finds a partition of a subscribed inlet; nil: never assigned.
func (c *Core) partition(tp TP) *partition {
	in := c.inlet(tp.Inlet)
	if in == nil {
		return nil
	}
	return in.partition(tp.Partition)
}

func (in *inlet) partition(n int32) *partition {
	i, ok := slices.BinarySearchFunc(in.parts, n, func(p *partition, n int32) int { return int(p.tp.Partition) - int(n) })
	if !ok {
		return nil
	}
	return in.parts[i]
}

func (in *inlet) makePartition(n int32) *partition {
	i, ok := slices.BinarySearchFunc(in.parts, n, func(p *partition, n int32) int { return int(p.tp.Partition) - int(n) })
	if !ok {
		in.parts = slices.Insert(in.parts, i, newPartition(in, n))
	}
	return in.parts[i]
}

// eachPartition walks in a fixed order: equal events give equal actions (R12).
func (c *Core) eachPartition(f func(*partition)) {
	for _, in := range c.inlets {
		for _, p := range in.parts {
			f(p)
		}
	}
}

// subscribe makes the subscriptions those of a descriptor.
func (c *Core) subscribe(names []string) {
	names = slices.Clone(names)
	slices.Sort(names)
	for _, in := range c.inlets {
		if in.subscribed && !slices.Contains(names, in.name) {
			c.leave(in)
		}
	}
	for _, name := range names {
		i, ok := slices.BinarySearchFunc(c.inlets, name, func(in *inlet, s string) int { return strings.Compare(in.name, s) })
		if !ok {
			c.inlets = slices.Insert(c.inlets, i, &inlet{name: name, size: adaptMin, limit: c.cfg.limit(name)})
		}
		if in := c.inlets[i]; !in.subscribed {
			in.subscribed = true
			c.do(Subscribe{name})
		}
	}
}

// leave leaves a group; its partitions are lost at once.
func (c *Core) leave(in *inlet) {
	c.loseAll(in)
	in.subscribed, in.joined, in.suspended, in.draining = false, false, false, false
	for _, p := range in.commit.dirty {
		p.dirty = false
	}
	in.commit = commitState{}
	c.do(Leave{in.name})
}

func (c *Core) leaveAll() {
	for _, in := range c.inlets {
		if in.subscribed {
			c.leave(in)
		}
	}
}

func (c *Core) loseAll(in *inlet) {
	in.live, in.releasing = false, nil
	for _, p := range in.parts {
		c.lose(p, c.mayRevoke())
	}
}

// onAssigned begins a generation.
func (c *Core) onAssigned(e Assigned) {
	in := c.inlet(e.Inlet)
	if in == nil {
		c.stale(e)
		return
	}
	wasSuspended := in.suspended
	in.generation, in.live, in.joined = e.Generation, true, true
	in.suspended, in.draining = false, false
	in.commit.next, in.commit.backoff = min(in.commit.next, c.now), 0
	if wasSuspended {
		for _, p := range in.parts {
			given := slices.ContainsFunc(e.Starts, func(s Start) bool { return s.Partition == p.tp.Partition })
			if !given {
				c.lose(p, c.mayRevoke())
			}
		}
	}
	goOn := 0
	for _, s := range e.Starts {
		p := in.makePartition(s.Partition)
		if e.Continues && p.continues(s) {
			goOn++
			c.resume(p, s)
			continue
		}
		c.lose(p, c.mayRevoke())
		c.own(p, s)
	}
	c.note(NotePartition, TP{}, fmt.Sprintf("%s: generation %d, %d partitions assigned, %d go on", in.name, e.Generation, len(e.Starts), goOn))
}

// onSuspended ends a generation: what is in flight waits for the next one (R7).
func (c *Core) onSuspended(e Suspended) {
	in := c.inlet(e.Inlet)
	if in == nil || !in.live {
		c.stale(e)
		return
	}
	in.live, in.suspended, in.draining = false, true, true
	for _, p := range in.parts {
		switch p.state {
		case owned:
			p.state = suspended
			c.aim(p)
		case revoking:
			c.lose(p, c.mayRevoke())
		}
	}
	in.releasing = nil
	c.note(NotePartition, TP{}, in.name+": the generation ended")
}

// onLost ends the membership.
func (c *Core) onLost(e Lost) {
	in := c.inlet(e.Inlet)
	if in == nil {
		c.stale(e)
		return
	}
	in.joined, in.suspended, in.draining = false, false, false
	c.loseAll(in)
	c.note(NotePartition, TP{}, in.name+": every partition lost")
}

// onRevoked takes partitions away: an unacked batch is void at once, what is
// acked settles until the deadline. Waiting for the unacked too was rejected:
// a batch may take minutes, and the new owner waits for us.
func (c *Core) onRevoked(e Revoked) {
	in := c.inlet(e.Inlet)
	if in == nil || !in.live {
		c.stale(e)
		return
	}
	in.revokeBy = e.Deadline
	for _, n := range e.Partitions {
		p := in.partition(n)
		if p == nil || p.state != owned {
			continue
		}
		p.state = revoking
		if p.p != nil && !p.p.acked {
			c.voidP(p, c.mayRevoke())
		}
		c.aim(p)
	}
	in.releasing = append(in.releasing, e.Partitions...)
}

// writing: a write of the inlet runs, also one that is void.
func (in *inlet) writing() bool {
	return slices.ContainsFunc(in.parts, func(p *partition) bool { return p.w != nil })
}

// release lets go of revoked partitions once nothing of them is to be settled,
// or at the deadline.
func (c *Core) release(in *inlet) {
	if in.draining && !in.writing() {
		in.draining = false
		c.do(Release{Inlet: in.name})
	}
	if len(in.releasing) == 0 {
		return
	}
	due := c.now >= in.revokeBy
	if in.commit.outstanding && !due {
		return
	}
	for _, p := range in.parts {
		if p.state == revoking && p.unsettled() && !due {
			return
		}
	}
	for _, p := range in.parts {
		if p.state == revoking {
			c.lose(p, c.mayRevoke())
		}
	}
	c.do(Release{in.name, in.releasing})
	in.releasing = nil
}

// unsettled: something acked is not written or not committed yet.
func (p *partition) unsettled() bool {
	if p.state == lost {
		return false
	}
	return p.p != nil || p.w != nil && !p.w.void || p.confirmed > p.committed && !p.startPending
}

func (c *Core) onFetched(e Fetched) {
	p := c.partition(e.TP)
	if p == nil || p.state != owned || p.sought < 0 {
		c.stale(e)
		return
	}
	p.available = true
	p.blocked = false
	p.waitsSince(c.now)
	c.enqueue(p)
}

func (c *Core) onFetchFailed(e FetchFailed) {
	p := c.partition(e.TP)
	if p == nil || p.state != owned {
		c.stale(e)
		return
	}
	p.lastError = e.Reason
	p.waitsSince(c.now)
	if e.Blocked && !p.blocked {
		p.blocked = true
		c.note(NotePartition, p.tp, e.Reason)
	}
}
