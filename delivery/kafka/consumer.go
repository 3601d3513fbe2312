package kafka

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ankka-flow/delivery"
	"ankka-flow/delivery/kafka/group"
	"ankka-flow/delivery/record"
)

// processStart is the zero of the clocks that know no better.
var processStart = time.Now()

// ResetPolicy says what happens to a committed offset outside the log (R11).
type ResetPolicy uint8

const (
	// ResetBlock blocks the partition, visibly.
	ResetBlock ResetPolicy = iota
	// ResetEarliest goes on with the first record that is left.
	ResetEarliest
	// ResetLatest goes on behind the last record.
	ResetLatest
)

// target is where the policy leads; false: nowhere.
func (r ResetPolicy) target(first, last int64) (int64, bool) {
	switch r {
	case ResetEarliest:
		return first, true
	case ResetLatest:
		return last, true
	}
	return 0, false
}

// Inlet is what one inlet consumes and how.
type Inlet struct {
	// Name is the port's, Topic and Group are Kafka's.
	Name, Topic, Group string
	// ClientID is sent with fetches; empty: the client's.
	ClientID string
	// InstanceID is group.instance.id; empty: a dynamic member.
	InstanceID string
	// LeaveStatic lets Leave take a static member out of the group too. It is
	// for a name that is only there so that a start after kill -9 finds its
	// place again; without it, Leave keeps the place for a session timeout.
	LeaveStatic bool
	// SessionTimeout of the membership; 0: 45 s. Brokers take 6 s to 30 min.
	SessionTimeout time.Duration
	// Assignors in order of preference; nil: cooperative-sticky alone.
	Assignors []string
	// StartLatest lets a new group start behind the last record instead of at
	// the first. Partitions added later start at their first in any case.
	StartLatest bool
	// ReadUncommitted also reads open and aborted transactions.
	ReadUncommitted bool
	// Reset is for a committed offset outside the log.
	Reset ResetPolicy
	// Now is the clock of the core that gets the events, for Revoked.Deadline;
	// nil: the deadline is what is left until it.
	Now func() time.Duration
}

// Consumer is one inlet: its membership in the group, its commits, and the
// prefetch of the partitions it has. Its methods do not block, but for Leave
// and Close, and may be called from any goroutine.
//
// Its goroutines: one runs the membership, one each request of it that is
// under way, and two for each leader fetch (fetch.go). Leave and Close end and
// await them all. They must not be called from the goroutine that the sink
// waits for.
type Consumer struct {
	c       *Client
	in      Inlet
	sink    Sink
	fetch   *fetcher
	ctx     context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	mailbox mailbox
	left    chan struct{} // closed when the membership has ended as asked
	// wakesBy is until when the membership's goroutine waits at most, on the
	// clock sinceBoot; awake: it does not wait.
	wakesBy atomic.Int64
	// sleeps counts what was told as group.Slept.
	sleeps atomic.Uint64

	// Below: the membership's goroutine alone.
	machine    *group.Machine
	events     []group.Event // to be stepped
	stepping   bool
	acts       []group.Action
	wakeAt     time.Duration
	due        bool // wakeAt is set
	generation int32
	member     string
	live       bool // generation and member may commit
	told       map[int32]bool
	starts     starts
	silent     bool // a Suspended was sent and no Assigned since
	drain      drainState
	committing bool
	// commitsRefused is the code by which the last commit was refused; 0: it was not.
	commitsRefused int16
	// inletRefused is the code by which the group refuses this member, since it
	// was in the group last; 0: it does not.
	inletRefused int16
	answers      uint64
	count        int32 // of the topic's partitions when last told, -1: never
	life         int   // of the topic, as topicMeta has it; 0: not seen yet
	leaving      bool  // Leave was called: losing everything is no surprise
}

// mailbox carries work to the membership's goroutine.
type mailbox struct {
	mu   sync.Mutex
	work []func()
	wake chan struct{} // capacity 1
}

func (m *mailbox) put(f func()) {
	m.mu.Lock()
	m.work = append(m.work, f)
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

func (m *mailbox) take() []func() {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.work
	m.work = nil
	return w
}

// Consume joins the inlet's group and begins to tell sink about it: Assigned,
// Revoked, Suspended, Lost, Fetched, FetchFailed, Committed. A topic that does
// not exist is waited for. It does not block.
func (c *Client) Consume(in Inlet, sink Sink) *Consumer {
	if in.ClientID == "" {
		in.ClientID = c.cfg.ClientID
	}
	k := &Consumer{c: c, in: in, sink: sink, left: make(chan struct{}), told: map[int32]bool{}, count: -1}
	k.wakesBy.Store(awake)
	k.ctx, k.cancel = context.WithCancel(c.ctx)
	k.mailbox.wake = make(chan struct{}, 1)
	k.starts.pending = map[int32]group.Position{}
	k.fetch = &fetcher{
		c: c, in: in, ctx: k.ctx, wg: &k.wg,
		partitions: map[int32]*partition{}, loops: map[int32]*leaderLoop{},
		fetched: func(p int32) { k.tell(delivery.Fetched{TP: k.tp(p)}) },
		failed: func(p int32, reason string, blocked bool) {
			k.mailbox.put(func() {
				k.tell(delivery.FetchFailed{TP: k.tp(p), Reason: reason, Blocked: blocked})
			})
		},
	}
	machine, err := group.New(group.Config{
		Group: in.Group, Topic: in.Topic, Instance: in.InstanceID,
		Assignors: in.Assignors, SessionTimeout: in.SessionTimeout,
	})
	if err != nil {
		panic(fmt.Sprintf("kafka: inlet %+v was not checked: %v", in, err))
	}
	k.machine = machine
	c.watch(in.Topic)
	k.wg.Go(k.run)
	return k
}

func (k *Consumer) tp(p int32) delivery.TP {
	return delivery.TP{Inlet: k.in.Name, Partition: p}
}

// tell sends an event, unless the consumer has ended.
func (k *Consumer) tell(ev delivery.Event) {
	if k.ctx.Err() == nil {
		k.sink(ev)
	}
}

// Commit commits offsets under the generation that it names, and is answered
// by Committed. CommitStale without a request: the generation is over. At most
// one may be outstanding.
func (k *Consumer) Commit(a delivery.Commit) {
	a.Offsets = slices.Clone(a.Offsets)
	k.mailbox.put(func() { k.commit(a) })
}

// Release says that nothing of these partitions, which were revoked, runs any
// more. Without partitions it says, after Suspended, that no write runs: the
// group is then joined again without waiting for the drain's deadline.
func (k *Consumer) Release(partitions []int32) {
	partitions = slices.Clone(partitions)
	k.mailbox.put(func() { k.released(partitions) })
}

// Seek makes offset the partition's position and fetches from there on; what
// is prefetched for another position is dropped. Fetched tells when there is
// something to cut.
func (k *Consumer) Seek(partition int32, offset int64) {
	if k.fetch.seek(partition, offset) {
		k.mailbox.put(func() { k.tell(delivery.Fetched{TP: k.tp(partition)}) })
	}
}

// Pause stops fetching the partition until the next Seek and gives its
// prefetch back.
func (k *Consumer) Pause(partition int32) { k.fetch.pause(partition) }

// Cut takes what is prefetched at the partition's position: at most maxRecords
// records of at most maxBytes (record.Record.Size); one larger record goes
// alone. It fills dst from its beginning. The records alias the prefetch,
// which lives as long as they do, and nobody may write into them. first and
// next are the offsets covered, ranges without records included; more says
// that something further is at hand. A partition that this consumer does not
// have gives nothing, at the position that it had.
//
// An error is a batch that cannot be read, at next. Nothing of it is given, it
// has been told by FetchFailed, and it is fetched again after a wait.
func (k *Consumer) Cut(partition int32, dst []record.Record, maxRecords, maxBytes int) (records []record.Record, first, next int64, more bool, err error) {
	return k.fetch.cut(partition, dst, maxRecords, maxBytes)
}

// CutBack makes offset, which the last Cut has covered, the position again, so
// that the next Cut begins there. It comes before any other Cut.
func (k *Consumer) CutBack(partition int32, offset int64) { k.fetch.cutBack(partition, offset) }

// Ends gives the newest known ends of the partitions held, for lag.
func (k *Consumer) Ends() map[int32]End { return k.fetch.ends() }

// Leave leaves the group (a static member only with Inlet.LeaveStatic), ends
// everything and waits for it. When ctx ends first, the membership is left to
// its session timeout and the error says so. Nothing is told afterwards.
func (k *Consumer) Leave(ctx context.Context) error {
	k.mailbox.put(func() {
		k.leaving = true
		k.step(group.StopAsked{Leave: k.in.LeaveStatic})
	})
	var err error
	select {
	case <-k.left:
	case <-k.ctx.Done():
	case <-ctx.Done():
		err = fmt.Errorf("leaving group %s: %w", k.in.Group, context.Cause(ctx))
	}
	k.Close()
	return err
}

// Close ends everything without leaving the group, and waits for it. Nothing
// is told afterwards. A second Close does nothing.
func (k *Consumer) Close() {
	k.cancel()
	k.wg.Wait()
	k.fetch.releaseAll()
}

// awake, in wakesBy, is what no clock reaches.
const awake = math.MaxInt64

// sleptLong is by how much the membership's goroutine may run late: more is told
// as group.Slept. A busy machine takes less.
const sleptLong = time.Second

// Sleeps is how often the membership has found that it did not run for longer
// than it meant to; Suspended or Lost has gone to the sink then, where one was
// due. now: it is about to find that again, and has not told.
func (k *Consumer) Sleeps() (n uint64, now bool) {
	by := k.wakesBy.Load()
	now = by != awake && int64(sinceBoot()) > by
	return k.sleeps.Load(), now // in this order: what has been told is counted
}

// run is the membership's goroutine; it ends with the consumer.
func (k *Consumer) run() {
	defer k.wakesBy.Store(awake)
	k.step(group.Started{})
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for k.ctx.Err() == nil {
		changed := k.c.changed()
		k.lookAtTopic()
		k.fetch.tellLeaderless()
		wait := refreshMissing // the metadata's age is looked at
		if k.due {
			wait = max(0, min(wait, k.wakeAt-sinceBoot()))
		}
		before := sinceBoot()
		timer.Reset(wait)
		k.wakesBy.Store(int64(before + wait + sleptLong))
		select {
		case <-k.ctx.Done():
			return
		case <-k.mailbox.wake:
		case <-changed:
		case <-timer.C:
		}
		// A gap is told before what arrived meanwhile.
		if gap := sinceBoot() - before - wait; gap > sleptLong {
			k.step(group.Slept{Gap: gap})
			k.sleeps.Add(1)
		}
		k.wakesBy.Store(awake)
		for _, f := range k.mailbox.take() {
			f()
		}
		if k.due && sinceBoot() >= k.wakeAt {
			k.due = false
			k.step(group.Ticked{})
		}
	}
}

// step gives the machine an event and carries out what it asks for. What
// carrying out brings about at once is stepped behind it: done in between, an
// older WakeAt would replace a newer one.
func (k *Consumer) step(ev group.Event) {
	k.events = append(k.events, ev)
	if k.stepping {
		return
	}
	k.stepping = true
	for len(k.events) > 0 {
		ev, k.events = k.events[0], k.events[1:]
		k.acts = k.machine.Step(k.acts[:0], sinceBoot(), ev)
		for _, a := range k.acts {
			k.perform(a)
		}
	}
	k.stepping = false
}

func (k *Consumer) perform(a group.Action) {
	switch a := a.(type) {
	case group.Entered:
		k.entered(a)
	case group.Assigned:
		k.assigned(a)
	case group.Revoke:
		k.revoked(a)
	case group.Suspend:
		k.suspended(a)
	case group.Dropped:
		k.dropped(a.Partitions)
	case group.Lost:
		k.lost(a)
	case group.WakeAt:
		k.wakeAt, k.due = a.At, true
	case group.Refused:
		said := k.inletRefused == a.Code || k.commitsRefused == a.Code
		k.inletRefused = a.Code
		if said {
			return
		}
		k.c.log.Error("the group refuses this inlet: "+k.c.groupText(a.Code, k.in.Group, k.in.Topic), "inlet", k.in.Name, "group", k.in.Group, "doing", a.Doing, "retry_in", (a.Again - sinceBoot()).Round(time.Second).String())
	case group.Warned:
		k.c.log.Warn(a.Err.Error(), "inlet", k.in.Name, "group", k.in.Group)
	case group.Fatal:
		k.c.log.Error("this inlet has lost its place in the group for good: "+group.CodeText(a.Code), "inlet", k.in.Name, "group", k.in.Group, "instance", k.in.InstanceID)
	case group.Left:
		k.live = false
		select {
		case <-k.left:
		default:
			close(k.left)
		}
	default:
		k.ask(a)
	}
}

// lookAtTopic tells the machine and the fetch loops what the metadata says.
func (k *Consumer) lookAtTopic() {
	k.c.meta.mu.Lock()
	answers := k.c.meta.answers
	k.c.meta.mu.Unlock()
	if answers == k.answers {
		return
	}
	k.answers = answers
	k.fetch.ensureLoops()
	if life := k.c.topicLife(k.in.Topic); life != k.life {
		again := k.life > 0
		k.life = life
		if again {
			k.starts.added = true // what follows is no new group's start
			k.step(group.TopicMadeAgain{})
		}
	}
	n, ok := k.c.partitions(k.in.Topic)
	if !ok {
		return
	}
	if n != k.count {
		switch code := k.c.topicCode(k.in.Topic); {
		case n == 0 && code == codeUnknownTopic:
			k.c.log.Warn("the topic does not exist; waiting for it", "inlet", k.in.Name, "topic", k.in.Topic)
		case n == 0:
			k.c.log.Log(k.ctx, levelOf(lastingCode(code)), "the topic cannot be read: "+k.c.topicText(code, k.in.Topic), "inlet", k.in.Name, "topic", k.in.Topic)
		case k.count >= 0:
			k.c.log.Info("the topic's partitions have changed", "inlet", k.in.Name, "topic", k.in.Topic, "before", k.count, "now", n)
		}
		k.count = n
	}
	k.step(group.PartitionsChanged{Count: n})
}

// commit sends a commit on its way.
func (k *Consumer) commit(a delivery.Commit) {
	node, found := k.machine.Coordinator()
	switch {
	case !k.live || a.Generation != k.generation:
		k.tell(delivery.Committed{Inlet: k.in.Name, Sequence: a.Sequence, Outcome: delivery.CommitStale, Reason: "its generation is over"})
		return
	case !found:
		k.retryCommit(a, errors.New("the group's coordinator is being looked for"))
		return
	}
	q := group.OffsetCommitRequest{Group: k.in.Group, Generation: k.generation, Member: k.member, Instance: k.in.InstanceID, Topic: k.in.Topic}
	for _, o := range a.Offsets {
		q.Offsets = append(q.Offsets, group.CommitOffset{Partition: o.Partition, Offset: o.Offset, LeaderEpoch: -1})
	}
	k.committing = true
	k.wg.Go(func() { // ends within commitTimeout
		ctx, cancel := context.WithTimeout(k.ctx, commitTimeout)
		defer cancel()
		src, err := k.c.request(ctx, node, group.OffsetCommitKey, group.OffsetCommitVersion, q.AppendTo(nil))
		var answer group.OffsetCommitResponse
		if err == nil {
			answer, err = group.DecodeOffsetCommit(src)
		}
		k.mailbox.put(func() { k.commitAnswered(a, q, answer, err) })
	})
}

// commitTimeout bounds one commit; it is idempotent and sent again.
const commitTimeout = 10 * time.Second

// retryCommit answers that the commit is to be sent again; the core waits.
func (k *Consumer) retryCommit(a delivery.Commit, err error) {
	k.endCommit(delivery.Committed{Inlet: k.in.Name, Sequence: a.Sequence, Outcome: delivery.CommitRetry, Reason: err.Error()})
}

// commitAnswered judges a commit as a whole: the core sends all of it again.
func (k *Consumer) commitAnswered(a delivery.Commit, q group.OffsetCommitRequest, answer group.OffsetCommitResponse, err error) {
	if err != nil {
		k.retryCommit(a, err)
		return
	}
	codes := map[int32]int16{}
	for _, t := range answer.Topics {
		for _, p := range t.Partitions {
			codes[p.Partition] = p.ErrorCode
		}
	}
	worst, code := delivery.CommitDone, codeNone
	for _, o := range q.Offsets {
		c, ok := codes[o.Partition]
		outcome := delivery.CommitRetry // not in the answer: not committed
		if ok {
			outcome = outcomeOf(group.JudgeCommit(c))
		}
		if outcome > worst {
			worst, code = outcome, c
		}
	}
	if code != codeNone {
		k.step(group.CommitAnswered{Generation: q.Generation, Member: q.Member, Code: code})
	}
	if worst == delivery.CommitRefused && k.commitsRefused != code && k.inletRefused != code && !k.fetch.refuses(code) {
		k.c.log.Error("the group refuses commits: "+k.c.groupText(code, k.in.Group, k.in.Topic)+"; trying on", "inlet", k.in.Name, "group", k.in.Group)
	}
	k.commitsRefused = codeNone
	if worst == delivery.CommitRefused {
		k.commitsRefused = code
	}
	k.fetch.commitsRefused(k.commitsRefused)
	switch worst {
	case delivery.CommitDone:
		k.endCommit(delivery.Committed{Inlet: k.in.Name, Sequence: a.Sequence})
	case delivery.CommitRetry:
		k.retryCommit(a, errors.New(group.CodeText(code)))
	default:
		k.endCommit(delivery.Committed{Inlet: k.in.Name, Sequence: a.Sequence, Outcome: worst, Reason: k.c.groupText(code, k.in.Group, k.in.Topic), Said: worst == delivery.CommitRefused})
	}
}

func outcomeOf(j group.Judgement) delivery.CommitOutcome {
	switch j {
	case group.CommitDone:
		return delivery.CommitDone
	case group.CommitStale, group.CommitAfterRejoin:
		return delivery.CommitStale
	case group.CommitRefused:
		return delivery.CommitRefused
	}
	return delivery.CommitRetry
}

func (k *Consumer) endCommit(ev delivery.Committed) {
	k.committing = false
	k.tell(ev)
	k.endDrain()
}
