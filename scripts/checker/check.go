package checker

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Check judges the streams by the evidence.
func Check(streams []Stream, e Evidence) *Report {
	report := &Report{}
	for _, s := range streams {
		c := newCheck(s, e, report)
		for _, outlet := range s.Outlets {
			c.outlet(outlet)
		}
	}
	return report
}

// check is the judging of one stream.
type check struct {
	Stream
	report *Report
	logs   Logs
	inputs map[int32][]*kgo.Record
	// commits are those that were taken, asked those and the ones that may have
	// been; only what moved forward, by the inlet's partition.
	commits, asked map[int32][]Commit
}

// due is one record that an outlet must get.
type due struct {
	want *kgo.Record
	in   *kgo.Record
	// place is where it stands among those of its key.
	place int
	// copies are all that is in the log, in log order.
	copies []*kgo.Record
}

func newCheck(s Stream, e Evidence, report *Report) *check {
	c := &check{Stream: s, report: report, logs: e.Logs, inputs: e.Logs[s.Inlet], commits: map[int32][]Commit{}, asked: map[int32][]Commit{}}
	for _, commit := range e.Commits {
		if commit.Group == s.Group && commit.Topic == s.Inlet {
			c.commit(commit)
		}
	}
	for _, log := range c.inputs {
		report.Inputs += len(log)
	}
	return c
}

// commit takes one in and holds it against the one before and the log's end.
func (c *check) commit(commit Commit) {
	c.report.Commits++
	at := func(kind Kind, text string, args ...any) {
		c.report.Violations = append(c.report.Violations, Violation{
			Kind: kind, Group: c.Group, Topic: c.Inlet, Partition: commit.Partition, Offset: commit.Offset,
			Text: fmt.Sprintf(text, args...) + fmt.Sprintf(" (commit %d of the log, at %d)", commit.Log, commit.At),
		})
	}
	log := c.inputs[commit.Partition]
	end := int64(0)
	if len(log) > 0 {
		end = log[len(log)-1].Offset + 1
	}
	if commit.Offset > end {
		at(Beyond, "committed behind the log's end %d", end)
	}
	forward(c.asked, commit)
	if commit.Asked {
		return
	}
	before := c.commits[commit.Partition]
	if n := len(before); n > 0 && commit.Offset < before[n-1].Offset {
		at(Back, "committed after %d (commit %d of the log, at %d)", before[n-1].Offset, before[n-1].Log, before[n-1].At)
	}
	forward(c.commits, commit)
}

// forward keeps a commit that goes further than the ones before.
func forward(commits map[int32][]Commit, commit Commit) {
	before := commits[commit.Partition]
	if n := len(before); n == 0 || commit.Offset > before[n-1].Offset {
		commits[commit.Partition] = append(before, commit)
	}
}

// first is the first of the commits that says that a record is done.
func first(byPartition map[int32][]Commit, in *kgo.Record) (Commit, bool) {
	commits := byPartition[in.Partition]
	i, _ := slices.BinarySearchFunc(commits, in.Offset+1, func(c Commit, offset int64) int { return int(c.Offset - offset) })
	if i == len(commits) {
		return Commit{}, false
	}
	return commits[i], true
}

// outlet judges one outlet's log.
func (c *check) outlet(o Outlet) {
	all := c.due(o)
	place := kgo.StickyKeyPartitioner(nil).ForTopic(o.Topic)
	order := newOrder(c, all)
	for _, log := range c.logs[o.Topic] {
		again := newLateness(c)
		for _, r := range log {
			c.report.Written++
			d := all[ID(r)]
			if d == nil {
				c.at(Bytes, r, "nothing like it was due: key %.40q, number %q", r.Key, ID(r))
				continue
			}
			if difference := Compare(r, d.want); difference != "" {
				c.at(Bytes, r, "number %s: %s", ID(r), difference)
			}
			if want := place.Partition(d.want, o.Partitions); int(r.Partition) != want {
				c.at(Bytes, r, "number %s: its key %.40q belongs on partition %d", ID(r), r.Key, want)
			}
			order.next(d, r)
			again.next(d, r)
			if len(d.copies) > 0 {
				c.report.Repeats++
			}
			d.copies = append(d.copies, r)
		}
	}
	for id, d := range all {
		c.present(o.Topic, id, d)
	}
}

// due is everything that an outlet must get, by ID.
func (c *check) due(o Outlet) map[string]*due {
	all, places := map[string]*due{}, map[string]int{}
	for _, log := range c.inputs {
		for _, in := range log {
			for _, want := range o.Expect(in) {
				id, key := ID(want), string(want.Key)
				if _, twice := all[id]; twice {
					panic(fmt.Sprintf("checker: number %q is due twice on %s: the input must have every number once", id, o.Topic))
				}
				all[id] = &due{want: want, in: in, place: places[key]}
				places[key]++
				c.report.Due++
			}
		}
	}
	return all
}

// present: the record is there, and was when its offset was committed.
func (c *check) present(topic, id string, d *due) {
	commit, done := first(c.commits, d.in)
	asked, any := first(c.asked, d.in)
	switch {
	case len(d.copies) == 0 && done:
		c.at(Skipped, d.in, "%s does not have number %s, and %d is committed (commit %d of the log, at %d)", topic, id, commit.Offset, commit.Log, commit.At)
	case len(d.copies) == 0 && any:
		c.at(Early, d.in, "%s does not have number %s, and %d was to be committed (at %d)", topic, id, asked.Offset, asked.At)
	case len(d.copies) == 0:
		c.at(Lost, d.in, "%s does not have number %s", topic, id)
	case any && asked.precedes(d.copies[0]):
		c.at(Early, d.in, "%d was committed at %d (commit %d of the log), and %s/%d@%d with number %s was appended at %d",
			asked.Offset, asked.At, asked.Log, topic, d.copies[0].Partition, d.copies[0].Offset, id, appended(d.copies[0]))
	}
}

// at notes a violation at a record.
func (c *check) at(kind Kind, r *kgo.Record, text string, args ...any) {
	v := Violation{Kind: kind, Group: c.Group, Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Text: fmt.Sprintf(text, args...)}
	if kind == late {
		c.report.Late = append(c.report.Late, v)
		return
	}
	c.report.Violations = append(c.report.Violations, v)
}

// appended is the leader's clock at the append, in milliseconds.
func appended(r *kgo.Record) int64 { return r.Timestamp.UnixMilli() }

// Compare says in what key, value and headers of two records differ, or "".
// Null and empty are different.
func Compare(got, want *kgo.Record) string {
	if !same(got.Key, want.Key) {
		return fmt.Sprintf("key %.60q, want %.60q", got.Key, want.Key)
	}
	if !same(got.Value, want.Value) {
		return fmt.Sprintf("value of %d bytes %.60q, want %d bytes %.60q", len(got.Value), got.Value, len(want.Value), want.Value)
	}
	if len(got.Headers) != len(want.Headers) {
		return fmt.Sprintf("%d headers, want %d", len(got.Headers), len(want.Headers))
	}
	for i, h := range want.Headers {
		if got.Headers[i].Key != h.Key || !same(got.Headers[i].Value, h.Value) {
			return fmt.Sprintf("header %d: %q %.60q, want %q %.60q", i, got.Headers[i].Key, got.Headers[i].Value, h.Key, h.Value)
		}
	}
	return ""
}

// same tells null from empty.
func same(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }
