package sequence

import (
	"fmt"

	"ankka-flow/delivery"
)

// Partition names one output partition.
type Partition struct {
	Topic string
	Index int32
}

// String is "topic/index".
func (p Partition) String() string { return fmt.Sprintf("%s/%d", p.Topic, p.Index) }

// Piece is what one write has for one output partition, or a share of it that
// fits into one batch.
type Piece struct {
	// Handle names the piece's records to the driver; the machine only gives it
	// back in spans.
	Handle    uint64
	Partition Partition
	// Records is at least 1.
	Records int
	// Bytes is an upper bound of the space the records take in a batch.
	Bytes int
}

// Event is something that happened. The set is sealed; String is the trace
// format of the tests.
type Event interface {
	event()
	String() string
}

// Events about writes. A write begins, gets pieces, and ends; ids are in the
// order in which they begin and never repeat while they are open.
type (
	// Begun opens a write for the records that one inlet batch emits.
	Begun struct {
		Write uint64
		From  delivery.TP
	}
	// Added gives it a piece. For a write that is refused already it is ignored.
	Added struct {
		Write uint64
		Piece Piece
	}
	// Ended: no piece follows. A write without pieces is Written at once.
	Ended struct{ Write uint64 }
	// Hopeless: the rest of the write cannot be sent (its topic does not exist):
	// it is refused with this reason.
	Hopeless struct {
		Write  uint64
		Reason string
	}
	// Withdrawn: nobody wants the write any more (its batch is void, R7). What is
	// certainly not appended is taken back and what may be is settled. It is
	// Written where nothing had to be taken back, otherwise Refused. An unknown
	// id is ignored.
	Withdrawn struct{ Write uint64 }
)

// Events about the batches that were sent. Each Send is answered by exactly one
// of Answered, NoAnswer and NotSent.
type (
	// Answered: the broker answered with an error code, 0 for none. Message is
	// the broker's own text, or empty.
	Answered struct {
		Batch   uint64
		Code    int16
		Message string
	}
	// NoAnswer: the bytes were handed over, at least in part, and no answer came.
	NoAnswer struct {
		Batch  uint64
		Reason string
	}
	// NotSent: no byte was handed over, for certain.
	NotSent struct {
		Batch  uint64
		Reason string
	}
)

// Events about the producer id and time.
type (
	// IDGranted answers NeedID.
	IDGranted struct {
		ID    int64
		Epoch int16
	}
	// IDFailed answers NeedID: it did not work this time.
	IDFailed struct{ Reason string }
	// IDRefused answers NeedID: asking again does not help. Every open write is
	// refused.
	IDRefused struct{ Reason string }
	// RaiseAsked asks for the next epoch. Answered by Raised.
	RaiseAsked struct{}
	// Refreshed: the metadata changed; what waits for a leader is tried at once.
	Refreshed struct{}
	// Ticked only moves time. It is due at Machine.Wake.
	Ticked struct{}
)

func (Begun) event()      {}
func (Added) event()      {}
func (Ended) event()      {}
func (Hopeless) event()   {}
func (Withdrawn) event()  {}
func (Answered) event()   {}
func (NoAnswer) event()   {}
func (NotSent) event()    {}
func (IDGranted) event()  {}
func (IDFailed) event()   {}
func (IDRefused) event()  {}
func (RaiseAsked) event() {}
func (Refreshed) event()  {}
func (Ticked) event()     {}

func (e Begun) String() string {
	return fmt.Sprintf("Begun write=%d from=%s/%d", e.Write, e.From.Inlet, e.From.Partition)
}
func (e Added) String() string {
	return fmt.Sprintf("Added write=%d piece=%d to=%s records=%d bytes=%d", e.Write, e.Piece.Handle, e.Piece.Partition, e.Piece.Records, e.Piece.Bytes)
}
func (e Ended) String() string     { return fmt.Sprintf("Ended write=%d", e.Write) }
func (e Hopeless) String() string  { return fmt.Sprintf("Hopeless write=%d %q", e.Write, e.Reason) }
func (e Withdrawn) String() string { return fmt.Sprintf("Withdrawn write=%d", e.Write) }
func (e Answered) String() string  { return fmt.Sprintf("Answered batch=%d code=%d", e.Batch, e.Code) }
func (e NoAnswer) String() string  { return fmt.Sprintf("NoAnswer batch=%d", e.Batch) }
func (e NotSent) String() string   { return fmt.Sprintf("NotSent batch=%d", e.Batch) }
func (e IDGranted) String() string {
	return fmt.Sprintf("IDGranted id=%d epoch=%d", e.ID, e.Epoch)
}
func (e IDFailed) String() string  { return fmt.Sprintf("IDFailed %q", e.Reason) }
func (e IDRefused) String() string { return fmt.Sprintf("IDRefused %q", e.Reason) }
func (RaiseAsked) String() string  { return "RaiseAsked" }
func (Refreshed) String() string   { return "Refreshed" }
func (Ticked) String() string      { return "Ticked" }
