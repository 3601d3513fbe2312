package group

import (
	"fmt"
	"slices"
	"time"
)

// advance starts whatever is due now: it is the one place where requests
// begin, so that every event only has to say where the membership stands.
func (m *Machine) advance(dst []Action) []Action {
	dst = m.expire(dst)
	if m.drain.id != 0 && m.now >= m.drain.deadline {
		dst = m.endDrain(dst)
	}
	dst = m.forceRejoin(dst)
	dst = m.beginRequest(dst)
	dst = m.beginBeat(dst)
	return m.wake(dst)
}

// live: a generation runs at the broker and heartbeats keep it.
func (m *Machine) live() bool {
	switch m.state {
	case Counting, Syncing, Stable, Draining:
		return m.generation >= 0
	}
	return false
}

// beating: heartbeats are sent. Also beside a parked join: they tell a broker
// that counts the session meanwhile (Kafka does not, kfake does) that we are
// there, and us that the join will never be answered, because the broker does
// not know us any more or is gone, long before the join's own time is up.
func (m *Machine) beating() bool {
	return m.live() || m.parked()
}

// parked: a join is at the broker, from a member that has a session there.
func (m *Machine) parked() bool {
	return m.state == Joining && m.slot.kind == joinRequest && m.generation >= 0 && m.member != ""
}

// wanted is the request that the state calls for.
func (m *Machine) wanted() request {
	switch m.state {
	case Joining:
		return joinRequest
	case Counting:
		return countRequest
	case Syncing:
		return syncRequest
	case Leaving:
		return leaveRequest
	case Stable, Draining:
		if !m.settled && !(m.suspended && m.drain.id != 0) {
			return offsetsRequest
		}
	}
	return noRequest
}

func (m *Machine) beginRequest(dst []Action) []Action {
	if m.slot.kind != noRequest || m.now < m.retryAt {
		return dst
	}
	want := m.wanted()
	if want == leaveRequest && m.member == "" && m.cfg.Instance == "" {
		return m.left(dst)
	}
	if !m.found && (want != noRequest || m.live()) {
		return append(dst, FindCoordinator{m.begin(findRequest), requestTimeout, FindCoordinatorRequest{m.cfg.Group}})
	}
	switch want {
	case joinRequest:
		return m.beginJoin(dst)
	case countRequest:
		topics := append(subscribedTopics(m.members), m.cfg.Topic)
		slices.Sort(topics)
		return append(dst, CountPartitions{m.begin(countRequest), requestTimeout, slices.Compact(topics)})
	case syncRequest:
		return append(dst, Sync{m.begin(syncRequest), m.node, m.rebalanceTimeout() + requestTimeout, SyncGroupRequest{
			Group: m.cfg.Group, Generation: m.generation, Member: m.member, Instance: m.cfg.Instance, Assignments: m.assignments,
		}})
	case offsetsRequest:
		return append(dst, FetchOffsets{m.begin(offsetsRequest), m.node, requestTimeout, OffsetFetchRequest{
			Group: m.cfg.Group, Topic: m.cfg.Topic, Partitions: m.missing(),
		}})
	case leaveRequest:
		return append(dst, Leave{m.begin(leaveRequest), m.node, requestTimeout, LeaveGroupRequest{
			Group: m.cfg.Group, Member: m.member, Instance: m.cfg.Instance,
		}})
	}
	return dst
}

func (m *Machine) begin(kind request) uint64 {
	m.attempts++
	m.slot.kind, m.slot.attempt = kind, m.attempts
	return m.attempts
}

// missing are the partitions whose committed offsets the driver needs: those
// it does not hold, and suspended ones, whose batches go on only if the offset
// is still theirs (R7).
func (m *Machine) missing() []int32 {
	if m.suspended {
		return slices.Clone(m.owned)
	}
	return without(m.owned, m.held)
}

func (m *Machine) beginJoin(dst []Action) []Action {
	if m.now < m.pacedUntil() {
		return dst
	}
	m.paced = max(m.paced, m.now) + joinEvery
	// A heartbeat still on its way may be answered as from before the join.
	m.beat.attempt = 0
	m.nextBeat = m.now + m.heartbeatInterval()
	s := Subscription{Topics: []string{m.cfg.Topic}, Generation: m.entered, UserData: StickyUserData(m.entered)}
	if claims := union(m.owned, m.held); len(claims) > 0 {
		s.Owned = []TopicPartitions{{m.cfg.Topic, claims}}
	}
	q := JoinGroupRequest{
		Group: m.cfg.Group, SessionTimeout: m.cfg.SessionTimeout, RebalanceTimeout: m.rebalanceTimeout(),
		Member: m.member, Instance: m.cfg.Instance,
	}
	for _, name := range m.cfg.Assignors {
		q.Protocols = append(q.Protocols, JoinProtocol{name, s.AppendTo(nil)})
	}
	return append(dst, Join{m.begin(joinRequest), m.node, m.rebalanceTimeout() + requestTimeout, q})
}

func (m *Machine) beginBeat(dst []Action) []Action {
	if !m.beating() || m.muted || !m.found || m.beat.attempt != 0 || m.now < m.nextBeat {
		return dst
	}
	m.attempts++
	m.beat.attempt, m.beat.sent = m.attempts, m.now
	m.nextBeat = m.now + m.heartbeatInterval()
	return append(dst, Heartbeat{m.attempts, m.node, min(requestTimeout, m.cfg.SessionTimeout/3), HeartbeatRequest{
		Group: m.cfg.Group, Generation: m.generation, Member: m.member, Instance: m.cfg.Instance,
	}})
}

func (m *Machine) coordinatorAnswered(dst []Action, a FindCoordinatorResponse) []Action {
	switch a.ErrorCode {
	case codeNone:
		m.found, m.node = true, a.Node
		// Whoever was to be told about the session is told at once.
		m.nextBeat = min(m.nextBeat, m.now)
		if m.state == Leaving {
			m.retryAt = m.now
		}
		return dst
	case codeGroupAuthorization, codeInvalidGroupID, codeUnsupportedVersion, codeClusterAuthorization:
		return m.refuse(dst, a.ErrorCode, "looking for the group's coordinator")
	}
	return m.leaveFailed(m.retry(dst))
}

// heartbeatAnswered is also where a commit's code ends up: what the broker
// says about the membership means the same there.
func (m *Machine) heartbeatAnswered(dst []Action, code int16) []Action {
	switch code {
	case codeNone, codeRebalanceInProgress:
		m.alive = max(m.alive, m.beat.sent)
	}
	if m.parked() {
		return m.beatBesideJoin(dst, code)
	}
	return m.membershipCode(dst, code)
}

// beatBesideJoin takes only what says that the join will not be answered.
func (m *Machine) beatBesideJoin(dst []Action, code int16) []Action {
	switch code {
	case codeIllegalGeneration:
		m.muted = true // the next generation is there; its number comes with the join's answer
	case codeUnknownMemberID, codeFencedInstanceID:
		return m.membershipCode(dst, code)
	case codeLoadInProgress, codeCoordinatorNotAvailable, codeNotCoordinator:
		return m.join(m.coordinatorLost(dst))
	}
	return dst
}

func (m *Machine) commitAnswered(dst []Action, ev CommitAnswered) []Action {
	if !m.live() || ev.Generation != m.generation || ev.Member != m.member || ev.Generation != m.entered {
		m.stale++
		return dst
	}
	switch ev.Code {
	case codeRebalanceInProgress, codeIllegalGeneration, codeUnknownMemberID, codeFencedInstanceID,
		codeCoordinatorNotAvailable, codeNotCoordinator, codeLoadInProgress:
		return m.membershipCode(dst, ev.Code)
	}
	return dst
}

func (m *Machine) membershipCode(dst []Action, code int16) []Action {
	switch code {
	case codeNone:
		m.healthy()
		return dst
	case codeRebalanceInProgress:
		m.healthy()
		return m.rebalance(dst)
	case codeIllegalGeneration:
		m.muted = true
		dst = m.endGeneration(dst, CodeText(code))
		if m.state == Counting || m.state == Syncing {
			dst = m.join(m.again(dst))
		}
		return dst
	case codeUnknownMemberID:
		m.member = ""
		dst = m.lose(dst, CodeText(code))
		return m.join(dst)
	case codeFencedInstanceID:
		return m.fence(dst)
	case codeLoadInProgress, codeCoordinatorNotAvailable, codeNotCoordinator:
		return m.coordinatorLost(dst)
	case codeGroupAuthorization:
		dst = m.refuse(dst, code, "sending a heartbeat")
		m.nextBeat = max(m.nextBeat, m.retryAt)
		return dst
	}
	// Not known for a heartbeat: the next one is due anyway, and if none is
	// understood the session's end decides.
	return dst
}

func (m *Machine) requestFailed(dst []Action, ev RequestFailed) []Action {
	if m.beat.attempt != 0 && ev.Attempt == m.beat.attempt {
		m.beat.attempt = 0
		if m.parked() {
			return m.join(m.coordinatorLost(dst))
		}
		return m.coordinatorLost(dst)
	}
	kind := m.slot.kind
	if kind == noRequest || ev.Attempt != m.slot.attempt {
		m.stale++
		return dst
	}
	m.slot.kind = noRequest
	switch kind {
	case findRequest, countRequest:
		return m.leaveFailed(m.retry(dst))
	}
	// A join or a sync is simply sent again under the same member id: the
	// broker answers a repeat with the generation it has (or had made of it).
	return m.leaveFailed(m.coordinatorLost(dst))
}

func (m *Machine) offsetsFetched(dst []Action, a OffsetFetchResponse) []Action {
	code := a.ErrorCode
	want := m.missing()
	added := make([]Position, 0, len(want))
	for _, t := range a.Topics {
		if t.Topic != m.cfg.Topic {
			continue
		}
		for _, p := range t.Partitions {
			if p.ErrorCode != codeNone && code == codeNone {
				code = p.ErrorCode
			}
			if slices.Contains(want, p.Partition) && !slices.ContainsFunc(added, func(o Position) bool { return o.Partition == p.Partition }) {
				added = append(added, Position{p.Partition, p.Offset, p.LeaderEpoch})
			}
		}
	}
	switch {
	case code == codeGroupAuthorization || code == codeTopicAuthorization:
		return m.refuse(dst, code, "reading the group's offsets")
	case code == codeLoadInProgress || code == codeCoordinatorNotAvailable || code == codeNotCoordinator:
		return m.coordinatorLost(dst)
	case code != codeNone || len(added) != len(want):
		return m.retry(dst)
	}
	m.healthy()
	slices.SortFunc(added, func(x, y Position) int { return int(x.Partition) - int(y.Partition) })
	return m.assign(dst, added)
}

// stopAsked leaves, or is over at once where there is nothing to leave.
func (m *Machine) stopAsked(dst []Action, ev StopAsked) []Action {
	switch m.state {
	case Leaving, Done:
		return dst
	case Unjoined, Fenced:
		m.state = Done
		return append(dst, Left{})
	}
	nameless := m.member == "" && m.cfg.Instance == ""
	// The answer to a first join names a member that would otherwise wait in
	// the group as a ghost, so it is awaited; the broker gives it at once.
	awaited := nameless && m.slot.kind == joinRequest
	dst = m.lose(dst, "stopped")
	m.beat.attempt = 0
	if nameless && !awaited || m.cfg.Instance != "" && !ev.Leave {
		return m.left(dst)
	}
	m.state, m.leaveTried, m.retryAt = Leaving, 0, m.now
	if !awaited {
		m.slot.kind = noRequest
	}
	return dst
}

func (m *Machine) left(dst []Action) []Action {
	m.state, m.slot.kind, m.beat.attempt = Done, noRequest, 0
	m.member, m.generation = "", -1
	return append(dst, Left{})
}

func (m *Machine) leaveAnswered(dst []Action, code int16) []Action {
	switch code {
	case codeLoadInProgress, codeCoordinatorNotAvailable, codeNotCoordinator:
		return m.leaveFailed(m.coordinatorLost(dst))
	}
	// Any other code says that there is no such member any more, or that
	// asking again will not help; the session's end does the rest.
	return m.left(dst)
}

// leaveFailed gives up leaving after a few failures of any kind: a stop must
// not wait for a broker that is away.
func (m *Machine) leaveFailed(dst []Action) []Action {
	if m.state != Leaving {
		return dst
	}
	if m.leaveTried++; m.leaveTried >= leaveTries {
		return m.left(dst)
	}
	return dst
}

const (
	// requestTimeout for a request that nothing parks at the broker.
	requestTimeout = 5 * time.Second
	leaveTries     = 3
)

// refuse tells of a refusal and waits, longer each time.
func (m *Machine) refuse(dst []Action, code int16, doing string) []Action {
	first := m.refusals == 0 || m.refusedCode != code
	if m.refusedCode != code {
		m.refusals = 0
	}
	m.refusedCode = code
	m.retryAt = m.now + doubled(time.Second, m.refusals, 30*time.Second)
	m.refusals++
	if m.state == Leaving {
		return m.left(dst)
	}
	if first {
		dst = append(dst, Refused{code, doing, m.retryAt})
	}
	return dst
}

// String shows the machine in one line, for traces.
func (m *Machine) String() string {
	return fmt.Sprintf("%v member=%q generation=%d entered=%d owned=%v held=%v suspended=%t", m.State(), m.member, m.generation, m.entered, m.owned, m.held, m.suspended)
}
