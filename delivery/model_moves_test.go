package delivery

import (
	"fmt"
	"slices"
	"time"
)

// choose makes one move of the world: something happens, in time or out of it.
func (w *world) choose() {
	if w.exited {
		w.boot()
		return
	}
	moves := [...]func(){
		w.moveTime, w.moveTime, w.moveInput, w.moveInput, w.moveFetched, w.moveFetched,
		w.moveProcess, w.moveProcess, w.moveProcess, w.moveProcess, w.moveProcess, w.moveProcess,
		w.moveProcess, w.moveProcess, w.moveProcess, w.moveProcess, w.moveProcess, w.moveProcess,
		w.moveWrite, w.moveWrite, w.moveWrite, w.moveCommit, w.moveCommit,
		w.moveLife, w.moveLife, w.moveLife, w.moveGroup, w.moveGroup, w.moveEpoch,
		w.moveRare,
	}
	moves[w.pick(len(moves))]()
}

func (w *world) moveTime() {
	switch w.pick(4) {
	case 0:
		if at, ok := w.core.Wake(); ok {
			w.now = max(w.now, at)
		}
	case 1:
		w.now += time.Duration(w.pick(1000)) * time.Millisecond
	default:
		w.now += time.Duration(w.pick(30)) * time.Millisecond
	}
	w.step(Ticked{})
}

func (w *world) moveInput() {
	p := w.parts[w.pick(len(w.parts))]
	for range 1 + w.pick(10) {
		switch {
		case w.pick(8) == 0:
			p.hole[p.end] = true
		case w.pick(60) == 0:
			p.oversized[p.end] = true
		case w.pick(40) == 0:
			p.poison[p.end] = raises + poison(w.pick(2))
			if w.cfg.BatchTimeout > 0 {
				p.poison[p.end] = raises + poison(w.pick(3))
			}
		}
		p.end++
	}
	p.hint = p.fetch >= 0 && p.ours
}

func (w *world) moveFetched() {
	p := w.parts[w.pick(len(w.parts))]
	switch {
	case p.hint && p.ours && !w.group.suspended:
		p.hint = false
		w.step(Fetched{p.tp})
	case !w.calm && w.pick(10) == 0:
		w.step(Fetched{p.tp}) // a stale one
	case !w.calm && w.pick(20) == 0:
		w.step(FetchFailed{TP: p.tp, Reason: "unreachable"})
	}
}

// moveProcess lets the process work on one of its batches.
func (w *world) moveProcess() {
	pr := &w.proc
	if !pr.up || pr.dying || len(pr.batches) == 0 {
		return
	}
	b := pr.batches[w.pick(len(pr.batches))]
	if !b.sent {
		b.sent = true
		return
	}
	if b.emitted < len(b.records) {
		n := 1 + w.pick(len(b.records)-b.emitted)
		w.emitting = nil
		for _, o := range b.records[b.emitted : b.emitted+n] {
			if emits(o) {
				w.emitting = append(w.emitting, o)
			}
		}
		b.emitted += n
		if count := len(w.emitting); count > 0 {
			w.step(Emitted{Process: pr.number, ID: b.id, Outlet: modelOutlet, Records: count, Bytes: 12 * count})
		}
		return
	}
	for _, o := range b.records {
		switch w.part(b.tp).poison[o] {
		case raises:
			w.drop(b)
			w.step(Failed{Process: pr.number, ID: b.id, Message: "poison", Offset: o})
			return
		case kills:
			w.exit("killed by SIGSEGV", 139)
			return
		case hangs:
			return
		}
	}
	switch {
	case !w.calm && w.pick(25) == 0:
		w.drop(b)
		w.step(Failed{Process: pr.number, ID: b.id, Message: "no", Offset: b.records[0]})
	case !w.calm && w.pick(20) == 0:
		b.waiting = w.pick(2) == 0
		w.step(Statused{Process: pr.number, ID: b.id, Waiting: b.waiting, Error: "again"})
	default:
		p := w.part(b.tp)
		for _, o := range b.records {
			p.acked[o] = true
		}
		w.drop(b)
		w.step(Acked{pr.number, b.id})
	}
}

func (w *world) drop(b *modelBatch) {
	w.proc.batches = slices.DeleteFunc(w.proc.batches, func(x *modelBatch) bool { return x == b })
}

func (w *world) moveWrite() {
	if len(w.zombies) > 0 && w.pick(3) == 0 {
		w.append(w.zombies[w.pick(len(w.zombies))], 1+w.pick(3))
	}
	if len(w.writes) == 0 {
		return
	}
	m := w.writes[w.pick(len(w.writes))]
	if m.cancelled && m.appended == 0 && !m.unknown {
		w.done(m)
		w.step(Refused{m.id, "cancelled", nil, false})
		return
	}
	if m.queued {
		return
	}
	switch k := w.pick(24); {
	case k < 5 && len(w.zombies) > 0 && len(w.writes) > 1:
		return
	case k < 4:
		w.append(m, 1)
	case k == 4 && !w.calm && !m.unknown:
		m.unknown = true
		w.step(WriteUnknown{m.id, "connection lost"})
	case k == 5 && !w.calm && (len(w.zombies) == 0 || w.pick(3) == 0) || k == 6 && !w.calm && m.unknown:
		w.done(m)
		w.zombies = append(w.zombies, m)
		w.step(Unsettled{m.id, "no answer"})
	case k == 7 && !w.calm:
		w.append(m, w.pick(len(m.offsets)))
		w.done(m)
		w.step(Refused{m.id, "not authorized", []TP{m.part.tp}, false})
	case len(w.zombies) > 0 && m.appended == 0 && !m.unknown && k < 16:
		m.queued = true // behind the unsettled one
	default:
		w.append(m, len(m.offsets))
		w.done(m)
		w.step(Written{m.id})
	}
}

func (w *world) done(m *modelWrite) {
	w.writes = slices.DeleteFunc(w.writes, func(x *modelWrite) bool { return x == m })
}

func (w *world) moveEpoch() {
	inFlight := slices.ContainsFunc(w.writes, func(m *modelWrite) bool { return !m.queued && (m.unknown || m.appended > 0) })
	if w.raising && !inFlight {
		for _, m := range w.writes {
			m.queued = false
		}
		w.raising, w.zombies = false, nil
		w.step(EpochRaised{})
	}
}

func (w *world) moveCommit() {
	m := w.commit
	switch {
	case m == nil:
	case !m.applied && !w.calm && w.pick(8) == 0:
		w.commit = nil
		w.step(Committed{"in", m.action.Sequence, CommitRetry, "coordinator moved", false})
	case !m.applied && !w.calm && w.pick(60) == 0:
		w.commit = nil
		w.step(Committed{"in", m.action.Sequence, CommitRefused, "not authorized", false})
	case !m.applied:
		w.apply(m)
	default:
		if !m.decided && !w.calm && w.pick(8) == 0 {
			m.outcome = CommitRetry // applied, and the answer was lost
		}
		w.commit = nil
		reason := ""
		if m.outcome != CommitDone {
			reason = "see outcome"
		}
		w.step(Committed{"in", m.action.Sequence, m.outcome, reason, false})
	}
}

// moveLife moves the process's life on.
func (w *world) moveLife() {
	pr := &w.proc
	switch {
	case pr.launching && !w.calm && pr.number > 1 && w.pick(10) == 0:
		pr.launching = false
		w.step(LaunchFailed{pr.number, "no such program", 127})
	case pr.launching:
		pr.launching, pr.up = false, true
		w.step(Launched{pr.number, 4711})
	case pr.up && (pr.dying || (pr.closing || pr.refuse) && (w.calm || w.pick(3) == 0)):
		w.exit("killed or done", 0)
	case pr.up && pr.discover:
		pr.discover = false
		if !w.calm && w.pick(30) == 0 {
			w.step(SpecRefused{pr.number, []string{"no outlet"}})
			return
		}
		w.credit = 1 + w.pick(3)
		w.step(SpecGood{pr.number, []string{"in"}, []string{modelOutlet}, w.credit})
	case pr.up && pr.stopped && (!pr.finishing || len(pr.batches) == 0):
		pr.stopped = false
		w.step(StoppedByProcess{pr.number})
	}
}

func (w *world) exit(reason string, code int) {
	number := w.proc.number
	w.proc, w.open = modelProcess{number: number}, false
	w.step(Exited{number, reason, code})
}

func (w *world) moveGroup() {
	g := &w.group
	if !g.subscribed {
		return
	}
	switch {
	case !g.joined || g.suspended:
		if w.calm && g.suspended && !g.drained {
			return // a calm coordinator waits for the running writes
		}
		if w.calm || w.pick(3) > 0 {
			w.assign()
			return
		}
		if g.suspended && w.pick(4) == 0 {
			w.loseAll()
			g.joined, g.suspended = false, false
			w.step(Lost{"in"})
		} else {
			w.others()
		}
	case w.calm:
		if !g.releasing && w.missing() {
			w.cooperate()
		}
	case w.pick(4) > 0:
	case w.pick(3) == 0:
		w.suspend()
	case w.pick(3) == 0:
		w.loseAll()
		g.joined, g.releasing = false, false
		w.step(Lost{"in"})
	case !g.releasing && w.pick(2) == 0:
		w.revoke()
	case !g.releasing:
		w.cooperate()
	}
}

func (w *world) suspend() {
	w.group.suspended, w.group.releasing, w.group.drained = true, false, false
	for _, p := range w.parts {
		p.fetch, p.hint = -1, false
		if p.revoking {
			p.ours, p.revoking, p.released = false, false, w.group.generation
		}
	}
	w.step(Suspended{"in"})
}

func (w *world) missing() bool {
	return slices.ContainsFunc(w.parts, func(p *modelPart) bool { return !p.ours })
}

// assign begins a generation after a suspension or from nothing.
func (w *world) assign() {
	g := &w.group
	continues := g.suspended && g.joined && w.pick(5) > 0
	g.generation++
	if !continues {
		g.generation++
	}
	g.joined, g.suspended = true, false
	var starts []Start
	for _, p := range w.parts {
		had := p.ours
		p.ours = w.calm || w.pick(4) > 0
		if had && !p.ours {
			p.fetch, p.hint = -1, false
		}
		if p.ours {
			starts = append(starts, w.start(p))
		}
	}
	w.step(Assigned{"in", g.generation, continues, starts})
}

func (w *world) start(p *modelPart) Start {
	p.ours, p.revoking = true, false
	if p.committed < 0 {
		p.expect = 0
		return Start{p.tp.Partition, 0, true}
	}
	p.expect = max(p.committed, p.expect)
	return Start{p.tp.Partition, p.committed, false}
}

// cooperate gives partitions without touching those that stay.
func (w *world) cooperate() {
	g := &w.group
	g.generation++
	var starts []Start
	for _, p := range w.parts {
		if !p.ours && (w.calm || w.pick(2) == 0) {
			starts = append(starts, w.start(p))
		}
	}
	w.step(Assigned{"in", g.generation, true, starts})
}

func (w *world) revoke() {
	var ns []int32
	for _, p := range w.parts {
		if p.ours && w.pick(2) == 0 {
			p.revoking = true
			ns = append(ns, p.tp.Partition)
		}
	}
	if len(ns) > 0 {
		w.group.releasing = true
		w.step(Revoked{"in", ns, w.now + time.Duration(w.pick(2000))*time.Millisecond})
	}
}

// others is another member that works on what is not ours. It begins only when
// no write of ours may still come: two supervisors have no fence.
func (w *world) others() {
	for _, p := range w.parts {
		busy := func(m *modelWrite) bool { return m.part == p }
		if w.group.suspended || p.ours || p.committed < 0 || slices.ContainsFunc(w.writes, busy) || slices.ContainsFunc(w.zombies, busy) {
			continue
		}
		if w.commit != nil && !w.commit.applied {
			continue
		}
		for p.committed < p.end && w.pick(3) > 0 {
			o := p.committed
			if !p.hole[o] {
				if emits(o) {
					w.append(&modelWrite{part: p, offsets: []int64{o}}, 1)
				}
				p.acked[o] = true
			}
			p.committed++
			p.expect = max(p.expect, p.committed)
		}
	}
}

func (w *world) moveRare() {
	pr := &w.proc
	switch w.pick(14) {
	case 0, 1:
		if pr.up {
			w.exit("exit 1", 1)
		}
	case 2:
		if pr.up && !pr.dying {
			w.step(Acked{pr.number, w.lastID + 100})
		}
	case 3:
		if pr.up && !pr.dying {
			w.step(Violated{Process: pr.number, Reason: "half a frame"})
		}
	case 4:
		if pr.number > 1 {
			w.step(Acked{pr.number - 1, 1}) // a process that is over
		}
	case 5:
		w.kill()
	case 6:
		w.step(StopAsked{"asked"})
	case 7, 8:
		w.step(ReloadAsked{"saved"})
	case 9:
		if pr.up {
			w.step(Unreachable{pr.number, "frozen"})
		}
	case 10:
		if pr.up {
			w.step(OutputClosed{pr.number})
		}
	case 11:
		w.step(Committed{"in", 1 << 40, CommitDone, "", false})
	case 12:
		w.now += 70 * time.Second
		w.step(Ticked{})
	case 13:
		w.others()
	}
}

// isolate stops all faults but the poison. Now every partition has to get to its
// end, or to its first bad record and no further; each bad record has to become
// known by its offset, and nobody else may be convicted.
func (w *world) isolate() {
	w.calm = true
	for _, p := range w.parts {
		p.oversized = map[int64]bool{}
	}
	var what string
	for range 20000 {
		if what = w.unnamed(); what == "" {
			return
		}
		w.turn()
	}
	w.fail("R5: %s: %+v, partitions %+v", what, w.core.Status(), w.states())
}

// unnamed says what isolate still waits for.
func (w *world) unnamed() string {
	for _, p := range w.parts {
		bad := p.bad(max(p.committed, 0))
		if p.committed > bad {
			w.fail("R5: %v is committed at %d, behind the bad record at %d", p.tp, p.committed, bad)
		}
		for bad < p.end && p.committed < bad && p.hole[bad-1] { // ranges without records are committed with what follows
			bad--
		}
		if p.committed < bad {
			return fmt.Sprintf("%v is not committed up to %d", p.tp, bad)
		}
	}
	for _, row := range w.core.Status().Partitions {
		p := w.part(row.TP)
		bad := p.bad(max(p.committed, 0))
		switch {
		case bad == p.end && row.Standing != "":
			return fmt.Sprintf("%v is %s, and nothing of it is bad", p.tp, row.Standing)
		case bad < p.end && (row.Standing != convicted.String() || row.Suspect != bad || row.LastError == ""):
			return fmt.Sprintf("%v@%d is not named: %+v", p.tp, bad, row)
		}
	}
	return ""
}

// drain mends the poison: now everything has to get through, whatever state the
// schedule left behind.
func (w *world) drain() {
	for _, p := range w.parts {
		p.poison = map[int64]poison{}
	}
	for range 6000 {
		if w.finished() {
			return
		}
		w.turn()
	}
	w.fail("no progress once the faults had stopped: %+v, partitions %+v", w.core.Status(), w.states())
}

// turn lets everybody do something once, without faults.
func (w *world) turn() {
	if w.exited {
		w.boot()
	}
	if w.core.Status().AwaitsSave {
		w.step(ReloadAsked{"saved"})
	}
	for _, p := range w.parts {
		if p.hint && p.ours && !w.group.suspended && !w.exited {
			p.hint = false
			w.step(Fetched{p.tp})
		}
	}
	for _, move := range [...]func(){w.moveProcess, w.moveWrite, w.moveEpoch, w.moveCommit, w.moveLife, w.moveGroup} {
		if !w.exited {
			move()
		}
	}
	if at, ok := w.core.Wake(); ok && !w.exited && w.pick(3) == 0 {
		// the process needs time for its batches: the clock does not jump over it
		w.now = max(w.now, min(at, w.now+500*time.Millisecond))
		w.step(Ticked{})
	}
}

func (w *world) states() []modelPart {
	var out []modelPart
	for _, p := range w.parts {
		out = append(out, *p)
	}
	return out
}

// finished: every record is committed, and its output is in the log.
func (w *world) finished() bool {
	for _, p := range w.parts {
		if p.committed != p.end {
			return false
		}
	}
	for _, p := range w.parts {
		for o := range p.end {
			if emits(o) && !p.hole[o] && !slices.Contains(p.log, o) {
				w.fail("R1: the output of %v@%d is lost", p.tp, o)
			}
		}
	}
	return true
}
