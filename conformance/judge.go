package conformance

import (
	"fmt"
	"slices"
	"strings"

	"ankka-flow/delivery/record"
	"ankka-flow/wire"
)

// judge holds what the process sends against section 4 of PROTOCOL.md: who may send what in
// which state, and about which batch. Every message of every case goes through it.
//
// Messages cross in the pipes, and the process's states are those that it sees. So where a
// message may have been sent before ours arrived, it is taken: the judge never finds a fault
// that is none, and the cases wait for a message that orders the two where it matters.
type judge struct {
	phase   phase
	spec    *wire.Spec // the last one; nil: none yet
	batches map[uint64]*batch
	pings   []uint64 // that are not answered
	// conversation counts the starts.
	conversation uint64
}

// phase is the conversation as the one who asks sees it.
type phase int

const (
	phaseNew        phase = iota // nothing was sent
	phaseAsked                   // discover was sent
	phaseReady                   // spec came
	phaseRunning                 // start was sent
	phaseFinishing               // stop (finish) was sent
	phaseAbandoning              // stop (abandon) was sent
	phaseStopped                 // stopped came
)

// String completes "not allowed ...", as the supervisor's own texts do.
func (p phase) String() string {
	return [...]string{
		"before discover", "before spec", "before start", "in a conversation", "while finishing", "after stop (abandon)", "after stopped",
	}[p]
}

// batch is one that was sent, and what came of it.
type batch struct {
	id        uint64
	inlet     string
	partition int32
	records   []record.Record
	void      bool
	answered  bool
	// voided: it was void when its answer came, so that its emits count for nothing.
	voided bool
	failed *wire.Fail
	emits  []emitted
	held   int
}

// emitted is one record that a batch emitted or forwarded.
type emitted struct {
	outlet string
	record record.Record
}

// out is what the batch emitted to an outlet, in order.
func (b *batch) out(outlet string) []record.Record {
	var out []record.Record
	for _, e := range b.emits {
		if e.outlet == outlet {
			out = append(out, e.record)
		}
	}
	return out
}

func (j *judge) deliver(b *batch) {
	if j.batches == nil {
		j.batches = map[uint64]*batch{}
	}
	j.batches[b.id] = b
}

// stop voids what is with the process where it is to be abandoned.
func (j *judge) stop(mode wire.StopMode) {
	if j.phase == phaseStopped {
		return // it crosses with stopped
	}
	j.phase = phaseFinishing
	if mode == wire.Abandon {
		j.phase = phaseAbandoning
		for _, b := range j.batches {
			b.void = b.void || !b.answered
		}
	}
}

// owed are the ids of the batches that are unanswered, void ones only where void is true.
func (j *judge) owed(void bool) []uint64 {
	var ids []uint64
	for id, b := range j.batches {
		if !b.answered && (void || !b.void) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// received takes a message of the process; the error is what is wrong with it.
func (j *judge) received(m wire.Message) error {
	if j.spec == nil {
		switch m.(type) {
		case wire.Spec, wire.Log:
			if j.phase == phaseNew {
				return wire.OutOfPlace(m.Kind(), j.phase.String())
			}
		default:
			return wire.SpecExpected(m.Kind())
		}
	}
	switch m := m.(type) {
	case wire.Spec:
		if j.phase != phaseAsked {
			return wire.OutOfPlace(m.Kind(), j.phase.String())
		}
		j.spec, j.phase = &m, phaseReady
	case wire.Emit:
		return j.emit(m)
	case wire.Forward:
		return j.forward(m)
	case wire.Ack:
		return j.answer(m.Kind(), m.ID, nil)
	case wire.Fail:
		return j.answer(m.Kind(), m.ID, &m)
	case wire.Pong:
		at := slices.Index(j.pings, m.N)
		if at < 0 {
			return fmt.Errorf("pong %d: no ping of that number is unanswered; answer every ping once, with its own n", m.N)
		}
		j.pings = slices.Delete(j.pings, at, at+1)
	case wire.Stopped:
		return j.stopped()
	}
	return nil // status, report and log are nobody's fault
}

// owing is the batch that a message speaks of, which must be unanswered.
func (j *judge) owing(kind string, id uint64) (*batch, error) {
	b := j.batches[id]
	if b == nil || b.answered {
		return nil, wire.NotInFlight(kind, id, b != nil)
	}
	return b, nil
}

func (j *judge) declared(kind string, id uint64, outlet string) error {
	names := wire.PortNames(j.spec.Descriptor.Streamlet.Outlets)
	if !slices.Contains(names, outlet) {
		return wire.UnknownOutlet(kind, id, outlet, names)
	}
	return nil
}

func (j *judge) emit(m wire.Emit) error {
	b, err := j.owing(m.Kind(), m.ID)
	if err != nil {
		return err
	}
	if err := j.declared(m.Kind(), m.ID, m.Outlet); err != nil {
		return err
	}
	for _, r := range m.Records.Append(nil) {
		b.emits = append(b.emits, emitted{m.Outlet, r})
	}
	return b.hold(m.Kind(), m.Records.Held())
}

func (j *judge) forward(m wire.Forward) error {
	b, err := j.owing(m.Kind(), m.ID)
	if err != nil {
		return err
	}
	if err := j.declared(m.Kind(), m.ID, m.Outlet); err != nil {
		return err
	}
	indexes := m.Indexes
	if m.All {
		indexes = make([]int, len(b.records))
		for i := range indexes {
			indexes[i] = i
		}
	}
	held := 0
	for _, i := range indexes {
		if i >= len(b.records) {
			return wire.IndexOutOfRange(m.ID, i, len(b.records))
		}
		b.emits = append(b.emits, emitted{m.Outlet, b.records[i]})
		held += b.records[i].Size()
	}
	return b.hold(m.Kind(), held)
}

func (b *batch) hold(kind string, bytes int) error {
	if b.held += bytes; b.held > wire.MaxHeld {
		return wire.HeldTooMuch(kind, b.id)
	}
	return nil
}

func (j *judge) answer(kind string, id uint64, failed *wire.Fail) error {
	b, err := j.owing(kind, id)
	if err != nil {
		return err
	}
	b.answered, b.failed, b.voided = true, failed, b.void
	if failed != nil && failed.HasOffset && !slices.ContainsFunc(b.records, func(r record.Record) bool { return r.Offset == failed.Offset }) {
		return fmt.Errorf("fail of batch %d: info.offset is %d, which is that of none of its records", id, failed.Offset)
	}
	return nil
}

func (j *judge) stopped() error {
	switch j.phase {
	case phaseAbandoning:
	case phaseFinishing:
		if owed := j.owed(false); len(owed) > 0 {
			return fmt.Errorf("stopped: %s not answered and not void; after stop (finish) it follows the last answer", ids(owed))
		}
	default:
		return wire.OutOfPlace(wire.KindStopped, j.phase.String())
	}
	j.phase = phaseStopped
	return nil
}

// ids is "batch 3 is" or "batches 3 and 4 are".
func ids(of []uint64) string {
	text := strings.Trim(strings.ReplaceAll(fmt.Sprint(of), " ", ", "), "[]")
	if len(of) == 1 {
		return "batch " + text + " is"
	}
	return "batches " + text + " are"
}
