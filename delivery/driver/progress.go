package driver

import (
	"fmt"
	"log/slog"
	"time"

	"ankka-flow/delivery"
)

// progress is when the line "committed" is due: soon after everything is
// committed, and while more is behind each progressEvery.
type progress struct {
	// in is the number of records that the last line named, last when.
	in   uint64
	last time.Duration
	next time.Duration
	open bool // something was committed since
	// behind is what was behind once the newest commit was done. With the end
	// of a run the core lets go of its partitions, and what it then says of
	// them is nothing.
	behind int64
}

const (
	progressEvery = 10 * time.Second
	// progressSettle keeps a stream that is never far behind from a line a
	// batch; it is also how often a stream that is behind is looked at.
	progressSettle = 250 * time.Millisecond
)

func (p *progress) due() (at time.Duration, ok bool) { return p.next, p.open }

// foreseeCommit notes what is behind once these offsets are committed; it is
// called before the core hears of it, which may be the last that it waited for.
func (d *Driver) foreseeCommit(inlet string, offsets []delivery.PartitionOffset) {
	s := d.snapshot()
	for i := range s.Partitions {
		p := &s.Partitions[i]
		for _, o := range offsets {
			if p.TP.Inlet == inlet && p.TP.Partition == o.Partition {
				p.Committed = max(p.Committed, o.Offset)
			}
		}
	}
	d.progress.behind = s.Behind()
}

// noticeCommit arms the progress line.
func (d *Driver) noticeCommit(ev delivery.Committed) {
	if ev.Outcome != delivery.CommitDone || d.progress.open {
		return
	}
	d.progress.open = true
	d.progress.next = d.now() + progressSettle
}

// sayProgress says how far the commits are, when that is due.
func (d *Driver) sayProgress() {
	p := &d.progress
	now := d.now()
	if !p.open || now < p.next {
		return
	}
	s := d.snapshot()
	behind := s.Behind()
	if behind > 0 && now-p.last < progressEvery {
		p.next = now + progressSettle
		return
	}
	p.open = false
	if s.In == p.in {
		return // only positions moved
	}
	p.last = now
	d.sayCommitted(&s.Status, behind)
}

// sayLastProgress says what was committed since the last line, at the end of a
// run: who counts on it shall not depend on the moment of the stop.
func (d *Driver) sayLastProgress() {
	if s := d.core.Status(); d.progress.open && s.In != d.progress.in {
		d.sayCommitted(&s, d.progress.behind)
	}
}

func (d *Driver) sayCommitted(s *delivery.Status, behind int64) {
	d.progress.in = s.In
	d.say(slog.LevelInfo, "committed", fmt.Sprintf("%d in, %d out, %d behind", s.In, s.Out, behind))
}
