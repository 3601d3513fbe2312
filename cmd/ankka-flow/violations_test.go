package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"ankka-flow/delivery/record"
	"ankka-flow/wire"
)

// said is bytes to write, and how often.
type said struct {
	data  []byte
	times int
}

// MarshalJSON is the form that scripted.py reads.
func (s said) MarshalJSON() ([]byte, error) { return json.Marshal([]any{s.data, max(s.times, 1)}) }

// scripted is what scripted.py writes, and when.
type scripted struct {
	Launch   []said `json:"launch,omitempty"`
	Discover []said `json:"discover,omitempty"` // empty: a good spec
	Start    []said `json:"start,omitempty"`
	Batch    []said `json:"batch,omitempty"`
	Stop     []said `json:"stop,omitempty"`
	Exit     bool   `json:"exit,omitempty"`
}

// command runs the script.
func (s scripted) command(t *testing.T) []string {
	t.Helper()
	if s.Discover == nil {
		s.Discover = frames(t, wire.Spec{Descriptor: caseDescriptor(), Capabilities: wire.DefaultCapabilities()})
	}
	if s.Stop == nil {
		s.Stop = frames(t, wire.Stopped{})
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "script.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	program, err := filepath.Abs("testdata/scripted.py")
	if err != nil {
		t.Fatal(err)
	}
	return []string{"python3", "-S", "-E", program, path}
}

// caseDescriptor is the streamlet of the cases.
func caseDescriptor() wire.Descriptor {
	contract := wire.Contract{Format: "json", SchemaName: "any", Fingerprint: wire.Fingerprint("any")}
	return wire.Descriptor{ProtocolVersion: wire.Version, Streamlet: wire.Streamlet{
		Name: "case", Inlets: []wire.Port{{Name: "in", Contract: contract}}, Outlets: []wire.Port{{Name: "out", Contract: contract}}}}
}

// frames are messages as they stand on the pipe.
func frames(t *testing.T, messages ...wire.Message) []said {
	t.Helper()
	var all []byte
	for _, m := range messages {
		var err error
		if all, err = wire.Append(all, m); err != nil {
			t.Fatal(err)
		}
	}
	return []said{{data: all}}
}

// body is a frame of which the body is given as it stands.
func body(b string) []said {
	n := len(b)
	return []said{{data: append([]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}, b...)}}
}

func plainBytes(s string) []said { return []said{{data: []byte(s)}} }

func emitted(id uint64, outlet string, records ...record.Record) wire.Emit {
	return wire.Emit{ID: id, Outlet: outlet, Records: wire.EncodeRecords(records)}
}

// breach provokes one violation with a real process.
type breach struct {
	code, name string
	script     scripted
	want       string
	// written: the batch was acked before, and so it counts.
	written bool
}

// breaches have every violation of the page once at least.
func breaches(t *testing.T) []breach {
	large := record.Record{Value: make([]byte, wire.MaxRecord), Timestamp: record.Now}
	deep := "\x93\xa3ack\x01" + strings.Repeat("\x91", 40) + "\x90"
	acked := func(then wire.Message) scripted { return scripted{Batch: frames(t, wire.Ack{ID: 1}, then)} }
	at := func(s []said) scripted { return scripted{Batch: s} }
	return []breach{
		{"stray-text", "", at(plainBytes("Hello world\n")), `the process wrote "Hello world\n" to stdout, which carries the protocol; print to stderr`, false},
		{"json", "", scripted{Discover: plainBytes(`{"ok":true}` + "\n")}, `the process speaks JSON; the protocol is msgpack (it wrote "{\"ok\":true}\n"): send frames, as PROTOCOL.md describes them`, false},
		{"frame-too-large", "", at(plainBytes("\x00\x40\x00\x01")), `a frame of 4194305 bytes is announced, the limit is 4194304; split what you emit over several frames`, false},
		{"empty-frame", "", at(body("")), `an empty frame: its length is 0; a frame holds one msgpack array [kind, ...]`, false},
		{"half-length", "", scripted{Batch: plainBytes("\x00\x00"), Exit: true}, `stdout ended inside a frame: 2 of the 4 bytes of its length came; write whole frames, and flush, before exiting`, false},
		{"half-frame", "", scripted{Batch: plainBytes("\x00\x00\x00\x09half"), Exit: true}, `stdout ended inside a frame: 4 of 9 bytes came; write whole frames, and flush, before exiting`, false},
		{"not-an-array", "", at(body("hello")), `expected an array [kind, ...], got an int: "hello"; did two threads write to stdout at once?`, false},
		{"trailing-bytes", "", at(body("\x92\xa3ack\x01\x01\x02")), `ack of batch 1: 2 bytes follow the message's array; a frame holds one array and its length counts just that`, false},
		{"unknown-kind", "", at(body("\x92\xa3akc\x01")), `unknown message "akc"; a process sends spec, emit, forward, ack, fail, status, report, log, pong, stopped`, false},
		{"unknown-kind", "of the supervisor", at(frames(t, wire.Ping{N: 1})), `unknown message "ping"; a process sends spec, emit, forward, ack, fail, status, report, log, pong, stopped`, false},
		{"wrong-type", "str for bin", at(body("\x94\xa4emit\x01\xa3out\x91\x91\xa2k1")), `emit of batch 1: records[0].key must be bin or nil, got str`, false},
		{"wrong-type", "missing", at(body("\x91\xa3ack")), `ack: id must be given, got nothing: the message ends before it`, false},
		{"wrong-type", "a key", at(body("\x93\xa4fail\x01\x81\x01\x02")), `fail of batch 1: info (a key) must be str, got int`, false},
		{"overrun", "", at(body("\x94\xa4emit\x01\xa3out\xdd\xff\xff\xff\xff")), `emit of batch 1: records is said to have 4294967295 elements, but 0 bytes are left in the frame; write one frame at a time, whole`, false},
		{"extension", "", at(body("\x93\xa3ack\x01\xd6\xff\x00\x00\x00\x00")), `ack of batch 1: an extra element is of a msgpack extension type; the protocol has none: send text, numbers or bytes`, false},
		{"depth", "", at(body(deep)), `ack of batch 1: an extra element nests deeper than 32 arrays and maps; no message needs more than 5`, false},
		{"integer", "", at(body("\x92\xa3ack\xcf\x00\x20\x00\x00\x00\x00\x00\x00")), `ack: id is 9007199254740992; integers stay within 2^53 - 1 of 0: send a larger one as text`, false},
		{"record-too-large", "", at(frames(t, emitted(1, "out", large))), `emit of batch 1: records[0] for outlet "out" has 4128777 bytes as encoded, the limit is 4128768; store large values elsewhere and emit a reference`, false},
		{"too-many-series", "", at(frames(t, wire.Report{Series: make([]wire.Series, 1001)})), `report: series has 1001 series, the limit is 1000; split the report, or use fewer labels`, false},
		{"bad-value", "", at(body("\x92\xa3ack\xff")), `ack: id must be 0 or more, not -1`, false},
		{"never-sent", "", at(frames(t, wire.Ack{ID: 99})), `ack of batch 99: no batch of that id was ever sent; answer with the id that the batch came with`, false},
		{"answered", "ack", acked(wire.Ack{ID: 1}), `ack of batch 1: that batch was answered before; emit before the ack, and answer every batch once`, true},
		{"answered", "emit", acked(emitted(1, "out", record.Record{Value: []byte("late"), Timestamp: record.Now})), `emit of batch 1: that batch was answered before; emit before the ack, and answer every batch once`, true},
		{"outlet", "", at(frames(t, emitted(1, "vaild"))), `emit of batch 1: no outlet "vaild" is declared; declared are: out`, false},
		{"index", "", at(frames(t, wire.Forward{ID: 1, Outlet: "out", Indexes: []int{0, 1}})), `forward of batch 1: indexes hold 1, but the batch has 1 records; an index counts from 0`, false},
		{"index", "of 2^53 - 1", at(frames(t, wire.Forward{ID: 1, Outlet: "out", Indexes: []int{wire.MaxInteger}})), `forward of batch 1: indexes hold 9007199254740991, but the batch has 1 records; an index counts from 0`, false},
		{"out-of-place", "stopped", at(frames(t, wire.Stopped{})), `stopped: not allowed but as the one answer to stop; PROTOCOL.md has the table of who may send what when`, false},
		{"out-of-place", "spec", at(frames(t, wire.Spec{Descriptor: caseDescriptor(), Capabilities: wire.DefaultCapabilities()})), `spec: not allowed but as the one answer to discover; PROTOCOL.md has the table of who may send what when`, false},
		{"held-too-much", "", at([]said{{frames(t, emitted(1, "out", record.Record{Value: make([]byte, 4<<20-100<<10), Timestamp: record.Now}))[0].data, 17}}),
			`emit of batch 1: its emits hold more than 67108864 bytes before its ack; emit less a record, or set batch.max-records lower`, false},
		{"spec-expected", "", scripted{Discover: frames(t, wire.Ack{ID: 1})}, `ack: the first message must be spec, the answer to discover`, false},
		{"spec-expected", "unasked", scripted{Launch: frames(t, wire.Pong{N: 1})}, `pong: the first message must be spec, the answer to discover`, false},
	}
}

// Every violation that the page names, by a real process: its text stands in the
// log once and word for word, the run fails by it, and nothing of the batch is
// written or committed that was not acked before.
func TestViolationsOfARealProcess(t *testing.T) {
	t.Parallel()
	for _, c := range breaches(t) {
		t.Run(strings.TrimSpace(c.code+" "+c.name), func(t *testing.T) {
			t.Parallel()
			b := newCaseBroker(t)
			b.putN(1)
			p := b.runCase(nil, []string{"--exit-on-failure"}, c.script.command(t))
			p.endsWith(1)
			said := "protocol violation: " + c.want
			if c.code == "held-too-much" { // the batch fails, not the process
				said = "case.in/0@0: " + c.want
			}
			p.says("ERR failed", said)
			p.says(c.want)
			want := int64(0)
			if c.written {
				want = 1
			}
			if n := len(b.out()); n != 0 || b.committed(0) != want {
				t.Errorf("%d records are written and offset %d is committed, want 0 and %d", n, b.committed(0), want)
			}
		})
	}
}

// The cases above are the page's table: each of its rows has one, which says what
// the row says.
func TestViolationsOfARealProcessAreThePages(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(repository, "wire/PROTOCOL.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := bytes.Cut(page, []byte("## 9. Violations\n"))
	section, _, _ = bytes.Cut(section, []byte("\n## 10."))
	rows := map[string]*regexp.Regexp{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| [^|]+ \\| ([^|]+) \\|$").FindAllSubmatch(section, -1) {
		pattern := regexp.MustCompile(`\b(WHERE|FIELD|TEXT|SIZE|COUNT|GOT|WANT|SENDER|KINDS|UNIT|REST|NUMBER|OUTLETS?|STATE)\b`).ReplaceAll([]byte(regexp.QuoteMeta(string(row[2]))), []byte(".+"))
		rows[string(row[1])] = regexp.MustCompile("^" + string(pattern) + "$")
	}
	if len(rows) != 24 {
		t.Errorf("%d rows were read", len(rows))
	}
	tried := map[string]bool{}
	for _, c := range breaches(t) {
		tried[c.code] = true
		if row := rows[c.code]; row == nil || !row.MatchString(c.want) {
			t.Errorf("%s: %s is not what the page says", c.code, c.want)
		}
	}
	for code := range rows {
		if !tried[code] {
			t.Errorf("no process provokes %s", code)
		}
	}
}
