package delivery

// Action is something for the driver to do. The set is sealed. Actions are
// carried out in the order given; what takes time is answered by the event that
// each comment names. String is the trace format of the tests.
type Action interface {
	action()
	String() string
}

// Actions on the process.
type (
	// Launch starts the process. Answered by Launched or LaunchFailed.
	Launch struct{ Process uint64 }
	// Discover asks it to describe itself. Answered by SpecGood or
	// SpecRefused.
	Discover struct{ Process uint64 }
	// Refuse tells it every problem. It is killed by a later action.
	Refuse struct {
		Process  uint64
		Problems []string
	}
	// Begin opens a conversation (the protocol's start).
	Begin struct{ Process, Conversation uint64 }
	// Deliver cuts a batch at the partition's position and sends it. Answered
	// at once by Cut or Oversized, before anything else.
	Deliver struct {
		Process, ID uint64
		TP          TP
		// Offset is the partition's position, where the batch begins.
		Offset int64
		// Attempt is info.attempt of the protocol.
		Attempt int
		// MaxRecords and MaxBytes bound it; one record larger than MaxBytes
		// goes alone.
		MaxRecords, MaxBytes int
	}
	// Withdraw takes a batch back. Where no byte of it was sent, it is
	// answered by Withdrawn at once. Otherwise, when Revoke is set, revoke is
	// sent; the process's answer or its exit frees the partition (R3).
	Withdraw struct {
		Process, ID uint64
		Revoke      bool
	}
	// Stop ends the conversation (the protocol's stop). Answered by
	// StoppedByProcess.
	Stop struct {
		Process uint64
		Abandon bool
		Reason  string
	}
	// CloseInput closes the process's stdin. Answered by Exited.
	CloseInput struct{ Process uint64 }
	// Terminate sends SIGTERM to the process's group.
	Terminate struct{ Process uint64 }
	// Kill sends SIGKILL to the process's group. Answered by Exited.
	Kill struct {
		Process uint64
		Reason  string
	}
)

// Actions on what a batch holds.
type (
	// Hold keeps the emit that the event just stepped brought. Without it the
	// emit is dropped.
	Hold struct{ ID uint64 }
	// Drop forgets the batch's records and held emits, for ever.
	Drop struct{ ID uint64 }
)

// Actions on the broker.
type (
	// Subscribe joins an inlet's group. Answered by Assigned, again and again.
	Subscribe struct{ Inlet string }
	// Leave leaves an inlet's group.
	Leave struct{ Inlet string }
	// Release lets go of revoked partitions: nothing of them is running.
	// Without partitions it answers Suspended: no write of the inlet runs, and
	// the next generation may be joined.
	Release struct {
		Inlet      string
		Partitions []int32
	}
	// Seek fetches the partition from Offset on; what was prefetched is
	// dropped. Answered by Fetched when there is something.
	Seek struct {
		TP     TP
		Offset int64
	}
	// Pause stops fetching the partition and drops its prefetch, until Seek.
	Pause struct{ TP TP }
	// Write writes the batch's held emits, in their order. Every emit must be
	// confirmed (acks=all) before it is answered by Written (R1); or by
	// WriteUnknown and then, like otherwise, Written, Refused or Unsettled.
	// The driver drops the batch's records and emits with the last answer.
	Write struct{ ID uint64 }
	// CancelWrite keeps what of a running write was certainly not appended from
	// being sent: its batch is void (R7). The write is answered as otherwise.
	CancelWrite struct{ ID uint64 }
	// RaiseEpoch raises the producer's epoch as soon as nothing is in flight or
	// unknown. Writes that run may be answered before it or after it; those of
	// which nothing was appended go out under the new epoch. Answered by
	// EpochRaised (R9).
	RaiseEpoch struct{}
	// Commit commits offsets: positions of the next record to read. Answered
	// by Committed. At most one is outstanding per inlet.
	Commit struct {
		Inlet      string
		Generation int32
		Sequence   uint64
		Offsets    []PartitionOffset
	}
)

// PartitionOffset is one offset of a commit.
type PartitionOffset struct {
	Partition int32
	Offset    int64
}

// Actions on the world outside.
type (
	// Note says something to people; it asks for nothing.
	Note struct {
		Kind NoteKind
		// TP is the partition it is about; the zero TP means none.
		TP   TP
		Text string
		// Of NoteConvicted: where what failed begins, how often it did, and how it
		// did the last time.
		Offset int64
		Tries  int
		Error  string
	}
	// Exit ends the supervisor with this code; nothing follows it.
	Exit struct {
		Code   int
		Reason string
	}
)

// NoteKind says what a Note is about.
type NoteKind uint8

// The kinds of notes. The driver gives each its log level.
const (
	// NoteReady: the conversation runs and every inlet is subscribed.
	NoteReady NoteKind = iota
	// NoteFailed: the stream failed; Text has the reason.
	NoteFailed
	// NoteWaiting: what the supervisor waits for, and how long.
	NoteWaiting
	// NoteStopping: the stop has begun or got further.
	NoteStopping
	// NoteReloading: the process is being replaced.
	NoteReloading
	// NotePartition: a partition was assigned, revoked, suspended or lost, or
	// cannot go on; TP or Text says which.
	NotePartition
	// NoteProcess: the process was launched, killed or exited.
	NoteProcess
	// NoteConvicted: it is known whose failure it was; Text names partition and
	// offset, how often it failed there and when it is tried again.
	NoteConvicted
	// NoteAccused: one of several batches failed the stream; Text names them all,
	// and what finds out which it was.
	NoteAccused
	// NoteAcquitted: a convict has committed past what failed.
	NoteAcquitted
)

func (Launch) action()      {}
func (Discover) action()    {}
func (Refuse) action()      {}
func (Begin) action()       {}
func (Deliver) action()     {}
func (Withdraw) action()    {}
func (Stop) action()        {}
func (CloseInput) action()  {}
func (Terminate) action()   {}
func (Kill) action()        {}
func (Hold) action()        {}
func (Drop) action()        {}
func (Subscribe) action()   {}
func (Leave) action()       {}
func (Release) action()     {}
func (Seek) action()        {}
func (Pause) action()       {}
func (Write) action()       {}
func (CancelWrite) action() {}
func (RaiseEpoch) action()  {}
func (Commit) action()      {}
func (Note) action()        {}
func (Exit) action()        {}

// String is the trace format: see trace.
func (x Launch) String() string { return trace(x) }

// String is the trace format: see trace.
func (x Discover) String() string { return trace(x) }

// String is the trace format: see trace.
func (x Refuse) String() string { return trace(x) }

// String is the trace format: see trace.
func (x Begin) String() string { return trace(x) }

// String is the trace format: see trace.
func (x Deliver) String() string { return trace(x) }

// String is the trace format: see trace.
func (x Withdraw) String() string { return trace(x) }

// String is the trace format: see trace.
func (x Stop) String() string { return trace(x) }

// String is the trace format: see trace.
func (x CloseInput) String() string { return trace(x) }

// String is the trace format: see trace.
func (x Terminate) String() string { return trace(x) }

// String is the trace format: see trace.
func (x Kill) String() string { return trace(x) }

// String is the trace format: see trace.
func (x Hold) String() string { return trace(x) }

// String is the trace format: see trace.
func (x Drop) String() string { return trace(x) }

// String is the trace format: see trace.
func (x Subscribe) String() string { return trace(x) }

// String is the trace format: see trace.
func (x Leave) String() string { return trace(x) }

// String is the trace format: see trace.
func (x Release) String() string { return trace(x) }

// String is the trace format: see trace.
func (x Seek) String() string { return trace(x) }

// String is the trace format: see trace.
func (x Pause) String() string { return trace(x) }

// String is the trace format: see trace.
func (x Write) String() string { return trace(x) }

// String is the trace format: see trace.
func (x CancelWrite) String() string { return trace(x) }

// String is the trace format: see trace.
func (x RaiseEpoch) String() string { return trace(x) }

// String is the trace format: see trace.
func (x Commit) String() string { return trace(x) }

// String is the trace format: see trace.
func (x Note) String() string { return trace(x) }

// String is the trace format: see trace.
func (x Exit) String() string { return trace(x) }
