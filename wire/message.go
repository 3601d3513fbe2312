package wire

import (
	"time"

	"ankka-flow/delivery/record"
)

// Message is what stands in one frame. It is sealed: the types of this file are
// all there are, and Kind is the first element of the frame's array.
type Message interface {
	// Kind is the message's name on the wire, as "batch".
	Kind() string
	sealed()
}

// The kinds, as they stand on the wire.
const (
	KindDiscover = "discover"
	KindRefuse   = "refuse"
	KindStart    = "start"
	KindBatch    = "batch"
	KindRevoke   = "revoke"
	KindPing     = "ping"
	KindStop     = "stop"

	KindSpec    = "spec"
	KindEmit    = "emit"
	KindForward = "forward"
	KindAck     = "ack"
	KindFail    = "fail"
	KindStatus  = "status"
	KindReport  = "report"
	KindLog     = "log"
	KindPong    = "pong"
	KindStopped = "stopped"
)

// Discover asks the process to describe itself; it is answered by Spec. It comes
// first in a process's life and after Stopped.
type Discover struct {
	Protocol   string // the supervisor's protocol version, MAJOR.MINOR
	Supervisor string // the supervisor's own version, free text
	// MaxFrameBytes and MaxRecordBytes are MaxFrame and MaxRecord of the
	// supervisor, in bytes.
	MaxFrameBytes  int
	MaxRecordBytes int
}

// Refuse tells the process every problem found with its Spec, so that they
// appear in its own log. The process exits; it is killed after 5 s.
type Refuse struct {
	Problems []string
}

// Start begins a conversation.
type Start struct {
	Conversation uint64 // rises with every conversation of the supervisor
	Instance     int    // which of several processes of one supervisor, from 0
	Pipeline     string
	Streamlet    string
	// Config has every declared parameter resolved: int64 (whole numbers,
	// durations in milliseconds, sizes in bytes), float64 (also a duration that
	// is no whole number of milliseconds), bool or string. See ResolveConfig.
	Config map[string]any
	// Errors are the error-handling settings that the configuration sets.
	Errors map[string]string
	// Inlets and Outlets map a port's name to its topic.
	Inlets  map[string]string
	Outlets map[string]string
}

// Batch delivers records of one inlet partition, in offset order. It is never
// empty. The hot path writes it with BatchEncoder instead.
type Batch struct {
	ID        uint64
	Inlet     string
	Partition int32
	Records   []record.Record
	// Attempt is which delivery this is of the first record, from 1, since the
	// partition's last commit: a hint. 0 on a parsed message: not said.
	Attempt int
}

// Revoke makes a batch void: its one answer is still owed, and is dropped.
type Revoke struct {
	ID uint64
}

// Ping asks for a Pong with the same N.
type Ping struct {
	N uint64
}

// StopMode is how a conversation ends.
type StopMode uint8

const (
	// Finish: answer every batch that is not void, then Stopped.
	Finish StopMode = iota
	// Abandon: the batches in flight are void; answer Stopped at once.
	Abandon
)

// String is the mode's name on the wire.
func (m StopMode) String() string {
	if m == Abandon {
		return "abandon"
	}
	return "finish"
}

// Stop ends the conversation, not the process.
type Stop struct {
	Mode   StopMode
	Reason string // text for the process's log
}

// Capabilities are what a process says it can do. Their zero value is not their
// default: see DefaultCapabilities.
type Capabilities struct {
	// Ping: it answers Ping with Pong. Default false: it is never judged
	// unreachable.
	Ping bool
	// MaxInFlight is how many batches may be with it at once, at least 1.
	// Default DefaultMaxInFlight.
	MaxInFlight int
	// Errors: it applies the settings of Start.Errors. Default false.
	Errors bool
}

// DefaultCapabilities are those of a process that names none.
func DefaultCapabilities() Capabilities {
	return Capabilities{MaxInFlight: DefaultMaxInFlight}
}

// Spec answers Discover. The descriptor is as the process sent it, not judged:
// Descriptor.Validate, Differences and CheckVersion do that.
type Spec struct {
	Descriptor   Descriptor
	Capabilities Capabilities
}

// Emit adds records to what a batch will write to an outlet when it is acked.
type Emit struct {
	ID     uint64
	Outlet string
	// Records alias the frame. None is over MaxRecord.
	Records RawRecords
}

// Forward emits records of the batch itself, unchanged, stamped now.
type Forward struct {
	ID     uint64
	Outlet string
	// All: every record of the batch, in order; Indexes is nil.
	All bool
	// Indexes are places in the batch's records, from 0, repeats allowed. None
	// is negative; the caller, who knows the batch, refuses one past its end
	// with IndexOutOfRange.
	Indexes []int
}

// Ack answers a batch: write its emits, then commit it.
type Ack struct {
	ID uint64
}

// Fail answers a batch: fail the stream. Its texts are cut at MaxText.
type Fail struct {
	ID      uint64
	Message string
	// Offset names the record, where HasOffset.
	Offset    int64
	HasOffset bool
	// KindName is the failure's kind, an exception's class say (`kind` on the
	// wire).
	KindName string
	Detail   string // a longer text, a traceback say
}

// Status says that the process still works at a batch. An unknown ID is ignored.
type Status struct {
	ID uint64
	// Offset is that of the record at hand, where HasOffset.
	Offset    int64
	HasOffset bool
	Attempt   int  // of that record, from 1; 0: not said
	Waiting   bool // holds until the next status or the answer
	// NextAttempt is how long from now it will try again; 0: not said.
	NextAttempt time.Duration
	Error       string
}

// Series is one number of a report.
type Series struct {
	Name string
	// Gauge: Value is a level. Otherwise it is a counter's increment and not
	// negative.
	Gauge  bool
	Labels map[string]string
	Value  float64 // finite
}

// Report carries metrics of the process; with an ID they count when that batch
// commits. At most MaxSeries.
type Report struct {
	ID     uint64
	HasID  bool
	Series []Series
}

// Level is how grave a Log is.
type Level uint8

// The levels of a Log, rising.
const (
	LevelDebug Level = iota
	LevelInfo
	LevelWarn
	LevelError
)

// String is the level's name on the wire.
func (l Level) String() string {
	return [...]string{"debug", "info", "warn", "error"}[l&3]
}

// Log is a structured log record of the process.
type Log struct {
	// Level is LevelInfo where the process gave a text that is no level: a log
	// line is not worth a stream.
	Level   Level
	Message string
	// Fields are string, int64, float64 or bool.
	Fields map[string]any
}

// Pong answers Ping.
type Pong struct {
	N uint64
}

// Stopped ends the conversation.
type Stopped struct{}

// Kind names the message on the wire.
func (Discover) Kind() string { return KindDiscover }

// Kind names the message on the wire.
func (Refuse) Kind() string { return KindRefuse }

// Kind names the message on the wire.
func (Start) Kind() string { return KindStart }

// Kind names the message on the wire.
func (Batch) Kind() string { return KindBatch }

// Kind names the message on the wire.
func (Revoke) Kind() string { return KindRevoke }

// Kind names the message on the wire.
func (Ping) Kind() string { return KindPing }

// Kind names the message on the wire.
func (Stop) Kind() string { return KindStop }

// Kind names the message on the wire.
func (Spec) Kind() string { return KindSpec }

// Kind names the message on the wire.
func (Emit) Kind() string { return KindEmit }

// Kind names the message on the wire.
func (Forward) Kind() string { return KindForward }

// Kind names the message on the wire.
func (Ack) Kind() string { return KindAck }

// Kind names the message on the wire.
func (Fail) Kind() string { return KindFail }

// Kind names the message on the wire.
func (Status) Kind() string { return KindStatus }

// Kind names the message on the wire.
func (Report) Kind() string { return KindReport }

// Kind names the message on the wire.
func (Log) Kind() string { return KindLog }

// Kind names the message on the wire.
func (Pong) Kind() string { return KindPong }

// Kind names the message on the wire.
func (Stopped) Kind() string { return KindStopped }

func (Discover) sealed() {}
func (Refuse) sealed()   {}
func (Start) sealed()    {}
func (Batch) sealed()    {}
func (Revoke) sealed()   {}
func (Ping) sealed()     {}
func (Stop) sealed()     {}
func (Spec) sealed()     {}
func (Emit) sealed()     {}
func (Forward) sealed()  {}
func (Ack) sealed()      {}
func (Fail) sealed()     {}
func (Status) sealed()   {}
func (Report) sealed()   {}
func (Log) sealed()      {}
func (Pong) sealed()     {}
func (Stopped) sealed()  {}
