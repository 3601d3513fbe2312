package deadletter

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"ankka-flow/delivery/record"
)

const (
	connect  = "__connect.errors."
	flow     = "__flow.errors."
	origin   = flow + "origin."
	redrives = flow + "redrives"
)

// Unreadable is the number of redrives of a letter whose header for it is no number.
const Unreadable = -1

// AnyPartition says that a record's key decides about its partition.
const AnyPartition int32 = -1

// Letter is what a dead letter's headers say. Text is empty where there is no header for
// it, or a null one. Of a header that is there twice the last counts: Connect appends at
// each round.
type Letter struct {
	// Topic and Partition are where the record was read when it failed first; Partition
	// is AnyPartition where that is not said.
	Topic     string
	Partition int32
	// Failed is the topic where it was read when it failed last.
	Failed string
	// Stage, Exception and Reason are the failure's. Connect has no reason.
	Stage, Exception, Reason string
	// Redrives is how often it was redriven, or Unreadable.
	Redrives int
}

// Read takes a letter's headers.
func Read(headers []record.Header) Letter {
	l := Letter{Partition: AnyPartition, Reason: text(headers, flow+"reason")}
	for _, prefix := range []string{origin, flow, connect} {
		topic := text(headers, prefix+"topic")
		if topic == "" {
			continue
		}
		if l.Topic == "" {
			l.Topic, l.Partition = topic, number(text(headers, prefix+"partition"))
		}
		if l.Failed == "" && prefix != origin {
			l.Failed = topic
		}
	}
	l.Stage = either(headers, "stage")
	l.Exception = either(headers, "exception.class.name")
	if count := text(headers, redrives); count != "" {
		l.Redrives = Unreadable
		if n, err := strconv.ParseUint(count, 10, 31); err == nil {
			l.Redrives = int(n)
		}
	}
	return l
}

// either is our header, which is of the latest failure, or else Connect's.
func either(headers []record.Header, name string) string {
	if own := text(headers, flow+name); own != "" {
		return own
	}
	return text(headers, connect+name)
}

// text is the last header of a name.
func text(headers []record.Header, name string) string {
	value, _ := last(headers, name)
	return string(value)
}

func last(headers []record.Header, name string) (value []byte, ok bool) {
	for i := len(headers) - 1; i >= 0; i-- {
		if string(headers[i].Name) == name {
			return headers[i].Value, true
		}
	}
	return nil, false
}

// number is a partition, or AnyPartition.
func number(text string) int32 {
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return AnyPartition
	}
	return int32(n)
}

// Redriven is the record as it goes back: key, value and its own headers byte for byte and
// in order, without what was said about its failure. What a later failure is to find stays
// or is added: where it failed first, and how often it was redriven. It is stamped when it
// is written. It shares the bytes of r.
func Redriven(r *record.Record, l *Letter) record.Record {
	headers := make([]record.Header, 0, len(r.Headers)+1)
	for _, h := range r.Headers {
		name := string(h.Name)
		if strings.HasPrefix(name, connect) || strings.HasPrefix(name, flow) && !strings.HasPrefix(name, origin) {
			continue
		}
		headers = append(headers, h)
	}
	headers = append(headers, record.Header{Name: []byte(redrives), Value: strconv.AppendInt(nil, int64(max(0, l.Redrives))+1, 10)})
	return record.Record{Timestamp: record.Now, Key: r.Key, Value: r.Value, Headers: headers}
}

// Shown is text from a header for a person's table: on one line, without what would set a
// terminal up, and bounded.
func Shown(text string) string {
	const limit = 120
	if utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		if len(text) <= limit {
			return text
		}
		return strings.ToValidUTF8(text[:limit], "") + "..."
	}
	if len(text) > limit {
		text = text[:limit]
	}
	return strconv.QuoteToASCII(text)
}
