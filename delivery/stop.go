package delivery

import (
	"fmt"
	"time"
)

type stopStage uint8

const (
	// stopFinishing: batches may still be acked.
	stopFinishing stopStage = iota
	// stopSettling: acked batches are written and committed.
	stopSettling
	// stopClosing: groups are left, the process's input is closed.
	stopClosing
)

// stopping is the end of the supervisor, inside its budget (Config.Stop).
type stopping struct {
	asked bool
	at    time.Duration
	stage stopStage
	// code and reason are those of the Exit to come.
	code   int
	reason string
	// starting: the process has not described itself yet.
	starting bool
	// terminated: SIGTERM was given out.
	terminated bool
	done       bool
}

// over notes that the budget did not suffice; the first reason is kept.
func (s *stopping) over(why string) {
	if s.code == 0 {
		s.code, s.reason = 1, why
	}
}

// beginStop starts the stop, once. A second one changes nothing: whoever wants
// to force it ends the loop.
func (c *Core) beginStop(reason string, code int) {
	s, v := &c.stop, &c.conv
	if s.asked {
		return
	}
	*s = stopping{asked: true, at: c.now, reason: reason, code: code, stage: stopSettling}
	c.note(NoteStopping, TP{}, reason)
	c.eachPartition(c.aim)
	switch v.state {
	case Running:
		v.state = Stopping
		s.stage = stopFinishing
		c.askToFinish(reason)
	case Stopping:
		s.stage = stopFinishing // a reload has sent the stop already
	case Discovering:
		v.state = Down
		s.starting = !v.spec
	}
	v.reload, v.awaitSave = false, false
}

// stopProgress moves the stop on, by what has settled and by the clock.
func (c *Core) stopProgress() {
	s := &c.stop
	if !s.asked || s.done {
		return
	}
	if s.stage == stopFinishing {
		c.finish()
	}
	if s.stage == stopSettling {
		c.settleAll()
	}
	if s.stage == stopClosing {
		c.close()
	}
}

func (c *Core) finish() {
	s := &c.stop
	if c.conv.state == Stopping {
		if c.now < s.at+c.cfg.Stop.Process {
			return
		}
		s.over(fmt.Sprintf("batches without an answer %v after the stop was asked for: %d; they are delivered again", c.cfg.Stop.Process, c.with.live))
		c.endRunning()
		c.conv.state = Down
	}
	s.stage = stopSettling
}

func (c *Core) settleAll() {
	s := &c.stop
	if n := c.unsettled(); n > 0 {
		if c.now < s.at+c.cfg.Stop.Writes {
			return
		}
		s.over(fmt.Sprintf("%d partitions were not written and committed within %v of the stop", n, c.cfg.Stop.Writes))
	}
	s.stage = stopClosing
	c.leaveAll()
}

// unsettled counts partitions with something acked that is not committed.
func (c *Core) unsettled() int {
	n := 0
	c.eachPartition(func(p *partition) {
		if p.unsettled() && !p.inlet.commit.abandoned {
			n++
		}
	})
	return n
}

// close ends the process and then the supervisor.
func (c *Core) close() {
	s, b := &c.stop, &c.cfg.Stop
	p := &c.process
	late := c.now - s.at
	if p.state == processUp && !p.retiring {
		c.retire(0)
	}
	if terminate, _ := c.patience(); p.state == processUp && late >= terminate && !s.terminated {
		s.terminated = true
		if !s.starting {
			s.over(fmt.Sprintf("the process did not exit within %v of the stop", terminate))
		}
		c.do(Terminate{p.number})
	}
	if _, kill := c.patience(); late >= kill {
		c.kill("the stop's budget is used up")
	}
	switch {
	case p.state == processNone:
	case late >= b.Exit:
		s.over(fmt.Sprintf("the process was not gone within %v of the stop", b.Exit))
	default:
		return
	}
	s.done = true
	c.do(Exit{s.code, s.reason})
}

// patience is when after the stop's begin a process that still lives gets
// SIGTERM and SIGKILL. One that is still starting holds nothing that could be
// lost, and may import for a minute without a look at its input: whoever
// stopped it is not kept waiting for the whole budget.
func (c *Core) patience() (terminate, kill time.Duration) {
	b := &c.cfg.Stop
	if c.stop.starting {
		return min(startingTerminate, b.Terminate), min(startingKill, b.Kill)
	}
	return b.Terminate, b.Kill
}

func (c *Core) wakeStop(w *wake) {
	s, b := &c.stop, &c.cfg.Stop
	terminate, kill := c.patience()
	if !s.asked {
		return
	}
	switch s.stage {
	case stopFinishing:
		w.at(s.at + b.Process)
	case stopSettling:
		w.at(s.at + b.Writes)
	case stopClosing:
		switch {
		case c.process.state == processUp && !s.terminated:
			w.at(s.at + terminate)
		case c.process.state == processUp:
			w.at(s.at + kill)
		default:
			w.at(s.at + b.Exit)
		}
	}
}
