package delivery

import (
	"fmt"
	"testing"
	"time"
)

// stages are the steps of a trial, as they look from outside: partition 2 is the
// one with the bad record.
var stages = []struct {
	name  string
	crash bool // only what ends the process leads there
	at    func(w *poisoned, p *partition) bool
}{
	{"accused", true, func(_ *poisoned, p *partition) bool { return p.charge.standing == accused }},
	{"drained for", true, func(w *poisoned, p *partition) bool {
		return w.core.trials.part == p && w.core.trials.batch == nil && p.charge.standing == accused
	}},
	{"on trial", true, func(w *poisoned, p *partition) bool {
		return w.core.trials.running() != nil && w.core.trials.part == p && p.charge.standing == accused
	}},
	{"put off", true, func(w *poisoned, _ *partition) bool { return w.core.trials.putOffs > 0 }},
	{"convicted", false, func(_ *poisoned, p *partition) bool {
		return p.charge.standing == convicted && p.gate == gateWaiting && p.charge.records > 1
	}},
	{"one record", false, func(_ *poisoned, p *partition) bool { return p.charge.standing == convicted && p.live() }},
	{"named", false, func(_ *poisoned, p *partition) bool {
		return p.charge.standing == convicted && p.charge.records == 1 && p.gate == gateWaiting
	}},
	{"retried", false, func(_ *poisoned, p *partition) bool {
		return p.charge.standing == convicted && p.charge.tries > 1 && p.live()
	}},
	{"acquitted", false, func(w *poisoned, p *partition) bool { return w.parts[2].bad < 0 && p.charge.standing == blameless }},
}

// disturbances are what happens there.
var disturbances = []struct {
	name string
	do   func(w *poisoned)
}{
	{"the process is killed", func(w *poisoned) {
		if w.core.process.state == processUp {
			number := w.number
			w.number = 0
			w.step(Exited{number, "killed by SIGKILL", 137})
		}
	}},
	{"the supervisor is killed", func(w *poisoned) { w.boot() }},
	{"the supervisor is stopped", func(w *poisoned) { w.step(StopAsked{"SIGTERM"}) }},
	{"a generation goes on", func(w *poisoned) {
		w.unfetch()
		w.step(Suspended{"in"})
	}},
	{"the group is lost", func(w *poisoned) {
		w.unfetch()
		w.step(Lost{"in"})
		w.todo = append(w.todo, timed{at: w.now + time.Second, do: func() { w.assign(false) }})
	}},
	{"it is revoked", func(w *poisoned) {
		w.taken = []Start{{Partition: 2, Offset: w.parts[2].committed}}
		w.step(Revoked{"in", []int32{2}, w.now + 2*time.Second})
	}},
	{"another one is revoked", func(w *poisoned) {
		w.taken = []Start{{Partition: 3, Offset: w.parts[3].committed}}
		w.step(Revoked{"in", []int32{3}, w.now + 2*time.Second})
	}},
	{"a reload", func(w *poisoned) { w.step(ReloadAsked{"saved"}) }},
}

// boot starts a supervisor on what is committed.
func (w *poisoned) boot() {
	w.core, w.number, w.exit, w.todo, w.taken = New(w.core.cfg), 0, nil, nil, nil
	w.unfetch()
	for _, p := range w.parts {
		p.reached = p.committed
	}
	w.step(Ticked{})
}

// unfetch is what the Kafka side does by itself when a generation ends.
func (w *poisoned) unfetch() {
	for _, p := range w.parts {
		p.at = -1
	}
}

// At every step of a trial the process or the supervisor may be killed, asked to
// stop or to reload, and partitions may come and go. Nothing is skipped by it, the
// bad record becomes known all the same, nobody else stays convicted, and the
// others go on.
func TestTrialIsDisturbedAtEachOfItsSteps(t *testing.T) {
	const ms, s = time.Millisecond, time.Second
	for _, kind := range []string{"fail", "crash", "hang"} {
		for _, stage := range stages {
			if stage.crash && kind != "crash" {
				continue
			}
			for _, disturbance := range disturbances {
				t.Run(fmt.Sprintf("%s/%s/%s", kind, stage.name, disturbance.name), func(t *testing.T) {
					var parts []*poisonPart
					for i := range 5 {
						p := &poisonPart{end: 1 << 40, bad: -1, takes: 100 * ms}
						if i == 2 {
							p.bad, p.kind, p.after = 13, kind, 5*ms
						}
						if stage.name == "put off" && i == 0 {
							p.takes = 5 * s
						}
						if stage.name == "acquitted" && i == 2 {
							p.times = 4
						}
						parts = append(parts, p)
					}
					w := newPoisoned(t, 100*ms, 2*s, parts)
					if stage.name == "put off" {
						w.core.cfg.BatchTimeout = 30 * s
					}
					w.disturb(stage.at, disturbance.do)
				})
			}
		}
	}
}

// disturb waits for a stage, does something there, and holds the rest against what
// is promised.
func (w *poisoned) disturb(at func(*poisoned, *partition) bool, do func(*poisoned)) {
	w.t.Helper()
	done := false
	w.look = func() {
		p := w.core.partition(TP{"in", 2})
		if !done && p != nil && at(w, p) {
			done = true
			do(w)
		}
		if w.exit != nil {
			if w.exit.Code != 0 {
				w.t.Fatalf("it exits: %v", w.exit)
			}
			w.boot()
		}
	}
	for limit := w.now + 10*time.Minute; !done || !w.named() || !w.core.Ready(); {
		w.run(50 * time.Millisecond)
		if w.now > limit {
			w.t.Fatalf("disturbed: %v; not named by then: %+v, %+v", done, w.core.partition(TP{"in", 2}).charge, w.core.Status())
		}
	}
	w.isolated()
	before := w.good()
	w.run(time.Minute)
	if w.good() == before {
		w.t.Errorf("the others do not go on: %+v", w.core.Status())
	}
	for _, p := range w.parts {
		p.bad = -1
	}
	k := &w.core.convicts
	for limit := w.now + 10*time.Minute; w.parts[2].committed < 100 || len(w.core.trials.docket)+len(k.debts) > 0; w.run(time.Second) {
		if w.now > limit {
			w.t.Fatalf("mended, it is committed at %d, and %d charges and %d debts are left: %+v",
				w.parts[2].committed, len(w.core.trials.docket), len(k.debts), w.core.Status())
		}
	}
}
