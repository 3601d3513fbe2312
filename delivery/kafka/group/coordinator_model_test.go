package group

import (
	"bytes"
	"fmt"
	"slices"
	"time"
)

// coordinator is a small model of Kafka's classic group coordinator, after
// GroupCoordinator.scala: parked joins and syncs, sessions, the rebalance timeout,
// MEMBER_ID_REQUIRED, static members, and a move to another broker, which
// remembers the group as it was when it was last stable.
type coordinator struct {
	now   func() time.Duration
	trace func(string, ...any)
	// grace is added to sessions: the latency that our own clock cannot see.
	session, rebalance, grace time.Duration

	node  int32
	away  bool
	state string // empty, preparing, completing, stable
	group groupState
	// kept is the group as it was last stored.
	kept     groupState
	deadline time.Duration
	ids      int
	pending  map[string]bool
	counts   int32
}

type groupState struct {
	generation       int32
	leader, protocol string
	members          map[string]*modelMember
}

type modelMember struct {
	id, instance string
	protocols    []JoinProtocol
	seen         time.Duration
	assignment   []byte
	join         func(JoinGroupResponse)
	sync         func(SyncGroupResponse)
}

func (g groupState) clone() groupState {
	out := g
	out.members = map[string]*modelMember{}
	for id, m := range g.members {
		c := *m
		c.join, c.sync = nil, nil
		out.members[id] = &c
	}
	return out
}

func (c *coordinator) sorted() []*modelMember {
	var out []*modelMember
	for _, m := range c.group.members {
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b *modelMember) int { return bytes.Compare([]byte(a.id), []byte(b.id)) })
	return out
}

// check is what every request meets first; 0: go on.
func (c *coordinator) check(node int32, member, instance string) int16 {
	if c.away || node != c.node {
		return codeNotCoordinator
	}
	if instance != "" {
		for _, m := range c.group.members {
			if m.instance == instance && member != "" && m.id != member {
				return codeFencedInstanceID
			}
		}
	}
	if c.group.members[member] == nil {
		return codeUnknownMemberID
	}
	return 0
}

func (c *coordinator) join(node int32, q JoinGroupRequest, reply func(JoinGroupResponse)) {
	code := c.check(node, q.Member, q.Instance)
	refuse := func(code int16) { reply(JoinGroupResponse{ErrorCode: code, Generation: -1}) }
	switch {
	case code == codeUnknownMemberID && q.Member == "" && q.Instance == "":
		c.ids++
		id := fmt.Sprintf("m%03d", c.ids)
		c.pending[id] = true
		reply(JoinGroupResponse{ErrorCode: codeMemberIDRequired, Generation: -1, Member: id})
		return
	case code == codeUnknownMemberID && q.Member == "":
		c.joinStatic(q, reply)
		return
	case code == codeUnknownMemberID && c.pending[q.Member]:
		delete(c.pending, q.Member)
		c.group.members[q.Member] = &modelMember{id: q.Member, protocols: q.Protocols, seen: c.now(), join: reply}
		c.prepare("a new member")
		return
	case code != 0:
		refuse(code)
		return
	}
	m := c.group.members[q.Member]
	same := sameProtocols(m.protocols, q.Protocols)
	m.protocols, m.seen = q.Protocols, c.now()
	if c.state == "completing" && same || c.state == "stable" && same && m.id != c.group.leader {
		reply(c.answer(m))
		return
	}
	m.join = reply
	c.prepare("member " + m.id + " joins again")
}

// joinStatic takes a static member that comes without an id: a new one, or a
// new life of an old one, which then does not rebalance a stable group.
func (c *coordinator) joinStatic(q JoinGroupRequest, reply func(JoinGroupResponse)) {
	c.ids++
	id := fmt.Sprintf("%s-%03d", q.Instance, c.ids)
	m := &modelMember{id: id, instance: q.Instance, protocols: q.Protocols, seen: c.now()}
	old := ""
	for _, o := range c.group.members {
		if o.instance == q.Instance {
			old, m.assignment = o.id, o.assignment
		}
	}
	delete(c.group.members, old)
	c.group.members[id] = m
	if old != "" && c.state == "stable" {
		a := c.answer(m)
		a.Leader, a.Members = c.group.leader, nil // the old id: it does not learn that it leads
		if c.group.leader == old {
			c.group.leader = id
		}
		c.kept = c.group.clone()
		reply(a)
		return
	}
	if c.group.leader == old {
		c.group.leader = id
	}
	m.join = reply
	c.prepare("a static member joins")
}

func sameProtocols(a, b []JoinProtocol) bool {
	return slices.EqualFunc(a, b, func(x, y JoinProtocol) bool { return x.Name == y.Name && bytes.Equal(x.Metadata, y.Metadata) })
}

func (c *coordinator) answer(m *modelMember) JoinGroupResponse {
	a := JoinGroupResponse{Generation: c.group.generation, Protocol: c.group.protocol, Leader: c.group.leader, Member: m.id}
	if m.id == c.group.leader {
		for _, o := range c.sorted() {
			j := JoinedMember{Member: o.id, Instance: o.instance}
			for _, p := range o.protocols {
				if p.Name == c.group.protocol {
					j.Metadata = p.Metadata
				}
			}
			a.Members = append(a.Members, j)
		}
	}
	return a
}

func (c *coordinator) prepare(why string) {
	if c.state != "preparing" {
		c.trace("coordinator: rebalance: %s", why)
		c.state, c.deadline = "preparing", c.now()+c.rebalance
		for _, m := range c.sorted() {
			if m.sync != nil {
				m.sync(SyncGroupResponse{ErrorCode: codeRebalanceInProgress})
				m.sync, m.seen = nil, c.now()
			}
		}
	}
	c.complete(false)
}

func (c *coordinator) complete(force bool) {
	for _, m := range c.sorted() {
		if m.join == nil {
			if !force {
				return
			}
			c.trace("coordinator: %s did not join in time", m.id)
			delete(c.group.members, m.id)
		}
	}
	if len(c.group.members) == 0 {
		c.group.generation++
		c.state, c.kept = "empty", c.group.clone()
		return
	}
	c.group.generation++
	members := c.sorted()
	if c.group.members[c.group.leader] == nil {
		c.group.leader = members[0].id
	}
	c.group.protocol = c.common(members)
	c.state = "completing"
	c.trace("coordinator: generation %d, %d members, leader %s", c.group.generation, len(members), c.group.leader)
	for _, m := range members {
		reply := m.join
		m.join, m.seen = nil, c.now()
		reply(c.answer(m))
	}
}

// common is the first member's most preferred protocol that all know.
func (c *coordinator) common(members []*modelMember) string {
	for _, p := range members[0].protocols {
		if !slices.ContainsFunc(members, func(m *modelMember) bool {
			return !slices.ContainsFunc(m.protocols, func(q JoinProtocol) bool { return q.Name == p.Name })
		}) {
			return p.Name
		}
	}
	panic("the test's members have no protocol in common")
}

func (c *coordinator) syncGroup(node int32, q SyncGroupRequest, reply func(SyncGroupResponse)) {
	code := c.check(node, q.Member, q.Instance)
	switch {
	case code != 0:
	case q.Generation != c.group.generation:
		code = codeIllegalGeneration
	case c.state == "preparing":
		code = codeRebalanceInProgress
	}
	if code != 0 {
		reply(SyncGroupResponse{ErrorCode: code})
		return
	}
	m := c.group.members[q.Member]
	m.seen = c.now()
	if c.state == "stable" {
		reply(SyncGroupResponse{Assignment: m.assignment})
		return
	}
	m.sync = reply
	if m.id != c.group.leader {
		return
	}
	for _, o := range c.group.members {
		o.assignment = nil
	}
	for _, a := range q.Assignments {
		if o := c.group.members[a.Member]; o != nil {
			o.assignment = a.Assignment
		}
	}
	c.state, c.kept = "stable", c.group.clone()
	for _, o := range c.sorted() {
		if o.sync != nil {
			reply := o.sync
			o.sync, o.seen = nil, c.now()
			reply(SyncGroupResponse{Assignment: o.assignment})
		}
	}
}

func (c *coordinator) heartbeat(node int32, q HeartbeatRequest) int16 {
	if code := c.check(node, q.Member, q.Instance); code != 0 {
		return code
	}
	if q.Generation != c.group.generation {
		return codeIllegalGeneration
	}
	c.group.members[q.Member].seen = c.now()
	if c.state == "preparing" {
		return codeRebalanceInProgress
	}
	return 0
}

func (c *coordinator) leaveGroup(node int32, q LeaveGroupRequest) int16 {
	if c.pending[q.Member] {
		delete(c.pending, q.Member)
		return 0
	}
	code := c.check(node, q.Member, q.Instance)
	if code == 0 {
		c.remove(q.Member, "leaves")
	}
	return code
}

func (c *coordinator) remove(id, why string) {
	delete(c.group.members, id)
	c.prepare("member " + id + " " + why)
}

// tick expires sessions and the rebalance.
func (c *coordinator) tick() {
	if c.away {
		return
	}
	for _, m := range c.sorted() {
		if m.join == nil && m.sync == nil && c.now() > m.seen+c.session+c.grace {
			c.remove(m.id, "expired")
		}
	}
	if c.state == "preparing" && c.now() > c.deadline {
		c.complete(true)
	}
}

// move takes the group to another broker, which is there after arrive. What is
// parked is answered where the old one goes in order, and otherwise never.
func (c *coordinator) move() {
	c.node++
	c.away = true
	if c.node%2 == 1 {
		return
	}
	for _, m := range c.sorted() {
		if m.join != nil {
			m.join(JoinGroupResponse{ErrorCode: codeNotCoordinator, Generation: -1})
		}
		if m.sync != nil {
			m.sync(SyncGroupResponse{ErrorCode: codeNotCoordinator})
		}
		m.join, m.sync = nil, nil
	}
}

func (c *coordinator) arrive() {
	c.away = false
	generation := c.group.generation
	c.group = c.kept.clone()
	c.state = "stable"
	if len(c.group.members) == 0 {
		c.state = "empty"
	}
	for _, m := range c.group.members {
		m.seen = c.now()
	}
	c.trace("coordinator: node %d, back to generation %d from %d", c.node, c.group.generation, generation)
}
