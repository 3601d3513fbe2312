package sequence

import (
	"slices"
	"time"

	"ankka-flow/delivery"
)

// waiting is a piece in a partition's queue, from its record from on.
type waiting struct {
	Piece
	write *write
	from  int
}

// batch is one record batch. It is in one of four states: queued (neither of
// the three below: it was never sent, or certainly not appended), in flight,
// unknown (maybe in flight again), and done (confirmed, behind one that is not).
type batch struct {
	id     uint64
	part   *part
	spans  []Span
	owners []*write // one a span
	// records and bytes are the spans' together; bytes is an estimate.
	records, bytes int

	inFlight bool
	unknown  bool
	done     bool
	// seq is its first sequence when it was sent last. It does not change
	// while the batch is in flight, unknown or done.
	seq int32
	// behind: when it was sent, something before it was not confirmed.
	behind       bool
	unknownSince time.Duration
	cause        string
}

// part is one output partition. valid: batches are in append order, none of the
// first is done, and a batch's seq follows the one before it.
type part struct {
	name    Partition
	queue   []waiting
	batches []*batch
	base    int32 // the sequence of the first record of batches[0]

	inFlight, unknown int
	// open: something was confirmed in this epoch since the last fault, so
	// several may be in flight.
	open        bool
	confirmedAt time.Duration
	// draining: a fault came while others were in flight; their answers first.
	draining bool
	// broken: something here is unsettled; nothing is sent until the new epoch.
	broken bool
	// dirty: unsettled bytes of an earlier epoch are not shut out yet.
	dirty bool

	faults  int
	retryAt time.Duration
	limit   int // of a batch's bytes, learned from refusals; 0: none

	touched, watched bool
}

func (m *Machine) part(name Partition) *part {
	p := m.parts[name]
	if p == nil {
		p = &part{name: name}
		m.parts[name] = p
		m.order = append(m.order, p)
	}
	return p
}

// waits says that the partition has something to do at a time.
func (p *part) waits() bool {
	return p.unknown > 0 || p.retryAt > 0 && (len(p.batches) > 0 || len(p.queue) > 0)
}

// restart begins a new epoch. Nothing is in flight or unknown.
func (m *Machine) restart(p *part) {
	for _, b := range slices.Clone(p.batches) {
		if b.done {
			m.remove(b)
		}
	}
	p.base, p.retryAt, p.faults, p.limit = 0, 0, 0, 0
	p.open, p.broken, p.draining = false, false, false
}

// pump does what can be done for one partition now.
func (m *Machine) pump(p *part) {
	if m.now >= p.retryAt {
		p.retryAt = 0 // looked at: Wake need not name it any more
	}
	if m.failing > 0 {
		m.withdraw(p)
	}
	if p.inFlight == 0 {
		p.draining = false
		m.audit(p)
	}
	for m.granted && m.sendNext(p) {
	}
	if p.waits() {
		m.watch(p)
	}
}

// withdraw takes back what failed writes have here, where that is possible: not
// from bytes that may have been appended, and not from in front of such bytes,
// whose sequence counts on what is before them.
func (m *Machine) withdraw(p *part) {
	var gone []*write
	p.queue = slices.DeleteFunc(p.queue, func(q waiting) bool {
		if !q.write.failed() {
			return false
		}
		q.write.pending -= q.Records - q.from
		q.write.dropped = true
		gone = append(gone, q.write)
		return true
	})
	for i := len(p.batches) - 1; i >= 0; i-- {
		b := p.batches[i]
		if b.inFlight || b.unknown || b.done {
			break
		}
		gone = append(gone, m.strip(b)...)
		if len(b.spans) == 0 {
			m.remove(b)
		}
	}
	for _, w := range gone {
		m.finish(w)
	}
}

// strip takes the records of failed writes out of a queued batch. The spans are
// made anew: the driver may still look at the old ones.
func (m *Machine) strip(b *batch) (gone []*write) {
	if !slices.ContainsFunc(b.owners, (*write).failed) {
		return nil
	}
	var spans []Span
	var owners []*write
	records := 0
	for i, s := range b.spans {
		w := b.owners[i]
		if w.failed() {
			w.pending -= s.To - s.From
			w.dropped = true
			gone = append(gone, w)
			continue
		}
		spans, owners = append(spans, s), append(owners, w)
		records += s.To - s.From
	}
	b.bytes = b.bytes * records / b.records
	b.spans, b.owners, b.records = spans, owners, records
	return gone
}

// remove forgets a batch; its records are accounted for by the caller.
func (m *Machine) remove(b *batch) {
	p := b.part
	if i := slices.Index(p.batches, b); i >= 0 {
		p.batches = slices.Delete(p.batches, i, i+1)
	}
	delete(m.batches, b.id)
	m.emit(Forget{Batch: b.id})
}

// audit is done when nothing of the partition is in flight. It ends what was
// unknown for too long and what can no longer be settled in this epoch: bytes
// whose sequence does not follow what is before them, and records that a later
// sequence overtook.
func (m *Machine) audit(p *part) {
	for {
		var bad *batch
		reason := ""
		next := p.base
		for i, b := range p.batches {
			late := b.unknown && m.now >= b.unknownSince+m.cfg.WriteTimeout
			switch {
			case late:
				bad, reason = b, "it stayed unknown for "+m.cfg.WriteTimeout.String()+", last: "+b.cause
			case b.unknown && b.seq != next:
				bad, reason = b, "what was sent before it was refused or is unsettled itself; last: "+b.cause
			case !b.unknown && !b.done && slices.ContainsFunc(p.batches[i:], func(b *batch) bool { return b.done }):
				bad, reason = b, "the broker took what was sent after it"
			}
			if bad != nil {
				break
			}
			if b.unknown || b.done {
				next = b.seq
			}
			next = advance(next, b.records)
		}
		if bad == nil {
			return
		}
		m.unsettle(bad, reason)
	}
}

// advance is the sequence n records on; Kafka's wrap from the largest int32 to 0.
func advance(seq int32, n int) int32 { return int32((uint32(seq) + uint32(n)) & (1<<31 - 1)) }

// sendNext sends the next batch, if one may go out now.
func (m *Machine) sendNext(p *part) bool {
	if p.broken || p.draining || m.now < p.retryAt {
		return false
	}
	if p.unknown > 0 {
		// One at a time, from the first on, with the identical bytes; one that was
		// certainly not appended but is in front has to go before them.
		if p.inFlight > 0 {
			return false
		}
		for _, b := range p.batches {
			if !b.done {
				m.send(p, b)
				return true
			}
		}
	}
	if m.frozen {
		return false
	}
	if p.inFlight == 0 && m.now >= p.confirmedAt+idleWindow {
		p.open = false
	}
	window := 1
	if p.open {
		window = m.cfg.MaxInFlight
	}
	if p.inFlight >= window {
		return false
	}
	for _, b := range p.batches {
		if !b.inFlight && !b.done {
			m.send(p, b)
			return true
		}
	}
	if len(p.queue) == 0 {
		return false
	}
	m.send(p, m.form(p))
	return true
}

// form makes a batch of what waits: at least one record, and more as far as the
// limit goes.
func (m *Machine) form(p *part) *batch {
	m.lastBatch++
	b := &batch{id: m.lastBatch, part: p}
	limit := m.cfg.MaxBatchBytes
	if p.limit > 0 {
		limit = min(limit, p.limit)
	}
	used := 0
	for used < len(p.queue) {
		q := &p.queue[used]
		n := q.Records - q.from
		size := q.Bytes * n / q.Records
		if b.bytes+size > limit {
			if b.records > 0 {
				break
			}
			if p.limit > 0 { // only a learned limit cuts pieces
				n = max(1, min(n, n*limit/size))
				size = q.Bytes * n / q.Records
			}
		}
		b.spans = append(b.spans, Span{Handle: q.Handle, From: q.from, To: q.from + n})
		b.owners = append(b.owners, q.write)
		b.records += n
		b.bytes += size
		if q.from += n; q.from < q.Records {
			break
		}
		used++
	}
	// DeleteFunc and Delete keep the array, so a queue does not allocate again.
	p.queue = slices.Delete(p.queue, 0, used)
	p.batches = append(p.batches, b)
	m.batches[b.id] = b
	return b
}

func (m *Machine) send(p *part, b *batch) {
	a := Send{Batch: b.id, Partition: p.name, ID: m.id, Epoch: m.epoch, Records: b.records, Bytes: b.bytes}
	if !b.unknown {
		seq := p.base
		b.behind = p.batches[0] != b // the first is never done
		for _, o := range p.batches {
			if o == b {
				break
			}
			if o.inFlight || o.unknown || o.done {
				seq = o.seq
			}
			seq = advance(seq, o.records)
		}
		b.seq = seq
		a.Spans = b.spans
	}
	a.Sequence = b.seq
	b.inFlight = true
	p.inFlight++
	m.inFlight++
	m.emit(a)
}

// answered acts on what the broker said.
func (m *Machine) answered(b *batch, e Answered) {
	cause := b.part.name.String() + ": " + Explain(e.Code, e.Message)
	switch judge(e.Code, b.unknown) {
	case confirmed:
		m.confirm(b)
	case again:
		m.retry(b.part, false)
	case unknown:
		m.doubt(b, cause, e.Code != 7 && e.Code != codeNotEnoughAfterWrite && e.Code != codeNotEnoughReplicas)
	case split:
		m.split(b, e.Code, cause)
	case refuse:
		m.refuse(b, cause)
	case outOfOrder:
		if !b.behind {
			m.unsettle(b, cause)
			return
		}
		// It says about bytes that were sent once that they were not appended.
		b.part.open = false
		b.part.draining = b.part.inFlight > 0
	case lost:
		m.unsettle(b, cause)
	}
}

func (m *Machine) confirm(b *batch) {
	p := b.part
	m.known(b)
	b.done = true
	p.faults, p.retryAt, p.confirmedAt = 0, 0, m.now
	p.open = true
	if p.dirty {
		p.dirty = false
		m.dirty--
	}
	m.resolve(b)
	for len(p.batches) > 0 && p.batches[0].done {
		head := p.batches[0]
		p.base = advance(head.seq, head.records)
		m.remove(head)
	}
}

// retry slows a partition down after a fault.
func (m *Machine) retry(p *part, refresh bool) {
	p.open = false
	p.draining = p.inFlight > 0
	p.retryAt = m.now + backoff(p.faults)
	p.faults++
	if refresh {
		m.emit(Refresh{Topic: p.name.Topic})
	}
	m.watch(p)
}

// doubt marks a batch unknown.
func (m *Machine) doubt(b *batch, cause string, refresh bool) {
	b.cause = cause
	if !b.unknown {
		b.unknown = true
		b.unknownSince = m.now
		b.part.unknown++
		m.unknown++
		for _, w := range b.owners {
			if !w.told {
				w.told = true
				m.emit(Unknown{Write: w.id, Reason: cause})
			}
		}
	}
	m.retry(b.part, refresh)
}

func (m *Machine) known(b *batch) {
	if b.unknown {
		b.unknown = false
		b.part.unknown--
		m.unknown--
	}
}

// split sends a refused batch in parts: by write, and one write's by halves, so
// that a single record is reached at last. The sequences stay where they are.
func (m *Machine) split(b *batch, code int16, cause string) {
	p := b.part
	if b.records == 1 {
		m.refuse(b, cause)
		return
	}
	if code == codeTooLarge {
		p.limit = max(1, b.bytes/2)
	}
	p.open = false
	p.draining = p.inFlight > 0
	at := slices.Index(p.batches, b)
	parts := b.byWrite()
	if len(parts) == 1 {
		parts = b.halves()
	}
	for _, q := range parts {
		m.lastBatch++
		q.id, q.part = m.lastBatch, p
		q.bytes = b.bytes * q.records / b.records
		m.batches[q.id] = q
	}
	p.batches = slices.Insert(p.batches, at+1, parts...)
	m.remove(b)
}

func (b *batch) byWrite() (parts []*batch) {
	for i, s := range b.spans {
		if i == 0 || b.owners[i] != b.owners[i-1] {
			parts = append(parts, &batch{})
		}
		parts[len(parts)-1].take(s, b.owners[i])
	}
	return parts
}

// halves cuts between records. By single records at once, as it could be, a
// topic with a small limit would cost a request a record; the learned limit
// then keeps later batches small enough.
func (b *batch) halves() []*batch {
	parts := []*batch{{}, {}}
	half := b.records / 2
	for i, s := range b.spans {
		first := min(s.To-s.From, half-parts[0].records)
		if first > 0 {
			parts[0].take(Span{s.Handle, s.From, s.From + first}, b.owners[i])
		}
		if s.From+first < s.To {
			parts[1].take(Span{s.Handle, s.From + first, s.To}, b.owners[i])
		}
	}
	return parts
}

func (b *batch) take(s Span, w *write) {
	b.spans, b.owners = append(b.spans, s), append(b.owners, w)
	b.records += s.To - s.From
}

// refuse fails every write with records in the bytes.
func (m *Machine) refuse(b *batch, cause string) {
	p := b.part
	p.open = false
	p.draining = p.inFlight > 0
	var accused []delivery.TP
	for _, w := range b.owners {
		if !slices.Contains(accused, w.from) {
			accused = append(accused, w.from)
		}
	}
	m.remove(b)
	for _, w := range b.owners {
		m.fail(w, cause, accused)
	}
	m.resolve(b)
}

// unsettle gives a batch up: it may or may not be in the log, now or later.
func (m *Machine) unsettle(b *batch, reason string) {
	p := b.part
	m.known(b)
	m.frozen = true
	m.lastUnsettled = m.now
	p.broken = true
	if !p.dirty {
		p.dirty = true
		m.dirty++
	}
	m.remove(b)
	m.touch(p) // what was in front of it can be withdrawn now
	for _, w := range b.owners {
		m.failNow(w)
		if w.unsettled == "" {
			w.unsettled = reason
		}
	}
	m.resolve(b)
}
