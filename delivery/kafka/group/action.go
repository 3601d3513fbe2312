package group

import (
	"fmt"
	"time"
)

// Action is something that the driver has to do, in the order returned. The
// set is sealed. Actions with an Attempt are requests: start them and go on;
// each is answered exactly once, within its Timeout (see the answers in
// event.go). At most two are outstanding: one heartbeat, and one other.
// String is the trace format of the tests.
type Action interface {
	action()
	String() string
}

// Requests. Node is the broker to send to.
type (
	// FindCoordinator asks any broker. Answered by CoordinatorAnswered.
	FindCoordinator struct {
		Attempt uint64
		Timeout time.Duration
		Request FindCoordinatorRequest
	}
	// Join is parked at the broker until the others have joined, so it needs a
	// connection on which nothing else waits behind it. A Leave may be asked
	// for while it is outstanding. Answered by Joined.
	Join struct {
		Attempt uint64
		Node    int32
		Timeout time.Duration
		Request JoinGroupRequest
	}
	// CountPartitions asks fresh metadata for the number of partitions of
	// these topics, creating none. Only the leader asks. Answered by
	// PartitionsCounted.
	CountPartitions struct {
		Attempt uint64
		Timeout time.Duration
		Topics  []string
	}
	// Sync is parked at the broker until the leader's came. Answered by Synced.
	Sync struct {
		Attempt uint64
		Node    int32
		Timeout time.Duration
		Request SyncGroupRequest
	}
	// Heartbeat must not wait behind anything else. Answered by
	// HeartbeatAnswered.
	Heartbeat struct {
		Attempt uint64
		Node    int32
		Timeout time.Duration
		Request HeartbeatRequest
	}
	// FetchOffsets asks for committed positions. Answered by OffsetsFetched.
	FetchOffsets struct {
		Attempt uint64
		Node    int32
		Timeout time.Duration
		Request OffsetFetchRequest
	}
	// Leave ends the membership. Answered by LeaveAnswered.
	Leave struct {
		Attempt uint64
		Node    int32
		Timeout time.Duration
		Request LeaveGroupRequest
	}
)

// Generations and partitions.
type (
	// Entered: a generation begins. From now on commits carry Generation and
	// Member, those of partitions in Kept included, which go on undisturbed.
	// Everything else that the member gets comes with Assigned. Leader says
	// that this member assigned.
	Entered struct {
		Generation int32
		Member     string
		Leader     bool
		Kept       []int32
	}
	// Assigned follows every Entered, once the committed offsets are known,
	// unless the generation ends before. Added are the partitions to begin
	// with, sorted; All is everything held now, Kept and Added. Continues (R7):
	// it is the same member and the number right after the generation that was
	// suspended, or that number itself, when the group never went on without us;
	// suspended batches of partitions in Added may go on if the offset allows.
	// Where it is false they are void; suspended partitions that are not in
	// Added are void in any case.
	Assigned struct {
		Generation int32
		Member     string
		Added      []Position
		All        []int32
		Continues  bool
	}
	// Revoke takes partitions away at a cooperative rebalance; the generation
	// lives on, commits are accepted, and the rest is not touched. Settle what
	// runs and answer Released{Drain}; at the Deadline it is over anyway.
	Revoke struct {
		Drain      uint64
		Partitions []int32
		Deadline   time.Duration
	}
	// Suspend ends the generation for all partitions held: no write starts and
	// no commit is sent until Assigned or Lost (R7). Answer Released{Drain}
	// when no write runs any more; at the Deadline the machine goes on anyway.
	// Drain 0: a join is already running, nothing waits for an answer.
	Suspend struct {
		Drain      uint64
		Partitions []int32
		Deadline   time.Duration
		Reason     string
	}
	// Dropped: these partitions are gone: revoked ones whose drain is over (in
	// time or not), suspended ones that were not given back. Stop fetching; whatever
	// still runs for them is void.
	Dropped struct{ Partitions []int32 }
	// Lost: every partition is void, the suspended ones too, and no commit may be
	// made. Always all that were held; never without any.
	Lost struct {
		Partitions []int32
		Reason     string
	}
)

// Things to tell, and time.
type (
	// WakeAt asks for Ticked at that time (of the clock given to Step). It
	// replaces the one before.
	WakeAt struct{ At time.Duration }
	// Refused: the broker refused, and asking again helps only once somebody
	// has changed something; it is asked again at Again. Told once for each
	// run of the same code.
	Refused struct {
		Code  int16
		Doing string
		Again time.Duration
	}
	// Warned: something odd that stops nothing, such as another client's
	// member whose metadata cannot be read (case 59). Told once per cause.
	Warned struct{ Err error }
	// Fatal: it cannot heal: another process has this group.instance.id (82).
	// The machine is over (state Fenced).
	Fatal struct{ Code int16 }
	// Left: the membership is over as asked. The machine can be Started again.
	Left struct{}
)

// Position is a partition and where it stands.
type Position struct {
	Partition int32
	// Offset is the committed offset; -1: nothing was committed, the driver
	// looks the start up and it is committed before the first delivery (R11).
	Offset int64
	// LeaderEpoch was committed with it; -1: none.
	LeaderEpoch int32
}

func (FindCoordinator) action() {}
func (Join) action()            {}
func (CountPartitions) action() {}
func (Sync) action()            {}
func (Heartbeat) action()       {}
func (FetchOffsets) action()    {}
func (Leave) action()           {}
func (Entered) action()         {}
func (Assigned) action()        {}
func (Revoke) action()          {}
func (Suspend) action()         {}
func (Dropped) action()         {}
func (Lost) action()            {}
func (WakeAt) action()          {}
func (Refused) action()         {}
func (Warned) action()          {}
func (Fatal) action()           {}
func (Left) action()            {}

// String is the action's trace text.
func (a FindCoordinator) String() string {
	return fmt.Sprintf("find-coordinator #%d %q", a.Attempt, a.Request.Group)
}

// String is the action's trace text.
func (a Join) String() string {
	return fmt.Sprintf("join #%d node=%d member=%q", a.Attempt, a.Node, a.Request.Member)
}

// String is the action's trace text.
func (a CountPartitions) String() string {
	return fmt.Sprintf("count-partitions #%d %v", a.Attempt, a.Topics)
}

// String is the action's trace text.
func (a Sync) String() string {
	return fmt.Sprintf("sync #%d node=%d generation=%d member=%q assignments=%d",
		a.Attempt, a.Node, a.Request.Generation, a.Request.Member, len(a.Request.Assignments))
}

// String is the action's trace text.
func (a Heartbeat) String() string {
	return fmt.Sprintf("heartbeat #%d node=%d generation=%d", a.Attempt, a.Node, a.Request.Generation)
}

// String is the action's trace text.
func (a FetchOffsets) String() string {
	return fmt.Sprintf("fetch-offsets #%d node=%d %v", a.Attempt, a.Node, a.Request.Partitions)
}

// String is the action's trace text.
func (a Leave) String() string {
	return fmt.Sprintf("leave #%d node=%d member=%q", a.Attempt, a.Node, a.Request.Member)
}

// String is the action's trace text.
func (a Entered) String() string {
	return fmt.Sprintf("entered generation=%d member=%q leader=%t kept=%v", a.Generation, a.Member, a.Leader, a.Kept)
}

// String is the action's trace text.
func (a Assigned) String() string {
	return fmt.Sprintf("assigned generation=%d added=%v all=%v continues=%t", a.Generation, a.Added, a.All, a.Continues)
}

// String is the action's trace text.
func (a Revoke) String() string {
	return fmt.Sprintf("revoke drain=%d %v deadline=%v", a.Drain, a.Partitions, a.Deadline)
}

// String is the action's trace text.
func (a Suspend) String() string {
	return fmt.Sprintf("suspend drain=%d %v deadline=%v %s", a.Drain, a.Partitions, a.Deadline, a.Reason)
}

// String is the action's trace text.
func (a Dropped) String() string { return fmt.Sprintf("dropped %v", a.Partitions) }

// String is the action's trace text.
func (a Lost) String() string { return fmt.Sprintf("lost %v: %s", a.Partitions, a.Reason) }

// String is the action's trace text.
func (a WakeAt) String() string { return fmt.Sprintf("wake-at %v", a.At) }

// String is the action's trace text.
func (a Refused) String() string {
	return fmt.Sprintf("refused %s code=%d again=%v", a.Doing, a.Code, a.Again)
}

// String is the action's trace text.
func (a Warned) String() string { return fmt.Sprintf("warned %v", a.Err) }

// String is the action's trace text.
func (a Fatal) String() string { return fmt.Sprintf("fatal code=%d", a.Code) }

// String is the action's trace text.
func (Left) String() string { return "left" }
