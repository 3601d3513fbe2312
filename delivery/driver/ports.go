package driver

import (
	"context"
	"time"

	"ankka-flow/delivery"
	"ankka-flow/delivery/kafka"
	"ankka-flow/delivery/record"
	"ankka-flow/supervisor"
)

// Process is one launched process: *supervisor.Process, or a scripted one in a
// test. No method blocks.
type Process interface {
	Events() <-chan supervisor.Event
	Control(frame []byte)
	Data(id uint64, frame []byte)
	Withdraw(id uint64) bool
	CloseInput()
	Terminate()
	Kill()
	Pid() int
	SpeaksPing()
}

// Inlet is the membership and the fetching of one inlet: *kafka.Consumer. No
// method but Leave and Close blocks.
type Inlet interface {
	Commit(delivery.Commit)
	Release(partitions []int32)
	Seek(partition int32, offset int64)
	Pause(partition int32)
	// Cut takes the records at the partition's position; they alias memory
	// that lives as long as they do. first and next are the offsets covered,
	// ranges without records included; more says that something is left.
	Cut(partition int32, dst []record.Record, maxRecords, maxBytes int) (records []record.Record, first, next int64, more bool, err error)
	// CutBack gives back what a Cut took from this offset on.
	CutBack(partition int32, offset int64)
	Ends() map[int32]kafka.End
	// Sleeps is how often the membership has found that it did not run for
	// longer than it meant to (the program was stopped, the machine slept), and
	// has told the end of its generation; now: it is about to find that again.
	// Until it has told, nothing may be started for the inlet.
	Sleeps() (n uint64, now bool)
	// Leave leaves the group and ends everything; Close only ends it, so that
	// a static member finds its partitions again.
	Leave(ctx context.Context) error
	Close()
}

// Producer writes: *kafka.Producer. No method but Close blocks.
type Producer interface {
	Write(id uint64, from delivery.TP, outs []kafka.Out)
	// Withdraw keeps what of a write was certainly not appended from being
	// sent. The write is answered as otherwise.
	Withdraw(id uint64)
	RaiseEpoch()
	Close(ctx context.Context) error
}

// Broker is what the loop needs of Kafka. The events of an Inlet and of the
// Producer come through sink, from goroutines of their own.
type Broker interface {
	// Prepare makes sure that what a plan needs is there, before anything is
	// read or written: topics on an embedded broker, the file of --input, the
	// end offsets of --until-end. It tries until ctx ends; an error is final
	// and ends the run.
	Prepare(ctx context.Context, plan *Plan) error
	// Consume reads an inlet; now is the core's clock, in which the deadline of
	// a Revoked is given. It may be called from any goroutine.
	Consume(in PlannedInlet, now func() time.Duration, sink func(delivery.Event)) Inlet
	Produce(sink func(delivery.Event)) Producer
}
