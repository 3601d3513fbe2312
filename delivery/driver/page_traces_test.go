package driver

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"ankka-flow/delivery"
	"ankka-flow/delivery/record"
	"ankka-flow/supervisor"
	"ankka-flow/wire"
)

// pageTraces are the traces of section 12 of the protocol's page, by title.
func pageTraces(t *testing.T) map[string][]string {
	t.Helper()
	page, err := os.ReadFile("../../wire/PROTOCOL.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## 12. Traces\n")
	section, _, _ = strings.Cut(section, "\n## 13.")
	traces := map[string][]string{}
	for _, m := range regexp.MustCompile("(?s)\\*\\*([^*]+)\\*\\*.*?```\n(.*?)```").FindAllStringSubmatch(section, -1) {
		for _, line := range strings.Split(m[2], "\n") {
			if regexp.MustCompile(`^(S>|P>|--) `).MatchString(line) { // not the bytes, which package wire compares
				traces[m[1]] = append(traces[m[1]], line)
			}
		}
	}
	return traces
}

// player plays one trace: what the process says is said, and what the supervisor
// says is compared. Ids, conversations and attempts count from where the page is.
type player struct {
	*world
	p        *fakeProcess
	got      []wire.Message
	ids      map[uint64]uint64 // the page's: ours
	attempts map[int32]int     // by partition: how many the page is ahead
	ahead    uint64            // conversations
	stopping bool
}

func TestTheTracesOfTheProtocolPageAreWhatHappens(t *testing.T) {
	traces := pageTraces(t)
	if len(traces) < 9 {
		t.Fatalf("%d traces were read", len(traces))
	}
	for title, lines := range traces {
		t.Run(title, func(t *testing.T) {
			bubble(t, func(w *world) {
				pl := &player{world: w, ids: map[uint64]uint64{}, attempts: map[int32]int{}}
				pl.begin(strings.HasPrefix(lines[0], "-- the supervisor launches"))
				for _, line := range lines {
					pl.play(line)
				}
				// A trace may end before what comes next.
				if pl.stopping {
					pl.p.exit(supervisor.Exited{})
					w.ended()
					return
				}
				w.kill()
			})
		})
	}
}

// begin starts the driver; but for a start-up, until the process runs.
func (pl *player) begin(startUp bool) {
	pl.descriptor = describe("pass", []string{"in"}, []string{"valid", "review"})
	pl.broker.logs["pass.in"] = make([][]record.Record, 3)
	pl.run(func(c *Config) { c.Supervisor, c.Declared.Pipeline = "0.1.0", "pass" })
	if pl.p = pl.proc(); startUp {
		return
	}
	pl.p.say(wire.Spec{Descriptor: pl.descriptor, Capabilities: wire.Capabilities{Ping: true, MaxInFlight: 8}})
	pl.take()
	pl.got = nil
}

// take is what came and was not compared yet.
func (pl *player) take() []wire.Message {
	pl.got = append(pl.got, pl.p.take()...)
	return pl.got
}

func (pl *player) play(line string) {
	pl.Helper()
	switch mark, rest, _ := strings.Cut(line, " "); mark {
	case "--":
		pl.happens(rest)
	case "P>":
		pl.p.say(pl.ours(pl.message(rest, wire.ParseFromProcess)))
	case "S>":
		pl.expect(pl.message(rest, wire.ParseFromSupervisor), line)
	}
}

// message is one as the page writes it, with the name of its golden file in front or not.
func (pl *player) message(text string, parse func([]byte) (wire.Message, error)) wire.Message {
	pl.Helper()
	d := json.NewDecoder(strings.NewReader(text[strings.IndexByte(text, '['):]))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		pl.Fatal(err)
	}
	var body bytes.Buffer
	e := msgpack.NewEncoder(&body)
	if err := e.Encode(bytesOfHex(value)); err != nil {
		pl.Fatal(err)
	}
	m, err := parse(body.Bytes())
	if err != nil {
		pl.Fatalf("%s: %v", text, err)
	}
	return m
}

// bytesOfHex puts bytes for {"hex": ...} and integers for numbers.
func bytesOfHex(v any) any {
	switch v := v.(type) {
	case json.Number:
		n, _ := v.Int64() // there are no others
		return n
	case []any:
		for i := range v {
			v[i] = bytesOfHex(v[i])
		}
	case map[string]any:
		if text, ok := v["hex"].(string); ok {
			b, _ := hex.DecodeString(text)
			return b
		}
		for key := range v {
			v[key] = bytesOfHex(v[key])
		}
	}
	return v
}

// ours puts our id of a batch for the page's.
func (pl *player) ours(m wire.Message) wire.Message {
	switch m := m.(type) {
	case wire.Emit:
		m.ID = pl.ids[m.ID]
		return m
	case wire.Forward:
		m.ID = pl.ids[m.ID]
		return m
	case wire.Ack:
		m.ID = pl.ids[m.ID]
		return m
	case wire.Fail:
		m.ID = pl.ids[m.ID]
		return m
	}
	return m
}

// happens is what the page tells between messages.
func (pl *player) happens(what string) {
	pl.Helper()
	switch {
	case strings.Contains(what, "the process exits"):
		pl.p.exit(supervisor.Exited{Code: 1})
	case strings.Contains(what, "500 ms"), strings.Contains(what, "tried again"):
		pl.pass(time.Second)
		pl.p = pl.proc()
	case strings.Contains(what, "comes back"):
		in := pl.broker.inlet("in")
		in.assign(2)
	case strings.Contains(what, "launches the new program"):
		pl.p.exit(supervisor.Exited{})
		pl.pass(time.Second)
		pl.p = pl.proc()
	}
}

// expect compares what comes next with the page, after what brings it about.
func (pl *player) expect(want wire.Message, line string) {
	pl.Helper()
	switch w := want.(type) {
	case wire.Batch:
		pl.supply(w)
	case wire.Revoke:
		pl.broker.inlet("in").sink(delivery.Revoked{Inlet: "in", Partitions: []int32{2}, Deadline: time.Hour})
	case wire.Stop:
		if w.Mode == wire.Finish {
			pl.stop(w.Reason)
		}
	case wire.Ping:
		pl.pass(16 * time.Second)
		return // the supervisor's part of it is in package supervisor
	case wire.Discover:
		if len(pl.take()) == 0 {
			pl.pass(time.Second)
		}
	}
	if len(pl.take()) == 0 {
		pl.pass(time.Second)
	}
	if len(pl.take()) == 0 {
		pl.Fatalf("nothing comes where the page has %s", line)
	}
	got := pl.got[0]
	pl.got = pl.got[1:]
	if got = pl.asPage(got, want); !reflect.DeepEqual(got, want) {
		pl.Errorf("got %+v\nwhere the page has %s", got, line)
	}
}

// stop asks for one: by a person, or by a file that changed.
func (pl *player) stop(reason string) {
	if reason == "reload" {
		pl.reloads <- "streamlet.py changed"
		return
	}
	pl.stopping = true
	pl.stops <- reason
}

// supply puts the records of a batch into the log, where they are not there yet.
func (pl *player) supply(b wire.Batch) {
	log := pl.broker.inlet("in").log(b.Partition)
	for _, r := range b.Records {
		if len(log) == 0 || log[len(log)-1].Offset < r.Offset {
			pl.broker.append("pass.in", int(b.Partition), r)
		}
	}
	pl.broker.inlet("in").look(b.Partition)
}

// asPage is what came with the page's ids, conversation, attempt and free text.
func (pl *player) asPage(got, want wire.Message) wire.Message {
	switch g := got.(type) {
	case wire.Batch:
		w, ok := want.(wire.Batch)
		if !ok {
			break
		}
		if _, known := pl.attempts[g.Partition]; !known {
			pl.attempts[g.Partition] = w.Attempt - g.Attempt
		}
		pl.ids[w.ID] = g.ID
		g.ID, g.Attempt = w.ID, g.Attempt+pl.attempts[g.Partition]
		for i := range g.Records {
			if len(g.Records[i].Headers) == 0 {
				g.Records[i].Headers = nil
			}
		}
		return g
	case wire.Revoke:
		if w, ok := want.(wire.Revoke); ok && pl.ids[w.ID] == g.ID {
			return w
		}
	case wire.Start:
		if w, ok := want.(wire.Start); ok {
			if pl.ahead == 0 {
				pl.ahead = w.Conversation - g.Conversation
			}
			g.Conversation += pl.ahead
		}
		return g
	case wire.Stop:
		if w, ok := want.(wire.Stop); ok && strings.Contains(g.Reason, regexp.MustCompile(`\d+`).ReplaceAllStringFunc(w.Reason, pl.idText)) {
			g.Reason = w.Reason
		}
		return g
	}
	return got
}

// idText is our id for the page's, as text.
func (pl *player) idText(id string) string {
	n, _ := json.Number(id).Int64()
	text, _ := json.Marshal(pl.ids[uint64(n)])
	return string(text)
}
