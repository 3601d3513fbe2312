package delivery

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// The model is a broker, a process and a group coordinator that misbehave in
// every way that doc.go knows, driven by a row of choices. After every Step the
// rules are checked against the model broker's own log and commits, never
// against what the core says of itself.

const (
	modelPartitions = 3
	modelOutlet     = "out"
)

// world is everything around the core.
type world struct {
	pick   func(n int) int // the next choice, 0 to n-1
	core   *Core
	cfg    Config
	now    time.Duration
	script []string
	calm   bool // no more faults

	parts []*modelPart
	group modelGroup
	proc  modelProcess

	held     map[uint64][]int64 // held emits, as offsets of the records they are for
	emitting []int64            // what the Emitted of this moment has
	writes   []*modelWrite
	zombies  []*modelWrite // unsettled: may still be appended until the epoch is raised
	commit   *modelCommit
	raising  bool

	immediate []Event
	lastID    uint64
	exited    bool
	open      bool          // between Begin and Stop, or the process's end
	credit    int           // the process's max_in_flight
	stopBy    time.Duration // when a stop's budget ends, 0: none was asked for
}

type modelPart struct {
	tp        TP
	end       int64
	hole      map[int64]bool // offsets without a record
	oversized map[int64]bool
	poison    map[int64]poison // records that fail whenever they are handled, until they are mended
	log       []int64          // the output, in the broker's order, by input offset
	committed int64            // -1: none
	ours      bool
	released  int32 // in this generation: its commits are accepted until the next
	revoking  bool
	fetch     int64 // where the consumer stands, -1: nowhere
	hint      bool  // a Fetched is due
	acked     map[int64]bool
	// expect bounds the next delivery of this tenure: nothing is skipped.
	expect int64
}

// poison is what a record does to the process.
type poison int

const (
	raises poison = 1 + iota
	kills
	hangs
)

// bad is the first record that is poison at or behind an offset, or the end.
func (p *modelPart) bad(from int64) int64 {
	for ; from < p.end && p.poison[from] == 0; from++ {
	}
	return from
}

type modelGroup struct {
	subscribed, joined, suspended bool
	generation                    int32
	releasing, drained            bool
}

type modelProcess struct {
	number                               uint64
	launching, up, dying, closing        bool
	discover, stopped, finishing, refuse bool
	batches                              []*modelBatch
}

// waiting counts the batches that the process said to wait with.
func (p *modelProcess) waiting() int {
	n := 0
	for _, b := range p.batches {
		if b.waiting {
			n++
		}
	}
	return n
}

type modelBatch struct {
	id      uint64
	tp      TP
	records []int64
	sent    bool
	waiting bool
	emitted int
}

type modelWrite struct {
	id       uint64
	part     *modelPart
	offsets  []int64
	appended int
	unknown  bool
	// queued: nothing of it is sent before the epoch is raised. cancelled: what
	// is not appended need not be.
	queued, cancelled bool
}

type modelCommit struct {
	action  Commit
	applied bool
	outcome CommitOutcome
	decided bool
}

func newWorld(pick func(int) int) *world {
	w := &world{pick: pick, held: map[uint64][]int64{}}
	w.cfg = Config{MaxRecords: 1 + pick(5), ReconnectMax: 2 * time.Second, DiscoveryTimeout: 3 * time.Second}
	if pick(3) == 0 {
		w.cfg.HoldBatch, w.cfg.HoldSoft, w.cfg.HoldHard = 300, 350, 500
	}
	if pick(4) == 0 {
		w.cfg.BatchTimeout = 10 * time.Second
	}
	w.cfg.Watch = pick(5) == 0
	for i := range modelPartitions {
		w.parts = append(w.parts, &modelPart{
			tp: TP{"in", int32(i)}, committed: -1, fetch: -1,
			hole: map[int64]bool{}, oversized: map[int64]bool{}, poison: map[int64]poison{}, acked: map[int64]bool{},
		})
	}
	w.boot()
	return w
}

// boot starts a supervisor on what the broker has.
func (w *world) boot() {
	w.core = New(w.cfg)
	w.group, w.proc, w.commit, w.raising, w.exited = modelGroup{generation: w.group.generation}, modelProcess{}, nil, false, false
	w.held, w.writes, w.zombies, w.immediate, w.lastID = map[uint64][]int64{}, nil, nil, nil, 0
	w.open, w.stopBy = false, 0
	for _, p := range w.parts {
		p.ours, p.revoking, p.fetch, p.hint = false, false, -1, false
	}
	var cfg strings.Builder
	fmt.Fprintf(&cfg, "config MaxRecords=%d ReconnectMax=%v DiscoveryTimeout=%v BatchTimeout=%v", w.cfg.MaxRecords, w.cfg.ReconnectMax, w.cfg.DiscoveryTimeout, w.cfg.BatchTimeout)
	if w.cfg.HoldBatch > 0 {
		fmt.Fprintf(&cfg, " HoldBatch=%d HoldSoft=%d HoldHard=%d", w.cfg.HoldBatch, w.cfg.HoldSoft, w.cfg.HoldHard)
	}
	if w.cfg.Watch {
		cfg.WriteString(" Watch")
	}
	w.script = []string{cfg.String()}
	w.step(Ticked{})
}

// kill ends the supervisor where it stands: what is on its way happens or not.
func (w *world) kill() {
	for _, m := range append(w.writes, w.zombies...) {
		if w.pick(2) == 0 {
			w.append(m, w.pick(len(m.offsets)+1))
		}
	}
	if w.commit != nil && !w.commit.applied && w.pick(2) == 0 {
		w.apply(w.commit)
	}
	w.boot()
}

func (w *world) step(ev Event) {
	w.script = append(w.script, fmt.Sprintf("%v %v", w.now, ev))
	actions := w.core.Step(nil, w.now, ev)
	w.core.valid()
	for _, a := range actions {
		w.perform(ev, a)
	}
	for len(w.immediate) > 0 && !w.exited {
		next := w.immediate[0]
		w.immediate = w.immediate[1:]
		w.step(next)
	}
	if _, asked := ev.(StopAsked); asked && w.stopBy == 0 {
		w.stopBy = w.now + 25*time.Second
	}
	if w.stopBy > 0 && w.now > w.stopBy && !w.exited {
		w.fail("a stop is not over in its budget")
	}
}

func (w *world) part(tp TP) *modelPart { return w.parts[tp.Partition] }

func (w *world) fail(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func (w *world) perform(cause Event, a Action) {
	pr := &w.proc
	switch a := a.(type) {
	case Launch:
		if pr.up || pr.launching {
			w.fail("two processes at once")
		}
		*pr = modelProcess{number: a.Process, launching: true}
	case Discover:
		pr.discover = true
	case Refuse:
		pr.refuse = true
	case Begin:
		if pr.stopped {
			w.fail("a process that owes stopped gets a new conversation")
		}
		w.open = true
		if len(w.zombies) > 0 || w.raising {
			w.fail("R9: Begin before the epoch was raised")
		}
	case Deliver:
		w.deliver(a)
	case Withdraw:
		if a.Revoke && !w.open {
			w.fail("revoke outside of a conversation: %v", a)
		}
		i := slices.IndexFunc(pr.batches, func(b *modelBatch) bool { return b.id == a.ID })
		if i >= 0 && !pr.batches[i].sent {
			pr.batches = slices.Delete(pr.batches, i, i+1)
			w.immediate = append(w.immediate, Withdrawn{a.Process, a.ID})
		}
	case Stop:
		for _, b := range pr.batches {
			if !b.sent {
				w.fail("batch %d would follow stop on the wire", b.id)
			}
		}
		pr.stopped, pr.finishing, w.open = true, !a.Abandon, false
	case CloseInput:
		pr.closing = true
	case Terminate:
		pr.closing = true
	case Kill:
		pr.dying, w.open = true, false
	case Hold:
		e, ok := cause.(Emitted)
		if !ok || e.ID != a.ID {
			w.fail("Hold %d does not follow its Emitted", a.ID)
		}
		w.hold(e)
	case Drop:
		delete(w.held, a.ID)
	case Write:
		w.write(a)
	case RaiseEpoch:
		w.raising = true
	case CancelWrite:
		w.cancel(a)
	case Commit:
		if w.commit != nil {
			w.fail("two commits outstanding")
		}
		if w.group.suspended || !w.group.joined {
			w.fail("R7: %v without a generation", a)
		}
		w.commit = &modelCommit{action: a}
	case Exit:
		w.exited = true
	default:
		w.performGroup(a)
	}
}

func (w *world) performGroup(a Action) {
	g := &w.group
	switch a := a.(type) {
	case Subscribe:
		g.subscribed = true
	case Leave:
		w.loseAll()
		g.subscribed, g.joined, g.suspended, g.releasing = false, false, false, false
		w.commit = nil
	case Release:
		if len(a.Partitions) == 0 {
			if !g.suspended || len(w.writes) > 0 {
				w.fail("R9: the generation is let go while %d writes run", len(w.writes))
			}
			g.drained = true
			return
		}
		g.releasing = false
		for _, n := range a.Partitions {
			p := w.parts[n]
			p.ours, p.revoking, p.fetch, p.hint = false, false, -1, false
			p.released = g.generation
		}
	case Seek:
		p := w.part(a.TP)
		p.fetch, p.hint = a.Offset, p.end > a.Offset
	case Pause:
		p := w.part(a.TP)
		p.fetch, p.hint = -1, false
	case Note:
	default:
		w.fail("unknown action %v", a)
	}
}

// deliver cuts, and checks R3, R4, R5 and R11.
func (w *world) deliver(a Deliver) {
	p := w.part(a.TP)
	if a.ID <= w.lastID {
		w.fail("id %d comes after %d", a.ID, w.lastID)
	}
	w.lastID = a.ID
	if !w.proc.up || w.proc.number != a.Process {
		w.fail("Deliver to process %d, which is not there", a.Process)
	}
	if !w.open || len(w.proc.batches) >= w.credit+w.proc.waiting() {
		w.fail("R10: Deliver in a conversation: %v, beside %d batches of %d", w.open, len(w.proc.batches), w.credit)
	}
	if !p.ours || p.revoking || w.group.suspended {
		w.fail("R7: Deliver of %v, which is not ours", a.TP)
	}
	if p.committed < 0 {
		w.fail("R11: Deliver of %v before its start is committed", a.TP)
	}
	if p.fetch < 0 {
		w.fail("Deliver of %v without a Seek", a.TP)
	}
	for _, b := range w.proc.batches {
		if b.tp == a.TP {
			w.fail("R3: batch %d of %v, while the process has batch %d", a.ID, a.TP, b.id)
		}
	}
	switch st := w.core.partition(a.TP); {
	case st.charge.standing == convicted && a.MaxRecords != 1:
		w.fail("a convict gets %d records: %v", a.MaxRecords, a)
	case w.core.trials.part != nil && w.core.trials.part != st:
		w.fail("%v beside the trial of %v", a, w.core.trials.part.tp)
	}
	if p.fetch > p.expect {
		w.fail("R5: %v is delivered from %d, but only %d was reached", a.TP, p.fetch, p.expect)
	}
	if p.fetch < p.committed {
		w.fail("R4: %v is delivered from %d, but %d is committed", a.TP, p.fetch, p.committed)
	}
	first, next := p.fetch, p.fetch
	var records []int64
	limit := 1 + w.pick(a.MaxRecords)
	for next < p.end && len(records) < limit && !p.oversized[next] {
		if !p.hole[next] {
			records = append(records, next)
		}
		next++
	}
	if next == first && next < p.end {
		w.immediate = append(w.immediate, Oversized{a.ID, next, 5 << 20})
		return
	}
	p.fetch = next
	p.expect = max(p.expect, next)
	more := next < p.end && w.pick(2) == 0
	p.hint = next < p.end && !more
	if len(records) > 0 {
		w.proc.batches = append(w.proc.batches, &modelBatch{id: a.ID, tp: a.TP, records: records})
	}
	at := first
	if len(records) > 0 {
		at = records[0]
	}
	w.immediate = append(w.immediate, Cut{ID: a.ID, First: at, Next: next, Records: len(records), Bytes: 10 * len(records), More: more})
}

// emits says which records the streamlet emits for.
func emits(offset int64) bool { return offset%4 != 3 }

func (w *world) hold(e Emitted) { w.held[e.ID] = append(w.held[e.ID], w.emitting...) }

func (w *world) write(a Write) {
	offsets := w.held[a.ID]
	if len(offsets) == 0 {
		w.fail("Write %d has nothing held", a.ID)
	}
	if len(w.zombies) > 0 || w.raising {
		w.fail("R9: Write %d before the epoch was raised", a.ID)
	}
	p := w.partOf(a.ID)
	if !p.ours || w.group.suspended {
		w.fail("R7: Write %d of %v, which is not ours", a.ID, p.tp)
	}
	for _, m := range w.writes {
		if m.part == p {
			w.fail("R2: Write %d beside Write %d of %v", a.ID, m.id, p.tp)
		}
	}
	w.writes = append(w.writes, &modelWrite{id: a.ID, part: p, offsets: offsets})
}

// cancel: what is not appended by now need not be.
func (w *world) cancel(a CancelWrite) {
	for _, m := range w.writes {
		if m.id == a.ID {
			m.cancelled = true
			return
		}
	}
	w.fail("CancelWrite %d of no running write", a.ID)
}

// partOf finds the partition of a batch by what the core has: only the identity
// is taken from it.
func (w *world) partOf(id uint64) *modelPart { return w.part(w.core.batches[id].part.tp) }

// append puts n more records of a write into the log, checking the order (R2,
// R4): the log goes on with the next record, or back to one that was there.
func (w *world) append(m *modelWrite, n int) {
	p := m.part
	for ; n > 0 && m.appended < len(m.offsets); n-- {
		o := m.offsets[m.appended]
		m.appended++
		if len(p.log) > 0 {
			last := p.log[len(p.log)-1]
			if o > last && o != p.following(last) {
				w.fail("R2: %v: the output of %d follows that of %d", p.tp, o, last)
			}
		}
		p.log = append(p.log, o)
	}
}

// following is the next offset behind o that the streamlet emits for.
func (p *modelPart) following(o int64) int64 {
	for o++; p.hole[o] || !emits(o); o++ {
	}
	return o
}

// apply is the broker taking a commit, with R1 checked at that moment.
func (w *world) apply(m *modelCommit) {
	m.applied = true
	if m.action.Generation != w.group.generation || !w.group.joined {
		m.outcome, m.decided = CommitStale, true
		return
	}
	for _, o := range m.action.Offsets {
		p := w.parts[o.Partition]
		if !p.ours && p.released != w.group.generation {
			w.fail("R7: %v is committed and not ours", p.tp)
		}
		if o.Offset < p.committed {
			w.fail("R2: %v is committed at %d after %d", p.tp, o.Offset, p.committed)
		}
		p.checkWritten(w, o.Offset)
		p.committed = o.Offset
	}
}

// checkWritten is R1: every output of what is below offset is in the log, and
// what has none was acked.
func (p *modelPart) checkWritten(w *world, offset int64) {
	for o := max(p.committed, 0); o < offset; o++ {
		switch {
		case p.hole[o]:
		case emits(o) && !slices.Contains(p.log, o):
			w.fail("R1: %v is committed at %d, but the output of %d is not in the log", p.tp, offset, o)
		case !emits(o) && !p.acked[o]:
			w.fail("R5: %v is committed at %d, but %d was never acked", p.tp, offset, o)
		}
	}
}

func (w *world) loseAll() {
	for _, p := range w.parts {
		p.ours, p.revoking, p.fetch, p.hint = false, false, -1, false
	}
}

// runModel makes steps choices, then calms down and drains.
func runModel(pick func(int) int, steps int) (failure string) {
	w := newWorld(pick)
	defer func() {
		if r := recover(); r != nil {
			failure = fmt.Sprintf("%v\nthe schedule, as a script for testdata:\n%s", r, strings.Join(w.script, "\n"))
		}
	}()
	for range steps {
		w.choose()
	}
	w.isolate()
	w.drain()
	return ""
}

func TestModel(t *testing.T) {
	schedules := 1000
	if testing.Short() {
		schedules = 100
	}
	for seed := range schedules {
		r := rand.New(rand.NewPCG(uint64(seed), 3))
		if f := runModel(func(n int) int { return r.IntN(n) }, 600); f != "" {
			t.Fatalf("seed %d: %s", seed, f)
		}
	}
}

// FuzzModel takes the choices from the fuzzer. Its inputs are long: run it with
// -fuzzminimizetime 5x, or minimizing takes all the time there is.
func FuzzModel(f *testing.F) {
	for seed := range 5 {
		b := make([]byte, 600)
		r := rand.New(rand.NewPCG(uint64(seed), 5))
		for i := range b {
			b[i] = byte(r.IntN(256))
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, choices []byte) {
		steps := len(choices)
		rest := rand.New(rand.NewPCG(1, 2)) // the drain needs choices too
		pick := func(n int) int {
			if len(choices) == 0 {
				return rest.IntN(n)
			}
			c := int(choices[0]) % n
			choices = choices[1:]
			return c
		}
		if f := runModel(pick, min(steps, 2000)); f != "" {
			t.Fatal(f)
		}
	})
}
