package group

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// world runs several machines against the model coordinator in virtual time.
type world struct {
	t       *rapid.T
	now     time.Duration
	queue   []occurrence
	seq     int
	clients []*client
	coord   *coordinator
	// faulty: requests and answers get lost, drains overrun.
	faulty bool
	// over: the faults have stopped, and who leaves starts again.
	over  bool
	joins int
	// lastJoin is when the last join was sent.
	lastJoin time.Duration
	lines    []string
	// random is drawn once; a small generator of our own keeps rapid's
	// bitstream short.
	random uint64
}

type occurrence struct {
	at  time.Duration
	seq int
	do  func()
}

// client is one driver: a machine and what its core believes.
type client struct {
	w        *world
	name     string
	instance string
	// assignors as configured; nil is cooperative-sticky alone.
	assignors []string
	m         *Machine
	life      int
	frozen    bool
	late      []Event
	wake      time.Duration
	// active are the partitions on which writes may start or run, by the
	// generation under which they commit.
	active    map[int32]bool
	suspended map[int32]bool
	entered   int32
	settled   bool
}

const (
	modelSession = 6 * time.Second
	maxLatency   = 40 * time.Millisecond
)

func (w *world) rand(n int) int {
	w.random ^= w.random << 13
	w.random ^= w.random >> 7
	w.random ^= w.random << 17
	return int(w.random % uint64(n))
}

func (w *world) latency() time.Duration {
	return time.Millisecond + time.Duration(w.rand(int(maxLatency-1)))
}

func (w *world) trace(format string, args ...any) {
	w.lines = append(w.lines, fmt.Sprintf("%10v %s", w.now, fmt.Sprintf(format, args...)))
}

func (w *world) fail(format string, args ...any) {
	from := max(0, len(w.lines)-120)
	w.t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(w.lines[from:], "\n"))
}

func (w *world) after(d time.Duration, do func()) {
	w.seq++
	o := occurrence{w.now + d, w.seq, do}
	i, _ := slices.BinarySearchFunc(w.queue, o, func(a, b occurrence) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.seq, b.seq))
	})
	w.queue = slices.Insert(w.queue, i, o)
}

func (w *world) run(until time.Duration) {
	for len(w.queue) > 0 && w.queue[0].at <= until {
		o := w.queue[0]
		w.queue = w.queue[1:]
		w.now = o.at
		o.do()
		w.check()
	}
	w.now = until
}

// check: no partition with two members at once, whatever their generations.
// (A frozen one cannot know better: that is the window that the README names.)
func (w *world) check() {
	owner := map[int32]*client{}
	for _, c := range w.clients {
		if c.frozen || c.m == nil {
			continue
		}
		for p := range c.active {
			if o := owner[p]; o != nil {
				w.fail("partition %d is active at %s (generation %d) and %s (generation %d)", p, o.name, o.entered, c.name, c.entered)
			}
			owner[p] = c
		}
	}
}

func (c *client) start() {
	m, err := New(Config{Group: "g", Topic: "t", Instance: c.instance, Assignors: c.assignors, SessionTimeout: modelSession})
	if err != nil {
		c.w.t.Fatal(err)
	}
	c.m, c.life = m, c.life+1
	c.active, c.suspended, c.entered, c.settled = map[int32]bool{}, map[int32]bool{}, -1, false
	c.step(Started{})
	c.poll(c.life)
}

// poll is the driver's own look at the topic.
func (c *client) poll(life int) {
	c.step(PartitionsChanged{c.w.coord.counts})
	c.w.after(2*time.Second, func() {
		if c.life == life && c.m != nil {
			c.poll(life)
		}
	})
}

func (c *client) crash() {
	c.w.trace("%s: crash", c.name)
	c.m, c.life, c.frozen, c.late = nil, c.life+1, false, nil
	c.active, c.suspended = nil, nil
}

func (c *client) freeze(d time.Duration) {
	if c.m == nil || c.frozen {
		return
	}
	c.w.trace("%s: frozen for %v", c.name, d)
	c.frozen = true
	life := c.life
	c.w.after(d, func() {
		if c.life != life || c.m == nil {
			return
		}
		c.frozen = false
		late := c.late
		c.late = nil
		c.step(Slept{d})
		for _, ev := range late {
			c.step(ev)
		}
	})
}

func (c *client) step(ev Event) {
	if c.m == nil {
		return
	}
	if c.frozen {
		c.late = append(c.late, ev)
		return
	}
	if !routine(ev) {
		c.w.trace("%s: %v", c.name, ev)
	}
	for _, a := range c.m.Step(nil, c.w.now, ev) {
		if !routine(a) {
			c.w.trace("%s:     -> %v", c.name, a)
		}
		c.do(a)
		if c.m == nil {
			return
		}
	}
}

// routine says what would only fill the trace.
func routine(what any) bool {
	switch e := what.(type) {
	case HeartbeatAnswered:
		return e.Code == 0
	case Ticked, WakeAt, Heartbeat, PartitionsChanged:
		return true
	}
	return false
}

// later gives an event to this life of the client.
func (c *client) later(d time.Duration, ev Event) {
	life := c.life
	c.w.after(d, func() {
		if c.life == life {
			c.step(ev)
		}
	})
}

// send takes a request to the coordinator and brings back one answer, or
// loses one of the two.
func (c *client) send(attempt uint64, timeout time.Duration, handle func(reply func(Event))) {
	w, life, done := c.w, c.life, false
	lose := func() {
		wait := time.Duration(w.rand(int(2 * time.Second)))
		if w.rand(4) == 0 {
			wait = timeout
		}
		w.after(wait, func() {
			if c.life == life && !done {
				done = true
				c.step(RequestFailed{attempt, false, "lost"})
			}
		})
	}
	if w.faulty && w.rand(25) == 0 {
		w.trace("%s: request #%d is lost", c.name, attempt)
		lose()
		return
	}
	w.after(timeout, func() {
		if c.life == life && !done {
			done = true
			c.step(RequestFailed{attempt, false, "timeout"})
		}
	})
	w.after(w.latency(), func() {
		handle(func(ev Event) {
			if w.faulty && w.rand(25) == 0 {
				w.trace("%s: answer #%d is lost", c.name, attempt)
				lose()
				return
			}
			w.after(w.latency(), func() {
				if c.life == life && !done {
					done = true
					c.step(ev)
				}
			})
		})
	})
}

func (c *client) do(a Action) {
	w, k := c.w, c.w.coord
	switch a := a.(type) {
	case FindCoordinator:
		c.send(a.Attempt, a.Timeout, func(reply func(Event)) {
			answer := FindCoordinatorResponse{Node: k.node}
			if k.away {
				answer = FindCoordinatorResponse{ErrorCode: codeCoordinatorNotAvailable, Node: -1}
			}
			reply(CoordinatorAnswered{a.Attempt, answer})
		})
	case Join:
		w.joins, w.lastJoin = w.joins+1, w.now
		c.send(a.Attempt, a.Timeout, func(reply func(Event)) {
			k.join(a.Node, a.Request, func(r JoinGroupResponse) { reply(Joined{a.Attempt, r}) })
		})
	case CountPartitions:
		c.send(a.Attempt, a.Timeout, func(reply func(Event)) {
			reply(PartitionsCounted{a.Attempt, map[string]int32{"t": k.counts}})
		})
	case Sync:
		c.send(a.Attempt, a.Timeout, func(reply func(Event)) {
			k.syncGroup(a.Node, a.Request, func(r SyncGroupResponse) { reply(Synced{a.Attempt, r}) })
		})
	case Heartbeat:
		c.send(a.Attempt, a.Timeout, func(reply func(Event)) {
			reply(HeartbeatAnswered{a.Attempt, k.heartbeat(a.Node, a.Request)})
		})
	case FetchOffsets:
		c.send(a.Attempt, a.Timeout, func(reply func(Event)) { reply(OffsetsFetched{a.Attempt, offsetsOf(a.Request.Partitions)}) })
	case Leave:
		c.send(a.Attempt, a.Timeout, func(reply func(Event)) {
			reply(LeaveAnswered{a.Attempt, k.leaveGroup(a.Node, a.Request)})
		})
	case Left:
		c.m, c.life = nil, c.life+1
		if w.over {
			w.after(0, c.start)
		}
	case WakeAt:
		c.wake = a.At
		c.later(a.At-w.now, Ticked{})
	default:
		c.believe(a)
	}
}

// believe is what the core makes of the actions that concern partitions.
func (c *client) believe(a Action) {
	w := c.w
	switch a := a.(type) {
	case Entered:
		for _, p := range a.Kept {
			if !c.active[p] {
				w.fail("%s: %d is kept and was not held", c.name, p)
			}
		}
		c.entered, c.settled = a.Generation, false
	case Assigned:
		c.settled = true
		for _, p := range a.Added {
			if c.active[p.Partition] {
				w.fail("%s: %d is added twice", c.name, p.Partition)
			}
			c.active[p.Partition] = true
		}
		c.suspended = map[int32]bool{}
	case Revoke:
		for _, p := range a.Partitions {
			if !c.active[p] {
				w.fail("%s: %d is revoked and was not held", c.name, p)
			}
		}
		c.drain(a.Drain)
	case Suspend:
		for p := range c.active {
			if !slices.Contains(a.Partitions, p) {
				w.fail("%s: %d is not suspended: %v", c.name, p, a)
			}
			c.suspended[p] = true
		}
		c.active = map[int32]bool{}
		if a.Drain != 0 {
			c.drain(a.Drain)
		}
	case Dropped:
		for _, p := range a.Partitions {
			delete(c.active, p)
			delete(c.suspended, p)
		}
	case Lost:
		c.active, c.suspended, c.entered = map[int32]bool{}, map[int32]bool{}, -1
	case Fatal:
		w.fail("%s: fatal %d", c.name, a.Code)
	case Refused, Warned:
		w.fail("%s: %v", c.name, a)
	}
}

func (c *client) drain(id uint64) {
	d := time.Duration(c.w.rand(int(time.Second)))
	if c.w.faulty && c.w.rand(4) == 0 {
		d = 4 * time.Second // beyond the deadline
	}
	c.later(d, Released{id})
}

// disturb makes one thing happen.
func (w *world) disturb(kind, who int) {
	c := w.clients[who%len(w.clients)]
	switch kind {
	case 0:
		if c.m == nil {
			w.trace("%s: start", c.name)
			c.start()
		} else {
			c.crash()
		}
	case 1:
		c.step(StopAsked{Leave: who%2 == 0})
	case 2:
		if !w.coord.away {
			w.trace("coordinator: moves")
			w.coord.move()
			w.after(time.Duration(w.rand(int(9*time.Second))), w.coord.arrive)
		}
	case 3:
		c.freeze(time.Duration(w.rand(int(10 * time.Second))))
	case 4:
		w.coord.counts += int32(w.rand(3))
	}
}

func (w *world) tickCoordinator() {
	w.coord.tick()
	w.after(50*time.Millisecond, w.tickCoordinator)
}

func newWorld(t *rapid.T) *world {
	w := &world{t: t, random: rapid.Uint64Range(1, 1<<62).Draw(t, "random")}
	w.coord = &coordinator{
		now: func() time.Duration { return w.now }, trace: w.trace,
		session: modelSession, rebalance: time.Minute, grace: 2 * maxLatency,
		node: 1, state: "empty", pending: map[string]bool{}, counts: rapid.Int32Range(0, 9).Draw(t, "partitions"),
		group: groupState{members: map[string]*modelMember{}},
	}
	w.coord.kept = w.coord.group.clone()
	// Groups of one assignor, and groups on their way from one to the other.
	lists := rapid.SampledFrom([][][]string{{nil}, {nil}, {{Range}}, {nil, {Range, CooperativeSticky}}, {{Range}, {CooperativeSticky, Range}}}).Draw(t, "assignors")
	for i := range rapid.IntRange(1, 4).Draw(t, "clients") {
		c := &client{w: w, name: fmt.Sprint("c", i), assignors: rapid.SampledFrom(lists).Draw(t, "list")}
		if rapid.Bool().Draw(t, "static") {
			c.instance = fmt.Sprint("i", i)
		}
		w.clients = append(w.clients, c)
	}
	w.tickCoordinator()
	return w
}

// TestR7_GroupsConvergeAndNeverShare is the property of the whole machine:
// through crashes, leaves, freezes, lost answers and coordinator moves no
// partition is ever active at two members; when the faults stop, every
// partition is with one member, evenly, and joins cease.
func TestR7_GroupsConvergeAndNeverShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for _, c := range w.clients {
			c.start()
		}
		w.faulty = rapid.Bool().Draw(t, "lossy")
		for range rapid.IntRange(0, 12).Draw(t, "disturbances") {
			gap := rapid.SampledFrom([]time.Duration{10 * time.Millisecond, 150 * time.Millisecond, time.Second, 8 * time.Second}).Draw(t, "gap")
			w.run(w.now + gap)
			w.disturb(rapid.IntRange(0, 4).Draw(t, "kind"), rapid.IntRange(0, 7).Draw(t, "who"))
		}
		w.run(w.now + time.Second)
		w.faulty, w.over = false, true
		for _, c := range w.clients {
			if c.m == nil {
				c.start()
			}
		}
		w.trace("faults stop")
		before := w.joins
		quiet := w.now + 4*time.Minute
		w.run(quiet)
		if n := w.joins - before; n > 25*len(w.clients) {
			w.fail("%d joins after the faults stopped", n)
		}
		w.run(w.now + 2*time.Minute)
		if w.lastJoin > quiet {
			w.fail("still joining after four quiet minutes, last at %v", w.lastJoin)
		}
		w.checkConverged()
	})
}

func (w *world) checkConverged() {
	total, least, most := 0, 1<<30, 0
	for _, c := range w.clients {
		if c.m == nil || c.m.State() != Stable || !c.settled || len(c.suspended) > 0 || c.entered != w.coord.group.generation {
			w.fail("%s is not stable: %v", c.name, c.m)
		}
		total, least, most = total+len(c.active), min(least, len(c.active)), max(most, len(c.active))
	}
	if total != int(w.coord.counts) || most > least+1 {
		w.fail("%d of %d partitions, %d to %d a member", total, w.coord.counts, least, most)
	}
}
