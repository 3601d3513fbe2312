package conformance

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"ankka-flow/delivery/record"
	"ankka-flow/wire"
)

// What the reference streamlet is called and declares: REFERENCE.md.
const (
	referenceName   = "conformance"
	referenceSchema = "conformance.v1"
	defaultMode     = "key"
	defaultFactor   = 2
)

// discoverInfo is what the supervisor says of itself.
var discoverInfo = wire.Discover{Protocol: wire.Version, Supervisor: "conformance", MaxFrameBytes: wire.MaxFrame, MaxRecordBytes: wire.MaxRecord}

// discover asks and waits for the spec.
func (t *talk) discover() { t.asks(nil) }

// asks is discover with a frame of the case's own, or with ours.
func (t *talk) asks(frame []byte) {
	if t.failure != nil {
		return
	}
	t.phase = phaseAsked
	if frame == nil {
		t.send(discoverInfo)
	} else {
		t.sendFrame(frame)
	}
	t.await("spec, the answer to discover", func() bool { return t.phase == phaseReady })
}

// startInfo is a start of the next conversation.
func (t *talk) startInfo(config map[string]any) wire.Start {
	t.conversation++
	all := map[string]any{"mode": defaultMode, "factor": int64(defaultFactor)}
	for key, value := range config {
		all[key] = value
	}
	return wire.Start{
		Conversation: t.conversation, Pipeline: "conformance", Streamlet: referenceName, Config: all,
		Inlets:  map[string]string{"in": "conformance.in", "side": "conformance.side"},
		Outlets: map[string]string{"out": "conformance.out", "other": "conformance.other"},
	}
}

// start begins a conversation with the spec that came.
func (t *talk) start(config map[string]any) {
	t.starts(nil, t.startInfo(config))
}

func (t *talk) starts(frame []byte, info wire.Start) {
	if t.failure != nil {
		return
	}
	t.phase = phaseRunning
	if frame == nil {
		t.send(info)
	} else {
		t.sendFrame(frame)
	}
}

// begin is discovery and the start of a conversation with the defaults.
func (t *talk) begin() { t.beginWith(nil) }

// beginIn begins one in which word is what is done with every record.
func (t *talk) beginIn(word string) { t.beginWith(map[string]any{"mode": word}) }

func (t *talk) beginWith(config map[string]any) {
	t.discover()
	t.start(config)
}

// answer waits for the one answer of a batch, and says whether it came.
func (t *talk) answer(b *batch) bool {
	t.await(fmt.Sprintf("ack or fail of batch %d", b.id), func() bool { return b.answered })
	return t.failure == nil
}

// acked waits until a batch is acknowledged.
func (t *talk) acked(batches ...*batch) {
	for _, b := range batches {
		expected := fmt.Sprintf("ack of batch %d", b.id)
		t.await(expected, func() bool { return b.answered })
		if t.failure == nil && b.failed != nil {
			t.fail(expected, fmt.Sprintf("fail of batch %d: %s", b.id, b.failed.Message))
		}
	}
}

// fails waits until a batch fails, with texts in which every word stands.
func (t *talk) fails(b *batch, words ...string) {
	expected := fmt.Sprintf("fail of batch %d", b.id)
	if len(words) > 0 {
		expected += fmt.Sprintf(", its message with %s", strings.Join(words, " and "))
	}
	t.await(expected, func() bool { return b.answered })
	switch {
	case t.failure != nil:
	case b.failed == nil:
		t.fail(expected, fmt.Sprintf("ack of batch %d", b.id))
	default:
		for _, word := range words {
			if !strings.Contains(b.failed.Message, word) {
				t.fail(expected, fmt.Sprintf("fail with the message %s", quoted([]byte(b.failed.Message))))
			}
		}
	}
}

// emits compares what an acked batch emitted to an outlet.
func (t *talk) emits(b *batch, outlet string, want ...record.Record) {
	if t.failure != nil {
		return
	}
	got := b.out(outlet)
	for i := range max(len(want), len(got)) {
		w, g := "no more records", "no more records"
		if i < len(want) {
			w = showRecord(&want[i])
		}
		if i < len(got) {
			g = showRecord(&got[i])
		}
		if i >= len(want) || i >= len(got) || !same(&want[i], &got[i]) {
			place := fmt.Sprintf("record %d that batch %d emits to %s: ", i+1, b.id, outlet)
			if w == g {
				g = "one that differs past what is shown here"
			}
			t.fail(place+w, g)
			return
		}
	}
}

// echoed is what most records come to: themselves, on out, and nothing elsewhere.
func (t *talk) echoed(batches ...*batch) {
	for _, b := range batches {
		t.acked(b)
		t.emits(b, "out", b.records...)
		t.emits(b, "other")
	}
}

// same compares key, value and headers, null and empty kept apart.
func same(a, b *record.Record) bool {
	return equal(a.Key, b.Key) && equal(a.Value, b.Value) && slices.EqualFunc(a.Headers, b.Headers, func(x, y record.Header) bool {
		return bytes.Equal(x.Name, y.Name) && equal(x.Value, y.Value)
	})
}

func equal(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

// stop sends stop; stopped waits for its answer.
func (t *talk) stop(mode wire.StopMode) {
	if t.failure != nil {
		return
	}
	t.judge.stop(mode)
	t.send(wire.Stop{Mode: mode, Reason: "the case wants it"})
}

func (t *talk) stopped() {
	t.await("stopped", func() bool { return t.phase == phaseStopped })
}

func (t *talk) finish() {
	t.stop(wire.Finish)
	t.stopped()
}

func (t *talk) abandon() {
	t.stop(wire.Abandon)
	t.stopped()
}

// revoke makes a batch void.
func (t *talk) revoke(b *batch) {
	if t.failure != nil {
		return
	}
	b.void = b.void || !b.answered
	t.send(wire.Revoke{ID: b.id})
}

// pingPong waits for the answer to a ping: then everything that was sent before was read.
func (t *talk) pingPong() {
	if t.failure != nil {
		return
	}
	n := uint64(len(t.heard)) + 1_000
	t.pings = append(t.pings, n)
	t.send(wire.Ping{N: n})
	t.await(fmt.Sprintf("pong %d", n), func() bool { return !slices.Contains(t.pings, n) })
}

// taken waits until the process has surely taken what was sent: it answers a ping, where it
// can, and then says nothing for a while.
func (t *talk) taken(why string) {
	if t.failure == nil && t.spec.Capabilities.Ping {
		t.pingPong()
	}
	t.read("the process reads what is sent")
	t.quiet(why)
}

// exits waits for the end of the process with that status; -1: any but 0.
func (t *talk) exits(code int) {
	expected := fmt.Sprintf("the process exits with %d", code)
	if code < 0 {
		expected = "the process exits with another status than 0"
	}
	t.awaitExit(expected)
	switch {
	case t.failure != nil:
	case t.exited.Signal == 0 && code >= 0 && t.exited.Code == code:
	case t.exited.Signal == 0 && code < 0 && t.exited.Code != 0:
	default:
		t.fail(expected, t.exited.String())
	}
}

func (t *talk) awaitExit(expected string) {
	t.await(expected, func() bool { return t.exited != nil })
}

// closeInput ends the process's input: the supervisor is gone.
func (t *talk) closeInput() {
	if t.failure == nil {
		t.note("the process's stdin is closed")
		t.p.CloseInput()
	}
}

// says waits until the process has written a text to stderr.
func (t *talk) says(text string) {
	failed := t.failure != nil
	t.await(fmt.Sprintf("%q on stderr", text), func() bool { return strings.Contains(strings.Join(t.errs.all(), "\n"), text) })
	if !failed && t.failure != nil && len(t.errs.all()) > 0 {
		t.failure.Came += "; on stderr only what stands below"
	}
}

// maySay waits a while for a text on stderr; that it does not come is no failure.
func (t *talk) maySay(text string) {
	over := time.NewTimer(20 * silence)
	defer over.Stop()
	for t.failure == nil && !strings.Contains(strings.Join(t.errs.all(), "\n"), text) {
		select {
		case <-t.errs.more:
		case <-over.C:
			return
		case <-t.ctx.Done():
			return
		}
	}
}

// rec is a record with a key and a value.
func rec(key, value string, headers ...record.Header) record.Record {
	return record.Record{Key: []byte(key), Value: []byte(value), Headers: headers}
}

func header(name, value string) record.Header {
	return record.Header{Name: []byte(name), Value: []byte(value)}
}

// late is a record that is done when the file is there.
func late(gate []byte) record.Record { return record.Record{Key: []byte("late"), Value: gate} }

// with is r with one header more, as header-echo emits it.
func withEcho(r record.Record) record.Record {
	r.Headers = append(slices.Clone(r.Headers), header("echo", "1"))
	return r
}

// headersEchoed is what header-echo comes to.
func (t *talk) headersEchoed(b *batch) {
	t.acked(b)
	want := make([]record.Record, len(b.records))
	for i, r := range b.records {
		want[i] = withEcho(r)
	}
	t.emits(b, "out", want...)
}

// number is n as text.
func number(n int) string { return strconv.Itoa(n) }

// made is a record of n bytes x, as make emits it.
func made(key string, n int) record.Record {
	return record.Record{Key: []byte(key), Value: bytes.Repeat([]byte("x"), n)}
}
