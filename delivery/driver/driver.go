package driver

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"ankka-flow/delivery"
	"ankka-flow/supervisor"
	"ankka-flow/wire"
)

// Config is what a run needs.
type Config struct {
	Core     delivery.Config
	Declared Declared
	Broker   Broker
	// Launch starts the process, which gives the memory of every frame back
	// through release (supervisor.Options.Release). Its error is a
	// *supervisor.LaunchError or counts as code 126.
	Launch func(release func(frame []byte)) (Process, error)
	// Command is the process's command line, for people.
	Command string
	// Supervisor is our name and version, told to the process.
	Supervisor string
	Logger     *slog.Logger
	// Stops and Reloads carry what is asked for, with its reason.
	Stops, Reloads <-chan string
	// ReadyText stands in place of the conversation's number on the first line
	// that says that everything runs; empty: nothing does.
	ReadyText string
	// Planned is told of every accepted discovery; nil: nobody. It must not
	// block.
	Planned func(*Plan)
	// Detail is shown what a process tells of a failure beside its message, a
	// traceback say: bounded, lines apart by newlines, none at the end. nil: it is
	// logged at the debug level. It must not block.
	Detail func(lines string)
	// Observer is told what happens; nil: nobody.
	Observer Observer
	// StallAfter is how long a partition may have something and not commit it
	// before a warning names it (FLOW_STALL_WARNING_AFTER); 0: no warning.
	StallAfter time.Duration
	// LeaveTimeout bounds each of what is left to do once the loop has ended:
	// the end of a process that was killed, and the broker's side; 0 means 2 s.
	// After a stop all of it ends with Core.Stop.Exit too.
	LeaveTimeout time.Duration
}

// Result is how a run ended.
type Result struct {
	// Code is the exit code (the table is supervisor's).
	Code   int
	Reason string
	// Said: Reason was logged as it happened; who says it again says it twice.
	Said bool
}

// Driver is one run.
type Driver struct {
	cfg   Config
	core  *delivery.Core
	log   *slog.Logger
	began time.Time

	events   chan arrival
	prepared chan preparation
	asks     chan chan Snapshot
	done     chan struct{}
	others   sync.WaitGroup

	// What the loop alone touches.
	queue    []delivery.Action
	busy     bool
	exit     *delivery.Exit
	proc     Process
	process  uint64 // number of proc
	procCh   <-chan supervisor.Event
	awaiting bool // discover was sent and spec has not come
	// described: spec has come from this process, if only once.
	described bool
	plan      *Plan
	topics    map[string]string // outlet to topic
	ready     bool              // the plan was prepared
	waiting   []string          // inlets to consume once it is
	prepare   context.CancelFunc
	preparing chan struct{} // closed when the last preparation has ended
	producer  Producer
	inlets    map[string]*consumed
	shelf     shelf
	encoder   wire.BatchEncoder
	frames    frames
	emitted   any // the wire.Emit or wire.Forward being stepped
	progress  progress
	stalls    stalls
	told      string // the reason of a failure or a stop that was said last
	toldStop  string // the reason of the stop, once it was said
	saidReady bool   // Config.ReadyText was said
	// slowAt is when a discovery that is awaited is slow; 0: that was said.
	slowAt time.Duration
	// dropped is the batch that the core dropped last: what is said of a failure
	// comes behind it.
	dropped span
	// details and lastDetail are what showDetail has shown.
	details    map[delivery.TP]shownDetail
	lastDetail uint64
	// exitBy is when everything must be over; zero: no stop was asked for.
	exitBy time.Time
}

// preparation is the end of a Broker.Prepare.
type preparation struct {
	plan *Plan
	err  error
}

// New makes a driver that has not started. It fails on a bad Core
// configuration.
func New(cfg Config) (*Driver, error) {
	if err := cfg.Core.Validate(); err != nil {
		return nil, fmt.Errorf("configuring delivery: %w", err)
	}
	if cfg.LeaveTimeout == 0 {
		cfg.LeaveTimeout = 2 * time.Second
	}
	cfg.Core.RecordLimit, cfg.Core.Explain = wire.MaxRecord, explain
	return &Driver{
		cfg: cfg, core: delivery.New(cfg.Core), log: cfg.Logger,
		events:   make(chan arrival, 256),
		prepared: make(chan preparation),
		asks:     make(chan chan Snapshot),
		done:     make(chan struct{}),
		inlets:   map[string]*consumed{},
		shelf:    shelf{batches: map[uint64]*batch{}},
	}, nil
}

// Run runs until the core exits, or until ctx ends: then the process is killed
// and nothing is waited for but what we started. It is called once.
func (d *Driver) Run(ctx context.Context) Result {
	d.began = time.Now()
	d.producer = d.cfg.Broker.Produce(d.sink(nil))
	defer d.close()
	defer d.sayLastProgress()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for d.exit == nil {
		select {
		case <-ctx.Done():
			return Result{Code: supervisor.ExitCode(supervisor.Forced, nil, nil), Reason: "ended at once, as asked; what was not committed is delivered again"}
		case a := <-d.events:
			if a.from != nil || d.awaken() {
				d.onBroker(a)
			}
		case ev, ok := <-d.procCh:
			if d.awaken() {
				d.onProcess(ev, ok)
			}
		case p := <-d.prepared:
			d.onPrepared(p)
		case reason := <-d.cfg.Stops:
			d.limitExit()
			d.stepSaid(delivery.StopAsked{Reason: reason})
		case reason := <-d.cfg.Reloads:
			d.step(delivery.ReloadAsked{Reason: reason})
		case ask := <-d.asks:
			ask <- d.snapshot()
		case <-timer.C:
			d.step(delivery.Ticked{})
			d.sayProgress()
			d.watchStalls()
			d.saySlowDiscovery()
		}
		d.arm(timer)
	}
	said := d.exit.Reason == d.told || d.exit.Reason == d.toldStop
	return Result{Code: d.exit.Code, Reason: d.named(d.exit.Reason), Said: said}
}

// arm sets the timer to what is due next: the core's wake or the progress line.
func (d *Driver) arm(timer *time.Timer) {
	at, ok := d.core.Wake()
	if line, due := d.progress.due(); due && (!ok || line < at) {
		at, ok = line, true
	}
	if slow := d.slowAt; d.awaiting && slow > 0 && (!ok || slow < at) {
		at, ok = slow, true
	}
	if d.cfg.StallAfter > 0 && (!ok || d.stalls.next < at) {
		at, ok = d.stalls.next, true
	}
	if !ok {
		timer.Stop()
		return
	}
	timer.Reset(max(0, at-d.now()))
}

// now is the core's time: since Run began, by the monotonic clock.
func (d *Driver) now() time.Duration { return time.Since(d.began) }

// arrival is an event of the broker's side; from is nil for the producer's.
type arrival struct {
	ev   delivery.Event
	from *consumed
}

// consumed is one consumption of an inlet, from its Subscribe to its Leave.
type consumed struct {
	Inlet
	port    string
	planned PlannedInlet
	// committing is the sequence of the commit on the way, 0: none; offsets are
	// what it commits.
	committing uint64
	offsets    []delivery.PartitionOffset
	trouble    commitTrouble
	sleeps     uint64 // that were looked at
}

// sink makes the sink of an inlet or, with nil, of the producer; it is called
// from their goroutines.
func (d *Driver) sink(from *consumed) func(delivery.Event) {
	return func(ev delivery.Event) {
		select {
		case d.events <- arrival{ev, from}:
		case <-d.done:
		}
	}
}

// onBroker steps an event of the broker's side. One of an inlet that was left
// is dropped: the core has taken everything of it as lost.
func (d *Driver) onBroker(a arrival) {
	if a.from != nil && d.inlets[a.from.port] != a.from {
		return
	}
	if ev, ok := a.ev.(delivery.Committed); ok && a.from != nil && a.from.committing == ev.Sequence {
		a.from.committing = 0 // before the step, which may commit again
		if ev.Outcome == delivery.CommitDone {
			d.foreseeCommit(a.from.port, a.from.offsets)
		}
	}
	if saidAlready(a.ev) {
		d.stepSaid(a.ev)
	} else {
		d.step(a.ev)
	}
	switch ev := a.ev.(type) {
	case delivery.Written:
		d.shelf.drop(ev.ID)
	case delivery.Refused:
		d.shelf.drop(ev.ID)
	case delivery.Unsettled:
		d.shelf.drop(ev.ID)
	case delivery.Committed:
		d.noticeCommit(ev)
		if a.from != nil {
			d.noticeRefusals(a.from, ev)
		}
	}
}

// saidAlready: what fails here was said by the Kafka client, once, with the right
// or setting that is missing.
func saidAlready(ev delivery.Event) bool {
	switch ev := ev.(type) {
	case delivery.Refused:
		return ev.Said
	case delivery.Committed:
		return ev.Said
	}
	return false
}

// step tells the core what happened and carries out everything that follows.
// Called while an action is carried out (Cut answers Deliver) it only adds to
// what is to be done.
func (d *Driver) step(ev delivery.Event) {
	d.decide(ev)
	d.carryOut()
}

// stepSaid steps an event that people were told of already: that the stream
// fails or stops because of it would be the same line again.
func (d *Driver) stepSaid(ev delivery.Event) {
	d.hush(d.decide(ev))
	d.carryOut()
}

// hush keeps what was said from being said again, and reports whether the
// stream fails by it.
func (d *Driver) hush(actions []delivery.Action) (fails bool) {
	for i, action := range actions {
		n, ok := action.(delivery.Note)
		if !ok || n.Kind != delivery.NoteFailed && n.Kind != delivery.NoteStopping {
			continue
		}
		fails = fails || n.Kind == delivery.NoteFailed
		d.told = n.Text
		if n.Kind == delivery.NoteStopping {
			d.toldStop = n.Text
		}
		n.Kind = delivery.NoteProcess // for who debugs
		actions[i] = n
	}
	return fails
}

func (d *Driver) carryOut() {
	if d.busy {
		return
	}
	d.busy = true
	for i := 0; i < len(d.queue); i++ {
		d.do(d.queue[i])
	}
	clear(d.queue)
	d.queue = d.queue[:0]
	d.busy = false
}

// do carries out one action.
func (d *Driver) do(action delivery.Action) {
	switch a := action.(type) {
	case delivery.Deliver:
		d.deliver(a)
	case delivery.Hold:
		d.hold(a)
	case delivery.Drop:
		d.noteDropped(a.ID)
		d.shelf.drop(a.ID)
	case delivery.Write:
		d.write(a)
	case delivery.CancelWrite:
		d.producer.Withdraw(a.ID)
	case delivery.RaiseEpoch:
		d.producer.RaiseEpoch()
	case delivery.Commit, delivery.Release, delivery.Seek, delivery.Pause, delivery.Subscribe, delivery.Leave:
		d.onInlet(action)
	case delivery.Note:
		d.note(a)
	case delivery.Exit:
		d.exit = &a
	default:
		d.toProcess(action)
	}
}

// onInlet carries out an action on an inlet's membership or fetching. One on
// an inlet that is gone is void: the core has heard, or will, that it is lost.
func (d *Driver) onInlet(action delivery.Action) {
	switch a := action.(type) {
	case delivery.Subscribe:
		d.subscribe(a.Inlet)
	case delivery.Leave:
		d.leave(a.Inlet)
	case delivery.Commit:
		if in, ok := d.inlets[a.Inlet]; ok {
			in.committing, in.offsets = a.Sequence, append(in.offsets[:0], a.Offsets...)
			in.Commit(a)
		}
	case delivery.Release:
		if in, ok := d.inlets[a.Inlet]; ok {
			in.Release(a.Partitions)
		}
	case delivery.Seek:
		if in, ok := d.inlets[a.TP.Inlet]; ok {
			in.Seek(a.TP.Partition, a.Offset)
		}
	case delivery.Pause:
		if in, ok := d.inlets[a.TP.Inlet]; ok {
			in.Pause(a.TP.Partition)
		}
	}
}

// write hands a batch's emits to the producer.
func (d *Driver) write(a delivery.Write) {
	b, ok := d.shelf.batches[a.ID]
	if !ok {
		panic(fmt.Sprintf("driver: write of batch %d, which is not at hand", a.ID))
	}
	d.observeWrite(b)
	d.producer.Write(b.id, b.tp, b.outs())
}

// hold keeps the emit that is being stepped.
func (d *Driver) hold(a delivery.Hold) {
	b, ok := d.shelf.batches[a.ID]
	if !ok {
		panic(fmt.Sprintf("driver: hold for batch %d, which is not at hand", a.ID))
	}
	switch m := d.emitted.(type) {
	case wire.Emit:
		b.hold(&m)
	case wire.Forward:
		b.holdForward(&m)
	default:
		panic(fmt.Sprintf("driver: hold for batch %d without an emit", a.ID))
	}
}

// limitExit begins the budget that the core and what is left behind it share.
func (d *Driver) limitExit() {
	if d.exitBy.IsZero() && d.cfg.Core.Stop.Exit > 0 {
		d.exitBy = time.Now().Add(d.cfg.Core.Stop.Exit)
	}
}

// leaveTimeout is how long one part of what is left may take from now on.
func (d *Driver) leaveTimeout() time.Duration {
	if d.exitBy.IsZero() {
		return d.cfg.LeaveTimeout
	}
	return max(0, min(d.cfg.LeaveTimeout, time.Until(d.exitBy)))
}

// close ends whatever Run started, in the order in which it depends on each
// other, and waits for it.
func (d *Driver) close() {
	close(d.done)
	if d.prepare != nil {
		d.prepare()
	}
	if d.proc != nil {
		d.endProcess()
	}
	ctx, cancel := context.WithTimeout(context.Background(), d.leaveTimeout())
	defer cancel()
	if err := d.producer.Close(ctx); err != nil {
		d.log.Warn(fmt.Sprintf("the producer was left with writes on the way: %v", err), "event", "stopping")
	}
	for _, in := range d.inlets {
		in.Close()
	}
	d.others.Wait()
}

// endProcess kills the process and waits for its end. One that the system does
// not end (its driver hangs in the kernel) is left behind.
func (d *Driver) endProcess() {
	d.proc.Kill()
	timeout := time.NewTimer(d.leaveTimeout())
	defer timeout.Stop()
	for {
		select {
		case _, ok := <-d.procCh:
			if !ok {
				return
			}
		case <-timeout.C:
			d.log.Error(fmt.Sprintf("pid %d was killed and does not end; it is left behind", d.proc.Pid()), "event", "process")
			return
		}
	}
}
