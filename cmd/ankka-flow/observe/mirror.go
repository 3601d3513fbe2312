package observe

import (
	"slices"
	"time"

	"ankka-flow/delivery"
)

// mirror follows batches from their Deliver to their commit, from the core's
// events and actions. It is for numbers only: nothing is decided by it. The
// loop alone touches it.
type mirror struct {
	delivering delivery.Deliver
	deliverAt  time.Duration
	live       map[uint64]*tracked
	writes     map[uint64]*writing
	parts      map[delivery.TP]*partition
	commits    map[string]outstanding // by inlet
}

// outstanding is a commit without an answer, with the partitions as they were
// when it was sent: one that was lost and came back is another.
type outstanding struct {
	delivery.Commit
	parts []*partition
}

// tracked is a batch, or several that are confirmed and were joined, or a range
// without records, which counts as no batch.
type tracked struct {
	id              uint64
	part            *partition
	first, next     int64
	batches         uint64
	records         uint64
	deliveredAt     time.Duration
	acked           bool
	emits, written  bool
	reported        map[*series]float64
	countsInLatency bool
}

// confirmed: nothing of it is to be done but the commit.
func (t *tracked) confirmed() bool { return t.acked && (t.written || !t.emits) }

type partition struct {
	inlet *inletCounts
	// queue has what is not committed, in the order of its offsets.
	queue []*tracked
	// committed and confirmed are the core's K and C; committed is -1 before a
	// start that was looked up is committed.
	committed, confirmed int64
	suspended, revoking  bool
}

// maxQueue is how many batches a partition may have uncommitted before those
// that are confirmed are joined: while the coordinator is away, deliveries go
// on and commits do not.
const maxQueue = 256

// writing is a write that runs.
type writing struct {
	inlet *inletCounts
	at    time.Duration
	runs  []run
}

// run is what a write has for an outlet.
type run struct {
	outlet         *outletCounts
	records, bytes uint64
}

func newMirror() mirror {
	return mirror{
		live: map[uint64]*tracked{}, writes: map[uint64]*writing{}, parts: map[delivery.TP]*partition{}, commits: map[string]outstanding{},
	}
}

func (m *mirror) partition(tp delivery.TP, inlet *inletCounts) *partition {
	p := m.parts[tp]
	if p == nil {
		p = &partition{inlet: inlet, committed: -1}
		m.parts[tp] = p
	}
	return p
}

// cut begins to follow a batch. What began at its first offset or behind is
// void: a batch of it would overlap.
func (m *mirror) cut(ev delivery.Cut, inlet *inletCounts) (t *tracked) {
	if ev.ID != m.delivering.ID || ev.Next == ev.First {
		return nil
	}
	p := m.partition(m.delivering.TP, inlet)
	m.voidFrom(p, ev.First)
	t = &tracked{id: ev.ID, part: p, first: ev.First, next: ev.Next, deliveredAt: m.deliverAt}
	if ev.Records == 0 {
		t.acked = true
	} else {
		t.batches, t.records, t.countsInLatency = 1, uint64(ev.Records), true
		m.live[t.id] = t
	}
	p.queue = append(p.queue, t)
	m.settled(t)
	return t
}

// voidFrom forgets what begins at an offset or behind it.
func (m *mirror) voidFrom(p *partition, offset int64) {
	for len(p.queue) > 0 && p.queue[len(p.queue)-1].first >= offset {
		m.forget(p.queue[len(p.queue)-1])
		p.queue = p.queue[:len(p.queue)-1]
	}
}

func (m *mirror) forget(t *tracked) { delete(m.live, t.id) }

// dropped: the core forgets a batch. One that is acked may be confirmed by that
// or void, as may one whose write did not succeed: the next Cut or the commit
// tells.
func (m *mirror) dropped(id uint64) {
	if t := m.live[id]; t != nil && !t.acked {
		m.voidFrom(t.part, t.first)
	}
}

// settled joins a confirmed batch to a confirmed one before it where there are
// too many.
func (m *mirror) settled(t *tracked) {
	p := t.part
	if !t.confirmed() || len(p.queue) <= maxQueue {
		return
	}
	i := slices.Index(p.queue, t)
	if i < 1 || !p.queue[i-1].confirmed() {
		return
	}
	before := p.queue[i-1]
	before.next = t.next
	before.batches += t.batches
	before.records += t.records
	for s, value := range t.reported {
		before.report(s, value)
	}
	m.forget(t)
	p.queue = slices.Delete(p.queue, i, i+1)
}

// report adds a number that counts with the batch.
func (t *tracked) report(s *series, value float64) {
	if t.reported == nil {
		t.reported = map[*series]float64{}
	}
	if s.gauge {
		t.reported[s] = value
	} else {
		t.reported[s] += value
	}
}

func (m *mirror) commit(a delivery.Commit) {
	o := outstanding{Commit: a, parts: make([]*partition, len(a.Offsets))}
	for i := range a.Offsets {
		o.parts[i] = m.parts[delivery.TP{Inlet: a.Inlet, Partition: a.Offsets[i].Partition}]
	}
	m.commits[a.Inlet] = o
}

// committed takes an answer to a commit and gives everything that it covers to
// done, in order.
func (m *mirror) committed(ev delivery.Committed, done func(*tracked)) {
	c, ok := m.commits[ev.Inlet]
	if !ok || c.Sequence != ev.Sequence {
		return
	}
	delete(m.commits, ev.Inlet)
	if ev.Outcome != delivery.CommitDone {
		return
	}
	for i, o := range c.Offsets {
		p := m.parts[delivery.TP{Inlet: ev.Inlet, Partition: o.Partition}]
		if p == nil || p != c.parts[i] {
			continue
		}
		n := 0
		for n < len(p.queue) && p.queue[n].confirmed() && p.queue[n].next <= o.Offset {
			done(p.queue[n])
			m.forget(p.queue[n])
			n++
		}
		p.queue = slices.Delete(p.queue, 0, n)
		p.committed = max(p.committed, o.Offset)
	}
}

// end is the confirmed end, the core's C.
func (p *partition) end() int64 {
	end := p.confirmed
	for _, t := range p.queue {
		if !t.confirmed() {
			break
		}
		end = max(end, t.next)
	}
	return max(end, p.committed)
}

// assigned begins a generation: what is given back undisturbed goes on (R7), the
// rest begins anew.
func (m *mirror) assigned(ev delivery.Assigned, inlet *inletCounts) {
	for tp, p := range m.parts {
		given := slices.ContainsFunc(ev.Starts, func(s delivery.Start) bool { return s.Partition == tp.Partition })
		if tp.Inlet == ev.Inlet && p.suspended && !given {
			m.lost(tp)
		}
	}
	for _, s := range ev.Starts {
		tp := delivery.TP{Inlet: ev.Inlet, Partition: s.Partition}
		if p := m.parts[tp]; p != nil {
			goesOn := ev.Continues && p.suspended && p.committed >= 0 && p.committed <= s.Offset && s.Offset <= p.end()
			p.suspended = false
			if goesOn {
				p.committed = s.Offset
				continue
			}
			m.lost(tp)
		}
		p := m.partition(tp, inlet)
		p.committed, p.confirmed = s.Offset, s.Offset
		if s.LookedUp {
			p.committed = -1
		}
	}
}

// suspended ends a generation; what was being taken away is lost with it.
func (m *mirror) suspended(inlet string) {
	for tp, p := range m.parts {
		if tp.Inlet != inlet {
			continue
		}
		if p.revoking {
			m.lost(tp)
			continue
		}
		p.suspended = true
	}
}

// revoked: what is confirmed may still commit, until the Release.
func (m *mirror) revoked(ev delivery.Revoked) {
	for _, n := range ev.Partitions {
		if p := m.parts[delivery.TP{Inlet: ev.Inlet, Partition: n}]; p != nil && !p.suspended {
			p.revoking = true
		}
	}
}

func (m *mirror) lost(tp delivery.TP) {
	if p := m.parts[tp]; p != nil {
		m.voidFrom(p, -1)
		delete(m.parts, tp)
	}
}

func (m *mirror) lostAll(inlet string) {
	for tp := range m.parts {
		if tp.Inlet == inlet {
			m.lost(tp)
		}
	}
	delete(m.commits, inlet)
}
