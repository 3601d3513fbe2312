package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ankka-flow/delivery/record"
	"ankka-flow/supervisor"
	"ankka-flow/wire"
)

// talk is one conversation of a case with a process of its own, as the supervisor would have
// it. Its methods are the words that the cases are written in: each says something or waits for
// something. The first thing that goes wrong sticks in failure, and every method after it does
// nothing and returns something empty, so that a case reads from top to bottom without asking.
//
// It is used by one goroutine; only Stderr and Trace are called from the supervisor's.
type talk struct {
	ctx      context.Context
	command  []string
	patience time.Duration
	dir      string // for the gates; made when the first is asked for

	judge
	p       *supervisor.Process
	exited  *supervisor.Exited
	failure *Failure
	trace   trace
	limit   time.Time // of the whole case
	nextID  uint64
	offsets map[string]int64 // the next of a partition
	sent    int64            // bytes
	heard   []wire.Message   // every message, in order
	errs    stderrLines
	// hold, where it is not nil, keeps whoever reads the process's stdout from reading on
	// until it is closed.
	hold atomic.Pointer[chan struct{}]
	held atomic.Bool // somebody is kept
}

// limitOfPatiences bounds a case that always hears something: it may take this many times as
// long as one wait.
const limitOfPatiences = 10

func newTalk(ctx context.Context, command []string, patience time.Duration) *talk {
	return &talk{
		ctx: ctx, command: command, patience: patience, limit: time.Now().Add(limitOfPatiences * patience), offsets: map[string]int64{},
		errs: stderrLines{more: make(chan struct{}, 1)},
	}
}

// stderrLines is what the process wrote to stderr, the last of it.
type stderrLines struct {
	sync.Mutex
	lines []string
	more  chan struct{} // holds a token: there is more
}

const maxStderrLines = 200

func (s *stderrLines) add(line []byte) {
	s.Lock()
	if len(s.lines) == maxStderrLines {
		s.lines = slices.Delete(s.lines, 0, 1)
	}
	s.lines = append(s.lines, string(line[:min(len(line), 2<<10)]))
	s.Unlock()
	select {
	case s.more <- struct{}{}:
	default:
	}
}

func (s *stderrLines) all() []string {
	s.Lock()
	defer s.Unlock()
	return slices.Clone(s.lines)
}

// launch starts the process. env replaces or, with "NAME" alone, removes variables.
func (t *talk) launch(env ...string) {
	p, err := supervisor.Start(supervisor.Command{Args: t.command, Env: t.environment(env...)}, t.options())
	if err != nil {
		t.fail("the program runs", err.Error())
		return
	}
	t.p = p
	t.note("launched: " + strings.Join(t.command, " "))
}

func (t *talk) options() supervisor.Options {
	return supervisor.Options{Stderr: t.errs.add, Trace: t.reading}
}

func (t *talk) environment(env ...string) []string {
	own := supervisor.Environment(os.Environ(), []string{discoveryVariable})
	for _, e := range env {
		name, _, set := strings.Cut(e, "=")
		own = slices.DeleteFunc(own, func(have string) bool { return strings.HasPrefix(have, name+"=") })
		if set {
			own = append(own, e)
		}
	}
	return own
}

// discoveryVariable asks the reference streamlet to fail its discovery.
const discoveryVariable = "CONFORMANCE_DISCOVERY"

// reading is called by the supervisor for each frame, before it parses it and reads on.
func (t *talk) reading(toProcess bool, body []byte) {
	if toProcess {
		return // it has pieces; sendFrame traces what they are of
	}
	t.trace.add("P> " + showFrame(body))
	if hold := t.hold.Load(); hold != nil {
		t.held.Store(true)
		<-*hold
	}
}

// holdReading lets the next frame of the process be the last that is read until goOn.
func (t *talk) holdReading() {
	hold := make(chan struct{})
	t.hold.Store(&hold)
	t.note("nobody reads the process's stdout from here on")
}

func (t *talk) goOn() {
	if hold := t.hold.Swap(nil); hold != nil {
		close(*hold)
		t.note("the process's stdout is read again")
	}
}

// end kills the process and what it started, and waits until nothing of it is left.
func (t *talk) end() {
	if t.p != nil {
		t.goOn()
		t.p.Kill()
		for range t.p.Events() {
		}
	}
	if t.dir != "" {
		os.RemoveAll(t.dir)
	}
}

// fail records the case's failure, unless there is one already.
func (t *talk) fail(expected, came string) {
	if t.failure == nil {
		t.failure = &Failure{Expected: expected, Came: came}
	}
}

func (t *talk) note(text string) { t.trace.add("-- " + text) }

// send sends a message as the supervisor would.
func (t *talk) send(m wire.Message) { t.sendFrame(encoded(m)) }

// encoded is a message's frame. One that cannot be encoded is a mistake in a case.
func encoded(m wire.Message) []byte {
	frame, err := wire.Append(nil, m)
	if err != nil {
		panic(fmt.Sprintf("conformance: encoding a %s: %v", m.Kind(), err))
	}
	return frame
}

// sendFrame sends a whole frame.
func (t *talk) sendFrame(frame []byte) {
	if t.failure != nil {
		return
	}
	t.trace.add("S> " + showFrame(frame[frameHeader:]))
	t.write(frame)
}

// frameHeader is the length before a frame's body.
const frameHeader = 4

// write gives bytes to the process as they are: a whole frame, a part of one, or several.
func (t *talk) write(bytes []byte) {
	if t.failure == nil && len(bytes) > 0 {
		t.p.Control(bytes)
		t.sent += int64(len(bytes))
	}
}

// await takes what comes from the process until it is what is expected. Every message is
// judged; nothing for as long as patience, an end that done does not look for, or a breach of
// the protocol is the failure.
func (t *talk) await(expected string, done func() bool) {
	idle := time.NewTimer(t.patience)
	defer idle.Stop()
	for t.failure == nil && !done() {
		if t.exited != nil {
			t.fail(expected, "the process ended: "+t.exited.String())
			return
		}
		select {
		case <-t.ctx.Done():
			t.fail(expected, "interrupted")
		case ev, ok := <-t.p.Events():
			if ok {
				t.happened(expected, ev)
			}
			idle.Reset(t.patience)
		case <-t.errs.more:
			idle.Reset(t.patience)
		case <-idle.C:
			t.fail(expected, fmt.Sprintf("nothing for %v", t.patience))
		}
		if t.failure == nil && time.Now().After(t.limit) && !done() {
			t.fail(expected, fmt.Sprintf("other things, for %v", limitOfPatiences*t.patience))
		}
	}
}

// happened takes one event of the supervisor's.
func (t *talk) happened(expected string, ev supervisor.Event) {
	switch ev := ev.(type) {
	case supervisor.Received:
		t.hear(expected, ev.Message)
	case supervisor.Stray:
		t.note("text on stdout before spec, which the supervisor skips: " + ev.Text)
	case supervisor.Broken:
		t.note("a violation: " + ev.Err.Error())
		t.fail(expected, "a violation: "+ev.Err.Error())
	case supervisor.OutputClosed:
		t.fail(expected, "the process closed its stdout, and lives")
	case supervisor.InputBroken:
		t.fail(expected, "the process closed its stdin, and lives: "+ev.Err.Error())
	case supervisor.Exited:
		t.note("the process ended: " + ev.String())
		t.exited = &ev
		if ev.HalfFrame != nil {
			t.fail(expected, "a violation: "+ev.HalfFrame.Error())
		}
	}
}

func (t *talk) hear(expected string, m wire.Message) {
	t.heard = append(t.heard, m)
	if err := t.judge.received(m); err != nil {
		t.fail(expected, err.Error())
	}
}

// silence is how long nothing may come where nothing is expected.
const silence = 150 * time.Millisecond

// quiet waits a while, in which the process may say only what it may say at any time.
func (t *talk) quiet(why string) {
	if t.failure != nil {
		return
	}
	expected := "no message " + why
	over := time.NewTimer(silence)
	defer over.Stop()
	for t.failure == nil {
		select {
		case <-over.C:
			return
		case <-t.ctx.Done():
			t.fail(expected, "interrupted")
		case ev, ok := <-t.p.Events():
			if !ok {
				t.fail(expected, "the process ended: "+t.exited.String())
				return
			}
			t.happened(expected, ev)
			if got, ok := ev.(supervisor.Received); ok && !anyTime(got.Message) {
				t.fail(expected, got.Message.Kind())
			}
		}
	}
}

// anyTime: what a process may say without being asked. An emit is the judge's to refuse: while
// its batch is in flight it may come, and when that was answered it may not.
func anyTime(m wire.Message) bool {
	switch m.(type) {
	case wire.Status, wire.Report, wire.Log, wire.Emit, wire.Forward:
		return true
	}
	return false
}

// read waits until the process has read everything that was sent. What it says meanwhile stays
// where it is, so that this also shows that it reads while nobody reads it.
func (t *talk) read(expected string) {
	t.watch(expected, func() (int64, int64) { return t.p.InputRead(), t.sent })
}

// filled waits, where nobody reads it, until the process's stdout has what any pipe holds.
func (t *talk) filled(expected string) {
	t.watch(expected, func() (int64, int64) {
		if !t.held.Load() {
			return -1, leastPipe // a frame is still being read
		}
		return t.p.OutputUnread(), leastPipe
	})
}

// leastPipe is what a pipe holds where it could not be enlarged, and a page less.
const leastPipe = 60 << 10

// watch looks at a count until it is what is wanted; no change of it for as long as patience is
// the failure.
func (t *talk) watch(expected string, count func() (now, want int64)) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	last, since := int64(-1), time.Now()
	for t.failure == nil {
		now, want := count()
		if now >= want {
			return
		}
		if now > last {
			last, since = now, time.Now()
		}
		if time.Since(since) > t.patience {
			t.fail(expected, fmt.Sprintf("nothing for %v, after %d bytes of %d", t.patience, now, want))
		}
		select {
		case <-t.ctx.Done():
			t.fail(expected, "interrupted")
		case <-tick.C:
		}
	}
}

// gate is a file that does not exist: what a late or busy record waits for.
func (t *talk) gate(name string) []byte {
	if t.dir == "" {
		dir, err := os.MkdirTemp("", "ankka-flow-conformance")
		if err != nil {
			t.fail("a folder for the files that handlers wait for", err.Error())
			return []byte("none")
		}
		t.dir = dir
	}
	return []byte(filepath.Join(t.dir, name))
}

// open makes the file, so that whoever waits for it goes on.
func (t *talk) open(gate []byte) {
	if t.failure != nil {
		return
	}
	t.note("the file " + filepath.Base(string(gate)) + " is made: whoever waits for it goes on")
	if err := os.WriteFile(string(gate), nil, 0o600); err != nil && !errors.Is(err, os.ErrExist) {
		t.fail("a file that handlers wait for", err.Error())
	}
}

// key names a partition of an inlet.
func (b *batch) key() string { return fmt.Sprintf("%s/%d", b.inlet, b.partition) }

// prepare makes a batch of the records: their offsets follow those that the partition had.
func (t *talk) prepare(inlet string, partition int32, records ...record.Record) *batch {
	t.nextID++
	b := &batch{id: t.nextID, inlet: inlet, partition: partition, records: records}
	for i := range records {
		r := &records[i]
		if r.Offset == 0 {
			r.Offset = t.offsets[b.key()]
		}
		t.offsets[b.key()] = r.Offset + 1
		if r.Timestamp == 0 {
			r.Timestamp = 1_700_000_000_000 + r.Offset
		}
	}
	return b
}

// batch sends records of a partition.
func (t *talk) batch(inlet string, partition int32, records ...record.Record) *batch {
	b := t.prepare(inlet, partition, records...)
	t.deliver(b)
	t.send(wire.Batch{ID: b.id, Inlet: b.inlet, Partition: b.partition, Records: b.records, Attempt: 1})
	return b
}

// trace is what was said, in order: its beginning and its end where that is too much.
type trace struct {
	sync.Mutex
	head, tail []string
	left       int // lines between them
}

const traceHead, traceTail = 12, 30

func (t *trace) add(line string) {
	t.Lock()
	defer t.Unlock()
	if len(t.head) < traceHead {
		t.head = append(t.head, line)
		return
	}
	if len(t.tail) == traceTail {
		t.tail = slices.Delete(t.tail, 0, 1)
		t.left++
	}
	t.tail = append(t.tail, line)
}

func (t *trace) lines() []string {
	t.Lock()
	defer t.Unlock()
	lines := slices.Clone(t.head)
	if t.left > 0 {
		lines = append(lines, fmt.Sprintf("-- %d lines more", t.left))
	}
	return append(lines, t.tail...)
}
