package driver

import (
	"errors"
	"fmt"
	"log/slog"

	"ankka-flow/delivery"
	"ankka-flow/supervisor"
	"ankka-flow/wire"
)

// toProcess carries out an action on the process. One on a process that is
// gone is void: its Exited is on the way to the core or was there.
func (d *Driver) toProcess(action delivery.Action) {
	if launch, ok := action.(delivery.Launch); ok {
		d.launch(launch)
		return
	}
	if d.proc == nil {
		return
	}
	switch a := action.(type) {
	case delivery.Discover:
		d.awaiting, d.slowAt = true, d.now()+SlowDiscovery
		if d.cfg.Core.Attach { // somebody may sit at a breakpoint
			d.slowAt = 0
		}
		d.control(wire.Discover{
			Protocol: wire.Version, Supervisor: d.cfg.Supervisor,
			MaxFrameBytes: wire.MaxFrame, MaxRecordBytes: wire.MaxRecord,
		})
	case delivery.Refuse:
		d.control(wire.Refuse{Problems: a.Problems})
	case delivery.Begin:
		d.begin(a)
	case delivery.Withdraw:
		d.withdraw(a)
	case delivery.Stop:
		mode := wire.Finish
		if a.Abandon {
			mode = wire.Abandon
		}
		d.control(wire.Stop{Mode: mode, Reason: a.Reason})
	case delivery.CloseInput:
		d.proc.CloseInput()
	case delivery.Terminate:
		d.proc.Terminate()
	case delivery.Kill:
		d.proc.Kill()
	default:
		panic(fmt.Sprintf("driver: unknown action %T %v", action, action))
	}
}

// control sends a frame that overtakes data. What we encode is ours, so an
// error is a broken contract.
func (d *Driver) control(m wire.Message) {
	frame, err := wire.Append(nil, m)
	if err != nil {
		panic(fmt.Sprintf("driver: encoding %T: %v", m, err))
	}
	d.proc.Control(frame)
}

func (d *Driver) launch(a delivery.Launch) {
	proc, err := d.cfg.Launch(d.frames.put)
	if err != nil {
		code := 126
		var launchErr *supervisor.LaunchError
		if errors.As(err, &launchErr) {
			code = launchErr.Code
		}
		d.say(slog.LevelError, "process", err.Error())
		d.stepSaid(delivery.LaunchFailed{Process: a.Process, Reason: err.Error(), Code: code})
		return
	}
	d.proc, d.process, d.procCh = proc, a.Process, proc.Events()
	d.awaiting, d.described = false, false
	d.renewDetails()
	text := d.cfg.Command
	if proc.Pid() > 0 { // an attached one's is not known on every system
		text = fmt.Sprintf("pid %d: %s", proc.Pid(), text)
	}
	d.say(slog.LevelInfo, "process", text)
	d.step(delivery.Launched{Process: a.Process, PID: proc.Pid()})
}

func (d *Driver) begin(a delivery.Begin) { d.control(startOf(d.plan, a.Conversation)) }

func startOf(plan *Plan, conversation uint64) wire.Start {
	return wire.Start{
		Conversation: conversation, Pipeline: plan.Pipeline, Streamlet: plan.Streamlet,
		Config: plan.Config, Inlets: plan.InletTopics(), Outlets: plan.OutletTopics(),
		Errors: plan.Errors,
	}
}

// withdraw takes a batch back, or revokes it where some of it was sent.
func (d *Driver) withdraw(a delivery.Withdraw) {
	if d.proc.Withdraw(a.ID) { // its Drop comes from the core
		d.step(delivery.Withdrawn{Process: a.Process, ID: a.ID})
		return
	}
	if a.Revoke {
		d.control(wire.Revoke{ID: a.ID})
	}
}

// deliver cuts a batch, sends it and says what it holds. The frame is filled
// record by record: what does not fit any more goes back.
func (d *Driver) deliver(a delivery.Deliver) {
	in, ok := d.inlets[a.TP.Inlet]
	if !ok || d.proc == nil {
		d.step(nothingCut(a)) // Lost or Exited is on the way
		return
	}
	b := d.shelf.take(a.ID, a.TP, d.topics)
	records, first, next, more, err := in.Cut(a.TP.Partition, b.records, a.MaxRecords, a.MaxBytes)
	b.records = records
	if err != nil { // the inlet tells it, by FetchFailed
		d.shelf.drop(a.ID)
		d.step(nothingCut(a))
		return
	}
	if len(records) == 0 {
		d.shelf.drop(a.ID)
		d.step(delivery.Cut{ID: a.ID, First: first, Next: next, More: more})
		return
	}
	size, memory := 0, d.frames.get()
	d.encoder.Begin(memory, a.ID, a.TP.Inlet, a.TP.Partition)
	for i := range records {
		fit := d.encoder.Append(&records[i])
		if fit == wire.Fits {
			size += records[i].Size()
			continue
		}
		if i == 0 {
			d.frames.put(memory)
			d.oversized(a, in, b)
			return
		}
		next, more = records[i].Offset, true
		in.CutBack(a.TP.Partition, next)
		clear(records[i:])
		b.records = records[:i]
		break
	}
	d.proc.Data(a.ID, d.encoder.Finish(a.Attempt))
	d.step(delivery.Cut{ID: a.ID, First: b.records[0].Offset, Next: next, Records: len(b.records), Bytes: size, More: more})
}

// nothingCut answers a Deliver for which there is nothing.
func nothingCut(a delivery.Deliver) delivery.Cut {
	return delivery.Cut{ID: a.ID, First: a.Offset, Next: a.Offset}
}

// oversized reports a batch whose first record is over the protocol's limit.
func (d *Driver) oversized(a delivery.Deliver, in Inlet, b *batch) {
	r := &b.records[0]
	ev := delivery.Oversized{ID: a.ID, Offset: r.Offset, Size: wire.RecordSize(r)}
	in.CutBack(a.TP.Partition, r.Offset)
	d.shelf.drop(a.ID)
	d.step(ev)
}

// onProcess turns what the process package saw into events for the core.
func (d *Driver) onProcess(ev supervisor.Event, ok bool) {
	if !ok {
		d.procCh = nil
		return
	}
	switch e := ev.(type) {
	case supervisor.Received:
		d.received(e.Message)
	case supervisor.Stray:
		d.say(slog.LevelWarn, "process", fmt.Sprintf("wrote %s to stdout, which carries the protocol; print to stderr", e.Text))
	case supervisor.Broken:
		var named *wire.Violation
		id := uint64(0) // no batch
		if errors.As(e.Err, &named) && named.HasBatch {
			id = named.Batch
		}
		d.violated(e.Err.Error(), id)
	case supervisor.OutputClosed:
		d.step(delivery.OutputClosed{Process: d.process})
	case supervisor.InputBroken:
		d.inputBroken(e)
	case supervisor.Unreachable:
		d.step(delivery.Unreachable{Process: d.process, Reason: e.Why})
	case supervisor.Exited:
		d.exited(e)
	default:
		panic(fmt.Sprintf("driver: unknown process event %T", ev))
	}
}

// inputBroken: the process lives and can be sent nothing more. One that was
// asked to finish may still answer what it has; the stop's times bound it.
func (d *Driver) inputBroken(e supervisor.InputBroken) {
	if d.core.Status().State == delivery.Stopping {
		d.say(slog.LevelDebug, "process", fmt.Sprintf("reads its stdin no more: %v", e.Err))
		return
	}
	d.step(delivery.Unreachable{Process: d.process, Reason: fmt.Sprintf("it reads its stdin no more: %v", e.Err)})
}

// exited lets go of the process before the core hears of it: what the core
// answers with may be the next launch.
func (d *Driver) exited(e supervisor.Exited) {
	d.proc, d.procCh = nil, nil
	unanswered := d.core.Status().InFlight
	actions := d.decide(delivery.Exited{Process: d.process, Reason: e.String(), Code: exitStatus(e)})
	d.sayExit(e, d.hush(actions), unanswered)
	d.carryOut()
}

// exitStatus is the code as a shell sees it.
func exitStatus(e supervisor.Exited) int {
	if e.Signal != 0 {
		return 128 + int(e.Signal)
	}
	return e.Code
}

// received turns a message of the process into an event.
func (d *Driver) received(m wire.Message) {
	if !d.described && !opens(m) {
		d.violated(wire.SpecExpected(m.Kind()).Error(), 0)
		return
	}
	switch m := m.(type) {
	case wire.Spec:
		d.discovered(m)
	case wire.Emit:
		d.emitted = m
		d.step(delivery.Emitted{Process: d.process, ID: m.ID, Outlet: m.Outlet, Records: m.Records.Len(), Bytes: m.Records.Held()})
		d.emitted = nil
	case wire.Forward:
		d.forward(m)
	case wire.Ack:
		d.step(delivery.Acked{Process: d.process, ID: m.ID})
	case wire.Fail:
		d.failed(m)
	case wire.Status:
		d.step(delivery.Statused{Process: d.process, ID: m.ID, Waiting: m.Waiting, Error: m.Error})
	case wire.Log:
		d.processLog(m)
	case wire.Stopped:
		d.step(delivery.StoppedByProcess{Process: d.process})
	case wire.Report:
		if d.cfg.Observer != nil {
			d.cfg.Observer.Reported(m)
		}
	case wire.Pong:
		// Any frame counts as life, in the process package.
	default:
		panic(fmt.Sprintf("driver: %T is no message of a process", m)) // ParseFromProcess gives none
	}
}

// opens says that a process may send m before it has described itself.
func opens(m wire.Message) bool {
	switch m.(type) {
	case wire.Spec, wire.Log:
		return true
	}
	return false
}

func (d *Driver) violated(reason string, id uint64) {
	d.step(delivery.Violated{Process: d.process, Reason: reason, ID: id})
}

// forward checks the indexes against the batch. A batch that is not at hand is
// for the core to judge: void, answered or never sent.
func (d *Driver) forward(m wire.Forward) {
	records, bytes := len(m.Indexes), 0
	if b, ok := d.shelf.batches[m.ID]; ok {
		var outside int
		records, bytes, outside = b.forwarded(&m)
		if outside >= 0 {
			d.violated(wire.IndexOutOfRange(m.ID, outside, len(b.records)).Error(), m.ID)
			return
		}
	}
	d.emitted = m
	d.step(delivery.Emitted{Process: d.process, ID: m.ID, Outlet: m.Outlet, Records: records, Bytes: bytes, Forward: true})
	d.emitted = nil
}

// discovered judges the answer to discovery.
func (d *Driver) discovered(m wire.Spec) {
	if !d.awaiting {
		d.violated(unasked(wire.KindSpec), 0)
		return
	}
	d.awaiting, d.described = false, true
	plan, problems := NewPlan(&d.cfg.Declared, &m.Descriptor)
	if len(d.cfg.Declared.Errors) > 0 && !m.Capabilities.Errors {
		problems = append(problems, "the configuration sets errors, but this process does not say that it applies them (capability errors); take them out, or use an SDK that does")
	}
	if len(problems) == 0 {
		// What a descriptor declares may be more than one frame holds.
		if _, err := wire.Append(nil, startOf(plan, wire.MaxInteger)); err != nil {
			problems = []string{fmt.Sprintf("what it declares cannot be started: %v", err)}
		}
	}
	if len(problems) > 0 {
		problems = bounded(problems)
		for _, problem := range problems {
			d.say(slog.LevelError, "refused", problem)
		}
		d.stepSaid(delivery.SpecRefused{Process: d.process, Problems: problems})
		return
	}
	if m.Capabilities.Ping {
		d.proc.SpeaksPing()
	}
	first := d.plan == nil
	d.adopt(plan)
	if first {
		d.say(slog.LevelInfo, "discovered", fmt.Sprintf("%s: %s -> %s", plan.Streamlet, list(wire.PortNames(m.Descriptor.Streamlet.Inlets)), list(wire.PortNames(m.Descriptor.Streamlet.Outlets))))
	}
	if d.cfg.Planned != nil {
		d.cfg.Planned(plan)
	}
	d.step(delivery.SpecGood{
		Process: d.process, MaxInFlight: m.Capabilities.MaxInFlight,
		Inlets: wire.PortNames(m.Descriptor.Streamlet.Inlets), Outlets: wire.PortNames(m.Descriptor.Streamlet.Outlets),
	})
}
