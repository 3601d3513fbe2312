package driver

import (
	"fmt"
	"hash/maphash"
	"regexp"
	"strconv"
	"strings"

	"ankka-flow/delivery"
	"ankka-flow/wire"
)

// failed passes a fail on, in words that say something.
func (d *Driver) failed(m wire.Fail) {
	message, offset := m.Message, int64(-1)
	switch {
	case m.Message == "" && m.KindName == "":
		message = "the process gave no reason"
	case m.Message == "":
		message = m.KindName
	case m.KindName != "":
		message = m.KindName + ": " + m.Message
	}
	if m.HasOffset {
		offset = m.Offset
	}
	d.showDetail(&m)
	d.step(delivery.Failed{Process: d.process, ID: m.ID, Message: message, Offset: offset})
}

// shownDetail is the detail of a failure that was shown last for a partition.
type shownDetail struct {
	offset int64
	hash   uint64
}

var detailSeed = maphash.MakeSeed()

// showDetail shows a failure's detail (a traceback) to people, the first time
// for a record and again when it changes: a record that always fails comes for
// ever. The same text as the last one shown is not shown again for another
// partition either, for a mistake in the code fails everywhere at once.
func (d *Driver) showDetail(m *wire.Fail) {
	b, ok := d.shelf.batches[m.ID]
	if m.Detail == "" || !ok { // a batch that is not at hand is void: nobody waits for it
		return
	}
	show := shownDetail{offset: m.Offset, hash: maphash.String(detailSeed, m.Detail)}
	if !m.HasOffset {
		show.offset = b.records[0].Offset
	}
	known := show.hash == d.lastDetail || show == d.details[b.tp]
	d.details[b.tp], d.lastDetail = show, show.hash
	if known || d.cfg.Detail == nil {
		d.log.Debug(m.Detail, "event", "failed")
		return
	}
	d.cfg.Detail(boundedDetail(m.Detail))
}

// renewDetails lets every detail be shown again: a new process may have new
// code, whose author wants to see what it does.
func (d *Driver) renewDetails() { d.details, d.lastDetail = map[delivery.TP]shownDetail{}, 0 }

// A detail has its cause at its end, as Python's tracebacks have, and where it
// began at its beginning.
const (
	maxDetailHead = 10
	maxDetailTail = 40
	maxDetailLine = 1000 // bytes
)

// boundedDetail cuts a detail to what a terminal holds.
func boundedDetail(detail string) string {
	lines := strings.Split(strings.TrimRight(detail, "\r\n"), "\n")
	if left := len(lines) - maxDetailHead - maxDetailTail; left > 1 {
		head, tail := lines[:maxDetailHead:maxDetailHead], lines[len(lines)-maxDetailTail:]
		lines = append(append(head, fmt.Sprintf("... %d lines left out ...", left)), tail...)
	}
	for i, line := range lines {
		if line = strings.TrimRight(line, "\r"); len(line) > maxDetailLine {
			line = strings.ToValidUTF8(line[:maxDetailLine], "") + "..."
		}
		lines[i] = line
	}
	return strings.Join(lines, "\n")
}

var (
	leadingPlace  = regexp.MustCompile(`^([a-z][a-z0-9-]*)/(\d+)(@\d+)?: `)
	trailingPlace = regexp.MustCompile(` \(([a-z][a-z0-9-]*)/(\d+)()\)$`)
	verdictPlace  = regexp.MustCompile(`: ([a-z][a-z0-9-]*)/(\d+)(@\d+)(; |$)`)
	anyPlace      = regexp.MustCompile(`\b([a-z][a-z0-9-]*)/(\d+)@`)
	namedBatch    = regexp.MustCompile(`\bbatch (\d+)`)
)

// named gives the core's words the names that people look for: the core knows
// inlets and numbers of batches, they know topics and offsets. What the
// protocol's page says word for word stays as it is.
func (d *Driver) named(text string) string {
	if at := leadingPlace.FindStringSubmatch(text); d.topicOf(at) != "" {
		rest := text[len(at[0]):]
		return fmt.Sprintf("%s: %s", d.place(at, rest), rest)
	}
	if at := trailingPlace.FindStringSubmatch(text); d.topicOf(at) != "" {
		rest := strings.TrimSuffix(text, at[0])
		return fmt.Sprintf("%s (%s)", rest, d.place(at, rest))
	}
	if at := verdictPlace.FindStringSubmatch(text); d.topicOf(at) != "" {
		return strings.Replace(text, at[0], fmt.Sprintf(": %s/%s%s (inlet %s)%s", d.topicOf(at), at[2], at[3], at[1], at[4]), 1)
	}
	return text
}

// renamed is named for a text with any number of places.
func (d *Driver) renamed(text string) string {
	return anyPlace.ReplaceAllStringFunc(text, func(place string) string {
		at := anyPlace.FindStringSubmatch(place)
		if topic := d.topicOf(at); topic != "" {
			return fmt.Sprintf("%s/%s@", topic, at[2])
		}
		return place
	})
}

// place is where it happened: inlet, topic, partition and the offset, or those
// of the batch that the words behind it name.
func (d *Driver) place(at []string, words string) string {
	place := fmt.Sprintf("inlet %s: %s/%s%s", at[1], d.topicOf(at), at[2], at[3])
	if at[3] != "" {
		return place
	}
	name := namedBatch.FindStringSubmatch(words)
	if name == nil {
		return place
	}
	id, err := strconv.ParseUint(name[1], 10, 64)
	s, ok := d.spanOf(id)
	switch {
	case err != nil || !ok:
		return place
	case s.first == s.last:
		return fmt.Sprintf("%s@%d", place, s.first)
	}
	return fmt.Sprintf("%s, offsets %d to %d", place, s.first, s.last)
}

// span is the offsets of a batch's records.
type span struct {
	id          uint64
	first, last int64
}

func (d *Driver) spanOf(id uint64) (s span, ok bool) {
	if b, atHand := d.shelf.batches[id]; atHand && len(b.records) > 0 {
		return span{id, b.records[0].Offset, b.records[len(b.records)-1].Offset}, true
	}
	return d.dropped, d.dropped.id == id && id != 0
}

func (d *Driver) noteDropped(id uint64) {
	if s, ok := d.spanOf(id); ok {
		d.dropped = s
	}
}

// topicOf is the topic of the inlet that a place names, or "".
func (d *Driver) topicOf(place []string) string {
	if place == nil {
		return ""
	}
	return d.topic(place[1])
}
