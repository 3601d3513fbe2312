package sequence

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ankka-flow/delivery"
)

// envelope is a batch's bytes, as a broker reads them.
type envelope struct {
	batch   uint64
	id      int64
	epoch   int16
	seq     int32
	records []int // their identities
}

// producerState is what a broker knows of a producer id on a partition.
type producerState struct {
	epoch  int16
	recent []envelope // the last five
}

// modelPartition is one output partition with Kafka's rules of idempotence.
type modelPartition struct {
	log       []int
	producers map[int64]*producerState
	limit     int // records a batch; 0: none
	// live are the requests that wait at a leader, in order; late those whose
	// connection is gone: the broker may still work through them, in order.
	live, late []envelope
}

func (p *modelPartition) produce(w *world, e envelope) int16 {
	if p.limit > 0 && len(e.records) > p.limit {
		return codeTooLarge
	}
	st := p.producers[e.id]
	switch {
	case st == nil, e.epoch > st.epoch && e.seq == 0:
		st = &producerState{epoch: e.epoch}
		p.producers[e.id] = st
	case e.epoch > st.epoch:
		return codeOutOfOrder
	case e.epoch < st.epoch:
		return codeInvalidEpoch
	default:
		for _, r := range st.recent {
			if r.seq == e.seq && len(r.records) == len(e.records) {
				if !slices.Equal(r.records, e.records) {
					w.t.Fatalf("sequence %d was used for %v and again for %v: the second is thrown away silently", e.seq, r.records, e.records)
				}
				return 0
			}
		}
		last := st.recent[len(st.recent)-1]
		if e.seq != advance(last.seq, len(last.records)) {
			return codeOutOfOrder
		}
	}
	st.recent = append(st.recent, e)
	if len(st.recent) > 5 {
		st.recent = st.recent[1:]
	}
	p.log = append(p.log, e.records...)
	return 0
}

type fataler interface {
	Fatalf(string, ...any)
	Helper()
}

// world is a machine, its driver and the brokers.
type world struct {
	t       fataler
	m       *Machine
	now     time.Duration
	trace   []string
	parts   map[Partition]*modelPartition
	names   []Partition
	bytes   map[uint64]envelope // what the driver keeps for each batch
	doubted map[uint64]bool
	pieces  map[uint64][]int  // handle to record identities
	written map[uint64][2]int // write to its first and last+1 identity
	where   map[int]Partition
	sent    map[int]bool
	open    map[uint64]delivery.TP
	answers map[uint64]Action
	ids     int64
	record  int
	handle  uint64
	write   uint64
	needID  bool
	raise   bool
	raising bool
}

func newWorld(t fataler, cfg Config, partitions int) *world {
	w := &world{t: t, m: New(cfg), parts: map[Partition]*modelPartition{}, bytes: map[uint64]envelope{}, doubted: map[uint64]bool{},
		pieces: map[uint64][]int{}, written: map[uint64][2]int{}, where: map[int]Partition{}, sent: map[int]bool{}, open: map[uint64]delivery.TP{}, answers: map[uint64]Action{}}
	for i := range partitions {
		name := Partition{"out", int32(i)}
		w.names = append(w.names, name)
		w.parts[name] = &modelPartition{producers: map[int64]*producerState{}}
	}
	return w
}

func (w *world) step(ev Event) {
	w.t.Helper()
	w.trace = append(w.trace, fmt.Sprintf("%v %v", w.now, ev))
	for _, a := range w.m.Step(nil, w.now, ev) {
		w.trace = append(w.trace, fmt.Sprintf("        %v", a))
		switch a := a.(type) {
		case Send:
			w.send(a)
		case Forget:
			delete(w.bytes, a.Batch)
			delete(w.doubted, a.Batch)
		case NeedID:
			w.needID = true
		case Written:
			w.answer(a.Write, a)
		case Refused:
			w.answer(a.Write, a)
		case Unsettled:
			w.answer(a.Write, a)
			w.raise = true
		case Raised:
			w.raise, w.raising = false, false
		}
	}
}

func (w *world) send(a Send) {
	w.t.Helper()
	p := w.parts[a.Partition]
	e := w.bytes[a.Batch]
	if a.Spans != nil {
		if w.doubted[a.Batch] {
			w.fail("batch %d is unknown and sent with new bytes", a.Batch)
		}
		e = envelope{batch: a.Batch, id: a.ID, epoch: a.Epoch, seq: a.Sequence}
		for _, s := range a.Spans {
			e.records = append(e.records, w.pieces[s.Handle][s.From:s.To]...)
		}
	}
	if e.id != a.ID || e.epoch != a.Epoch || e.seq != a.Sequence || len(e.records) != a.Records {
		w.fail("%v does not describe its bytes %+v", a, e)
	}
	// The parts of a batch that was split are not new.
	sent := !slices.ContainsFunc(e.records, func(r int) bool { return !w.sent[r] })
	for _, r := range e.records {
		w.sent[r] = true
	}
	if w.raise && !sent {
		w.fail("%v is new, after something unsettled", a)
	}
	for id := range w.doubted {
		if !sent && w.bytes[id].batch != 0 && w.where[w.bytes[id].records[0]] == a.Partition {
			w.fail("%v is new, while batch %d is unknown", a, id)
		}
	}
	w.bytes[a.Batch] = e
	p.live = append(p.live, e)
	if len(p.live) > 5 {
		w.fail("%d requests in flight", len(p.live))
	}
}

func (w *world) answer(write uint64, a Action) {
	w.t.Helper()
	if _, ok := w.open[write]; !ok {
		w.fail("%v: this write is not open", a)
	}
	delete(w.open, write)
	w.answers[write] = a
	if _, ok := a.(Written); ok {
		for r := w.written[write][0]; r < w.written[write][1]; r++ {
			if !slices.Contains(w.parts[w.where[r]].log, r) {
				w.fail("write %d is said to be written, record %d is not in the log", write, r)
			}
		}
	}
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(w.trace, "\n"))
}

// begin starts a write with count records for each named partition.
func (w *world) begin(from int32, count int, bytes int, to ...Partition) uint64 {
	w.t.Helper()
	w.write++
	id := w.write
	tp := delivery.TP{Inlet: "in", Partition: from}
	w.open[id] = tp
	first := w.record
	var events []Event
	for _, name := range to {
		w.handle++
		for range count {
			w.where[w.record] = name
			w.pieces[w.handle] = append(w.pieces[w.handle], w.record)
			w.record++
		}
		events = append(events, Added{Write: id, Piece: Piece{Handle: w.handle, Partition: name, Records: count, Bytes: bytes}})
	}
	w.written[id] = [2]int{first, w.record}
	w.step(Begun{Write: id, From: tp})
	for _, e := range events {
		w.step(e)
	}
	w.step(Ended{Write: id})
	return id
}

func (w *world) grant() {
	w.t.Helper()
	if w.needID {
		w.needID = false
		w.ids++
		w.step(IDGranted{ID: w.ids})
	}
}

// take takes the next request that waits at the leader.
func (w *world) take(name Partition) envelope {
	w.t.Helper()
	p := w.parts[name]
	if len(p.live) == 0 {
		w.fail("nothing is in flight to %v", name)
	}
	e := p.live[0]
	p.live = slices.Clone(p.live[1:])
	return e
}

// serve lets the broker append the next request and answer it.
func (w *world) serve(name Partition) int16 {
	w.t.Helper()
	e := w.take(name)
	code := w.parts[name].produce(w, e)
	w.reply(e, code)
	return code
}

// reply answers without looking at the log.
func (w *world) reply(e envelope, code int16) {
	w.t.Helper()
	if judge(code, w.doubted[e.batch]) == unknown {
		w.doubted[e.batch] = true
	}
	w.step(Answered{Batch: e.batch, Code: code})
}

// cut loses the connection: everything in flight there is unanswered. The first
// appended requests are worked through by the broker; the rest may be, late.
func (w *world) cut(name Partition, appended int) {
	w.t.Helper()
	p := w.parts[name]
	gone := p.live
	p.live = nil
	for i, e := range gone {
		if i < appended {
			p.produce(w, e)
		} else {
			p.late = append(p.late, e)
		}
	}
	for _, e := range gone {
		w.doubted[e.batch] = true
		w.step(NoAnswer{Batch: e.batch, Reason: "connection lost"})
	}
}

// check is the invariant of every log: nothing twice, nothing out of order.
func (w *world) check() {
	w.t.Helper()
	for _, name := range w.names {
		log := w.parts[name].log
		for i := 1; i < len(log); i++ {
			if log[i] <= log[i-1] {
				w.fail("%v holds %v", name, log)
			}
		}
	}
}

// heal lets everything succeed from now on, until every write is answered.
func (w *world) heal() {
	w.t.Helper()
	for range 10_000 {
		w.grant()
		w.raiseWhenAsked()
		busy := false
		for _, name := range w.names {
			w.parts[name].limit = 0
			if len(w.parts[name].live) > 0 {
				w.serve(name)
				busy = true
			}
		}
		if busy {
			continue
		}
		if len(w.open) == 0 && !w.raising && !w.raise {
			return
		}
		at, ok := w.m.Wake()
		if !ok && !w.needID && !w.raise {
			w.fail("writes %v are open and nothing will ever happen", w.open)
		}
		if ok {
			w.now = max(w.now, at)
			w.step(Ticked{})
		}
	}
	w.fail("writes %v never end", w.open)
}

func (w *world) raiseWhenAsked() {
	w.t.Helper()
	if w.raise && !w.raising {
		w.raising = true
		w.step(RaiseAsked{})
	}
}

// TestR9_AnyFaultsKeepTheLogRight drives the machine through random faults
// against brokers that keep Kafka's rules, and looks at the logs.
func TestR9_AnyFaultsKeepTheLogRight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		partitions := rapid.IntRange(1, 3).Draw(t, "partitions")
		w := newWorld(t, Config{MaxBatchBytes: rapid.IntRange(1, 12).Draw(t, "max"), WriteTimeout: 5 * time.Second}, partitions)
		t.Repeat(w.actions())
		w.t = t
		w.heal()
		w.check()
		for _, name := range w.names { // and now whatever still lies around
			p := w.parts[name]
			for _, e := range p.late {
				p.produce(w, e)
			}
		}
		w.check()
		if w.m.Open() != 0 || len(w.bytes) != 0 || len(w.m.batches) != 0 {
			w.fail("left behind: %d writes, %d bytes, %d batches", w.m.Open(), len(w.bytes), len(w.m.batches))
		}
	})
}

func (w *world) pick(t *rapid.T) (Partition, bool) {
	name := w.names[rapid.IntRange(0, len(w.names)-1).Draw(t, "partition")]
	return name, len(w.parts[name].live) > 0
}

// actions are what may happen, good and bad, in any order.
func (w *world) actions() map[string]func(*rapid.T) {
	all := map[string]func(*rapid.T){
		"write": func(t *rapid.T) {
			from := rapid.Int32Range(0, 7).Draw(t, "from")
			for _, tp := range w.open {
				if tp.Partition == from {
					return // one write at a time for each inlet partition
				}
			}
			n := rapid.IntRange(0, 4).Draw(t, "pieces")
			to := make([]Partition, n)
			for i := range to {
				to[i] = w.names[rapid.IntRange(0, len(w.names)-1).Draw(t, "to")]
			}
			count := rapid.IntRange(1, 6).Draw(t, "count")
			w.begin(from, count, count, to...)
		},
		"serve": func(t *rapid.T) {
			if name, ok := w.pick(t); ok {
				w.serve(name)
			}
		},
		"withdraw": func(t *rapid.T) {
			if w.write > 0 {
				id := rapid.Uint64Range(1, w.write).Draw(t, "write")
				w.step(Withdrawn{Write: id})
			}
		},
		"limit": func(t *rapid.T) {
			w.parts[w.names[0]].limit = rapid.IntRange(0, 3).Draw(t, "limit")
		},
		"grant": func(t *rapid.T) { w.grant() },
		"raise": func(t *rapid.T) { w.raiseWhenAsked() },
		"time": func(t *rapid.T) {
			w.now += time.Duration(rapid.IntRange(1, 6000).Draw(t, "ms")) * time.Millisecond
			w.step(Ticked{})
		},
		"refreshed": func(t *rapid.T) { w.step(Refreshed{}) },
		"":          func(t *rapid.T) { w.t = t; w.check() },
	}
	maps.Copy(all, w.faults())
	return all
}

// faults are what brokers and networks do.
func (w *world) faults() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"refuse": func(t *rapid.T) {
			if name, ok := w.pick(t); ok {
				w.reply(w.take(name), rapid.SampledFrom([]int16{19, 19, 2, 3, 6, 6, 56, -1, 10, 29, 87}).Draw(t, "code"))
			}
		},
		"append and deny": func(t *rapid.T) {
			if name, ok := w.pick(t); ok {
				e := w.take(name)
				code := w.parts[name].produce(w, e)
				if code == 0 {
					code = rapid.SampledFrom([]int16{7, 20, 6, 3}).Draw(t, "code")
				}
				w.reply(e, code)
			}
		},
		"not sent": func(t *rapid.T) {
			if name, ok := w.pick(t); ok {
				p := w.parts[name]
				e := p.live[len(p.live)-1] // the last ones, never one in front of a sent one
				p.live = slices.Clone(p.live[:len(p.live)-1])
				w.step(NotSent{Batch: e.batch, Reason: "dial"})
			}
		},
		"cut": func(t *rapid.T) {
			if name, ok := w.pick(t); ok {
				w.cut(name, rapid.IntRange(0, len(w.parts[name].live)).Draw(t, "appended"))
			}
		},
		"late": func(t *rapid.T) {
			for _, name := range w.names {
				if p := w.parts[name]; len(p.late) > 0 && rapid.Bool().Draw(t, "late") {
					e := p.late[0]
					p.late = p.late[1:]
					w.trace = append(w.trace, fmt.Sprintf("    late %+v: %d", e, p.produce(w, e)))
				}
			}
		},
	}
}
