package deadletter

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"ankka-flow/delivery/record"
)

// Origin is the To of a Selection that sends each letter to where it was read.
const Origin = "origin"

// groups is what the names of the groups begin with that keep the progress.
const groups = "ankka-flow.redrive."

// Where is a condition: the last header of that name has that value, byte for byte. A
// null value counts as empty; a record without the header does not meet it.
type Where struct{ Header, Value string }

// ParseWhere reads HEADER=VALUE. The error is for whoever typed it.
func ParseWhere(given string) (Where, error) {
	name, value, ok := strings.Cut(given, "=")
	switch {
	case !ok || name == "":
		return Where{}, fmt.Errorf("%q: it has the form HEADER=VALUE", given)
	case !utf8.ValidString(given):
		return Where{}, fmt.Errorf("%q: it is not UTF-8", given)
	}
	return Where{name, value}, nil
}

// Selection says which letters are meant and where they go.
type Selection struct {
	// Where are conditions, all of which hold; none: every letter is meant.
	Where []Where
	// To is Origin or a topic.
	To string
	// MaxRedrives is how often a letter is redriven at most, from 1.
	MaxRedrives int
}

// Verdict is what is to become of a letter.
type Verdict string

const (
	// Redrive: it is written.
	Redrive Verdict = "redrive"
	// Unselected: a condition does not hold.
	Unselected Verdict = "not selected"
	// TooOften: it was redriven MaxRedrives times, or its count cannot be read.
	TooOften Verdict = "too often"
	// NoOrigin: it does not say where it was read.
	NoOrigin Verdict = "no origin"
	// Done: it was redriven before.
	Done Verdict = "done"
)

// Selects says whether all conditions hold.
func (s *Selection) Selects(headers []record.Header) bool {
	for _, w := range s.Where {
		if value, ok := last(headers, w.Header); !ok || string(value) != w.Value {
			return false
		}
	}
	return true
}

// Judge says what becomes of a letter, whatever was redriven before.
func (s *Selection) Judge(headers []record.Header, l *Letter) Verdict {
	switch {
	case !s.Selects(headers):
		return Unselected
	case l.Redrives == Unreadable || l.Redrives >= s.MaxRedrives:
		return TooOften
	case s.To == Origin && l.Topic == "":
		return NoOrigin
	}
	return Redrive
}

// Place is where a letter goes that is redriven. partition is AnyPartition where the key
// decides; the topic may have fewer partitions by now.
func (s *Selection) Place(l *Letter) (topic string, partition int32) {
	if s.To == Origin {
		return l.Topic, l.Partition
	}
	return s.To, AnyPartition
}

// Group is the name of the consumer group that keeps how far a selection has come on a
// dead-letter topic. It has all of the selection in it, so that a later one knows what
// this one has done.
func (s *Selection) Group(topic string) string {
	values := url.Values{"to": {s.To}, "max-redrives": {strconv.Itoa(s.MaxRedrives)}}
	for _, w := range s.sorted() {
		values.Add("where", w.Header+"="+w.Value)
	}
	return groups + topic + "?" + values.Encode()
}

// sorted are the conditions, each once: their order means nothing.
func (s *Selection) sorted() []Where {
	where := slices.Clone(s.Where)
	slices.SortFunc(where, func(a, b Where) int { return cmp.Or(cmp.Compare(a.Header, b.Header), cmp.Compare(a.Value, b.Value)) })
	return slices.Compact(where)
}

// ParseGroup reads the name of a group back; false: it is not one of this topic.
func ParseGroup(group, topic string) (Selection, bool) {
	rest, ok := strings.CutPrefix(group, groups+topic+"?")
	if !ok {
		return Selection{}, false
	}
	values, err := url.ParseQuery(rest)
	if err != nil {
		return Selection{}, false
	}
	limit, err := strconv.Atoi(values.Get("max-redrives"))
	if err != nil {
		return Selection{}, false
	}
	s := Selection{To: values.Get("to"), MaxRedrives: limit}
	for _, given := range values["where"] {
		w, err := ParseWhere(given)
		if err != nil {
			return Selection{}, false
		}
		s.Where = append(s.Where, w)
	}
	return s, s.Group(topic) == group
}
