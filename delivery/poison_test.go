package delivery

import (
	"slices"
	"testing"
	"time"
)

// poisoned is a process in which some records fail for ever, by the core's own
// clock: every batch takes its time, a start and a conversation take theirs. It
// checks what a poisoned partition may cost the others.
type poisoned struct {
	t      *testing.T
	core   *Core
	now    time.Duration
	todo   []timed
	parts  []*poisonPart
	works  map[uint64]Deliver
	cuts   map[uint64]Cut
	number uint64
	start  time.Duration // a launch takes
	trials []time.Duration
	down   time.Duration // without a running conversation, in all
	since  time.Duration
	look   func()

	generation int32
	taken      []Start // what the next Assigned gives back, where it is not all
	exit       *Exit
}

type timed struct {
	at    time.Duration
	ev    Event
	valid func() bool
	do    func() // instead of ev
}

type poisonPart struct {
	times     int   // after so many failures it is good, 0: never
	end, at   int64 // at: where the consumer stands, -1 nowhere
	committed int64
	reached   int64
	bad       int64         // -1: none
	kind      string        // fail, crash, hang
	takes     time.Duration // a batch
	after     time.Duration // until the bad record fails
}

func newPoisoned(t *testing.T, start, timeout time.Duration, parts []*poisonPart) *poisoned {
	w := &poisoned{t: t, core: New(Config{MaxRecords: 20, BatchTimeout: timeout}), start: start, parts: parts, works: map[uint64]Deliver{}, cuts: map[uint64]Cut{}}
	w.step(Ticked{})
	return w
}

func (w *poisoned) later(d time.Duration, ev Event) {
	w.todo = append(w.todo, timed{at: w.now + d, ev: ev, valid: func() bool { return true }})
}

// ofProcess is something that this process does, if it still lives then.
func (w *poisoned) ofProcess(d time.Duration, ev Event) {
	n := w.number
	w.todo = append(w.todo, timed{at: w.now + d, ev: ev, valid: func() bool { return w.number == n }})
}

func (w *poisoned) step(ev Event) {
	was := w.core.conv.state == Running
	actions := w.core.Step(nil, w.now, ev)
	w.core.valid()
	if running := w.core.conv.state == Running; running != was {
		if running {
			w.down += w.now - w.since
		}
		w.since = w.now
	}
	for _, a := range actions {
		w.do(a)
	}
}

func (w *poisoned) do(a Action) {
	const ms = time.Millisecond
	switch a := a.(type) {
	case Launch:
		w.number = a.Process
		w.ofProcess(w.start, Launched{a.Process, 1})
	case Discover:
		w.ofProcess(10*ms, SpecGood{Process: a.Process, Inlets: []string{"in"}, Outlets: []string{"out"}})
	case Subscribe:
		w.todo = append(w.todo, timed{at: w.now + 10*ms, do: func() { w.assign(false) }})
	case Leave:
		w.todo = slices.DeleteFunc(w.todo, func(x timed) bool { _, is := x.ev.(Fetched); return is })
	case Release:
		w.todo = append(w.todo, timed{at: w.now + 10*ms, do: func() { w.assign(true) }})
	case CloseInput:
		w.ofProcess(ms, Exited{a.Process, "exit 0", 0})
	case Seek:
		w.parts[a.TP.Partition].at = a.Offset
		w.later(2*ms, Fetched{a.TP})
	case Pause:
		w.parts[a.TP.Partition].at = -1
	case Deliver:
		w.deliver(a)
	case Stop:
		w.stopped(a)
	case Kill:
		w.number = 0
		w.later(ms, Exited{a.Process, "killed", 137})
	case Commit:
		for _, o := range a.Offsets {
			w.parts[o.Partition].committed = o.Offset
		}
		w.later(ms, Committed{Inlet: "in", Sequence: a.Sequence})
	case Exit:
		w.exit = &a
	}
}

// assign begins a generation with everything, or gives back what was taken.
func (w *poisoned) assign(continues bool) {
	starts := w.taken
	if starts == nil {
		for i, p := range w.parts {
			starts = append(starts, Start{Partition: int32(i), Offset: p.committed})
		}
	}
	w.taken = nil
	w.generation++
	w.step(Assigned{Inlet: "in", Generation: w.generation, Continues: continues, Starts: starts})
}

// stopped answers a stop: at once, or when nothing is with the process any more.
func (w *poisoned) stopped(a Stop) {
	w.todo = append(w.todo, timed{at: w.now + time.Millisecond, do: func() {
		switch {
		case w.number != a.Process:
		case a.Abandon || w.core.with.live == 0:
			w.step(StoppedByProcess{a.Process})
		default:
			w.stopped(a)
		}
	}})
}

func (w *poisoned) deliver(a Deliver) {
	p := w.parts[a.TP.Partition]
	st := w.core.partition(a.TP)
	n := min(int64(a.MaxRecords), p.end-p.at, 20)
	if st.charge.standing == convicted && a.MaxRecords != 1 {
		w.t.Fatalf("a convict gets %d records", a.MaxRecords)
	}
	first := p.at
	if first != a.Offset || first > p.reached {
		w.t.Fatalf("R5: %v begins at %d, fetched from %d, committed %d", a.TP, a.Offset, first, p.committed)
	}
	if st.charge.due {
		w.trials = append(w.trials, w.now)
		if t := &w.core.trials; t.part != st {
			w.t.Fatalf("%v is not on trial", a.TP)
		}
	} else if w.core.trials.part != nil {
		w.t.Fatalf("%v is delivered beside the trial of %v", a.TP, w.core.trials.part.tp)
	}
	p.at += n
	p.reached = max(p.reached, p.at)
	w.step(Cut{ID: a.ID, First: first, Next: first + n, Records: int(n), Bytes: int(n), More: p.at < p.end})
	if p.bad >= first && p.bad < first+n && p.times > 0 {
		if p.times--; p.times == 0 {
			p.bad = -1
		}
	}
	if p.bad < first || p.bad >= first+n {
		w.ofProcess(p.takes, Acked{a.Process, a.ID})
		return
	}
	if p.kind == "hang" {
		return
	}
	if p.kind == "fail" {
		w.ofProcess(p.after, Failed{Process: a.Process, ID: a.ID, Message: "bad", Offset: p.bad})
		return
	}
	number := w.number
	w.todo = append(w.todo, timed{at: w.now + p.after, ev: Exited{a.Process, "killed by SIGSEGV", 139}, valid: func() bool {
		if w.number != number || w.core.batches[a.ID] == nil || w.core.batches[a.ID].acked {
			return false
		}
		w.number = 0
		return true
	}})
}

// run lets so much time go by.
func (w *poisoned) run(d time.Duration) {
	until := w.now + d
	for {
		at, ok := w.core.Wake()
		slices.SortStableFunc(w.todo, func(a, b timed) int { return int(a.at - b.at) })
		if len(w.todo) > 0 && (!ok || w.todo[0].at <= at) {
			next := w.todo[0]
			if next.at > until {
				break
			}
			w.todo = w.todo[1:]
			w.now = max(w.now, next.at)
			switch {
			case next.do != nil:
				next.do()
			case next.valid():
				w.step(next.ev)
			}
			w.looks()
			continue
		}
		if !ok || at > until {
			break
		}
		if at < w.now {
			w.t.Fatalf("it is woken at %v, which was before %v", at, w.now)
		}
		w.now = at
		w.step(Ticked{})
		w.looks()
	}
	w.now = until
}

// looks lets a test do something at a moment that it waits for.
func (w *poisoned) looks() {
	if w.look != nil {
		w.look()
	}
}

// named: each bad record is known by its offset, alone in its batch, and nobody
// else is taken for bad.
func (w *poisoned) named() bool {
	for i, p := range w.parts {
		if part := w.core.partition(TP{"in", int32(i)}); p.bad < 0 && part != nil && part.charge.standing == convicted {
			return false
		}
		if ch := w.core.partition(TP{"in", int32(i)}); p.bad >= 0 && (ch == nil || ch.charge.first != p.bad || ch.charge.records != 1) {
			return false
		}
	}
	return true
}

func (w *poisoned) good() (sum int64) {
	for _, p := range w.parts {
		if p.bad < 0 {
			sum += p.committed
		}
	}
	return sum
}

func TestPoisonLeavesTheOthersTheirThroughput(t *testing.T) {
	const ms, s = time.Millisecond, time.Second
	for _, c := range []struct {
		name         string
		start        time.Duration
		takes, after time.Duration
		kinds        []string
		timeout      time.Duration
		settle       time.Duration
	}{
		{"fails", 100 * ms, 20 * ms, 5 * ms, []string{"fail", "fail", "fail"}, 0, 30 * s},
		{"crashes", 100 * ms, 20 * ms, 5 * ms, []string{"crash", "crash", "crash"}, 0, 30 * s},
		{"slow crashes", 100 * ms, 20 * ms, 2500 * ms, []string{"crash"}, 0, 60 * s},
		{"hangs", 300 * ms, 20 * ms, 0, []string{"hang", "hang", "hang"}, 2 * s, 30 * s},
		{"mixed", 100 * ms, 20 * ms, 5 * ms, []string{"fail", "crash", "hang"}, 2 * s, 30 * s},
		{"20 s to start", 20 * s, 20 * ms, 5 * ms, []string{"crash", "fail", "crash"}, 0, 1200 * s},
		{"20 s to start, hanging", 20 * s, 20 * ms, 0, []string{"hang", "hang"}, 2 * s, 1200 * s},
		{"ten minutes, failing", 100 * ms, 600 * s, 5 * ms, []string{"fail"}, 0, 10 * 3600 * s},
		{"ten minutes, crashing", 100 * ms, 600 * s, 5 * ms, []string{"crash", "crash"}, 0, 30 * 3600 * s},
	} {
		t.Run(c.name, func(t *testing.T) {
			var parts []*poisonPart
			for i := range 20 {
				p := &poisonPart{end: 1 << 40, bad: -1, takes: c.takes}
				if i%7 == 2 && i/7 < len(c.kinds) {
					p.bad, p.kind, p.after, p.takes = 37, c.kinds[i/7], c.after, 20*ms
				}
				parts = append(parts, p)
			}
			w := newPoisoned(t, c.start, c.timeout, parts)
			// From then on: until then the last failure of the naming still costs them.
			for !w.named() || w.core.conv.state != Running || w.core.owing() {
				w.run(100 * ms)
				if w.now > c.settle {
					break // the next check says what is missing
				}
			}
			w.isolated()
			named := w.now
			for _, window := range []time.Duration{max(120*s, 12*c.takes), max(300*s, 30*c.start, 60*c.takes)} {
				before := w.good()
				w.run(window)
				share := float64(w.good()-before) / (float64(20-len(c.kinds)) * 20 * window.Seconds() / c.takes.Seconds())
				if share < 0.85 {
					t.Errorf("the others have %.0f %% of their throughput; trials at %v", 100*share, w.trials[max(0, len(w.trials)-10):])
				}
				t.Logf("named after %v, then %.1f %% for %v; %d trials", named, 100*share, window, len(w.trials))
			}
			w.isolated()
			for _, p := range parts {
				p.bad = -1
			}
			w.step(ReloadAsked{"saved"})
			w.run(c.start + 10*s + 2*c.takes)
			for i, p := range parts {
				if p.committed <= 57 && p.takes == 20*ms {
					t.Errorf("partition %d does not go on after the save: %d", i, p.committed)
				}
			}
		})
	}
}

// isolated: what is before each bad record is committed, nothing of it, and the
// partition is known to be what fails.
func (w *poisoned) isolated() {
	w.t.Helper()
	for i, p := range w.parts {
		st := w.core.partition(TP{"in", int32(i)})
		if p.bad >= 0 && (p.committed != p.bad || st.charge.first != p.bad || st.charge.standing != convicted) {
			w.t.Fatalf("partition %d: committed %d, %+v; trials at %v", i, p.committed, st.charge, w.trials)
		}
		if p.bad < 0 && st.charge.standing == convicted {
			w.t.Fatalf("partition %d is convicted, and is good: %+v", i, st.charge)
		}
	}
}
