package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"ankka-flow/delivery/record"
	"ankka-flow/wire"
)

// limit is one limit of the page at its exact value and one beyond it: at works
// and commits, over fails the stream by a line that says want.
type limit struct {
	name     string
	at, over scripted
	want     string
	// shown is what the log says at the exact value, where that shows.
	shown string
}

// sized is an emit of batch 1 whose body has exactly so many bytes, of two records.
func sized(t *testing.T, size int) []said {
	t.Helper()
	half := record.Record{Value: make([]byte, size/2-100), Timestamp: record.Now}
	rest := half
	for range 2 { // the second time the lengths' own width is right
		frame := frames(t, emitted(1, "out", half, rest))[0].data
		rest.Value = make([]byte, len(rest.Value)+size-(len(frame)-4))
	}
	out := frames(t, emitted(1, "out", half, rest))
	if got := len(out[0].data) - 4; got != size {
		t.Fatalf("a body of %d bytes, want %d", got, size)
	}
	return out
}

// emitOfSize is an emit of batch 1 with one record that has so many bytes as encoded.
func emitOfSize(t *testing.T, size int) []said {
	t.Helper()
	around := 1 + 1 + 5 + 1 + 1 // the array, key, bin 32, headers, timestamp
	return frames(t, emitted(1, "out", record.Record{Value: make([]byte, size-around), Timestamp: record.Now}))
}

// nested is an ack of batch 1 with an extra element that nests to a depth.
func nested(depth int) []said {
	return body("\x93\xa3ack\x01" + strings.Repeat("\x91", depth-2) + "\x90")
}

// logged is a log record with one field, encoded.
func logged(field string) []said { return body("\x94\xa3log\xa4info\xa6number\x81\xa1n" + field) }

func ready(name, port string, inFlight int) []said {
	d := caseDescriptor()
	d.Streamlet.Name, d.Streamlet.Outlets[0].Name = name, port
	return []said{{data: frame(wire.Spec{Descriptor: d, Capabilities: wire.Capabilities{MaxInFlight: inFlight}})}}
}

// frame is a message that can certainly be encoded.
func frame(m wire.Message) []byte {
	b, err := wire.Append(nil, m)
	if err != nil {
		panic(err)
	}
	return b
}

// limits are those of a process's own messages: section 8 of the page, and the
// least and most of what section 6 and 11 bound.
func limits(t *testing.T) []limit {
	ack := frames(t, wire.Ack{ID: 1})
	then := func(parts ...[]said) scripted { return scripted{Batch: slices.Concat(parts...)} }
	const held = 4<<20 - 2*88 // of two records; sixteen of them are 64 MiB
	holding := func(last int) []said { return append([]said{{sized(t, held)[0].data, 15}}, sized(t, last)...) }
	integer := func(text, number, shown string) limit {
		return limit{name: "integer " + number, at: then(logged(text), ack), over: then(logged(text[:1] + over(text[1:]))), shown: shown,
			want: "log: fields[\"n\"] is " + number + "; integers stay within 2^53 - 1 of 0: send a larger one as text"}
	}
	name := strings.Repeat("n", 63)
	return []limit{
		{"a frame out", then(sized(t, wire.MaxFrame), ack), then(plainBytes("\x00\x40\x00\x01"), []said{{make([]byte, 1<<20), 4}}, plainBytes("\x00")), "a frame of 4194305 bytes is announced, the limit is 4194304", ""},
		{"a record out", then(emitOfSize(t, wire.MaxRecord), ack), then(emitOfSize(t, wire.MaxRecord+1)), `records[0] for outlet "out" has 4128769 bytes as encoded, the limit is 4128768`, ""},
		integer("\xcf\x00\x1f\xff\xff\xff\xff\xff\xff", "9007199254740992", "n=9007199254740991"),
		integer("\xd3\xff\xe0\x00\x00\x00\x00\x00\x01", "-9007199254740992", "n=-9007199254740991"),
		{"an unsigned integer over 64 bits signed", then(ack), then(logged("\xcf\xff\xff\xff\xff\xff\xff\xff\xff")), `fields["n"] is 18446744073709551615; integers stay within`, ""},
		{"held emits", then(holding(held), ack), then(holding(held+1), ack), "its emits hold more than 67108864 bytes before its ack", ""},
		{"series", then(frames(t, wire.Report{Series: make([]wire.Series, 1000)}), ack), then(frames(t, wire.Report{Series: make([]wire.Series, 1001)}), ack), "report: series has 1001 series, the limit is 1000", ""},
		{"depth", then(nested(32)), then(nested(33)), "an extra element nests deeper than 32 arrays and maps", ""},
		{"id", then(body("\x92\xa4pong\x00"), ack), then(body("\x92\xa4pong\xff")), "pong: n must be 0 or more, not -1", ""},
		{"timestamp", then(body("\x94\xa4emit\x01\xa3out\x91\x94\xc0\xc0\xc0\xff"), ack), then(body("\x94\xa4emit\x01\xa3out\x91\x94\xc0\xc0\xc0\xfe")), "records[0].timestamp_ms must be -1 or more, not -2", ""},
		{"index", then(frames(t, wire.Forward{ID: 1, Outlet: "out", Indexes: []int{0}}), ack), then(frames(t, wire.Forward{ID: 1, Outlet: "out", Indexes: []int{1}})), "indexes hold 1, but the batch has 1 records", ""},
		{"a counter", then(frames(t, wire.Report{Series: []wire.Series{{Name: "c"}}}), ack), then(frames(t, wire.Report{Series: []wire.Series{{Name: "c", Value: -1}}})), "series[0].number must be 0 or more, for a counter's number is an increment, not -1", ""},
		{"the least max_in_flight", scripted{Discover: ready("case", "out", 1), Batch: ack}, scripted{Discover: ready("case", "out", 0)}, "spec: capabilities.max_in_flight must be 1 or more, not 0", ""},
		{"the most max_in_flight", scripted{Discover: ready("case", "out", 1<<31-1), Batch: ack}, scripted{Discover: ready("case", "out", 1<<31)}, "capabilities.max_in_flight must be at most 2147483647, not 2147483648", ""},
		{"a port's name", scripted{Discover: ready("case", name, 1), Batch: ack}, scripted{Discover: ready("case", name+"n", 1)}, name + "n", ""},
		{"a quoted text", then(plainBytes(strings.Repeat("q", 64))), then(plainBytes(strings.Repeat("q", 65))), `wrote "` + strings.Repeat("q", 64) + `..." to stdout`, `wrote "` + strings.Repeat("q", 64) + `" to stdout`},
		{"a fail's text", then(frames(t, wire.Fail{ID: 1, Message: strings.Repeat("m", wire.MaxText)})), then(frames(t, wire.Fail{ID: 1, Message: strings.Repeat("m", wire.MaxText+1)})),
			"m ... (cut at 65,536 bytes)", "batch 1 failed: " + strings.Repeat("m", wire.MaxText)},
	}
}

// over is a big-endian number with one more of its magnitude.
func over(number string) string {
	b := []byte(number)
	if b[0] == 0xff { // below 0
		b[len(b)-1]--
		return string(b)
	}
	for i := len(b) - 1; ; i-- {
		if b[i]++; b[i] != 0 {
			return string(b)
		}
	}
}

// Every limit of what a process sends, by a real one, at its value and one over.
func TestLimitsOfARealProcess(t *testing.T) {
	t.Parallel()
	for _, l := range limits(t) {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			b := newCaseBroker(t, large)
			b.putN(1)
			fails := l.shown != "" && !strings.HasPrefix(l.shown, "n=")
			flag := "--until-end"
			if fails { // both values fail the stream, and differ by what is shown
				flag = "--exit-on-failure"
			}
			p := b.runCase(nil, []string{flag}, l.at.command(t))
			p.endsWith(map[bool]int{false: 0, true: 1}[fails])
			if !strings.Contains(p.stderr(), l.shown) {
				t.Errorf("at the limit the log does not say %.100q", l.shown)
			}
			if committed := b.committed(0); !fails && committed != 1 {
				t.Fatalf("at the limit %d is committed", committed)
			}
			b = newCaseBroker(t, large)
			b.putN(1)
			p = b.runCase(nil, []string{"--exit-on-failure"}, l.over.command(t))
			p.endsWith(1)
			if !strings.Contains(p.stderr(), l.want) {
				t.Errorf("over the limit the log does not say %.100q", l.want)
			}
			if n := len(b.out()); n != 0 || b.committed(0) != 0 {
				t.Errorf("over the limit %d records are written and %d is committed", n, b.committed(0))
			}
		})
	}
}

// The largest frame that a process gets has the limit, less the room that is kept
// for the longest attempt, and the record that would make it one byte larger
// comes in the next one.
func TestLimitOfAFrameIn(t *testing.T) {
	t.Parallel()
	now := time.Now().Truncate(time.Millisecond)
	for _, over := range []int{0, 1} {
		t.Run(fmt.Sprint("over by ", over), func(t *testing.T) {
			t.Parallel()
			b := newCaseBroker(t, large)
			var e wire.BatchEncoder
			e.Begin(nil, 1, "in", 0)
			first := valueOf(2<<20, 0, now)
			r := record.Record{Timestamp: now.UnixMilli(), Value: first}
			e.Append(&r)
			most := e.Len()
			room := most - (len(e.Finish(1)) - 4)
			second := valueOf(wire.MaxFrame-most+over, 1, now)
			b.put(&kgo.Record{Value: first, Timestamp: now}, &kgo.Record{Value: second, Timestamp: now})
			p := b.runCase(nil, []string{"--until-end", "-c", b.config("batch: {max-bytes: 8 MiB, max-records: 10}\n")}, scripted{Batch: frames(t, wire.Forward{ID: 1, Outlet: "out", All: true}, wire.Ack{ID: 1})}.command(t))
			p.endsWith(0)
			whole := fmt.Sprintf("got batch of %d bytes", wire.MaxFrame-room)
			if over == 0 && strings.Count(p.stderr(), whole) != 1 || over == 1 && strings.Contains(p.stderr(), whole) || b.committed(0) != 2 {
				t.Errorf("%d bytes over: %d is committed; %s", over, b.committed(0), p.stderr())
			}
		})
	}
}
