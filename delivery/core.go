package delivery

import (
	"fmt"
	"slices"
	"time"
)

// Core decides: events in, actions out. It is one process's life, one
// conversation after the other, and every inlet partition that this supervisor
// holds. It is not safe for concurrent use; one loop owns it.
type Core struct {
	cfg Config
	now time.Duration
	// out collects the actions of the Step that runs.
	out []Action

	process process
	conv    conversation
	stop    stopping
	epoch   epochState

	inlets     []*inlet // by name, also those once left
	batches    map[uint64]*batch
	with       withProcess
	held       int // bytes of all held emits
	queue      queue
	flow       flow
	trials     trials
	convicts   convicts
	cutting    *batch   // delivered, and its Cut is due
	starting   []*batch // their Write is given out behind this Step's Deliver
	writing    int      // writes without a last answer
	lastID     uint64
	lastCommit uint64
	count      counters
}

type epochState uint8

const (
	epochGood epochState = iota
	// epochRaising: a write is unsettled, and nothing new is written.
	epochRaising
)

// New makes a core that has done nothing yet: the first event, usually Ticked,
// launches the process. It panics where cfg does not Validate.
func New(cfg Config) *Core {
	if err := cfg.Validate(); err != nil {
		panic("delivery: " + err.Error())
	}
	cfg.fill()
	return &Core{
		cfg:     cfg,
		conv:    conversation{wait: cfg.ReconnectMin, awaitSave: cfg.Attach},
		batches: map[uint64]*batch{},
		flow:    flow{voidFullSince: -1},
	}
}

// Step applies ev and appends to dst the actions it calls for, in the order
// they must be started. now is the time since any fixed moment; it counts only
// while the machine is awake, and one that goes back is taken as unchanged.
// Step does not block. After an Exit it does nothing.
//
// At most one Deliver is among the actions, and the very next Step must bring
// its Cut or Oversized (a Withdrawn may come before it): anything else is a
// mistake of the driver, and panics.
func (c *Core) Step(dst []Action, now time.Duration, ev Event) []Action {
	if c.stop.done {
		return dst
	}
	c.out = dst
	c.now = max(c.now, now)
	c.expectCut(ev)
	if c.cutting == nil {
		c.expire()
	}
	c.apply(ev)
	c.advance()
	dst, c.out = c.out, nil
	return dst
}

func (c *Core) do(a Action) { c.out = append(c.out, a) }

func (c *Core) note(k NoteKind, tp TP, text string) { c.do(Note{Kind: k, TP: tp, Text: text}) }

// stale counts an event that belongs to something that is over (R12). It makes
// no action: an action for a stale event would be a change.
func (c *Core) stale(Event) { c.count.stale++ }

// apply is the dispatcher.
func (c *Core) apply(ev Event) {
	switch e := ev.(type) {
	case Assigned:
		c.onAssigned(e)
	case Revoked:
		c.onRevoked(e)
	case Suspended:
		c.onSuspended(e)
	case Lost:
		c.onLost(e)
	case Fetched:
		c.onFetched(e)
	case FetchFailed:
		c.onFetchFailed(e)
	case Written:
		c.onWritten(e)
	case WriteUnknown:
		c.onWriteUnknown(e)
	case Refused:
		c.onRefused(e)
	case Unsettled:
		c.onUnsettled(e)
	case EpochRaised:
		c.onEpochRaised(e)
	case Committed:
		c.onCommitted(e)
	case Cut:
		c.onCut(e)
	case Oversized:
		c.onOversized(e)
	case StopAsked:
		c.beginStop(e.Reason, 0)
	case ReloadAsked:
		c.onReload(e)
	case Ticked:
	default:
		c.applyProcess(ev)
	}
}

// expire does what is due by the clock before the event is applied, so that
// what comes at a deadline comes after it.
func (c *Core) expire() {
	c.expireProcess()
	c.expireConversation()
	c.stopProgress()
	for _, in := range c.inlets {
		c.release(in)
	}
	if c.flow.gated > 0 {
		c.eachPartition(c.openGate)
	}
}

// advance does what has become possible. Its order is the order of actions: the
// next batch goes out before the last one's emits are written.
func (c *Core) advance() {
	if c.cutting == nil {
		c.conversationProgress()
		c.dispatch()
	}
	c.flushWrites()
	for _, in := range c.inlets {
		c.commit(in)
		c.release(in)
	}
	c.watchCredit()
	c.stopProgress()
	c.noteReady()
}

// expectCut enforces the contract of Deliver.
func (c *Core) expectCut(ev Event) {
	var id uint64
	switch e := ev.(type) {
	case Cut:
		id = e.ID
	case Oversized:
		id = e.ID
	case Withdrawn:
		return
	default:
		if c.cutting != nil {
			panic(fmt.Sprintf("delivery: %v came between Deliver of batch %d and its Cut", ev, c.cutting.id))
		}
		return
	}
	if c.cutting == nil || c.cutting.id != id {
		panic(fmt.Sprintf("delivery: %v answers no Deliver", ev))
	}
}

// Wake returns when a Ticked is due next; ok is false when nothing waits for
// the clock. A time that has passed means: now.
func (c *Core) Wake() (at time.Duration, ok bool) {
	if c.stop.done {
		return 0, false
	}
	var w wake
	c.wakeProcess(&w)
	c.wakeConversation(&w)
	c.wakeStop(&w)
	for _, in := range c.inlets {
		if len(in.releasing) > 0 {
			w.at(in.revokeBy)
		}
		if s := &in.commit; in.live && !s.outstanding && !s.abandoned && len(s.dirty) > 0 {
			w.at(c.commitAt(in))
		}
	}
	c.wakeTrials(&w)
	if c.flow.gated > 0 {
		c.eachPartition(func(p *partition) {
			if p.gate == gateWaiting {
				w.at(p.gateUntil)
			}
		})
	}
	return w.next, w.ok
}

// wake keeps the earliest of several times.
type wake struct {
	next time.Duration
	ok   bool
}

func (w *wake) at(t time.Duration) {
	if !w.ok || t < w.next {
		w.next, w.ok = t, true
	}
}

// queue has the partitions that have records and may be delivered, the
// longest-waiting first.
type queue struct {
	items []*partition
	head  int
}

func (q *queue) push(p *partition) {
	if q.head > 64 && 2*q.head > len(q.items) {
		q.items = slices.Delete(q.items, 0, q.head)
		q.head = 0
	}
	q.items = append(q.items, p)
}

func (q *queue) pop() *partition {
	p := q.items[q.head]
	q.items[q.head] = nil
	q.head++
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	}
	return p
}

func (q *queue) empty() bool { return q.head == len(q.items) }
