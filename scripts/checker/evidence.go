package checker

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Stream is one streamlet's work: a group that reads an inlet and writes
// outlets.
type Stream struct {
	// Group is the consumer group, Inlet the topic that it reads.
	Group, Inlet string
	Outlets      []Outlet
}

// Outlet is a topic that a stream writes.
type Outlet struct {
	Topic string
	// Partitions is how many the topic has; keys are placed by them.
	Partitions int
	// Expect is what must be written for a record of the inlet, in order;
	// nothing where none is due. Records are told apart by ID.
	Expect func(in *kgo.Record) []*kgo.Record
}

// ID tells the records of one outlet apart: the values of their headers "n", the
// number of the input, and "part", where an input gives several.
func ID(r *kgo.Record) string {
	id := ""
	for _, h := range r.Headers {
		switch h.Key {
		case "n":
			if id == "" {
				id = string(h.Value)
			}
		case "part":
			id += "/" + string(h.Value)
		}
	}
	return id
}

// Logs has the records of topics by partition, in log order.
type Logs map[string]map[int32][]*kgo.Record

// Commit is one offset as the group's coordinator took it.
type Commit struct {
	Group, Topic string
	Partition    int32
	// Offset is the next one to read.
	Offset int64
	// At is the coordinator's clock, in milliseconds since 1970.
	At int64
	// Log is where the commit stands in the log of commits.
	Log int64
	// Asked: it was seen on its way to the coordinator, and whether it was taken
	// is not known. It is judged for early and beyond alone.
	Asked bool
	// Ends, where known, is what the outlets' logs held when the commit was
	// seen, by topic and partition. Then they, and not the clock, say which of
	// an output and the commit came first.
	Ends map[string]map[int32]int64
}

// follows is whether the commit was taken after a record was appended.
func (c *Commit) follows(r *kgo.Record) bool {
	if c.Ends != nil {
		return r.Offset < c.Ends[r.Topic][r.Partition]
	}
	return c.At > appended(r)
}

// precedes is whether a record was appended after the commit.
func (c *Commit) precedes(r *kgo.Record) bool {
	if c.Ends != nil {
		return r.Offset >= c.Ends[r.Topic][r.Partition]
	}
	return appended(r) > c.At
}

// Evidence is everything that is judged.
type Evidence struct {
	Logs Logs
	// Commits of a group stand in the order in which they were taken.
	Commits []Commit
}

// Kind is the rule that a violation breaks; doc.go has them.
type Kind string

// The kinds of violation.
const (
	Bytes   Kind = "bytes"
	Order   Kind = "order"
	Lost    Kind = "lost"
	Skipped Kind = "skipped"
	Early   Kind = "early"
	Back    Kind = "back"
	Beyond  Kind = "beyond"
	Again   Kind = "again"
	// late is the kind of what is in Report.Late: allowed, and told.
	late Kind = "late"
)

// Violation is one broken rule, and where. Topic, Partition and Offset name the
// record in an outlet's log for bytes, order and again, in the inlet's
// for the others.
type Violation struct {
	Kind      Kind
	Group     string
	Topic     string
	Partition int32
	Offset    int64
	Text      string
}

func (v Violation) String() string {
	return fmt.Sprintf("%s: %s: %s/%d@%d: %s", v.Kind, v.Group, v.Topic, v.Partition, v.Offset, v.Text)
}

// Report is what Check found.
type Report struct {
	// Violations are all of them, in no order that matters.
	Violations []Violation
	// Inputs counts the records of the inlets, each once for every stream; Due
	// the records that they call for, Written those in the outlets' logs.
	Inputs, Due, Written int
	// Repeats counts records that were written before.
	Repeats int
	// Late are the repeats that came through the window without a fence.
	Late []Violation
	// Commits counts the offsets that were committed.
	Commits int
}
