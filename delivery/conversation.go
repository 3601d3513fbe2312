package delivery

import (
	"fmt"
	"slices"
	"time"
)

// State is where the conversation with the process is.
type State uint8

// The conversation's states (the table in doc.go).
const (
	// Down: no conversation; the wait runs, or a save is awaited.
	Down State = iota
	// Discovering: launched or asked, and spec is awaited.
	Discovering
	// Running: batches are delivered.
	Running
	// Ending: the stream failed; the process owes stopped.
	Ending
	// Stopping: asked to finish, for the supervisor's stop or for a reload.
	Stopping
)

var stateNames = [...]string{"down", "discovering", "running", "ending", "stopping"}

// String is the state in lower case.
func (s State) String() string { return nameOf(stateNames[:], int(s)) }

type conversation struct {
	state State
	// number counts conversations from 1.
	number uint64
	// wait is the next wait; waitUntil ends the one that runs, in Down and
	// Ending.
	wait, waitUntil time.Duration
	// awaitSave: under Watch and Attach, only ReloadAsked goes on.
	awaitSave bool
	// deadline is that of Discovering, Ending, and Stopping for a reload.
	deadline time.Duration
	// spec is the accepted answer to discover, which waits for Begin while the
	// epoch is raised.
	spec    bool
	inlets  []string
	outlets []string
	// reload: Stopping is for a reload.
	reload bool
	// startedAt is when it began, idleSince when the last one ended.
	startedAt, idleSince time.Duration
	ready                bool
}

func (v *conversation) declares(outlet string) bool { return slices.Contains(v.outlets, outlet) }

// mayRevoke: revoke may be sent only between start and stop.
func (c *Core) mayRevoke() bool { return c.conv.state == Running }

// conversationProgress starts discovery when the wait is over, and the
// conversation when discovery and the epoch are done.
func (c *Core) conversationProgress() {
	v := &c.conv
	if c.stop.asked {
		return
	}
	if v.state == Down && !v.awaitSave && c.now >= v.waitUntil {
		c.discover()
	}
	if v.state == Discovering && v.spec && c.epoch == epochGood {
		c.begin()
	}
}

// discover asks the process, launched first where there is none. A process that
// is being killed or retired is awaited: there is never more than one.
func (c *Core) discover() {
	switch {
	case c.process.state == processNone:
		c.launch()
	case c.process.state == processUp && !c.process.retiring:
		c.do(Discover{c.process.number})
	default:
		return
	}
	c.conv.state = Discovering
	c.conv.spec = false
	c.conv.deadline = c.now + c.cfg.DiscoveryTimeout
}

func (c *Core) onSpecGood(e SpecGood) {
	v := &c.conv
	if c.stop.asked {
		c.stale(e)
		return
	}
	if v.state != Discovering || v.spec {
		c.violate(c.explain(Breach{Kind: BreachUnasked, Message: "spec"}), nil)
		return
	}
	v.spec = true
	v.inlets, v.outlets = e.Inlets, e.Outlets
	c.process.maxInFlight = e.MaxInFlight
	if e.MaxInFlight <= 0 {
		c.process.maxInFlight = defaultCredit
	}
}

func (c *Core) begin() {
	v := &c.conv
	v.state, v.reload = Running, false
	v.number++
	v.startedAt = c.now
	c.do(Begin{c.process.number, v.number})
	c.subscribe(v.inlets)
	c.recovered(nil)
	for _, p := range c.convicts.debts {
		c.recovered(p)
	}
	c.trials.next = max(c.trials.next, c.now+trialBreak) // the others first
	c.eachPartition(c.enqueue)
}

// noteReady says that the conversation runs and every inlet is subscribed.
func (c *Core) noteReady() {
	ready := c.conv.state == Running && !c.stop.asked
	if ready {
		for _, in := range c.inlets {
			ready = ready && (!in.subscribed || in.joined)
		}
	}
	if ready && !c.conv.ready {
		c.note(NoteReady, TP{}, fmt.Sprintf("conversation %d runs", c.conv.number))
	}
	c.conv.ready = ready
}

// backoff begins the wait for the next conversation, and doubles the one after.
// Where it was found whose failure it is, that one waits (convict.go) and the
// stream goes on for the others.
func (c *Core) backoff(found bool) {
	v := &c.conv
	if found {
		v.wait = c.cfg.ReconnectMin
	}
	v.waitUntil = c.now + v.wait
	next := "then the process is started again"
	if c.process.state == processUp {
		next = "then the process gets a new conversation"
	}
	c.note(NoteWaiting, TP{}, fmt.Sprintf("%v, %s", v.wait, next))
	if !found {
		v.wait = min(2*v.wait, c.cfg.ReconnectMax)
	}
}

// endRunning is what ends every conversation: unacked batches are void, acked
// ones settle (R4). The stop says to the process what is void, or it is killed.
func (c *Core) endRunning() {
	v := &c.conv
	if v.state == Running || v.state == Stopping {
		if c.now-v.startedAt > 2*c.cfg.ReconnectMax {
			v.wait = c.cfg.ReconnectMin
		}
		v.idleSince = c.now
	}
	c.adjourn()
	c.eachPartition(func(p *partition) {
		if p.live() {
			c.voidP(p, false)
			c.aim(p)
		}
	})
}

// askToFinish sends the finishing stop. No batch may follow it on the wire, so
// what has not been begun is taken back first; the rest stays live.
func (c *Core) askToFinish(reason string) {
	c.eachPartition(func(p *partition) {
		if p.p != nil && !p.p.acked {
			c.do(Withdraw{Process: p.p.process, ID: p.p.id})
		}
	})
	c.do(Stop{Process: c.process.number, Reason: reason})
}

// onStopped takes the process's stopped.
func (c *Core) onStopped(e StoppedByProcess) {
	v := &c.conv
	switch v.state {
	case Ending:
		v.state = Down
	case Stopping:
		c.endRunning()
		v.state = Down
		if v.reload {
			c.retire(v.deadline)
		}
	default:
		if c.stop.asked || c.process.retiring {
			c.stale(e)
			return
		}
		c.violate(c.explain(Breach{Kind: BreachUnasked, Message: "stopped"}), nil)
	}
}

// onReload replaces the process. A reload is no failure and waits for nothing
// but the old process: there is never more than one (case 63).
func (c *Core) onReload(e ReloadAsked) {
	v := &c.conv
	if c.stop.asked || v.state == Stopping {
		return
	}
	if !c.cfg.Attach {
		c.note(NoteReloading, TP{}, e.Reason)
	}
	v.awaitSave = false
	v.wait = c.cfg.ReconnectMin
	v.waitUntil = c.now
	c.pardon()
	if v.state == Running {
		v.state, v.reload = Stopping, true
		v.deadline = c.now + c.cfg.ReloadTimeout
		c.askToFinish("reload")
		return
	}
	discovering := v.state == Discovering
	v.state = Down
	switch {
	case c.process.state == processLaunching || discovering:
		c.kill("reload")
	case c.process.state == processUp:
		c.retire(c.now + c.cfg.ReloadTimeout)
	}
}

// NoAnswer says to a person that a process did not answer discovery in time,
// and the usual causes.
func NoAnswer(within time.Duration) string {
	return fmt.Sprintf("no answer to discovery within %v; does it call serve()? A program without an SDK must flush its stdout; "+
		"the ankka-flow package whose link is gRPC never answers here", within)
}

// expireConversation does what the deadline of a state asks for.
func (c *Core) expireConversation() {
	v := &c.conv
	if c.stop.asked {
		return
	}
	if v.state != Running && v.state != Stopping && c.now >= v.idleSince+c.keepGroups() {
		c.leaveAll()
	}
	due := c.now >= v.deadline
	switch {
	case v.state == Discovering && !v.spec && due:
		c.fail(failure{process: true, kill: true,
			reason: NoAnswer(c.cfg.DiscoveryTimeout)})
	case v.state == Ending && due:
		c.fail(failure{process: true, kill: true, reason: "the process did not answer stop"})
	case v.state == Stopping && v.reload && due:
		c.kill("reload: the old process did not finish in time")
		c.endRunning()
		v.state = Down
	}
}

func (c *Core) wakeConversation(w *wake) {
	v := &c.conv
	if c.stop.asked {
		return
	}
	if v.state != Running && v.state != Stopping && c.subscribedAny() {
		w.at(v.idleSince + c.keepGroups())
	}
	switch v.state {
	case Down:
		idle := c.process.state == processNone || c.process.state == processUp && !c.process.retiring
		if !v.awaitSave && idle {
			w.at(v.waitUntil)
		}
	case Discovering:
		if !v.spec {
			w.at(v.deadline)
		}
	case Ending:
		w.at(v.deadline)
	case Stopping:
		if v.reload {
			w.at(v.deadline)
		}
	}
}

// keepGroups is how long the groups are kept without a conversation: twice the
// maximum backoff, but never less than a process may take to start again, or
// every crash would rebalance everybody.
func (c *Core) keepGroups() time.Duration {
	return max(2*c.cfg.ReconnectMax, keepGroupsMin)
}

func (c *Core) subscribedAny() bool {
	return slices.ContainsFunc(c.inlets, func(in *inlet) bool { return in.subscribed })
}
