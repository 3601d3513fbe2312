package checker

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// story is evidence that a test tells step by step: one inlet partition, one
// outlet partition, and a clock that each step moves on by a millisecond.
type story struct {
	evidence Evidence
	at       int64
	epoch    int16
}

// tell begins with an input of n records, all of the same key.
func tell(n int) *story {
	s := &story{evidence: Evidence{Logs: Logs{}}}
	for i := range n {
		s.append("in", -1, s.input(i))
	}
	return s
}

func (s *story) input(number int) *kgo.Record {
	return &kgo.Record{
		Key: []byte("a"), Value: fmt.Appendf(nil, "value %d", number),
		Headers: []kgo.RecordHeader{{Key: "n", Value: []byte(strconv.Itoa(number))}, {Key: "n"}},
	}
}

func (s *story) append(topic string, producer int64, records ...*kgo.Record) {
	if s.evidence.Logs[topic] == nil {
		s.evidence.Logs[topic] = map[int32][]*kgo.Record{}
	}
	s.at++
	for _, r := range records {
		log := s.evidence.Logs[topic][0]
		r.Topic, r.Offset, r.ProducerID, r.ProducerEpoch, r.Timestamp = topic, int64(len(log)), producer, s.epoch, time.UnixMilli(s.at)
		s.evidence.Logs[topic][0] = append(log, r)
	}
}

// out is one batch that a producer writes: the outputs of these inputs.
func (s *story) out(producer int64, numbers ...int) *story {
	var records []*kgo.Record
	for _, n := range numbers {
		records = append(records, s.input(n))
	}
	s.append("out", producer, records...)
	return s
}

func (s *story) commit(offset int64) *story {
	s.at++
	s.evidence.Commits = append(s.evidence.Commits, Commit{Group: "g", Topic: "in", Offset: offset, At: s.at, Log: int64(len(s.evidence.Commits))})
	return s
}

// spoil changes the newest output.
func (s *story) spoil(change func(*kgo.Record)) *story {
	log := s.evidence.Logs["out"][0]
	change(log[len(log)-1])
	return s
}

func (s *story) check(partitions int) *Report {
	return Check([]Stream{{Group: "g", Inlet: "in", Outlets: []Outlet{{
		Topic: "out", Partitions: partitions,
		Expect: func(in *kgo.Record) []*kgo.Record { return []*kgo.Record{in} },
	}}}}, s.evidence)
}

// asked is a commit that was seen on its way, with what the outlet then had.
func (s *story) asked(offset, end int64) *story {
	s.evidence.Commits = append(s.evidence.Commits, Commit{Group: "g", Topic: "in", Offset: offset, Asked: true, Ends: map[string]map[int32]int64{"out": {0: end}}})
	return s
}

func kinds(r *Report) string {
	var all []string
	for _, v := range r.Violations {
		all = append(all, string(v.Kind))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// What must not be said to be wrong.
func TestAllowed(t *testing.T) {
	for name, c := range map[string]struct {
		story         *story
		repeats, late int
	}{
		"everything once":                                 {tell(4).out(1, 0, 1).commit(2).out(1, 2, 3).commit(4), 0, 0},
		"a commit in the append's moment":                 {tell(1).out(1, 0).commit(1).together(), 0, 0},
		"a redelivery from the commit":                    {tell(4).out(1, 0, 1).commit(2).out(1, 2, 3).out(2, 2, 3).commit(4), 2, 0},
		"a redelivery in parts":                           {tell(4).out(1, 0, 1, 2).out(1, 0).out(1, 1).out(1, 2, 3).commit(4), 3, 0},
		"a partition that goes and comes":                 {tell(4).out(1, 0).commit(1).out(2, 1, 2).commit(3).out(1, 3).commit(4), 0, 0},
		"back, and forward over what the other committed": {tell(4).out(1, 0, 1, 2).out(1, 0).out(2, 0, 1, 2).commit(3).out(1, 3).commit(4), 4, 0},
		"a late batch, and its producer comes back":       {tell(4).out(1, 0).commit(1).out(2, 1, 2).commit(3).out(1, 1).out(1, 3).commit(4), 1, 1},
		"a late batch before the commit":                  {tell(4).out(2, 0, 1).out(1, 0, 1).commit(2).out(2, 2, 3).commit(4), 2, 0},
		"a late batch behind the commit":                  {tell(4).out(2, 0, 1).commit(2).out(1, 0, 1).out(2, 2, 3).commit(4), 2, 2},
		"a late batch that the commit cuts":               {tell(4).out(2, 0, 1).commit(1).out(1, 0, 1).commit(2).out(2, 2, 3).commit(4), 2, 1},
		"late twice, with work between":                   {tell(4).out(2, 0).commit(1).out(1, 0).out(1, 1).out(2, 1, 2).commit(3).out(1, 1).out(2, 3).commit(4), 3, 2},
		"asked for, and refused":                          {tell(2).out(1, 0, 1).asked(2, 2).out(2, 0, 1).commit(2).asked(1, 4), 2, 0},
		"the same commit again":                           {tell(1).out(1, 0).commit(1).commit(1), 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := c.story.check(1)
			if len(r.Violations) > 0 {
				t.Errorf("violations: %v", r.Violations)
			}
			if r.Repeats != c.repeats || len(r.Late) != c.late {
				t.Errorf("%d repeats, %d late, want %d, %d", r.Repeats, len(r.Late), c.repeats, c.late)
			}
		})
	}
}

// together lets the newest commit be taken in the same millisecond as what was
// before it.
func (s *story) together() *story {
	s.evidence.Commits[len(s.evidence.Commits)-1].At--
	return s
}

// Every rule, broken in every way that its page names.
func TestViolations(t *testing.T) {
	raised := tell(4).out(1, 0, 1).commit(2)
	raised.epoch++
	for name, c := range map[string]struct {
		story *story
		want  string
	}{
		"a record is missing at the end":           {tell(2).out(1, 0).commit(1), "lost"},
		"a record is missing and committed":        {tell(2).out(1, 0).commit(2), "skipped"},
		"a record is missing in the middle":        {tell(3).out(1, 0, 2).commit(3), "order skipped"},
		"two change places":                        {tell(3).out(1, 0, 2, 1).commit(3), "order order"},
		"written only after the commit":            {tell(2).out(1, 0).commit(2).out(1, 1), "early"},
		"asked for before it is written":           {tell(2).out(1, 0).asked(2, 1).out(1, 1).commit(2), "early"},
		"asked for, and never written":             {tell(2).out(1, 0).asked(2, 1), "early"},
		"asked for behind the end":                 {tell(1).out(1, 0).asked(2, 1), "beyond"},
		"a commit goes back":                       {tell(2).out(1, 0, 1).commit(2).commit(1), "back"},
		"a commit behind the end":                  {tell(1).out(1, 0).commit(2), "beyond"},
		"again after the commit, same producer":    {tell(4).out(1, 0, 1).commit(2).out(1, 0, 1).out(1, 2, 3).commit(4), "again again"},
		"the same with its epoch raised":           {raised.out(1, 0, 1).out(1, 2, 3).commit(4), "again again"},
		"a second late batch":                      {tell(4).out(2, 0, 1).commit(2).out(1, 0).out(1, 1).out(2, 2, 3).commit(4), "again"},
		"the other wrote it only after the commit": {tell(2).out(1, 0).commit(2).out(2, 1).out(1, 1), "again early"},
		"a start behind the commit":                {tell(4).out(1, 0, 1).commit(1).out(2, 2, 3).commit(4), "order"},
		"forward over what nobody committed":       {tell(4).out(1, 0, 1, 2).out(1, 0).out(2, 0, 1, 2).out(1, 3).commit(4), "order"},
		"a redelivery that leaves one out":         {tell(4).out(1, 0, 1, 2).out(2, 0, 2).out(2, 3).commit(4), "order"},
		"not due":                                  {tell(1).out(1, 0, 1).commit(1), "bytes"},
		"another value":                            {tell(1).out(1, 0).spoil(func(r *kgo.Record) { r.Value = []byte("x") }).commit(1), "bytes"},
		"another key":                              {tell(1).out(1, 0).spoil(func(r *kgo.Record) { r.Key = []byte("b") }).commit(1), "bytes"},
		"empty for null":                           {tell(1).out(1, 0).spoil(func(r *kgo.Record) { r.Headers[1].Value = []byte{} }).commit(1), "bytes"},
		"a header less":                            {tell(1).out(1, 0).spoil(func(r *kgo.Record) { r.Headers = r.Headers[:1] }).commit(1), "bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := kinds(c.story.check(1)); got != c.want {
				t.Errorf("found %q, want %q", got, c.want)
			}
		})
	}
}

// A key has its place. The Java client's own test has murmur2("21") = -973932308,
// which is partition 3 of 7: without the sign bit, modulo 7.
func TestWrongPartition(t *testing.T) {
	s := tell(1).out(1, 0).commit(1)
	for _, topic := range []string{"in", "out"} {
		s.evidence.Logs[topic][0][0].Key = []byte("21")
	}
	if got := kinds(s.check(7)); got != "bytes" {
		t.Errorf("found %q, want bytes", got)
	}
}

// The figures count what was there.
func TestFigures(t *testing.T) {
	r := tell(3).out(1, 0, 1).out(2, 1, 2).commit(3).check(1)
	if r.Inputs != 3 || r.Due != 3 || r.Written != 4 || r.Repeats != 1 || r.Commits != 1 {
		t.Errorf("%+v", r)
	}
}
