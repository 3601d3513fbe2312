package sequence

import "time"

// identity is the producer id and its epoch.
type identity struct {
	id      int64
	epoch   int16
	granted bool // id and epoch are valid
	asked   bool // NeedID is under way
	retryAt time.Duration
	faults  int

	frozen        bool // after something unsettled: nothing new is sent
	raising       bool // RaiseAsked is unanswered
	dirty         int  // partitions whose unsettled bytes are not shut out yet
	lastUnsettled time.Duration
}

func (m *Machine) identified(ev Event) {
	m.asked = false
	switch e := ev.(type) {
	case IDGranted:
		m.id, m.epoch, m.granted = e.ID, e.Epoch, true
		m.faults = 0
	case IDFailed:
		m.identity.retryAt = m.now + backoff(m.faults)
		m.faults++
	case IDRefused:
		m.identity.retryAt = m.now + backoffMax
		for _, w := range m.opened {
			if m.writes[w.id] == w {
				m.fail(w, e.Reason, nil)
			}
		}
	}
	for _, p := range m.order {
		m.touch(p)
	}
}

// needID asks for a producer id, unless it is asked for or has to wait.
func (m *Machine) needID() {
	if !m.asked && m.now >= m.identity.retryAt {
		m.asked = true
		m.emit(NeedID{})
	}
}

// turnOver raises the epoch when that is asked for and nothing is under way,
// and takes a new producer id when the epochs run out. It says whether it did.
func (m *Machine) turnOver() bool {
	if m.inFlight > 0 || m.unknown > 0 {
		return false
	}
	switch {
	case m.raising && (!m.granted || m.epoch < maxEpoch):
		if m.granted {
			m.epoch++
		}
	case m.raising && m.now >= m.lastUnsettled+quarantine:
		m.granted = false
	case m.granted && m.epoch >= renewEpoch && m.dirty == 0 && !m.frozen:
		m.granted = false
	default:
		if m.wantsID() {
			m.needID()
		}
		return false
	}
	for _, p := range m.order {
		m.restart(p)
		m.touch(p)
	}
	if m.raising {
		m.raising, m.frozen = false, false
		m.emit(Raised{})
	}
	return true
}

// wantsID says that there is something to write and no producer id for it.
func (m *Machine) wantsID() bool {
	if m.granted || m.frozen {
		return false
	}
	for _, p := range m.order {
		if len(p.batches) > 0 || len(p.queue) > 0 {
			return true
		}
	}
	return false
}

func (m *Machine) identityWake() (time.Duration, bool) {
	if m.raising && m.granted && m.epoch == maxEpoch && m.inFlight == 0 && m.unknown == 0 {
		return m.lastUnsettled + quarantine, true
	}
	if !m.asked && m.wantsID() {
		return m.identity.retryAt, true
	}
	return 0, false
}

func backoff(faults int) time.Duration {
	if faults > 6 {
		return backoffMax
	}
	return min(backoffMin<<faults, backoffMax)
}
