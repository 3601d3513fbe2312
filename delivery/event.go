package delivery

import "time"

// TP names one inlet partition.
type TP struct {
	// Inlet is the port's name, not the topic's.
	Inlet     string
	Partition int32
}

// Event is something that happened, told to the core by Core.Step. The set is
// sealed. Events name what they belong to (process, generation, batch, commit
// sequence); one that belongs to something that is over changes nothing and is
// counted (R12). String is the trace format of the tests.
type Event interface {
	event()
	String() string
}

// Start is where a partition begins.
type Start struct {
	Partition int32
	// Offset is the committed offset, or the one looked up.
	Offset int64
	// LookedUp says that nothing was committed: Offset is the log's start (or
	// end, by configuration), and is committed before the first delivery (R11).
	LookedUp bool
}

// Broker events.
type (
	// Assigned starts a generation of an inlet's group, also an empty one.
	// Starts has the partitions that this member did not hold undisturbed
	// until now; one that stayed through a cooperative rebalance is not in it
	// and only learns the new generation number. After Suspended every
	// partition that was given back is in it, and those that are not are lost.
	Assigned struct {
		Inlet      string
		Generation int32
		// Continues: the same member and the number right after the last (R7).
		Continues bool
		Starts    []Start
	}
	// Revoked takes partitions away in a cooperative rebalance. The generation
	// lives on and commits are still accepted until Deadline, when Release is
	// due at the latest.
	Revoked struct {
		Inlet      string
		Partitions []int32
		Deadline   time.Duration
	}
	// Suspended ends an inlet's generation: no write starts and no commit is
	// sent until the next Assigned or Lost (R7).
	Suspended struct{ Inlet string }
	// Lost ends membership: the partitions are somebody else's (R7).
	Lost struct{ Inlet string }
	// Fetched says that there may be something to cut at the partition's
	// position. It is a hint: a stale one costs an empty Cut.
	Fetched struct{ TP TP }
	// FetchFailed reports an error at the partition's position. Blocked means
	// that it will not heal by itself: an offset outside the log (R11).
	FetchFailed struct {
		TP      TP
		Reason  string
		Blocked bool
	}
	// Written confirms every emit of a batch (R1).
	Written struct{ ID uint64 }
	// WriteUnknown says that a batch's write may or may not have happened and
	// is being settled; Written, Refused or Unsettled follows (R9).
	WriteUnknown struct {
		ID     uint64
		Reason string
	}
	// Refused: nothing more of this batch's write will be appended; part of it
	// may have been. Accused has every inlet partition with records in the
	// refused bytes. Said: people were told the reason by whoever writes, so
	// that the failure needs no line of its own; it changes nothing here.
	Refused struct {
		ID      uint64
		Reason  string
		Accused []TP
		Said    bool
	}
	// Unsettled: whether the write happened cannot be known, and the epoch has
	// to be raised before anything else is written (R9).
	Unsettled struct {
		ID     uint64
		Reason string
	}
	// EpochRaised answers RaiseEpoch.
	EpochRaised struct{}
	// Committed answers Commit, by its Sequence.
	Committed struct {
		Inlet    string
		Sequence uint64
		Outcome  CommitOutcome
		// Reason is empty when Outcome is CommitDone. Said as in Refused.
		Reason string
		Said   bool
	}
)

// CommitOutcome is what became of a commit.
type CommitOutcome uint8

// The outcomes of a commit. CommitRetry and CommitStale are no failures: the
// newest value is sent again, in the same generation or not at all (R7).
const (
	CommitDone CommitOutcome = iota
	CommitRetry
	CommitStale
	CommitRefused
)

// Process events. Process counts launches from 1.
type (
	// Launched answers Launch.
	Launched struct {
		Process uint64
		PID     int
	}
	// LaunchFailed answers Launch. Code is 126 or 127.
	LaunchFailed struct {
		Process uint64
		Reason  string
		Code    int
	}
	// SpecGood: discovery was answered, the version fits and nothing differs.
	SpecGood struct {
		Process         uint64
		Inlets, Outlets []string
		// MaxInFlight is the number of batches it wants at once; 0 means 32.
		MaxInFlight int
	}
	// SpecRefused: discovery was answered and the answer cannot be accepted.
	SpecRefused struct {
		Process  uint64
		Problems []string
	}
	// Cut answers Deliver at once, before any other event: the batch holds
	// Records records (Bytes bytes of keys, values and headers) and covers the
	// offsets from the position of Deliver to Next, exclusive, ranges without
	// records included. First is the offset of the first record, by which it is
	// named; without records it is the position. Records 0 with Next behind the
	// position is a range without records; with Next there, there was nothing yet.
	// More: something further is at hand.
	Cut struct {
		ID             uint64
		First, Next    int64
		Records, Bytes int
		More           bool
	}
	// Oversized answers Deliver in place of Cut: the first record at the
	// position is over the protocol's limit.
	Oversized struct {
		ID     uint64
		Offset int64
		Size   int
	}
	// Withdrawn answers Withdraw: no byte of the batch was or will be sent.
	Withdrawn struct{ Process, ID uint64 }
	// Emitted is an emit or a forward of Records records. Bytes is what holding
	// them takes, more than nothing for empty ones too (R10).
	Emitted struct {
		Process, ID    uint64
		Outlet         string
		Records, Bytes int
		// Forward: it was a forward, for whoever reads of a breach.
		Forward bool
	}
	// Acked is the process's ack.
	Acked struct{ Process, ID uint64 }
	// Failed is the process's fail. Offset is -1 where it named none.
	Failed struct {
		Process, ID uint64
		Message     string
		Offset      int64
	}
	// Statused is the process's status.
	Statused struct {
		Process, ID uint64
		Waiting     bool
		// Error is the process's last error on that batch, or empty.
		Error string
	}
	// StoppedByProcess is the process's stopped.
	StoppedByProcess struct{ Process uint64 }
	// Violated: the process broke the protocol in a way that the driver saw: a
	// frame that cannot be read or a message out of place.
	Violated struct {
		Process uint64
		Reason  string
		// ID is the batch that the violation names, or 0.
		ID uint64
	}
	// OutputClosed: the process closed its stdout. Where its Exited does not
	// follow within a second it fails the stream and the process is killed.
	OutputClosed struct{ Process uint64 }
	// Unreachable: the process is frozen, by the rules of liveness.
	Unreachable struct {
		Process uint64
		Reason  string
	}
	// Exited: the process is gone and everything it wrote has been told.
	Exited struct {
		Process uint64
		Reason  string
		// Code is its exit code, or 128 + n for a signal.
		Code int
	}
)

// Control events.
type (
	// StopAsked begins the stop; a second one changes nothing.
	StopAsked struct{ Reason string }
	// ReloadAsked replaces the process by a new one. Under Config.Attach it says
	// that one has come, and that there is no other any more.
	ReloadAsked struct{ Reason string }
	// Ticked only moves time. It is due at Core.Wake.
	Ticked struct{}
)

func (Assigned) event()         {}
func (Revoked) event()          {}
func (Suspended) event()        {}
func (Lost) event()             {}
func (Fetched) event()          {}
func (FetchFailed) event()      {}
func (Written) event()          {}
func (WriteUnknown) event()     {}
func (Refused) event()          {}
func (Unsettled) event()        {}
func (EpochRaised) event()      {}
func (Committed) event()        {}
func (Launched) event()         {}
func (LaunchFailed) event()     {}
func (SpecGood) event()         {}
func (SpecRefused) event()      {}
func (Cut) event()              {}
func (Oversized) event()        {}
func (Withdrawn) event()        {}
func (Emitted) event()          {}
func (Acked) event()            {}
func (Failed) event()           {}
func (Statused) event()         {}
func (StoppedByProcess) event() {}
func (Violated) event()         {}
func (OutputClosed) event()     {}
func (Unreachable) event()      {}
func (Exited) event()           {}
func (StopAsked) event()        {}
func (ReloadAsked) event()      {}
func (Ticked) event()           {}

// String is the trace format: see trace.
func (x Assigned) String() string { return trace(x) }

// String is the trace format: see trace.
func (x Revoked) String() string { return trace(x) }

// String is the trace format: see trace.
func (x Suspended) String() string { return trace(x) }

// String is the trace format: see trace.
func (x Lost) String() string { return trace(x) }

// String is the trace format: see trace.
func (x Fetched) String() string { return trace(x) }

// String is the trace format: see trace.
func (x FetchFailed) String() string { return trace(x) }

// String is the trace format: see trace.
func (x Written) String() string { return trace(x) }

// String is the trace format: see trace.
func (x WriteUnknown) String() string { return trace(x) }

// String is the trace format: see trace.
func (x Refused) String() string { return trace(x) }

// String is the trace format: see trace.
func (x Unsettled) String() string { return trace(x) }

// String is the trace format: see trace.
func (x EpochRaised) String() string { return trace(x) }

// String is the trace format: see trace.
func (x Committed) String() string { return trace(x) }

// String is the trace format: see trace.
func (x Launched) String() string { return trace(x) }

// String is the trace format: see trace.
func (x LaunchFailed) String() string { return trace(x) }

// String is the trace format: see trace.
func (x SpecGood) String() string { return trace(x) }

// String is the trace format: see trace.
func (x SpecRefused) String() string { return trace(x) }

// String is the trace format: see trace.
func (x Cut) String() string { return trace(x) }

// String is the trace format: see trace.
func (x Oversized) String() string { return trace(x) }

// String is the trace format: see trace.
func (x Withdrawn) String() string { return trace(x) }

// String is the trace format: see trace.
func (x Emitted) String() string { return trace(x) }

// String is the trace format: see trace.
func (x Acked) String() string { return trace(x) }

// String is the trace format: see trace.
func (x Failed) String() string { return trace(x) }

// String is the trace format: see trace.
func (x Statused) String() string { return trace(x) }

// String is the trace format: see trace.
func (x StoppedByProcess) String() string { return trace(x) }

// String is the trace format: see trace.
func (x Violated) String() string { return trace(x) }

// String is the trace format: see trace.
func (x OutputClosed) String() string { return trace(x) }

// String is the trace format: see trace.
func (x Unreachable) String() string { return trace(x) }

// String is the trace format: see trace.
func (x Exited) String() string { return trace(x) }

// String is the trace format: see trace.
func (x StopAsked) String() string { return trace(x) }

// String is the trace format: see trace.
func (x ReloadAsked) String() string { return trace(x) }

// String is the trace format: see trace.
func (x Ticked) String() string { return trace(x) }
