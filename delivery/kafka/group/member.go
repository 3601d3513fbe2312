package group

import (
	"fmt"
	"slices"
	"time"
)

// Config is one inlet's membership. New checks it.
type Config struct {
	// Group is the group id, Topic the inlet's topic; neither is empty.
	Group, Topic string
	// Instance is group.instance.id (KIP-345); empty: a dynamic member, which
	// leaves the group when it stops.
	Instance string
	// Assignors in order of preference; empty: CooperativeSticky alone. With
	// Range among them every rebalance suspends all partitions before joining,
	// since the group may choose an assignor that knows of no owners.
	Assignors []string
	// SessionTimeout after which the broker takes a silent member for dead;
	// 0: 45 s, Java's default. From it follow the rebalance timeout (the same,
	// at least 10 s), the heartbeats (a fifteenth, 100 ms to 3 s) and the
	// longest drain (a third).
	SessionTimeout time.Duration
}

// State is where a membership stands; see the table in doc.go.
type State uint8

// The states. Where the coordinator is being looked for while a generation
// lives, the state stays what it is.
const (
	Unjoined State = iota
	FindingCoordinator
	Joining
	Counting
	Syncing
	Stable
	Draining
	Leaving
	Done
	Fenced
)

var stateNames = [...]string{"unjoined", "finding coordinator", "joining", "counting", "syncing", "stable", "draining", "leaving", "left", "fenced"}

// String names the state.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// request is what the one slot beside the heartbeat is used for.
type request uint8

const (
	noRequest request = iota
	findRequest
	joinRequest
	countRequest
	syncRequest
	offsetsRequest
	leaveRequest
)

// drain is a running Revoke or Suspend; id 0: none.
type drain struct {
	id         uint64
	partitions []int32
	deadline   time.Duration
}

// Machine is one membership of one group: events in, actions out. The zero
// value is not usable; see New.
type Machine struct {
	cfg Config
	now time.Duration

	state State
	// node is the coordinator, while found.
	node  int32
	found bool

	// member and generation are the broker's last word; generation -1: none.
	member     string
	generation int32
	leader     bool
	protocol   string
	// entered and enteredAs are those of the last Entered: what commits carry
	// and what a join claims; -1 once everything was lost.
	entered   int32
	enteredAs string
	enteredAt time.Duration

	// owned is what the last assignment gave; held what the driver was given
	// by Assigned and still has. Both are sorted. A join claims both.
	owned, held []int32
	// suspended: the driver was told Suspend and holds batches back. chain:
	// every generation since then was the next one, of the same member (R7).
	suspended, chain bool
	// settled: Assigned was sent for the generation entered.
	settled bool
	// rejoin: something that was taken from us waits to be given to others.
	rejoin bool
	drain  drain
	drains uint64

	// attempts counts requests; slot and beat are the outstanding ones.
	attempts uint64
	slot     struct {
		kind    request
		attempt uint64
	}
	beat struct {
		attempt uint64
		sent    time.Duration
	}
	// muted: heartbeats would only be refused (ILLEGAL_GENERATION).
	muted    bool
	nextBeat time.Duration
	// alive is when the broker last renewed the session, as far as we know.
	alive time.Duration

	// retryAt holds the slot empty; failures counts towards its doubling.
	retryAt  time.Duration
	failures int
	// refusals counts a run of refusals with refusedCode.
	refusals    int
	refusedCode int16
	// paced is when the joins sent so far are paid for (see pace).
	paced      time.Duration
	woken      time.Duration
	leaveTried int
	// refenced: the one attempt to take over our own instance id was made.
	refenced bool

	// members and assignments live from Joined to Synced at the leader.
	members     []candidate
	assignments []MemberAssignment
	warned      map[string]string

	partitions partitionWatch
	stale      uint64
}

// New checks cfg and returns a machine that is Unjoined. Its errors are
// problems of the configuration, for whoever wrote that.
func New(cfg Config) (*Machine, error) {
	if cfg.Group == "" || cfg.Topic == "" {
		return nil, fmt.Errorf("a group needs an id and a topic, got %q and %q", cfg.Group, cfg.Topic)
	}
	for _, name := range []string{cfg.Group, cfg.Topic, cfg.Instance} {
		if len(name) > 1<<15-1 {
			return nil, fmt.Errorf("the name %.32q... has %d bytes, Kafka allows %d", name, len(name), 1<<15-1)
		}
	}
	if len(cfg.Assignors) == 0 {
		cfg.Assignors = []string{CooperativeSticky}
	}
	for _, a := range cfg.Assignors {
		if a != CooperativeSticky && a != Range {
			return nil, fmt.Errorf("unknown assignor %q: there are %q and %q", a, CooperativeSticky, Range)
		}
	}
	if cfg.SessionTimeout == 0 {
		cfg.SessionTimeout = 45 * time.Second
	}
	if cfg.SessionTimeout < time.Second {
		return nil, fmt.Errorf("a session timeout of %v is too short: at least 1s", cfg.SessionTimeout)
	}
	cfg.Assignors = slices.Clone(cfg.Assignors)
	return &Machine{cfg: cfg, generation: -1, entered: -1, partitions: partitionWatch{known: -1, assigned: -1}, warned: map[string]string{}}, nil
}

// State is where the membership stands.
func (m *Machine) State() State {
	if m.state == Joining && !m.found {
		return FindingCoordinator
	}
	return m.state
}

// Member is the member id, empty until the broker gave one.
func (m *Machine) Member() string { return m.member }

// Generation is the one last entered, -1: none. Commits carry it, with the
// Member of its Entered.
func (m *Machine) Generation() int32 { return m.entered }

// Coordinator is the broker to send commits to; false: being looked for.
func (m *Machine) Coordinator() (int32, bool) { return m.node, m.found }

// Stale counts events that belonged to something that was over (R12).
func (m *Machine) Stale() uint64 { return m.stale }

// eager: partitions are suspended before every join.
func (m *Machine) eager() bool { return slices.Contains(m.cfg.Assignors, Range) }

// Step applies ev at the time now and appends the actions it calls for, in the
// order in which they must be started. now is monotonic, counted from any fixed
// moment, and does not go back (it panics). Step does not block and is not safe
// for concurrent use. The slices in actions are the receiver's to keep.
func (m *Machine) Step(dst []Action, now time.Duration, ev Event) []Action {
	if now < m.now {
		panic(fmt.Sprintf("group: time went back from %v to %v at %v", m.now, now, ev))
	}
	m.now = now
	dst = m.apply(dst, ev)
	return m.advance(dst)
}

func (m *Machine) apply(dst []Action, ev Event) []Action {
	switch ev := ev.(type) {
	case Started:
		m.started()
		return dst
	case StopAsked:
		return m.stopAsked(dst, ev)
	case PartitionsChanged:
		m.partitions.seen(m.now, ev.Count)
		return dst
	case TopicMadeAgain:
		return m.topicMadeAgain(dst)
	case Released:
		return m.released(dst, ev)
	case Slept:
		if ev.Gap > m.cfg.SessionTimeout/3 {
			return m.slept(dst, ev.Gap)
		}
		return dst
	case CommitAnswered:
		return m.commitAnswered(dst, ev)
	case Ticked:
		return dst
	case HeartbeatAnswered:
		if m.endBeat(ev.Attempt) {
			return m.heartbeatAnswered(dst, ev.Code)
		}
		return dst
	case RequestFailed:
		return m.requestFailed(dst, ev)
	}
	return m.answered(dst, ev)
}

// answered takes the answers of the slot.
func (m *Machine) answered(dst []Action, ev Event) []Action {
	switch ev := ev.(type) {
	case CoordinatorAnswered:
		if m.endSlot(findRequest, ev.Attempt) {
			return m.coordinatorAnswered(dst, ev.Answer)
		}
	case Joined:
		if m.endSlot(joinRequest, ev.Attempt) {
			return m.joined(dst, ev.Answer)
		}
	case PartitionsCounted:
		if m.endSlot(countRequest, ev.Attempt) {
			return m.counted(dst, ev.Counts)
		}
	case Synced:
		if m.endSlot(syncRequest, ev.Attempt) {
			return m.synced(dst, ev.Answer)
		}
	case OffsetsFetched:
		if m.endSlot(offsetsRequest, ev.Attempt) {
			return m.offsetsFetched(dst, ev.Answer)
		}
	case LeaveAnswered:
		if m.endSlot(leaveRequest, ev.Attempt) {
			return m.leaveAnswered(dst, ev.Code)
		}
	default:
		panic(fmt.Sprintf("group: unknown event %T", ev))
	}
	return dst
}

// endSlot says whether an answer is the one awaited, and counts it if not.
func (m *Machine) endSlot(kind request, attempt uint64) bool {
	if m.slot.kind != kind || m.slot.attempt != attempt {
		m.stale++
		return false
	}
	m.slot.kind = noRequest
	return true
}

func (m *Machine) endBeat(attempt uint64) bool {
	if m.beat.attempt == 0 || m.beat.attempt != attempt {
		m.stale++
		return false
	}
	m.beat.attempt = 0
	return true
}

// started begins afresh; what a membership before it held was Lost when it
// ended. The pace of joins goes on, so that a driver that starts and stops in
// a loop makes no storm either.
func (m *Machine) started() {
	if m.state != Unjoined && m.state != Done {
		panic(fmt.Sprintf("group: started while %v", m.state))
	}
	m.state, m.found = Joining, false
	m.member, m.generation = "", -1
	m.healthy()
	m.muted, m.refenced = false, false
	m.forget()
}

// forget drops everything that a generation gave.
func (m *Machine) forget() {
	m.entered, m.enteredAs = -1, ""
	m.owned, m.held = nil, nil
	m.suspended, m.chain, m.settled, m.rejoin, m.leader = false, false, false, false, false
	m.drain = drain{}
	m.members, m.assignments = nil, nil
}
