package kafka

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"ankka-flow/delivery"
	"ankka-flow/delivery/kafka/sequence"
	"ankka-flow/delivery/record"
)

// Goroutines of a Producer:
//
//   - run, the loop: owns the state machine (package sequence), the topics and
//     the partitioner, and calls the sink. Close ends and awaits it.
//   - one sender for each broker that ever led an output partition: makes the
//     bytes and sends them. Close ends and awaits them.
//   - per exchange of a sender one that reads the answers while the sender
//     writes; the sender awaits it.
//   - one that asks for a producer id, and one that probes the cluster, each at
//     most once at a time; Close ends and awaits them.

// ProducerConfig bounds a Producer. The zero value is good.
type ProducerConfig struct {
	// WriteTimeout is how long a write may stay unknown before it is unsettled
	// (FLOW_WRITE_TIMEOUT). 0: 120 s.
	WriteTimeout time.Duration
	// MaxBatchBytes bounds a record batch, as encoded; a single larger record
	// goes alone. 0: 1,000,000, which fits max.message.bytes as brokers have it
	// by default. Above 4 MiB it is 4 MiB.
	MaxBatchBytes int
	// TopicTimeout is how long an output topic may be missing before what is to
	// be written there is refused. 0: 3 s.
	TopicTimeout time.Duration
	// Compression of the record batches; zero: none. MaxBatchBytes still counts
	// the records uncompressed. A batch that does not shrink is sent plain.
	Compression kafkago.Compression
}

// Out is what a write has for one output topic, in the order emitted. A record
// whose Timestamp is record.Now is stamped when its bytes are made.
type Out struct {
	Topic   string
	Records []record.Record
	// Pin is the partition that all of them go to, which must exist; nil: by
	// their keys (R6).
	Pin *int32
}

// Producer writes to one cluster under one producer id for its whole life, so
// that an epoch raised after an unsettled write shuts the old bytes out (R9).
//
// Its memory: it copies each record once, into the batch that is sent, and
// keeps the batch until it is settled; so it holds at most about as much again
// as the writes that the core has open. A request is at most maxRequest bytes,
// or one batch.
type Producer struct {
	c    *Client
	cfg  ProducerConfig
	sink Sink

	ctx    context.Context
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup
	done   chan struct{} // closed when every goroutine is gone

	open atomic.Int64 // writes without their last answer

	mu   sync.Mutex
	box  []any // what the loop has to look at, in order
	wake chan struct{}

	// The rest is the loop's.
	start      time.Time
	machine    *sequence.Machine
	actions    []sequence.Action
	backlog    []sequence.Event // found out while acting
	writes     map[uint64]*openWrite
	topics     map[string]*outTopic
	portions   map[uint64]*portion
	lastKey    uint64
	payloads   map[uint64]*payload
	routes     map[sequence.Partition]*route
	senders    map[int32]*sender
	probing    bool
	warned     map[string]time.Time
	complained map[string]string // what complain has said last, by topic
}

// openWrite is a write between Write and its last answer.
type openWrite struct {
	id       uint64
	topics   []string
	portions []uint64
	parked   int // outs that wait for their topic
	// complete: every out was looked at.
	complete bool
}

// outTopic is an output topic.
type outTopic struct {
	name   string
	spread partitioner
	parked []parkedOut // in order; the topic's partitions are not known
	// missing is since when the topic is known to be missing, or nothing is
	// known; zero: it is there.
	missing time.Time
}

type parkedOut struct {
	write uint64
	recs  []record.Record
	pin   *int32
}

// route is where an output partition's batches in flight are.
type route struct {
	node     int32
	inFlight int
}

// Messages in the box, beside sequence.Event.
type (
	writeAsked struct {
		id   uint64
		from delivery.TP
		outs []Out
	}
	// probed is what Client.Probe said.
	probed struct{ err error }
	// calmed comes behind everything that a sender's failed exchange had to
	// tell: it may be given batches again.
	calmed struct{ s *sender }
)

// Produce starts a producer of this client. The sink is called from one
// goroutine, in an order that a trace of the writes explains.
func (c *Client) Produce(cfg ProducerConfig, sink Sink) *Producer {
	if cfg.WriteTimeout <= 0 {
		cfg.WriteTimeout = 120 * time.Second
	}
	if cfg.MaxBatchBytes <= 0 {
		cfg.MaxBatchBytes = 1_000_000
	}
	cfg.MaxBatchBytes = min(cfg.MaxBatchBytes, 4<<20)
	if cfg.TopicTimeout <= 0 {
		cfg.TopicTimeout = 3 * time.Second
	}
	p := &Producer{
		c: c, cfg: cfg, sink: sink, done: make(chan struct{}), wake: make(chan struct{}, 1),
		start:  time.Now(),
		writes: map[uint64]*openWrite{}, topics: map[string]*outTopic{}, portions: map[uint64]*portion{}, payloads: map[uint64]*payload{},
		routes: map[sequence.Partition]*route{}, senders: map[int32]*sender{}, warned: map[string]time.Time{}, complained: map[string]string{},
	}
	// The pieces' sizes do not count a batch's own header.
	p.machine = sequence.New(sequence.Config{MaxBatchBytes: cfg.MaxBatchBytes - batchOverhead, WriteTimeout: cfg.WriteTimeout})
	p.ctx, p.cancel = context.WithCancelCause(c.ctx)
	p.wg.Go(p.run)
	go func() { // ends with the others, awaited by Close
		p.wg.Wait()
		close(p.done)
	}()
	return p
}

// Write writes what an inlet batch emits. It does not block. Within one write
// and one output topic the order is that of the records (R6), and writes keep
// the order of the calls on each output partition (R2). The records, and what
// they point to, stay untouched until the last answer: Written, Refused or
// Unsettled, with WriteUnknown at most once before. After Close there is none.
// ids are not used again while they are open.
func (p *Producer) Write(id uint64, from delivery.TP, outs []Out) {
	p.open.Add(1)
	p.post(writeAsked{id: id, from: from, outs: outs})
}

// Withdraw says that nobody wants a write any more: its batch is void (R7), and
// no write may start after its generation ended. What is certainly not appended
// is taken back; what may be is settled first. The last answer is Written where
// nothing had to be taken back, and otherwise Refused or Unsettled. A write that
// had its last answer is ignored. It does not block.
func (p *Producer) Withdraw(id uint64) { p.post(sequence.Event(sequence.Withdrawn{Write: id})) }

// RaiseEpoch raises the producer's epoch as soon as nothing is in flight or
// unknown; answered by EpochRaised. It is due after Unsettled, and nothing new
// is sent between the two (R9). It does not block.
func (p *Producer) RaiseEpoch() { p.post(sequence.RaiseAsked{}) }

// Idle says that every write has had its last answer. It does not block.
func (p *Producer) Idle() bool { return p.open.Load() == 0 }

// Close ends the producer: requests under way are cut off, and whether they
// wrote anything stays unknown. Wait for Idle first. When ctx ends before the
// goroutines have (the sink may block them), Close returns its error and they
// end later. No event comes after Close returned nil. A second Close only waits.
func (p *Producer) Close(ctx context.Context) error {
	p.cancel(errClosed)
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("closing the producer: %w", context.Cause(ctx))
	}
}

// post puts messages into the box, in order and together.
func (p *Producer) post(messages ...any) {
	p.mu.Lock()
	p.box = append(p.box, messages...)
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *Producer) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var spare []any
	changed := p.c.changed()
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-p.wake:
			p.mu.Lock()
			messages := p.box
			p.box = spare
			p.mu.Unlock()
			if p.ctx.Err() != nil {
				return // what these tell is Close's own doing
			}
			for _, msg := range messages {
				p.take(msg)
			}
			clear(messages)
			spare = messages[:0]
		case <-changed:
			changed = p.c.changed()
			p.metadataChanged()
		case <-timer.C:
			p.lookAtTopics()
			p.step(sequence.Ticked{})
		}
		p.settle()
		for _, s := range p.senders {
			s.flush()
		}
		if at, ok := p.nextWake(); ok {
			timer.Reset(time.Until(at))
		} else {
			timer.Stop()
		}
	}
}

func (p *Producer) take(msg any) {
	switch msg := msg.(type) {
	case writeAsked:
		p.begin(msg)
	case probed:
		p.probing = false
		if msg.err != nil {
			p.warn(levelOf(NeedsPerson(msg.err)), "probe", "records cannot be written yet", "error", msg.err)
		}
	case calmed:
		// What was staged before this was decided without knowing.
		for _, pl := range msg.s.staged {
			p.backlog = append(p.backlog, sequence.NotSent{Batch: pl.batch, Reason: pl.part.String() + ": the connection to the leader has just failed"})
		}
		msg.s.calm()
	case sequence.Event:
		p.step(msg)
	default:
		panic(fmt.Sprintf("kafka: unknown message %T", msg))
	}
}

// step drives the state machine. What acting on it finds out at once waits in
// the backlog, as Step is not called from within.
func (p *Producer) step(ev sequence.Event) {
	switch e := ev.(type) {
	case sequence.Answered:
		if pl := p.payloads[e.Batch]; pl != nil {
			p.answered(pl.part.Topic, e)
		}
		p.landed(e.Batch)
	case sequence.NoAnswer:
		p.landed(e.Batch)
	case sequence.IDGranted:
		delete(p.complained, "")
	case sequence.IDRefused:
		p.complain("", e.Reason)
	case sequence.IDFailed:
		p.warn(slog.LevelWarn, "id", "no producer id yet; asking again", "error", e.Reason)
	case sequence.NotSent:
		p.landed(e.Batch)
		p.warn(slog.LevelWarn, "send", "records cannot be sent; trying again", "error", e.Reason)
	}
	p.actions = p.machine.Step(p.actions[:0], time.Since(p.start), ev)
	for _, a := range p.actions {
		p.act(a)
	}
}

// settle steps what the last steps found out. Each of these events slows its
// partition down, so this ends.
func (p *Producer) settle() {
	for len(p.backlog) > 0 {
		ev := p.backlog[0]
		p.backlog = p.backlog[1:]
		p.step(ev)
	}
	p.backlog = nil
}

// answered tells people of a refusal that stays.
func (p *Producer) answered(topic string, e sequence.Answered) {
	switch {
	case e.Code == codeNone:
		delete(p.complained, topic)
	case lastingCode(e.Code):
		p.complain(topic, sequence.Explain(e.Code, e.Message))
	}
}

func (p *Producer) landed(batch uint64) {
	if pl := p.payloads[batch]; pl != nil && pl.route != nil {
		pl.route.inFlight--
		pl.route = nil
	}
}

func (p *Producer) act(a sequence.Action) {
	switch a := a.(type) {
	case sequence.Send:
		p.send(a)
	case sequence.Forget:
		if pl := p.payloads[a.Batch]; pl != nil {
			delete(p.payloads, a.Batch)
			pl.free()
		}
	case sequence.Refresh:
		p.c.stale(a.Topic)
	case sequence.NeedID:
		p.wg.Go(p.askID)
	case sequence.Written:
		p.answer(a.Write, delivery.Written{ID: a.Write})
	case sequence.Unknown:
		p.sink(delivery.WriteUnknown{ID: a.Write, Reason: a.Reason})
	case sequence.Refused:
		p.answer(a.Write, delivery.Refused{ID: a.Write, Reason: withPrincipal(a.Reason, p.c.principal()), Accused: a.Accused, Said: p.hasSaid(a.Reason)})
	case sequence.Unsettled:
		p.answer(a.Write, delivery.Unsettled{ID: a.Write, Reason: a.Reason})
	case sequence.Raised:
		p.sink(delivery.EpochRaised{})
	default:
		panic(fmt.Sprintf("kafka: unknown action %T", a))
	}
}

// answer gives a write's last answer and forgets it.
func (p *Producer) answer(id uint64, ev delivery.Event) {
	if w := p.writes[id]; w != nil {
		for _, key := range w.portions {
			delete(p.portions, key)
		}
		if w.parked > 0 {
			for _, name := range w.topics {
				t := p.topics[name]
				t.parked = slices.DeleteFunc(t.parked, func(o parkedOut) bool { return o.write == id })
			}
		}
		delete(p.writes, id)
	}
	p.sink(ev)
	p.open.Add(-1) // behind it, so that Idle means told
}

// send gives a batch to the sender of its leader. While something of the
// partition is in flight elsewhere it has to stay on that connection, and as it
// cannot (the leader has moved), it is not sent.
func (p *Producer) send(a sequence.Send) {
	pl := p.payloads[a.Batch]
	if pl == nil {
		pl = &payload{batch: a.Batch, part: a.Partition}
		p.payloads[a.Batch] = pl
	}
	if a.Spans != nil {
		pl.id, pl.epoch, pl.sequence = a.ID, a.Epoch, a.Sequence
		pl.built, pl.spans, pl.estimate = false, pl.spans[:0], batchOverhead+a.Bytes
		for _, s := range a.Spans {
			pl.spans = append(pl.spans, span{p.portions[s.Handle], s.From, s.To})
		}
	}
	r := p.routes[a.Partition]
	if r == nil {
		r = &route{}
		p.routes[a.Partition] = r
	}
	node, ok := p.c.leader(a.Partition.Topic, a.Partition.Index)
	reason := "the partition has no leader"
	if ok && r.inFlight > 0 && r.node != node {
		ok, reason = false, "the leader has just moved"
	}
	if ok {
		s := p.sender(node)
		if ok = !s.failed; ok {
			r.node = node
			r.inFlight++
			pl.route = r
			s.staged = append(s.staged, pl)
			return
		}
		reason = "the connection to the leader has just failed"
	}
	p.backlog = append(p.backlog, sequence.NotSent{Batch: a.Batch, Reason: a.Partition.String() + ": " + reason})
}

func (p *Producer) sender(node int32) *sender {
	s := p.senders[node]
	if s == nil {
		s = &sender{p: p, node: node, wake: make(chan struct{}, 1), maker: newBatchMaker(p.cfg.Compression)}
		p.senders[node] = s
		p.wg.Go(s.run)
	}
	return s
}

// nextWake is when the loop has to look again without being told.
func (p *Producer) nextWake() (at time.Time, ok bool) {
	if d, waits := p.machine.Wake(); waits {
		at, ok = p.start.Add(d), true
	}
	for _, t := range p.topics {
		if !t.missing.IsZero() && p.wanted(t) {
			due := t.missing.Add(p.cfg.TopicTimeout)
			if now := time.Now(); due.Before(now) {
				due = now.Add(p.cfg.TopicTimeout)
			}
			if !ok || due.Before(at) {
				at, ok = due, true
			}
		}
	}
	return at, ok
}

// warn says something to people, at most every 10 s for each key.
func (p *Producer) warn(level slog.Level, key, text string, args ...any) {
	if now := time.Now(); now.Sub(p.warned[key]) >= 10*time.Second {
		p.warned[key] = now
		p.c.log.Log(p.ctx, level, text, args...)
	}
}

// hasSaid reports whether complain has said what a refusal is for.
func (p *Producer) hasSaid(reason string) bool {
	for _, why := range p.complained {
		if strings.Contains(reason, why) {
			return true
		}
	}
	return false
}

// complain says once, until the topic is written again, that a person has to
// act for that. An empty topic: for the producer id.
func (p *Producer) complain(topic, why string) {
	if p.complained[topic] == why {
		return
	}
	p.complained[topic] = why
	why = withPrincipal(why, p.c.principal()) + "; trying on"
	if topic == "" {
		p.c.log.Error("nothing can be written: " + why)
		return
	}
	p.c.log.Error("the topic cannot be written: "+why, "topic", topic)
}
