package sequence

import (
	"fmt"

	"ankka-flow/delivery"
)

// Span is a run of records of one piece: From to To, exclusive.
type Span struct {
	Handle   uint64
	From, To int
}

// Action is something for the driver to do, in the order given. The set is
// sealed; String is the trace format of the tests.
type Action interface {
	action()
	String() string
}

// Actions towards the broker.
type (
	// Send sends a batch to its partition's leader, behind every batch of that
	// partition sent before and on the same connection while one of those is
	// unanswered. Answered by Answered, NoAnswer or NotSent.
	Send struct {
		Batch     uint64
		Partition Partition
		ID        int64
		Epoch     int16
		Sequence  int32
		// Spans are the batch's records; nil says that the bytes sent last for
		// this batch go out again, identical. The driver does not change them.
		Spans   []Span
		Records int
		// Bytes is about what the records take.
		Bytes int
	}
	// Forget: the batch's bytes are not needed any more. It is not in flight.
	Forget struct{ Batch uint64 }
	// Refresh asks for new metadata of a topic.
	Refresh struct{ Topic string }
	// NeedID asks for a new producer id (InitProducerId, no transactional id).
	NeedID struct{}
)

// Actions towards the core of delivery. Exactly one of Written, Refused and
// Unsettled is the last for each write; its records are not needed any more.
type (
	// Written: every record of it is confirmed (R1).
	Written struct{ Write uint64 }
	// Unknown: part of it may or may not be written. Said once a write.
	Unknown struct {
		Write  uint64
		Reason string
	}
	// Refused: nothing more of it will be appended.
	Refused struct {
		Write   uint64
		Reason  string
		Accused []delivery.TP
	}
	// Unsettled: whether it was written cannot be known, and nothing new is sent
	// until RaiseAsked.
	Unsettled struct {
		Write  uint64
		Reason string
	}
	// Raised answers RaiseAsked.
	Raised struct{}
)

func (Send) action()      {}
func (Forget) action()    {}
func (Refresh) action()   {}
func (NeedID) action()    {}
func (Written) action()   {}
func (Unknown) action()   {}
func (Refused) action()   {}
func (Unsettled) action() {}
func (Raised) action()    {}

func (a Send) String() string {
	how := fmt.Sprint(a.Spans)
	if a.Spans == nil {
		how = "again"
	}
	return fmt.Sprintf("Send batch=%d to=%s id=%d epoch=%d seq=%d records=%d %s", a.Batch, a.Partition, a.ID, a.Epoch, a.Sequence, a.Records, how)
}
func (a Forget) String() string  { return fmt.Sprintf("Forget batch=%d", a.Batch) }
func (a Refresh) String() string { return "Refresh " + a.Topic }
func (NeedID) String() string    { return "NeedID" }
func (a Written) String() string { return fmt.Sprintf("Written write=%d", a.Write) }
func (a Unknown) String() string { return fmt.Sprintf("Unknown write=%d %q", a.Write, a.Reason) }
func (a Refused) String() string {
	return fmt.Sprintf("Refused write=%d %q %v", a.Write, a.Reason, a.Accused)
}
func (a Unsettled) String() string { return fmt.Sprintf("Unsettled write=%d %q", a.Write, a.Reason) }
func (Raised) String() string      { return "Raised" }
