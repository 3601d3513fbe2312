package kafka

import (
	"context"
	"fmt"
	"slices"
	"time"

	"ankka-flow/delivery/kafka/sequence"
)

// begin opens a write. An out whose topic is not known yet is parked, and so is
// every later out of that topic, so that they keep their order.
func (p *Producer) begin(msg writeAsked) {
	w := &openWrite{id: msg.id}
	p.writes[msg.id] = w
	p.step(sequence.Begun{Write: msg.id, From: msg.from})
	for _, out := range msg.outs {
		if len(out.Records) == 0 {
			continue
		}
		t := p.topics[out.Topic]
		if t == nil {
			t = &outTopic{name: out.Topic}
			p.topics[out.Topic] = t
			p.c.watch(out.Topic)
		}
		if !slices.Contains(w.topics, out.Topic) {
			w.topics = append(w.topics, out.Topic)
		}
		w.parked++
		t.parked = append(t.parked, parkedOut{write: msg.id, recs: out.Records, pin: out.Pin})
		p.unpark(t)
	}
	w.complete = true
	if w.parked == 0 {
		p.step(sequence.Ended{Write: msg.id})
	}
}

// unpark adds what waits for the topic, if its partitions are known. The count
// is that of this moment (R6): what is parked was not placed before.
func (p *Producer) unpark(t *outTopic) {
	n, known := p.c.partitions(t.name)
	if !known || n == 0 {
		if t.missing.IsZero() {
			t.missing = time.Now()
		}
		return
	}
	t.missing = time.Time{}
	usable := func(i int32) bool {
		_, ok := p.c.leader(t.name, i)
		return ok
	}
	parked := t.parked
	t.parked = t.parked[:0]
	for i := range parked {
		o := parked[i]
		parked[i] = parkedOut{}
		w := p.writes[o.write]
		if w == nil {
			continue
		}
		add := func(partition int32, c portion, bytes int) {
			p.lastKey++
			p.portions[p.lastKey] = &c
			w.portions = append(w.portions, p.lastKey)
			p.step(sequence.Added{Write: w.id, Piece: sequence.Piece{
				Handle: p.lastKey, Partition: sequence.Partition{Topic: t.name, Index: partition}, Records: c.len(), Bytes: bytes,
			}})
		}
		if o.pin != nil {
			t.spread.pinned(o.recs, *o.pin, p.cfg.MaxBatchBytes-batchOverhead, add)
		} else {
			t.spread.spread(o.recs, n, p.cfg.MaxBatchBytes-batchOverhead, usable, add)
		}
		if w.parked--; w.parked == 0 && w.complete {
			p.step(sequence.Ended{Write: w.id})
		}
	}
}

// metadataChanged follows leaders and topics.
func (p *Producer) metadataChanged() {
	for _, name := range p.topicNames() {
		p.unpark(p.topics[name])
	}
	for _, s := range p.senders {
		if _, ok := p.c.nodeAddr(s.node); !ok {
			s.abandon()
		}
		for _, pl := range s.retract(func(pl *payload) bool {
			node, ok := p.c.leader(pl.part.Topic, pl.part.Index)
			return !ok || node != s.node
		}) {
			p.backlog = append(p.backlog, sequence.NotSent{Batch: pl.batch, Reason: pl.part.String() + ": the leader has moved"})
		}
	}
	p.settle()
	p.step(sequence.Refreshed{})
}

func (p *Producer) topicNames() []string {
	names := make([]string, 0, len(p.topics))
	for name := range p.topics {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// wanted says that an open write has something for the topic.
func (p *Producer) wanted(t *outTopic) bool {
	for _, w := range p.writes {
		if slices.Contains(w.topics, t.name) {
			return true
		}
	}
	return false
}

// lookAtTopics refuses what waits for a topic that a broker says does not exist
// and did not appear in time. Where no broker answers at all that is an outage,
// which is waited out, and the cluster is probed to say why.
func (p *Producer) lookAtTopics() {
	for _, name := range p.topicNames() {
		t := p.topics[name]
		if t.missing.IsZero() || time.Since(t.missing) < p.cfg.TopicTimeout || !p.wanted(t) {
			continue
		}
		p.unpark(t)
		if t.missing.IsZero() {
			continue
		}
		if _, known := p.c.partitions(name); !known {
			p.probe()
			continue
		}
		reason := p.missingReason(name)
		if lastingCode(p.c.topicCode(name)) {
			p.complain(name, reason)
		}
		var ids []uint64
		for id, w := range p.writes {
			if slices.Contains(w.topics, name) {
				ids = append(ids, id)
			}
		}
		slices.Sort(ids)
		for _, id := range ids {
			p.step(sequence.Hopeless{Write: id, Reason: reason})
		}
		// What comes later gets the same patience: no tight loop.
		t.missing = time.Now()
	}
}

// missingReason names the topic and the likely cause. A broker hides a topic
// that the user may not describe behind code 3.
func (p *Producer) missingReason(topic string) string {
	switch code := p.c.topicCode(topic); code {
	case codeUnknownTopic:
		return withPrincipal(fmt.Sprintf("topic %s does not exist (or the user has no DESCRIBE right on it): create it, or correct the outlet's topic", topic), p.c.principal())
	case codeTopicAuthorization:
		return withPrincipal(fmt.Sprintf("topic %s: the user needs WRITE on it, or DESCRIBE to see it", topic), p.c.principal())
	default:
		return fmt.Sprintf("topic %s cannot be used: %s", topic, sequence.Explain(code, ""))
	}
}

// probe finds out why the cluster does not answer, for people.
func (p *Producer) probe() {
	if p.probing {
		return
	}
	p.probing = true
	p.wg.Go(func() {
		ctx, cancel := context.WithTimeout(p.ctx, p.c.cfg.RequestTimeout)
		defer cancel()
		p.post(probed{p.c.Probe(ctx)})
	})
}

const (
	initProducerIDKey     = 22
	initProducerIDVersion = 1
)

// askID asks for a producer id, without a transactional id, at one broker after
// another: any of them can give one. kafka-go's own request looks for a
// transaction coordinator first.
func (p *Producer) askID() {
	ctx, cancel := context.WithTimeout(p.ctx, p.c.cfg.RequestTimeout)
	defer cancel()
	body := appendInt32(appendInt16(nil, -1), 60_000) // null id; the timeout is not used
	reason := "no broker is known"
	for _, addr := range p.c.candidates() {
		src, err := p.c.requestAt(ctx, addr, initProducerIDKey, initProducerIDVersion, body, nil)
		if err != nil {
			reason = err.Error()
			continue
		}
		code, id, epoch, err := decodeProducerID(src)
		switch {
		case err != nil:
			reason = err.Error()
		case code == codeNone:
			p.post(sequence.Event(sequence.IDGranted{ID: id, Epoch: epoch}))
			return
		case code == codeLoadInProgress, code == codeCoordinatorUnavailable, code == codeNotCoordinator, code == 51,
			code == -1, code == 7, code == 41: // not ready, or the controller is not
			reason = sequence.Explain(code, "")
		default:
			p.post(sequence.Event(sequence.IDRefused{Reason: "no producer id: " + sequence.Explain(code, "")}))
			return
		}
	}
	p.post(sequence.Event(sequence.IDFailed{Reason: reason}))
}

func decodeProducerID(src []byte) (code int16, id int64, epoch int16, err error) {
	d := decoder{src: src}
	d.int32() // throttle time
	code, id, epoch = d.int16(), d.int64(), d.int16()
	return code, id, epoch, d.err
}
