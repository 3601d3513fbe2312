package group

import (
	"fmt"
	"slices"
	"time"
)

// rebalance answers the broker's call to join again (or our own wish to): at
// once where only what moves will stop, after a suspension where the assignor
// chosen may give our partitions to others without asking.
func (m *Machine) rebalance(dst []Action) []Action {
	if m.state == Draining {
		return dst // it ends in a join
	}
	if m.eager() && len(m.held) > 0 && !m.suspended {
		return m.suspend(dst, "the group rebalances")
	}
	return m.join(dst)
}

// endGeneration is the end that we did not agree with the broker (we slept,
// our session is over by our own clock, the broker has another generation):
// nothing may start under it, running writes are awaited, then we join again
// with the same member id.
func (m *Machine) endGeneration(dst []Action, reason string) []Action {
	switch m.state {
	case Stable, Draining:
		if m.suspended && m.drain.id != 0 {
			return dst
		}
		if len(m.held) > 0 && !m.suspended {
			return m.suspend(dst, reason)
		}
		m.drain = drain{}
		return m.join(dst)
	case Joining, Counting, Syncing:
		// The join under way decides; meanwhile nothing may start. Lost would
		// be wrong: a parked join keeps the session at the broker, longer
		// than the session timeout where it waits for a dead member.
		if len(m.held) > 0 && !m.suspended {
			m.suspended, m.chain = true, true
			dst = append(dst, Suspend{Partitions: slices.Clone(m.held), Deadline: m.now, Reason: reason})
		}
	}
	return dst
}

// slept ends the generation and everything asked before: an answer may have
// lain unread for as long as we slept, and the group may have gone on since.
func (m *Machine) slept(dst []Action, gap time.Duration) []Action {
	dst = m.endGeneration(dst, fmt.Sprintf("the supervisor did not run for %v", gap))
	m.beat.attempt = 0
	switch m.state {
	case Joining, Counting, Syncing:
		return m.join(dst)
	}
	return dst
}

// suspend tells the driver to hold everything and waits for its writes.
func (m *Machine) suspend(dst []Action, reason string) []Action {
	m.suspended, m.chain = true, true
	m.state = Draining
	if m.slot.kind == offsetsRequest {
		m.slot.kind = noRequest
	}
	return m.beginDrain(dst, slices.Clone(m.held), reason)
}

// beginDrain starts the wait for the driver; it replaces one that runs.
func (m *Machine) beginDrain(dst []Action, partitions []int32, reason string) []Action {
	m.drains++
	m.drain = drain{m.drains, partitions, m.now + m.longestDrain()}
	if m.suspended {
		return append(dst, Suspend{m.drains, slices.Clone(partitions), m.drain.deadline, reason})
	}
	return append(dst, Revoke{m.drains, slices.Clone(partitions), m.drain.deadline})
}

func (m *Machine) released(dst []Action, ev Released) []Action {
	if ev.Drain == 0 || ev.Drain != m.drain.id {
		m.stale++
		return dst
	}
	return m.endDrain(dst)
}

// endDrain goes on to the join, whether the driver was done or the time is
// up. Partitions being revoked are let go of; suspended ones stay claimed.
func (m *Machine) endDrain(dst []Action) []Action {
	gone := m.drain.partitions
	m.drain = drain{}
	if !m.suspended {
		m.held = without(m.held, gone)
		dst = append(dst, Dropped{gone})
	}
	return m.join(dst)
}

// join makes the membership ask for the next generation. What was outstanding
// for the one before is no longer awaited, but a search for the coordinator.
func (m *Machine) join(dst []Action) []Action {
	m.state, m.rejoin = Joining, false
	if m.slot.kind != findRequest {
		m.slot.kind = noRequest
	}
	m.beat.attempt = 0
	return dst
}

// lose makes everything void.
func (m *Machine) lose(dst []Action, reason string) []Action {
	held := m.held
	m.forget()
	if len(held) > 0 {
		dst = append(dst, Lost{held, reason})
	}
	return dst
}

// topicMadeAgain gives up what was held of the topic before: its offsets mean
// nothing in the new one (R11). The broker has deleted the group's commits with
// the old topic, so the partitions come again without any.
func (m *Machine) topicMadeAgain(dst []Action) []Action {
	switch m.state {
	case Joining, Counting, Syncing:
		if len(m.held) == 0 {
			return dst // the commits are read later than this
		}
	case Stable, Draining:
	default:
		return dst
	}
	return m.join(m.lose(dst, "the topic was deleted and made again"))
}

// fence ends the machine: another process has our instance id, and joining
// again would only throw that one out in turn. Except once, before the first
// generation under this member id: a coordinator that fails over in the middle
// of a rebalance forgets the id it has just given us and goes on with the one
// of our life before, which nobody has any more.
func (m *Machine) fence(dst []Action) []Action {
	if m.entered < 0 && !m.refenced {
		m.refenced, m.member = true, ""
		return m.join(m.retry(dst))
	}
	dst = m.lose(dst, CodeText(codeFencedInstanceID))
	m.state, m.slot.kind, m.beat.attempt = Fenced, noRequest, 0
	return append(dst, Fatal{codeFencedInstanceID})
}

// coordinatorLost looks for the coordinator again after a pause. Membership
// is kept: the id is what saves the group from a ghost.
func (m *Machine) coordinatorLost(dst []Action) []Action {
	m.found = false
	if m.slot.kind == syncRequest || m.slot.kind == offsetsRequest {
		m.slot.kind = noRequest // sent again to the new one; both may be repeated
	}
	if m.state == Leaving {
		m.retryAt = m.now
		return dst
	}
	return m.retry(dst)
}
