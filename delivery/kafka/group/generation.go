package group

import (
	"fmt"
	"slices"
)

// joined takes the broker's answer to a join.
func (m *Machine) joined(dst []Action, a JoinGroupResponse) []Action {
	// A heartbeat beside the join speaks of the generation before.
	m.beat.attempt = 0
	if m.state == Leaving {
		// The join that was awaited for the sake of its member id.
		if m.member = a.Member; m.member == "" {
			return m.left(dst)
		}
		return dst
	}
	switch a.ErrorCode {
	case codeNone:
		return m.joinedGroup(dst, a)
	case codeMemberIDRequired:
		if a.Member == "" {
			return m.retry(dst)
		}
		m.member = a.Member
		return dst
	case codeRebalanceInProgress:
		return m.again(dst)
	case codeUnknownMemberID, codeIllegalGeneration:
		m.member = ""
		return m.lose(m.again(dst), CodeText(a.ErrorCode))
	case codeFencedInstanceID:
		return m.fence(dst)
	case codeLoadInProgress, codeCoordinatorNotAvailable, codeNotCoordinator:
		return m.coordinatorLost(dst)
	}
	return m.refuse(dst, a.ErrorCode, "joining the group")
}

func (m *Machine) joinedGroup(dst []Action, a JoinGroupResponse) []Action {
	if a.Generation < 0 || a.Member == "" {
		return m.coordinatorLost(dst)
	}
	if !slices.Contains(m.cfg.Assignors, a.Protocol) {
		return m.refuse(dst, codeInconsistentProtocol, "joining the group")
	}
	m.healthy()
	if a.Member != m.member && m.member != "" && m.entered >= 0 {
		// A static member under a new id: another process of that name was
		// here meanwhile, so nothing can be said of what was held.
		dst = m.lose(dst, "the group knows this member under a new id")
	}
	m.member, m.generation, m.protocol = a.Member, a.Generation, a.Protocol
	m.leader = a.Leader == a.Member
	m.muted = false
	m.renewed()
	m.nextBeat = m.now + m.heartbeatInterval()
	m.members, m.assignments = nil, nil
	m.state = Syncing
	if m.leader {
		m.state = Counting
		dst = m.readMembers(dst, a.Members)
	}
	return dst
}

// readMembers turns the members' metadata into candidates. One whose metadata
// cannot be read gets nothing and is named; the others must not suffer (case 59).
func (m *Machine) readMembers(dst []Action, members []JoinedMember) []Action {
	warned := map[string]string{}
	for _, j := range members {
		s, err := DecodeSubscription(j.Metadata)
		if err == nil && s.Truncated {
			err = fmt.Errorf("%w: the member's metadata is cut short, as kafka-go writes it; its owned partitions are not known", ErrMalformed)
		}
		if err != nil {
			text := err.Error()
			warned[j.Member] = text
			if m.warned[j.Member] != text {
				dst = append(dst, Warned{fmt.Errorf("member %q of group %q is another client that this one does not understand: %w", j.Member, m.cfg.Group, err)})
			}
		}
		m.members = append(m.members, candidate{j.Member, j.Instance, s})
	}
	// Only members of this generation are remembered, which bounds the map.
	m.warned = warned
	slices.SortFunc(m.members, compareCandidates)
	return dst
}

// counted makes the assignment: the leader has everything it needs.
func (m *Machine) counted(dst []Action, counts map[string]int32) []Action {
	m.healthy()
	use := make(map[string]int32, len(counts)+1)
	for topic, n := range counts {
		use[topic] = max(n, 0)
	}
	use[m.cfg.Topic] = m.partitions.counted(m.now, use[m.cfg.Topic])
	var p plan
	if m.protocol == Range {
		p = assignRange(m.members, use)
	} else {
		p = assignCooperative(m.members, use)
	}
	n := leaderNote{count: use[m.cfg.Topic], withheld: use[m.cfg.Topic]}
	for _, share := range p {
		for _, k := range share {
			if k.topic == m.cfg.Topic {
				n.withheld--
			}
		}
	}
	m.assignments = make([]MemberAssignment, len(m.members))
	for i, c := range m.members {
		a := Assignment{Partitions: p.topicPartitions(i)}
		if slices.Equal(c.subscription.Topics, []string{m.cfg.Topic}) {
			a.UserData = n.appendTo(nil)
		}
		m.assignments[i] = MemberAssignment{c.member, a.AppendTo(nil)}
	}
	m.members = nil
	m.state = Syncing
	return dst
}

// synced takes the member's own assignment.
func (m *Machine) synced(dst []Action, a SyncGroupResponse) []Action {
	switch a.ErrorCode {
	case codeNone:
		m.healthy()
		m.renewed()
		return m.enter(dst, a.Assignment)
	case codeRebalanceInProgress:
		return m.join(dst)
	case codeIllegalGeneration:
		return m.join(m.again(dst))
	case codeUnknownMemberID:
		m.member = ""
		return m.join(m.lose(dst, CodeText(a.ErrorCode)))
	case codeFencedInstanceID:
		return m.fence(dst)
	case codeLoadInProgress, codeCoordinatorNotAvailable, codeNotCoordinator:
		// A coordinator that comes back does not know of a rebalance that was
		// under way.
		return m.join(m.coordinatorLost(dst))
	}
	return m.join(m.refuse(dst, a.ErrorCode, "receiving the assignment"))
}

// enter begins a generation with the assignment that the leader made.
func (m *Machine) enter(dst []Action, encoded []byte) []Action {
	a, err := DecodeAssignment(encoded)
	if err != nil {
		// The leader is another client; without an assignment nothing is held,
		// which the next rebalance may mend. Joining again would be a storm.
		dst = append(dst, Warned{fmt.Errorf("the leader of group %q is another client that this one does not understand: %w", m.cfg.Group, err)})
	}
	var assigned []int32
	for _, tp := range a.Partitions {
		if tp.Topic == m.cfg.Topic {
			assigned = union(assigned, slices.DeleteFunc(tp.Partitions, func(p int32) bool { return p < 0 }))
		}
	}
	m.partitions.assign(a)
	same := m.enteredAs == m.member && m.entered >= 0 &&
		(m.generation == m.entered || m.generation == m.entered+1)
	m.chain = same && (m.chain || !m.suspended)
	m.entered, m.enteredAs, m.enteredAt = m.generation, m.member, m.now
	m.assignments, m.settled, m.state = nil, false, Stable
	m.refenced = false
	claimed := union(m.owned, m.held)
	m.owned = assigned
	gone := without(m.held, assigned)
	// A claim that was not granted was withheld from whoever is to have it
	// until we say that we let go.
	m.rejoin = m.protocol == CooperativeSticky && len(without(claimed, assigned)) > 0
	kept := intersection(m.held, assigned)
	if m.suspended {
		kept = nil
	}
	dst = append(dst, Entered{m.entered, m.member, m.leader, kept})
	switch {
	case len(gone) == 0:
	case m.suspended:
		m.held = without(m.held, gone)
		dst = append(dst, Dropped{gone})
	default:
		m.state = Draining
		dst = m.beginDrain(dst, gone, "")
	}
	if len(m.missing()) == 0 {
		return m.assign(dst, []Position{})
	}
	return dst
}

// assign hands the generation's partitions to the driver.
func (m *Machine) assign(dst []Action, added []Position) []Action {
	for _, p := range added {
		m.held = union(m.held, []int32{p.Partition})
	}
	continues := m.chain
	m.settled, m.suspended, m.chain = true, false, false
	return append(dst, Assigned{m.entered, m.member, added, intersection(m.held, m.owned), continues})
}

// union, without and intersection are of sorted sets of partitions; the
// results are sorted and share no memory with their arguments.
func union(a, b []int32) []int32 {
	out := append(slices.Clone(a), b...)
	slices.Sort(out)
	return slices.Compact(out)
}

func without(a, b []int32) []int32 {
	out := []int32{}
	for _, p := range a {
		if _, in := slices.BinarySearch(b, p); !in {
			out = append(out, p)
		}
	}
	return out
}

func intersection(a, b []int32) []int32 {
	out := []int32{}
	for _, p := range a {
		if _, in := slices.BinarySearch(b, p); in {
			out = append(out, p)
		}
	}
	return out
}
