package delivery

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// standing is what the failures of the stream have made of a partition.
type standing uint8

const (
	blameless standing = iota
	// accused: its batch may have been what failed; a trial tells.
	accused
	// convicted: its batch is what failed. Its records come one at a time.
	convicted
)

var standingNames = [...]string{"", "accused", "convicted"}

// String is empty for a blameless one.
func (s standing) String() string { return nameOf(standingNames[:], int(s)) }

// charge is what a partition is charged with. The zero charge is a blameless
// partition's.
type charge struct {
	standing standing
	// due: the next batch is a trial, the first one since the failure.
	due bool
	// first and end are the offsets of the batch that failed, end exclusive, and
	// of all batches since it was convicted the furthest end: committed past it,
	// the partition is acquitted. records is how many the batch had.
	first, end int64
	records    int
	// record is the offset of its first record, by which people know it.
	record int64
	// refused: it is a write that failed, so that a trial needs the other writes
	// out of the way too.
	refused bool
	// trial is the batch that was delivered as the trial; 0: none was.
	trial uint64
	// shut is how long the others were kept out for its trials since its last
	// failure, those that were put off too.
	shut time.Duration
	// alone is how long the others are kept out of the trial.
	alone time.Duration
	// tries is how often the batch at first was found to fail, wait what the next
	// failure there waits.
	tries int
	wait  time.Duration
	// since is when it was accused.
	since time.Duration
}

// accusation charges a partition with a batch.
type accusation struct {
	part       *partition
	first, end int64
	records    int
	record     int64
	// doubtful: others were with the process too, so that a trial has to tell.
	doubtful bool
}

func accuse(b *batch) accusation {
	return accusation{part: b.part, first: b.first, end: b.next, records: b.records, record: b.record}
}

// how says how a record fails, for people: as much as completes the sentence
// "the same record ...".
type how string

const (
	howFailed  how = "failed"
	howEnded   how = "killed the process"
	howLate    how = "was not answered in time"
	howRefused how = "could not be written"
	howLarge   how = "was over the limit"
)

// judge charges a failure to those that it accuses, and reports whether that
// found who it was. One that is accused alone is convicted, and whoever was
// accused besides is cleared: at a crash that is the partition that was alone
// with the process, at a refused write the only one in the refused bytes.
//
// What accuses nobody (outages, commits, violations that name no batch) finds
// nobody.
func (c *Core) judge(f *failure) (found bool) {
	var charged []accusation
	for _, a := range f.accused {
		if a.part.state != lost {
			a.part.failures++
			a.part.lastError = f.reason
			charged = append(charged, a)
		}
	}
	if len(charged) == 1 && !charged[0].doubtful {
		c.convict(charged[0], f)
		return true
	}
	c.convicts.measuring = false // what follows is not a convict's doing
	for _, a := range charged {
		c.accuse(a, f)
	}
	if len(charged) > 0 {
		c.note(NoteAccused, TP{}, c.lineup(charged, f))
	}
	return len(charged) == 1
}

// namedAccused is the most accused that a line names.
const namedAccused = 20

// lineup says to people which batches it may have been.
func (c *Core) lineup(charged []accusation, f *failure) string {
	var text strings.Builder
	fmt.Fprintf(&text, "one of %d batches %s: ", len(charged), f.how)
	if len(charged) == 1 {
		text.Reset()
		fmt.Fprintf(&text, "a batch that may be what %s: ", f.how)
	}
	for i, a := range charged {
		switch {
		case i == namedAccused:
			fmt.Fprintf(&text, " and %d more", len(charged)-i)
		case i < namedAccused && i > 0:
			text.WriteString(", ")
		}
		if i < namedAccused {
			fmt.Fprintf(&text, "%v@%d", a.part.tp, a.record)
			if a.records > 1 {
				fmt.Fprintf(&text, " (%d records)", a.records)
			}
		}
	}
	if c.triesAgain(f) {
		text.WriteString("; they are tried one at a time")
	}
	return text.String()
}

// triesAgain: what failed is tried again by itself, after a wait.
func (c *Core) triesAgain(f *failure) bool {
	return !c.stop.asked && !c.cfg.ExitOnFailure && !(f.exited && c.cfg.Watch) && !(c.cfg.Attach && (f.exited || f.kill))
}

// accuse puts a partition on the docket. A convict stays one.
func (c *Core) accuse(a accusation, f *failure) {
	ch := &a.part.charge
	c.pay(a.part, true) // nothing waits for one that is charged itself
	if ch.standing == blameless {
		ch.standing = accused
		ch.alone = trialAlone
		ch.since = c.now
		c.trials.docket = append(c.trials.docket, a.part)
	}
	if ch.standing == accused {
		ch.first, ch.end, ch.records, ch.record = a.first, a.end, a.records, a.record
	}
	ch.end = max(ch.end, a.end)
	ch.refused = f.how == howRefused
	ch.due, ch.trial = true, 0
}

// clear ends what a partition is charged with.
func (c *Core) clear(p *partition) {
	if p.charge.standing == blameless {
		return
	}
	t := &c.trials
	if t.part == p {
		c.adjourn()
	}
	p.charge = charge{}
	t.docket = slices.DeleteFunc(t.docket, func(x *partition) bool { return x == p })
	if p.gate == gateWaiting && p.oversized != p.position {
		c.setGate(p, gateOpen, 0)
		c.aim(p)
	}
	c.enqueue(p)
}

// acquit clears a partition that has committed past the batch it was charged
// with.
func (c *Core) acquit(p *partition) {
	ch := &p.charge
	if ch.standing == blameless || p.committed < ch.end {
		return
	}
	if ch.standing == convicted {
		c.note(NoteAcquitted, TP{}, fmt.Sprintf("%v@%d: committed past the batch that failed; the partition goes on as before", p.tp, p.committed))
	}
	c.clear(p)
}

// suspects has those to whom the end of the process is laid: the partition on
// trial as long as the others are kept out, otherwise the convicts with a live
// batch, otherwise every partition with one. Void batches count for nothing.
//
// Two things are our own. A trial that goes beside batches that did not drain
// counts as alone: they have been with the process for a second or longer, and
// that one of them ends it in just that second is unlikely; without it a crash
// beside batches of ten minutes would never be found, and would never let one of
// them get done. And where a convict's later records are beside the others, the
// convict is what most likely ends the process, so that only it is tried again.
// It is not convicted at that offset, though: the other one may be new, and a
// record that is known is tried more rarely.
func (c *Core) suspects() []accusation {
	if b := c.trials.running(); b != nil {
		return []accusation{accuse(b)}
	}
	var live, convicts []accusation
	c.eachPartition(func(p *partition) {
		if !p.live() {
			return
		}
		live = append(live, accuse(p.p))
		if p.charge.standing == convicted {
			a := accuse(p.p)
			a.doubtful = !p.charge.known(p.p) && p.charge.trial != p.p.id
			convicts = append(convicts, a)
		}
	})
	if len(convicts) > 0 {
		return convicts
	}
	for _, a := range live {
		a.part.prolong(c.cfg.ReconnectMax)
	}
	return live
}

// known: b is the one record that was found to fail.
func (ch *charge) known(b *batch) bool { return ch.records == 1 && ch.first == b.first }

// prolong keeps the others out of the next trial for twice as long, where the
// process ended during this one after they had come back: what ends it needs
// longer than that.
func (p *partition) prolong(most time.Duration) {
	if ch := &p.charge; ch.trial != 0 && ch.trial == p.p.id {
		ch.alone = min(2*ch.alone, max(most, trialAlone))
	}
}

// live: a batch of it that is not void is with the process.
func (p *partition) live() bool { return p.p != nil && !p.p.acked }

// untried: b ends without an answer that counts, so that a trial by it is due
// again.
func (p *partition) untried(b *batch) {
	if ch := &p.charge; ch.standing != blameless && ch.trial == b.id {
		ch.trial, ch.due = 0, true
	}
}
