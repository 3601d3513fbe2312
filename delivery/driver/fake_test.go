package driver

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"ankka-flow/delivery"
	"ankka-flow/delivery/kafka"
	"ankka-flow/delivery/record"
	"ankka-flow/supervisor"
	"ankka-flow/wire"
)

// Every test also proves that Run leaves no goroutine: synctest fails where one
// is left in its bubble, goleak where one is left outside.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeProcess is a process that the test plays. Its pipe is as wide as wanted:
// with stuck set, data stays queued, unbegun. A frame that it has read is
// scribbled over before its memory is given back, so that nothing may rely on
// it any more.
type fakeProcess struct {
	t       testing.TB
	number  int
	events  chan supervisor.Event
	release func([]byte)

	mu       sync.Mutex
	stuck    bool
	immortal bool // Kill does not end it
	queued   []queuedFrame
	got      []wire.Message // in the order read
	calls    []string       // CloseInput, Terminate, Kill, SpeaksPing
	ended    bool
}

type queuedFrame struct {
	id    uint64
	frame []byte
}

func (p *fakeProcess) Events() <-chan supervisor.Event { return p.events }
func (p *fakeProcess) Pid() int                        { return 100 + p.number }

// read takes a whole frame, as the process's side parses it.
func (p *fakeProcess) read(frame []byte) {
	body := bytes.Clone(frame[4:])
	m, err := wire.ParseFromSupervisor(body)
	if err != nil {
		p.t.Errorf("the process cannot read a frame: %v", err)
		return
	}
	p.got = append(p.got, m)
}

func (p *fakeProcess) Control(frame []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.read(frame)
}

func (p *fakeProcess) Data(id uint64, frame []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queued = append(p.queued, queuedFrame{id, frame})
	if !p.stuck {
		p.flush()
	}
}

// flush reads what is queued.
func (p *fakeProcess) flush() {
	for _, q := range p.queued {
		p.read(q.frame)
		p.giveBack(q.frame)
	}
	p.queued = nil
}

func (p *fakeProcess) giveBack(frame []byte) {
	for i := range frame {
		frame[i] = 0xee
	}
	p.release(frame)
}

func (p *fakeProcess) Withdraw(id uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.queued, func(q queuedFrame) bool { return q.id == id })
	if i < 0 {
		return false
	}
	p.giveBack(p.queued[i].frame)
	p.queued = slices.Delete(p.queued, i, i+1)
	return true
}

func (p *fakeProcess) call(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, name)
}

func (p *fakeProcess) CloseInput() { p.call("CloseInput") }
func (p *fakeProcess) Terminate()  { p.call("Terminate") }
func (p *fakeProcess) SpeaksPing() { p.call("SpeaksPing") }

func (p *fakeProcess) Kill() {
	p.call("Kill")
	p.mu.Lock()
	immortal := p.immortal
	p.mu.Unlock()
	if !immortal {
		p.exit(supervisor.Exited{Code: -1, Signal: 9, Killed: true})
	}
}

// exit ends it, once. What it had not read is given back, as the supervisor does.
func (p *fakeProcess) exit(e supervisor.Exited) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	p.ended = true
	for _, q := range p.queued {
		p.giveBack(q.frame)
	}
	p.queued = nil
	p.events <- e
	close(p.events)
}

// say sends a message, through its real frame.
func (p *fakeProcess) say(messages ...wire.Message) {
	for _, m := range messages {
		p.events <- received(p.t, m)
	}
	synctest.Wait()
}

func received(t testing.TB, m wire.Message) supervisor.Received {
	t.Helper()
	frame, err := wire.Append(nil, m)
	if err != nil {
		t.Fatalf("encoding %T: %v", m, err)
	}
	parsed, err := wire.ParseFromProcess(frame[4:])
	if err != nil {
		t.Fatalf("parsing %T: %v", m, err)
	}
	return supervisor.Received{Message: parsed, Bytes: len(frame) - 4}
}

// take returns what the process has read since the last take.
func (p *fakeProcess) take() []wire.Message {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	got := p.got
	p.got = nil
	return got
}

// batches are the batches among what the process has read since the last take.
func (p *fakeProcess) batches() (batches []wire.Batch) {
	for _, m := range p.take() {
		if b, ok := m.(wire.Batch); ok {
			batches = append(batches, b)
		}
	}
	return batches
}

// batch is the one batch that came.
func (p *fakeProcess) batch() wire.Batch {
	p.t.Helper()
	batches := p.batches()
	if len(batches) != 1 {
		p.t.Fatalf("%d batches came, not 1", len(batches))
	}
	return batches[0]
}

func (p *fakeProcess) called(name string) bool {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Contains(p.calls, name)
}

func (p *fakeProcess) setStuck(stuck bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stuck = stuck
	if !stuck {
		p.flush()
	}
}

// fakeBroker has one log per inlet partition. It gives itself every partition.
type fakeBroker struct {
	t       testing.TB
	prepare func(ctx context.Context, plan *Plan) error

	mu        sync.Mutex
	preparing int
	prepared  []*Plan
	logs      map[string][][]record.Record // by topic and partition
	inlets    []*fakeInlet
	producer  *fakeProducer
	trace     []string // Consume, Leave, Deliver (as Cut) and Write, in order
	holdJoin  bool     // Consume is not followed by Assigned
}

func (b *fakeBroker) note(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trace = append(b.trace, fmt.Sprintf(format, args...))
}

func (b *fakeBroker) takeTrace() []string {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	trace := b.trace
	b.trace = nil
	return trace
}

func (b *fakeBroker) Prepare(ctx context.Context, plan *Plan) error {
	b.mu.Lock()
	b.preparing++
	if b.preparing > 1 {
		b.t.Error("two preparations at once")
	}
	prepare := b.prepare
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		b.preparing--
		b.prepared = append(b.prepared, plan)
		b.mu.Unlock()
	}()
	if prepare != nil {
		return prepare(ctx, plan)
	}
	return nil
}

func (b *fakeBroker) Consume(planned PlannedInlet, now func() time.Duration, sink func(delivery.Event)) Inlet {
	b.note("Consume %s", planned.Topic)
	in := &fakeInlet{broker: b, planned: planned, now: now, sink: sink, pos: map[int32]int64{}, committed: map[int32]int64{}}
	b.mu.Lock()
	for _, before := range b.inlets {
		if before.planned.Group == planned.Group { // the group keeps its offsets
			in.committed = maps.Clone(before.committed)
		}
	}
	b.inlets = append(b.inlets, in)
	join := !b.holdJoin
	b.mu.Unlock()
	if join {
		in.assign(1)
	}
	return in
}

func (b *fakeBroker) Produce(sink func(delivery.Event)) Producer {
	b.producer = &fakeProducer{broker: b, sink: sink}
	return b.producer
}

// append adds records to a topic's partition, with rising offsets.
func (b *fakeBroker) append(topic string, partition int, records ...record.Record) {
	b.mu.Lock()
	logs := b.logs[topic]
	for len(logs) <= partition {
		logs = append(logs, nil)
	}
	for _, r := range records {
		if r.Offset == 0 {
			r.Offset = int64(len(logs[partition]))
		}
		logs[partition] = append(logs[partition], r)
	}
	b.logs[topic] = logs
	b.mu.Unlock()
}

// inlet is the consumer of the port that was made last.
func (b *fakeBroker) inlet(port string) *fakeInlet {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, in := range slices.Backward(b.inlets) {
		if in.planned.Port == port {
			return in
		}
	}
	b.t.Fatalf("nobody consumes %s", port)
	return nil
}

// fakeInlet is one consumption. Commits succeed at once unless held.
type fakeInlet struct {
	broker  *fakeBroker
	planned PlannedInlet
	now     func() time.Duration
	sink    func(delivery.Event)

	mu         sync.Mutex
	pos        map[int32]int64 // of partitions that fetch
	lastNext   int64           // of the last Cut
	committed  map[int32]int64
	generation int32 // 0: commits of every generation are taken
	commits    []delivery.Commit
	calls      []string
	holdCommit bool
	cutErr     map[int32]error
	closed     bool
	leaving    chan struct{} // Leave waits for it; nil: not
	sleeps     uint64
	asleep     bool
}

func (in *fakeInlet) log(partition int32) []record.Record {
	in.broker.mu.Lock()
	defer in.broker.mu.Unlock()
	logs := in.broker.logs[in.planned.Topic]
	if int(partition) >= len(logs) {
		return nil
	}
	return logs[partition]
}

// assign gives every partition of the topic, from what is committed.
func (in *fakeInlet) assign(generation int32) {
	in.broker.mu.Lock()
	n := len(in.broker.logs[in.planned.Topic])
	in.broker.mu.Unlock()
	ev := delivery.Assigned{Inlet: in.planned.Port, Generation: generation}
	in.mu.Lock()
	for p := range int32(n) {
		ev.Starts = append(ev.Starts, delivery.Start{Partition: p, Offset: in.committed[p]})
	}
	in.mu.Unlock()
	in.sink(ev)
}

func (in *fakeInlet) call(format string, args ...any) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.calls = append(in.calls, fmt.Sprintf(format, args...))
}

func (in *fakeInlet) called(call string) bool {
	synctest.Wait()
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.Contains(in.calls, call)
}

func (in *fakeInlet) Commit(c delivery.Commit) {
	in.mu.Lock()
	if in.generation != 0 && c.Generation != in.generation {
		in.mu.Unlock()
		in.sink(delivery.Committed{Inlet: in.planned.Port, Sequence: c.Sequence, Outcome: delivery.CommitStale, Reason: "its generation is over"})
		return
	}
	in.commits = append(in.commits, c)
	for _, o := range c.Offsets {
		if !in.holdCommit {
			in.committed[o.Partition] = o.Offset
		}
	}
	hold := in.holdCommit
	in.mu.Unlock()
	if !hold {
		in.sink(delivery.Committed{Inlet: in.planned.Port, Sequence: c.Sequence})
	}
}

func (in *fakeInlet) committedAt(partition int32) int64 {
	synctest.Wait()
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.committed[partition]
}

func (in *fakeInlet) Sleeps() (uint64, bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.sleeps, in.asleep
}

// sleep begins a time in which the program does not run; awake ends it, with
// what the membership has to say.
func (in *fakeInlet) sleep() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.asleep = true
}

func (in *fakeInlet) awake(say ...delivery.Event) {
	for _, ev := range say {
		in.sink(ev)
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.sleeps++
	in.asleep = false
}

func (in *fakeInlet) Release(partitions []int32) { in.call("Release %v", partitions) }

func (in *fakeInlet) Pause(partition int32) {
	in.call("Pause %d", partition)
	in.mu.Lock()
	defer in.mu.Unlock()
	delete(in.pos, partition)
}

func (in *fakeInlet) Seek(partition int32, offset int64) {
	in.call("Seek %d %d", partition, offset)
	in.mu.Lock()
	in.pos[partition] = offset
	in.mu.Unlock()
	in.look(partition)
}

// look tells of records at the position.
func (in *fakeInlet) look(partition int32) {
	log := in.log(partition)
	in.mu.Lock()
	pos, ok := in.pos[partition]
	in.mu.Unlock()
	if ok && len(log) > 0 && log[len(log)-1].Offset >= pos {
		in.sink(delivery.Fetched{TP: delivery.TP{Inlet: in.planned.Port, Partition: partition}})
	}
}

func (in *fakeInlet) Cut(partition int32, dst []record.Record, maxRecords, maxBytes int) (records []record.Record, first, next int64, more bool, err error) {
	log := in.log(partition)
	in.mu.Lock()
	defer in.mu.Unlock()
	dst = dst[:0]
	pos, ok := in.pos[partition]
	if !ok {
		return dst, 0, 0, false, nil
	}
	if err := in.cutErr[partition]; err != nil {
		// As the consumer does: told by the event, from another goroutine.
		go in.sink(delivery.FetchFailed{TP: delivery.TP{Inlet: in.planned.Port, Partition: partition}, Reason: err.Error(), Blocked: true})
		delete(in.pos, partition)
		return dst, pos, pos, false, err
	}
	first, next = pos, pos
	for i := range log {
		switch {
		case log[i].Offset < pos:
			continue
		case len(dst) == maxRecords || len(dst) > 0 && log[i].Size() > maxBytes:
			more = true
		default:
			dst = append(dst, log[i])
			maxBytes -= log[i].Size()
			next = log[i].Offset + 1
			continue
		}
		break
	}
	in.pos[partition], in.lastNext = next, next
	in.broker.note("Cut %d", len(dst))
	return dst, first, next, more, nil
}

func (in *fakeInlet) CutBack(partition int32, offset int64) {
	in.call("CutBack %d %d", partition, offset)
	in.mu.Lock()
	defer in.mu.Unlock()
	if offset > in.lastNext {
		in.broker.t.Errorf("CutBack to %d, behind what was cut (%d)", offset, in.lastNext)
	}
	in.pos[partition] = offset
}

func (in *fakeInlet) Ends() map[int32]kafka.End {
	ends := map[int32]kafka.End{}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.broker.mu.Lock()
	defer in.broker.mu.Unlock()
	for p, log := range in.broker.logs[in.planned.Topic] {
		end := int64(0)
		if len(log) > 0 {
			end = log[len(log)-1].Offset + 1
		}
		ends[int32(p)] = kafka.End{HighWatermark: end, LastStable: end}
	}
	return ends
}

func (in *fakeInlet) Leave(ctx context.Context) error {
	in.broker.note("Leave %s", in.planned.Topic)
	in.mu.Lock()
	leaving := in.leaving
	in.mu.Unlock()
	if leaving != nil {
		select {
		case <-leaving:
		case <-ctx.Done():
			in.Close()
			return ctx.Err()
		}
	}
	in.Close()
	return nil
}

func (in *fakeInlet) Close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
}

func (in *fakeInlet) isClosed() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.closed
}

// written is one topic's share of a write as it was when it was handed over.
type written struct {
	topic   string
	records []record.Record
}

type fakeWrite struct {
	id   uint64
	from delivery.TP
	outs []kafka.Out // as handed over, aliasing the driver's memory
	was  []written   // a copy
}

// fakeProducer writes at once unless held. With every answer it checks that
// nobody has touched what it was given.
type fakeProducer struct {
	broker *fakeBroker
	sink   func(delivery.Event)

	mu     sync.Mutex
	held   bool
	open   []fakeWrite // without an answer
	log    []written   // confirmed, in order
	raised int
	// withdrawn has the writes that nobody wants any more.
	withdrawn []uint64
	holdEpoch bool
	closed    bool
	closeErr  error
}

func (p *fakeProducer) Write(id uint64, from delivery.TP, outs []kafka.Out) {
	p.broker.note("Write %d", id)
	w := fakeWrite{id: id, from: from, outs: outs, was: copyOuts(outs)}
	p.mu.Lock()
	p.open = append(p.open, w)
	held := p.held
	p.mu.Unlock()
	if !held {
		p.answer(delivery.Written{ID: id})
	}
}

func copyOuts(outs []kafka.Out) (copied []written) {
	for _, out := range outs {
		w := written{topic: out.Topic}
		for _, r := range out.Records {
			w.records = append(w.records, cloneRecord(r))
		}
		copied = append(copied, w)
	}
	return copied
}

// cloneRecord keeps null and empty apart: bytes.Clone does.
func cloneRecord(r record.Record) record.Record {
	r.Key, r.Value = bytes.Clone(r.Key), bytes.Clone(r.Value)
	headers := r.Headers
	r.Headers = nil
	for _, h := range headers {
		r.Headers = append(r.Headers, record.Header{Name: bytes.Clone(h.Name), Value: bytes.Clone(h.Value)})
	}
	return r
}

// answer gives an answer to an open write.
func (p *fakeProducer) answer(ev delivery.Event) {
	id := reflect.ValueOf(ev).FieldByName("ID").Uint()
	p.mu.Lock()
	i := slices.IndexFunc(p.open, func(w fakeWrite) bool { return w.id == id })
	if i < 0 {
		p.mu.Unlock()
		p.broker.t.Fatalf("no write %d is open", id)
	}
	w := p.open[i]
	if now := copyOuts(w.outs); !reflect.DeepEqual(now, w.was) {
		p.broker.t.Errorf("write %d changed while it ran: %v, was %v", id, now, w.was)
	}
	switch ev.(type) {
	case delivery.WriteUnknown:
	case delivery.Written:
		p.log = append(p.log, w.was...)
		p.open = slices.Delete(p.open, i, i+1)
	default:
		p.open = slices.Delete(p.open, i, i+1)
	}
	p.mu.Unlock()
	p.sink(ev)
}

func (p *fakeProducer) hold(held bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = held
}

// openIDs are the writes without an answer.
func (p *fakeProducer) openIDs() (ids []uint64) {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.open {
		ids = append(ids, w.id)
	}
	return ids
}

func (p *fakeProducer) Withdraw(id uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.withdrawn = append(p.withdrawn, id)
}

func (p *fakeProducer) RaiseEpoch() {
	p.mu.Lock()
	p.raised++
	hold := p.holdEpoch
	p.mu.Unlock()
	if !hold {
		p.sink(delivery.EpochRaised{})
	}
}

func (p *fakeProducer) Close(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	return p.closeErr
}

// in is what was written to a topic, confirmed and in order.
func (p *fakeProducer) in(topic string) (records []record.Record) {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.log {
		if w.topic == topic {
			records = append(records, w.records...)
		}
	}
	return records
}

// lines is a logger that keeps "event text" lines.
type lines struct {
	mu   sync.Mutex
	all  []string
	warn []string // warnings and errors
}

func (l *lines) Enabled(context.Context, slog.Level) bool { return true }
func (l *lines) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *lines) WithGroup(string) slog.Handler            { return l }

func (l *lines) Handle(_ context.Context, r slog.Record) error {
	line := ""
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "event" {
			line = a.Value.String() + " "
		}
		return true
	})
	line += r.Message
	r.Attrs(func(a slog.Attr) bool {
		if a.Key != "event" {
			line += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		}
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Level > slog.LevelDebug {
		l.all = append(l.all, line)
	}
	if r.Level >= slog.LevelWarn {
		l.warn = append(l.warn, line)
	}
	return nil
}

// has says whether people were told text, in the infos or above.
func (l *lines) has(text string) bool {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.all, func(line string) bool { return strings.Contains(line, text) })
}

func (l *lines) count(text string) (n int) {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.all {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// world is a run with everything around it faked.
type world struct {
	*testing.T
	d       *Driver
	broker  *fakeBroker
	said    *lines
	stops   chan string
	reloads chan string
	force   context.CancelFunc
	result  chan Result

	mu         sync.Mutex
	procs      []*fakeProcess
	stuck      bool  // of processes to come
	launchErr  error // of launches to come
	descriptor wire.Descriptor
	planned    []*Plan
}

// bubble runs a test with a fake clock.
func bubble(t *testing.T, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(newWorld(t)) })
}

func newWorld(t *testing.T) *world {
	w := &world{
		T: t, said: &lines{}, stops: make(chan string, 1), reloads: make(chan string, 1), result: make(chan Result, 1),
		broker:     &fakeBroker{t: t, logs: map[string][][]record.Record{}},
		descriptor: describe("app", []string{"in"}, []string{"left", "right"}),
	}
	return w
}

// describe makes a good descriptor.
func describe(name string, inlets, outlets []string) wire.Descriptor {
	d := wire.Descriptor{ProtocolVersion: wire.Version, Streamlet: wire.Streamlet{Name: name}}
	ports := func(names []string) (ports []wire.Port) {
		for _, n := range names {
			ports = append(ports, wire.Port{Name: n, Contract: wire.Contract{Format: "json", SchemaName: "s.v1", Fingerprint: wire.Fingerprint("s.v1")}})
		}
		return ports
	}
	d.Streamlet.Inlets, d.Streamlet.Outlets = ports(inlets), ports(outlets)
	return d
}

// run starts the driver; change adjusts its configuration.
func (w *world) run(change ...func(*Config)) {
	w.Helper()
	cfg := Config{
		Broker: w.broker, Command: "app", Supervisor: "test", Logger: slog.New(w.said),
		Stops: w.stops, Reloads: w.reloads,
		Launch:  w.launch,
		Planned: func(p *Plan) { w.planned = append(w.planned, p) },
	}
	for _, f := range change {
		f(&cfg)
	}
	d, err := New(cfg)
	if err != nil {
		w.Fatal(err)
	}
	w.d = d
	ctx, cancel := context.WithCancel(w.Context())
	w.force = cancel
	w.Cleanup(cancel)
	go func() { w.result <- d.Run(ctx) }() // ends with the run; end awaits it
	synctest.Wait()
}

func (w *world) launch(release func([]byte)) (Process, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.launchErr != nil {
		return nil, w.launchErr
	}
	p := &fakeProcess{t: w, number: len(w.procs) + 1, events: make(chan supervisor.Event, 1024), release: release, stuck: w.stuck}
	w.procs = append(w.procs, p)
	return p, nil
}

// proc is the process launched last.
func (w *world) proc() *fakeProcess {
	w.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.procs) == 0 {
		w.Fatal("nothing was launched")
	}
	return w.procs[len(w.procs)-1]
}

func (w *world) launches() int {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.procs)
}

// answerDiscovery answers discovery with w's descriptor.
func (w *world) answerDiscovery() *fakeProcess {
	w.Helper()
	p := w.proc()
	p.say(wire.Spec{Descriptor: w.descriptor, Capabilities: wire.DefaultCapabilities()})
	return p
}

// end stops the run in good order: nothing may be with the process.
func (w *world) end() {
	w.Helper()
	w.stops <- "asked"
	synctest.Wait()
	p := w.proc()
	if !p.ended {
		p.say(wire.Stopped{})
		p.exit(supervisor.Exited{})
	}
	if r := w.ended(); r.Code != 0 {
		w.Errorf("ended with %+v", r)
	}
}

// pass lets the fake clock go on.
func (w *world) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// kill ends the run by force.
func (w *world) kill() {
	w.Helper()
	w.force()
	if r := w.ended(); r.Code != 130 {
		w.Errorf("ended with %+v", r)
	}
}

func (w *world) ended() Result {
	w.Helper()
	select {
	case r := <-w.result:
		for _, in := range w.broker.inlets {
			if !in.isClosed() {
				w.Errorf("the inlet of %s was left open", in.planned.Topic)
			}
		}
		if !w.broker.producer.closed {
			w.Error("the producer was left open")
		}
		return r
	case <-time.After(time.Hour):
		w.Fatal("the run did not end within an hour of the fake clock")
		return Result{}
	}
}

// add appends records to the topic and tells the consumer of the inlet.
func (w *world) add(port string, partition int, records ...record.Record) {
	w.Helper()
	in := w.broker.inlet(port)
	w.broker.append(in.planned.Topic, partition, records...)
	in.look(int32(partition))
	synctest.Wait()
}

func (w *world) snapshot() Snapshot {
	w.Helper()
	s, ok := w.d.Snapshot(w.Context())
	if !ok {
		w.Fatal("no snapshot")
	}
	return s
}

// atHand is how many batches the driver still has bytes of. The loop is idle
// then: nothing runs in the bubble but the test.
func (w *world) atHand() int {
	synctest.Wait()
	return len(w.d.shelf.batches)
}

// running starts a run whose topic has so many empty partitions, up to start.
func (w *world) running(partitions int, change ...func(*Config)) *fakeProcess {
	w.Helper()
	w.broker.logs["app.in"] = make([][]record.Record, partitions)
	w.run(change...)
	p := w.answerDiscovery()
	got := p.take()
	if len(got) != 2 || got[0].Kind() != wire.KindDiscover || got[1].Kind() != wire.KindStart {
		w.Fatalf("the process got %v, not discover and start", got)
	}
	return p
}

func values(texts ...string) (records []record.Record) {
	for _, text := range texts {
		records = append(records, record.Record{Value: []byte(text), Timestamp: 1})
	}
	return records
}

func texts(records []record.Record) string {
	all := make([]string, len(records))
	for i, r := range records {
		all[i] = string(r.Value)
	}
	return strings.Join(all, " ")
}

func emitOf(id uint64, outlet string, texts ...string) wire.Emit {
	records := values(texts...)
	for i := range records {
		records[i].Timestamp = record.Now
	}
	return wire.Emit{ID: id, Outlet: outlet, Records: wire.EncodeRecords(records)}
}
