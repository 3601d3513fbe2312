package group

import (
	"math"
	"time"
)

const (
	joinEvery = time.Second
	joinBurst = 10
)

// leastRebalance is the shortest rebalance timeout.
const leastRebalance = 10 * time.Second

// rebalanceTimeout is how long the broker waits for a member to join again or
// to fetch its assignment. A member of ours does so within a heartbeat and the
// longest drain, whatever its process does, so that one that needs more than
// the session is as good as dead. Java's minutes are for handlers, and would
// be the time that everybody waits for a member that died while its join was
// parked (kfake starts no session for it).
func (m *Machine) rebalanceTimeout() time.Duration {
	return max(m.cfg.SessionTimeout, leastRebalance)
}

// longestDrain is how long Revoke and Suspend wait for the driver.
func (m *Machine) longestDrain() time.Duration { return m.cfg.SessionTimeout / 3 }

// heartbeatInterval: fifteen to a session, as Java's defaults (3 s of 45 s).
func (m *Machine) heartbeatInterval() time.Duration {
	return min(max(m.cfg.SessionTimeout/15, 100*time.Millisecond), 3*time.Second)
}

// doubled is base, doubled n times, at most limit.
func doubled(base time.Duration, n int, limit time.Duration) time.Duration {
	if n > 30 {
		return limit
	}
	return min(base<<n, limit)
}

// retry holds the slot empty: 100 ms, doubling to 5 s until something goes well.
func (m *Machine) retry(dst []Action) []Action {
	m.retryAt = m.now + doubled(100*time.Millisecond, m.failures, 5*time.Second)
	m.failures++
	return dst
}

// again is a retry after an answer: the waits that grew while the coordinator
// was away are over, and joins have a pace of their own.
func (m *Machine) again(dst []Action) []Action {
	m.healthy()
	return m.retry(dst)
}

// healthy: the coordinator did what was asked.
func (m *Machine) healthy() { m.failures, m.refusals, m.retryAt = 0, 0, 0 }

// pacedUntil is when the next join may be sent: ten at once, then one a
// second, whatever the reasons. So no mistake, of ours or of another member,
// becomes the 3,000 rejoins a second that kafka-go is capable of.
// An ordinary rebalance needs three.
func (m *Machine) pacedUntil() time.Duration { return m.paced - joinBurst*joinEvery + joinEvery }

// renewed: the broker starts the session when it answers a parked request, and
// that answer may have lain unread for what Slept does not report.
func (m *Machine) renewed() { m.alive = max(m.alive, m.now-m.cfg.SessionTimeout/3) }

// expire ends a generation whose session is over by our own clock.
func (m *Machine) expire(dst []Action) []Action {
	if m.now < m.expiry() {
		return dst
	}
	return m.endGeneration(dst, "no heartbeat was answered for the session timeout")
}

// expiry is when the session ends; never, where its end would change nothing.
func (m *Machine) expiry() time.Duration {
	switch m.state {
	case Stable, Draining:
		if !m.suspended || m.drain.id == 0 {
			return m.alive + m.cfg.SessionTimeout
		}
	case Joining, Counting, Syncing:
		if len(m.held) > 0 && !m.suspended {
			return m.alive + m.cfg.SessionTimeout
		}
	}
	return math.MaxInt64
}

// wake asks for the next tick where it is another than last time.
func (m *Machine) wake(dst []Action) []Action {
	at := time.Duration(math.MaxInt64)
	until := func(t time.Duration) {
		if t > m.now && t < at {
			at = t
		}
	}
	until(m.expiry())
	if m.drain.id != 0 {
		until(m.drain.deadline)
	}
	if m.slot.kind == noRequest && (m.wanted() != noRequest || m.live()) {
		until(m.retryAt)
		if m.state == Joining {
			until(m.pacedUntil())
		}
	}
	if m.beating() && !m.muted && m.found {
		until(m.nextBeat)
	}
	if m.state == Stable {
		until(m.partitions.due(m.leader, m.enteredAt, m.longestDrain()))
	}
	if at == math.MaxInt64 || at == m.woken {
		return dst
	}
	m.woken = at
	return append(dst, WakeAt{at})
}
