package group

import (
	"fmt"
	"time"
)

// Event is something that happened, told to the machine by Machine.Step. The
// set is sealed. Answers carry the Attempt of the action they answer; one that
// does not match what is outstanding changes nothing and is counted (R12).
// String is the trace format of the tests.
type Event interface {
	event()
	String() string
}

// Answers. Every action with an Attempt is answered exactly once: by its own
// answer, whatever its error code, or by RequestFailed.
type (
	// CoordinatorAnswered answers FindCoordinator.
	CoordinatorAnswered struct {
		Attempt uint64
		Answer  FindCoordinatorResponse
	}
	// Joined answers Join.
	Joined struct {
		Attempt uint64
		Answer  JoinGroupResponse
	}
	// PartitionsCounted answers CountPartitions. A topic that does not exist
	// is 0 or absent; when the metadata could not be read send RequestFailed.
	PartitionsCounted struct {
		Attempt uint64
		Counts  map[string]int32
	}
	// Synced answers Sync.
	Synced struct {
		Attempt uint64
		Answer  SyncGroupResponse
	}
	// HeartbeatAnswered answers Heartbeat.
	HeartbeatAnswered struct {
		Attempt uint64
		Code    int16
	}
	// OffsetsFetched answers FetchOffsets.
	OffsetsFetched struct {
		Attempt uint64
		Answer  OffsetFetchResponse
	}
	// LeaveAnswered answers Leave.
	LeaveAnswered struct {
		Attempt uint64
		Code    int16
	}
	// RequestFailed answers any of them: no usable answer came, within the
	// action's Timeout. What the broker did is unknown unless NotSent.
	RequestFailed struct {
		Attempt uint64
		// NotSent: certainly nothing reached the broker (refused dial, say).
		NotSent bool
		// Reason is for the log.
		Reason string
	}
)

// Everything else that happens.
type (
	// Started begins membership, also again after Left.
	Started struct{}
	// PartitionsChanged tells how many partitions the topic has, 0: it does
	// not exist. Send it whenever metadata was read; only changes do anything.
	// Metadata that could not be read is no event.
	PartitionsChanged struct{ Count int32 }
	// TopicMadeAgain: the topic is another one than that of the partitions
	// held, under the same name. They are Lost, and the group is joined again.
	TopicMadeAgain struct{}
	// CommitAnswered passes on the code of an OffsetCommit, so that an ended
	// generation is seen before the next heartbeat. A generation or member
	// that is not the current one changes nothing and is counted.
	CommitAnswered struct {
		Generation int32
		Member     string
		Code       int16
	}
	// Released: the drain of that number is over; of a Revoke: nothing of
	// these partitions runs and their last commit was sent; of a Suspended: no
	// write runs any more. A stale number changes nothing and is counted.
	Released struct{ Drain uint64 }
	// StopAsked leaves the group at once; what was to be drained, the driver
	// has drained before. Leave: also where the member is static, which
	// otherwise stays in the group for its session timeout so that its next
	// start finds its place again. A second one changes nothing.
	StopAsked struct{ Leave bool }
	// Slept: the driver's loop ran Gap late (a frozen machine, a stopped
	// process). More than a third of the session ends the generation. Tell it
	// before anything else that arrived meanwhile.
	Slept struct{ Gap time.Duration }
	// Ticked only moves time. It is due at the last WakeAt; earlier or more
	// often does no harm.
	Ticked struct{}
)

func (CoordinatorAnswered) event() {}
func (Joined) event()              {}
func (PartitionsCounted) event()   {}
func (Synced) event()              {}
func (HeartbeatAnswered) event()   {}
func (OffsetsFetched) event()      {}
func (LeaveAnswered) event()       {}
func (RequestFailed) event()       {}
func (Started) event()             {}
func (PartitionsChanged) event()   {}
func (TopicMadeAgain) event()      {}
func (CommitAnswered) event()      {}
func (Released) event()            {}
func (StopAsked) event()           {}
func (Slept) event()               {}
func (Ticked) event()              {}

// String is the event's trace text.
func (e CoordinatorAnswered) String() string {
	return fmt.Sprintf("coordinator-answered #%d code=%d node=%d", e.Attempt, e.Answer.ErrorCode, e.Answer.Node)
}

// String is the event's trace text.
func (e Joined) String() string {
	a := e.Answer
	return fmt.Sprintf("joined #%d code=%d generation=%d member=%q leader=%q protocol=%q members=%d",
		e.Attempt, a.ErrorCode, a.Generation, a.Member, a.Leader, a.Protocol, len(a.Members))
}

// String is the event's trace text.
func (e PartitionsCounted) String() string {
	return fmt.Sprintf("partitions-counted #%d %v", e.Attempt, e.Counts)
}

// String is the event's trace text.
func (e Synced) String() string {
	return fmt.Sprintf("synced #%d code=%d assignment=%x", e.Attempt, e.Answer.ErrorCode, e.Answer.Assignment)
}

// String is the event's trace text.
func (e HeartbeatAnswered) String() string {
	return fmt.Sprintf("heartbeat-answered #%d code=%d", e.Attempt, e.Code)
}

// String is the event's trace text.
func (e OffsetsFetched) String() string {
	return fmt.Sprintf("offsets-fetched #%d code=%d %v", e.Attempt, e.Answer.ErrorCode, e.Answer.Topics)
}

// String is the event's trace text.
func (e LeaveAnswered) String() string {
	return fmt.Sprintf("leave-answered #%d code=%d", e.Attempt, e.Code)
}

// String is the event's trace text.
func (e RequestFailed) String() string {
	return fmt.Sprintf("request-failed #%d not-sent=%t %s", e.Attempt, e.NotSent, e.Reason)
}

// String is the event's trace text.
func (Started) String() string { return "started" }

// String is the event's trace text.
func (e PartitionsChanged) String() string { return fmt.Sprintf("partitions-changed %d", e.Count) }

// String is the event's trace text.
func (TopicMadeAgain) String() string { return "topic-made-again" }

// String is the event's trace text.
func (e CommitAnswered) String() string {
	return fmt.Sprintf("commit-answered generation=%d member=%q code=%d", e.Generation, e.Member, e.Code)
}

// String is the event's trace text.
func (e Released) String() string { return fmt.Sprintf("released drain=%d", e.Drain) }

// String is the event's trace text.
func (e StopAsked) String() string { return fmt.Sprintf("stop-asked leave=%t", e.Leave) }

// String is the event's trace text.
func (e Slept) String() string { return fmt.Sprintf("slept %v", e.Gap) }

// String is the event's trace text.
func (Ticked) String() string { return "ticked" }
