package group

import (
	"math"
	"time"
)

const (
	// shrinkWait: fewer partitions, or none, may be one broker's old metadata.
	shrinkWait = 5 * time.Second
	// followerWait leaves the leader, whose business it is, time to act.
	followerWait = 15 * time.Second
	// forceEvery and forceLimit bound joins for the sake of partition counts.
	forceEvery = 10 * time.Second
	forceLimit = 5 * time.Minute
)

// partitionWatch compares the topic with what the group was assigned for.
//
// The leader joins again when they differ, which makes the broker rebalance.
// A follower does the same, much later, since some leaders never notice: a
// static one that started again does not know that it leads. It joins with
// another generation in its metadata, so the broker cannot answer with the
// old assignment.
type partitionWatch struct {
	// known is the topic's count, assigned the one of the running
	// generation; -1: not known yet.
	known, assigned int32
	changed         time.Duration
	// withheld: the running generation waits for a member to let go of
	// something and join again.
	withheld bool
	// notBefore is when the next join may be forced; runs counts those that
	// changed nothing.
	notBefore time.Duration
	runs      int
}

func (w *partitionWatch) seen(now time.Duration, count int32) {
	if count < 0 || count == w.known {
		return
	}
	if w.assigned < 0 {
		w.assigned = count
	}
	w.known, w.changed = count, now
}

// counted is what the leader assigns for: fresh metadata, but a decrease only
// once the regular look at the topic has seen it too.
func (w *partitionWatch) counted(now time.Duration, fresh int32) int32 {
	n := max(fresh, w.known)
	w.seen(now, n)
	return n
}

// assign notes what the leader has assigned for; a leader that does not say is
// taken to know what we know.
func (w *partitionWatch) assign(a Assignment) {
	w.assigned, w.withheld = w.known, false
	if n, said := a.note(); said {
		w.assigned, w.withheld = n.count, n.withheld > 0
	}
	if w.assigned == w.known && !w.withheld {
		w.runs = 0
	}
}

// due is when a join has to be forced in the generation entered then; never
// while the counts agree and nothing is withheld for longer than letting go of
// it may take.
func (w *partitionWatch) due(leader bool, entered, longestDrain time.Duration) time.Duration {
	if w.known < 0 || w.assigned < 0 || w.known == w.assigned {
		if w.withheld {
			return max(entered+longestDrain+followerWait, w.notBefore)
		}
		return math.MaxInt64
	}
	at := w.changed
	if w.known < w.assigned {
		at += shrinkWait
	}
	if !leader {
		at = max(at, entered) + followerWait
	}
	return max(at, w.notBefore)
}

func (w *partitionWatch) force(now time.Duration) {
	w.notBefore = now + doubled(forceEvery, w.runs, forceLimit)
	w.runs++
}

// forceRejoin joins again for what was withheld from others, or because the
// topic has changed.
func (m *Machine) forceRejoin(dst []Action) []Action {
	if m.state != Stable || !m.settled {
		return dst
	}
	if m.rejoin {
		return m.rebalance(dst)
	}
	if m.now < m.partitions.due(m.leader, m.enteredAt, m.longestDrain()) {
		return dst
	}
	m.partitions.force(m.now)
	return m.rebalance(dst)
}
