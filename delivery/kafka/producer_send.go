package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"ankka-flow/delivery/kafka/recordbatch"
	"ankka-flow/delivery/kafka/sequence"
	"ankka-flow/delivery/record"
)

const (
	produceKey     = 0
	produceVersion = 8 // the newest before flexible headers; has error messages; Kafka 2.4

	// batchOverhead is what a record batch has beside its records.
	batchOverhead = recordbatch.HeaderSize

	// maxRequest bounds a request: far below the 100 MiB at which brokers hang
	// up (socket.request.max.bytes), and small enough to be read in a moment.
	maxRequest = 8 << 20
	// maxFrames is the number of requests in flight on a connection.
	maxFrames = 5
	// directWrite is the size from which a batch's bytes are written from where
	// they are; smaller ones are put together with what is around them.
	directWrite = 32 << 10
)

// span is a run of records of a portion.
type span struct {
	c        *portion
	from, to int
}

// payload is a batch with its bytes. It belongs to the loop, except between
// being staged and the event that ends its flight: then to the sender.
type payload struct {
	batch    uint64
	part     sequence.Partition
	spans    []span
	id       int64
	epoch    int16
	sequence int32
	estimate int // of the bytes' length
	built    bool
	bytes    *[]byte // from payloadBytes; nil before the first build
	route    *route  // while in flight
}

var payloadBytes = sync.Pool{New: func() any { return new([]byte) }}

// build makes the bytes, unless they are there from an earlier attempt: those
// go out again as they are (R9). This is the one copy of a record's bytes.
func (pl *payload) build(b *batchMaker, now int64) {
	if pl.built {
		return
	}
	if pl.bytes == nil {
		pl.bytes = payloadBytes.Get().(*[]byte)
	}
	to := pl.bytes
	if b.codec != nil {
		to = &b.plain
	}
	if cap(*to) < pl.estimate {
		*to = make([]byte, 0, pl.estimate)
	}
	b.Reset((*to)[:0])
	for _, s := range pl.spans {
		for i := s.from; i < s.to; i++ {
			r := s.c.record(i)
			at := r.Timestamp
			if at == record.Now {
				at = now
			}
			b.Append(r, at)
		}
	}
	*to = b.Finish(pl.id, pl.epoch, pl.sequence)
	if b.codec != nil {
		*pl.bytes = b.compress((*pl.bytes)[:0])
		recordbatch.Stamp(*pl.bytes, pl.id, pl.epoch, pl.sequence)
	}
	pl.built = true
	clear(pl.spans)
	pl.spans = pl.spans[:0]
}

// free gives the bytes back. Nobody sends them any more.
func (pl *payload) free() {
	if pl.bytes != nil && cap(*pl.bytes) <= 2<<20 { // larger ones are rare and not worth keeping
		payloadBytes.Put(pl.bytes)
	}
	pl.bytes = nil
}

// sender sends batches to one broker: one exchange at a time, so that the
// batches of a partition keep their order, with several requests in flight.
type sender struct {
	p    *Producer
	node int32

	maker   batchMaker // the exchange's, one at a time
	scratch []byte     // likewise

	staged []*payload // the loop's, until flush
	failed bool       // the loop's: an exchange failed; nothing may be queued until calmed

	mu    sync.Mutex
	queue []*payload
	down  bool                    // an exchange failed, and calmed is not read yet
	held  time.Time               // no request begins before: a quota of the broker
	slow  bool                    // a quota asked for a wait: one request at a time, until an answer does not
	cut   context.CancelCauseFunc // ends the exchange under way; nil: none
	wake  chan struct{}
}

// flush queues what the loop staged. If the sender failed meanwhile, the loop
// does not know yet which of the earlier batches are unknown, so these may not
// go out on the next connection: they are not sent.
func (s *sender) flush() {
	if len(s.staged) == 0 {
		return
	}
	s.mu.Lock()
	down := s.down
	if !down {
		s.queue = append(s.queue, s.staged...)
	}
	s.mu.Unlock()
	if down {
		s.failed = true
		for _, pl := range s.staged {
			s.p.post(sequence.Event(sequence.NotSent{Batch: pl.batch, Reason: pl.part.String() + ": the connection to the leader has just failed"}))
		}
	} else {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
	clear(s.staged)
	s.staged = s.staged[:0]
}

// abandon ends the exchange under way: the cluster has given the broker up.
func (s *sender) abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut != nil {
		s.cut(errBrokerGone)
	}
}

// errBrokerGone is why an exchange ended before its time: the broker is no
// longer in the metadata, so a frozen one is not waited for.
var errBrokerGone = errors.New("the broker has left the cluster")

// calm lets batches be queued again. It is the loop's to call.
func (s *sender) calm() {
	clear(s.staged)
	s.staged, s.failed = s.staged[:0], false
	s.mu.Lock()
	s.down = false
	s.mu.Unlock()
}

// retract takes back what is queued and not begun.
func (s *sender) retract(which func(*payload) bool) (taken []*payload) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = slices.DeleteFunc(s.queue, func(pl *payload) bool {
		if which(pl) {
			taken = append(taken, pl)
			return true
		}
		return false
	})
	return taken
}

func (s *sender) pending() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue) > 0
}

func (s *sender) run() {
	for {
		select {
		case <-s.p.ctx.Done():
			return
		case <-s.wake:
		}
		for s.pending() && s.p.ctx.Err() == nil {
			if wait, _ := s.throttled(); wait > 0 {
				sleep(s.p.ctx, wait)
				continue
			}
			s.exchange()
		}
	}
}

// throttled is how long no request may begin, and whether one may be in flight
// at most.
func (s *sender) throttled() (wait time.Duration, slow bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(0, time.Until(s.held)), s.slow
}

// throttle takes the wait that an answer asks for. The broker reads nothing more
// of the connection before it is over, so what is in flight behind is answered
// later by as much, and may ask for a wait again.
func (s *sender) throttle(asked time.Duration) (wait time.Duration) {
	wait = s.p.c.throttled("writing", s.p.c.cfg.ClientID, s.node, asked)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slow = wait > 0
	if wait > 0 {
		s.held = time.Now().Add(wait)
	}
	return wait
}

// exchange has one connection for itself and sends what is queued, and what
// comes meanwhile.
func (s *sender) exchange() {
	limit := s.p.c.cfg.RequestTimeout
	// The deadline is the timer's, since a quota moves it.
	ctx, cancel := context.WithTimeout(s.p.ctx, limit+maxFrames*throttleMost)
	defer cancel()
	ctx, cut := context.WithCancelCause(ctx)
	deadline := time.AfterFunc(limit, func() { cut(context.DeadlineExceeded) })
	defer deadline.Stop()
	s.mu.Lock()
	s.cut = cut
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.cut = nil
		s.mu.Unlock()
		cut(nil)
	}()
	x := &pipeline{s: s, until: time.Now().Add(limit / 3), deadline: deadline, sent: make(chan *frame, maxFrames), slots: make(chan struct{}, maxFrames),
		idle: make(chan struct{}, 1), stop: make(chan struct{})}
	_, err := s.p.c.exchange(ctx, s.node, x.run)
	if err == nil || errors.Is(err, errMuted) {
		return // with every answer
	}
	// 1. Nothing more may be queued. 2. What was begun is unknown, what was not
	// is not sent. 3. Behind these, the loop hears that it may queue again.
	s.mu.Lock()
	s.down = true
	rest := s.queue
	s.queue = nil
	s.mu.Unlock()
	events := make([]any, 0, len(rest)+8)
	for _, f := range x.frames {
		for i, pl := range f.payloads {
			switch {
			case f.answered[i]:
			case f.begun:
				events = append(events, sequence.Event(sequence.NoAnswer{Batch: pl.batch, Reason: pl.part.String() + ": " + err.Error()}))
			default:
				events = append(events, sequence.Event(sequence.NotSent{Batch: pl.batch, Reason: pl.part.String() + ": " + err.Error()}))
			}
		}
	}
	for _, pl := range rest {
		events = append(events, sequence.Event(sequence.NotSent{Batch: pl.batch, Reason: pl.part.String() + ": " + err.Error()}))
	}
	s.p.post(append(events, calmed{s})...)
}

// frame is one request.
type frame struct {
	correlation int32
	payloads    []*payload // grouped by topic
	answered    []bool
	begun       bool // a byte of it may have been handed over
}

// pipeline is one exchange. Its writer is the exchange's own goroutine; a second
// one reads the answers.
type pipeline struct {
	s     *sender
	until time.Time // no request begins later: each gets most of the exchange's time
	// deadline ends the exchange; a wait for a quota puts it off.
	deadline *time.Timer

	frames []*frame // not answered whole; the writer appends, read is told by sent
	mu     sync.Mutex

	sent  chan *frame
	slots chan struct{}
	idle  chan struct{} // the last answer that was due has come
	stop  chan struct{} // closed when reading failed
}

// run writes until there is nothing to write and nothing to read.
func (x *pipeline) run(rw io.ReadWriter) error {
	var readErr error
	read := make(chan struct{})
	go func() { // ends with sent, or with an error; awaited below
		defer close(read)
		if readErr = x.read(rw); readErr != nil {
			close(x.stop)
			cut(rw) // a write that is stuck ends, too
		}
	}()
	err := x.write(rw)
	if err != nil {
		cut(rw)
	}
	close(x.sent)
	<-read
	if readErr != nil {
		return readErr
	}
	return err
}

// cut ends every read and write of the connection.
func cut(rw io.ReadWriter) {
	if c, ok := rw.(interface{ SetDeadline(time.Time) error }); ok {
		c.SetDeadline(time.Unix(1, 0)) // its error: the connection is gone already
	}
}

func (x *pipeline) write(rw io.Writer) error {
	for {
		n := x.unanswered()
		wait, slow := x.s.throttled()
		open := wait == 0 && time.Now().Before(x.until)
		switch {
		case n > 0:
		case wait > 0:
			return errMuted
		case !open || !x.s.pending():
			return nil
		}
		var f *frame
		if open && (n == 0 || !slow) {
			f = x.s.nextFrame()
		}
		if f == nil {
			select {
			case <-x.s.wake:
			case <-x.idle:
			case <-x.stop:
				return nil // read has the error
			}
			continue
		}
		x.mu.Lock()
		x.frames = append(x.frames, f)
		x.mu.Unlock()
		select {
		case x.slots <- struct{}{}:
		case <-x.stop:
			return nil
		}
		now := time.Now().UnixMilli()
		for _, pl := range f.payloads {
			pl.build(&x.s.maker, now)
		}
		f.begun = true
		if err := x.writeFrame(rw, f); err != nil {
			return err
		}
		x.sent <- f // never blocks: slots has as many places
	}
}

func (x *pipeline) unanswered() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.frames)
}

// nextFrame takes what fits into one request: a batch a partition, and so that
// nothing of a partition overtakes.
func (s *sender) nextFrame() *frame {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		return nil
	}
	f := &frame{correlation: correlation.Add(1)}
	var in map[sequence.Partition]struct{}
	if len(s.queue) > 1 {
		in = make(map[sequence.Partition]struct{}, len(s.queue))
	}
	size, full := 0, false
	rest := s.queue[:0]
	for _, pl := range s.queue {
		n := pl.size()
		_, second := in[pl.part]
		full = full || len(f.payloads) > 0 && size+n > maxRequest
		if full || second {
			rest = append(rest, pl)
			continue
		}
		if in != nil {
			in[pl.part] = struct{}{}
		}
		size += n
		f.payloads = append(f.payloads, pl)
	}
	clear(s.queue[len(rest):])
	s.queue = rest
	slices.SortStableFunc(f.payloads, func(a, b *payload) int { return strings.Compare(a.part.Topic, b.part.Topic) })
	f.answered = make([]bool, len(f.payloads))
	return f
}

// size is the size of the bytes, or about that before they are made.
func (pl *payload) size() int {
	if pl.built {
		return len(*pl.bytes)
	}
	return pl.estimate
}

// writeFrame writes one Produce request: acks=-1 always (R1).
func (x *pipeline) writeFrame(rw io.Writer, f *frame) error {
	c := x.s.p.c
	out := appendFrame(x.s.scratch[:0], produceKey, produceVersion, f.correlation, c.cfg.ClientID, nil)
	out = appendInt16(out, -1) // no transactional id
	out = appendInt16(out, -1) // acks: all
	out = appendInt32(out, int32((c.cfg.RequestTimeout / 2).Milliseconds()))
	topics := 0
	for i, pl := range f.payloads {
		if i == 0 || pl.part.Topic != f.payloads[i-1].part.Topic {
			topics++
		}
	}
	out = appendInt32(out, int32(topics))
	total := len(out)
	for i, pl := range f.payloads {
		if i == 0 || pl.part.Topic != f.payloads[i-1].part.Topic {
			total += 2 + len(pl.part.Topic) + 4
		}
		total += 4 + 4 + len(*pl.bytes)
	}
	binary.BigEndian.PutUint32(out, uint32(total-4))
	for i, pl := range f.payloads {
		if i == 0 || pl.part.Topic != f.payloads[i-1].part.Topic {
			n := 1
			for n < len(f.payloads)-i && f.payloads[i+n].part.Topic == pl.part.Topic {
				n++
			}
			out = appendInt32(appendString(out, pl.part.Topic), int32(n))
		}
		out = appendInt32(out, pl.part.Index)
		out = appendInt32(out, int32(len(*pl.bytes)))
		if len(*pl.bytes) < directWrite {
			out = append(out, *pl.bytes...)
			continue
		}
		if _, err := rw.Write(out); err != nil {
			return err
		}
		out = out[:0]
		if _, err := rw.Write(*pl.bytes); err != nil {
			return err
		}
	}
	x.s.scratch = out
	if len(out) == 0 {
		return nil
	}
	_, err := rw.Write(out)
	return err
}

// read reads the answers in order and tells the loop.
func (x *pipeline) read(rw io.Reader) error {
	var buffer []byte
	for f := range x.sent {
		body, err := readFrame(rw, produceKey, produceVersion, f.correlation, buffer)
		if err != nil {
			return err
		}
		buffer = body[:0]
		events, throttle, err := decodeProduced(body, f)
		if wait := x.s.throttle(throttle); wait > 0 {
			x.deadline.Reset(x.s.p.c.cfg.RequestTimeout + wait)
		}
		if len(events) > 0 {
			x.s.p.post(events...)
		}
		if err != nil {
			return err
		}
		x.mu.Lock()
		x.frames = slices.DeleteFunc(x.frames, func(o *frame) bool { return o == f })
		x.mu.Unlock()
		<-x.slots
		select {
		case x.idle <- struct{}{}:
		default:
		}
	}
	return nil
}

// decodeProduced reads a Produce answer, v8, and the wait that it asks for. A
// partition that was not asked for or does not come is an error: what was sent
// for it is unknown (rule 2).
func decodeProduced(body []byte, f *frame) (events []any, throttle time.Duration, err error) {
	d := decoder{src: body}
	at := 0
	for range d.count(6) {
		topic := d.string()
		for range d.count(4 + 2 + 8 + 8 + 8 + 4 + 2) {
			index, code := d.int32(), d.int16()
			d.int64() // base offset
			d.int64() // append time
			d.int64() // log start
			message := ""
			for range d.count(4 + 2) {
				d.int32() // the record's index in the batch
				if text := d.string(); message == "" {
					message = text
				}
			}
			if text := d.string(); text != "" {
				message = text
			}
			if d.err != nil {
				return events, 0, d.err
			}
			i := f.find(topic, index, at)
			if i < 0 {
				return events, 0, fmt.Errorf("%w: an answer for %s/%d, which was not asked for", errMalformed, topic, index)
			}
			at = i + 1
			f.answered[i] = true
			events = append(events, sequence.Event(sequence.Answered{Batch: f.payloads[i].batch, Code: code, Message: message}))
		}
	}
	throttle = time.Duration(d.int32()) * time.Millisecond
	if d.err != nil {
		return events, 0, d.err
	}
	if len(events) != len(f.payloads) {
		return events, 0, fmt.Errorf("%w: an answer for %d of %d partitions", errMalformed, len(events), len(f.payloads))
	}
	return events, throttle, nil
}

// find looks for the partition's unanswered batch, from where it usually is.
func (f *frame) find(topic string, index int32, at int) int {
	for n := range f.payloads {
		i := (at + n) % len(f.payloads)
		if pl := f.payloads[i]; pl.part.Index == index && pl.part.Topic == topic && !f.answered[i] {
			return i
		}
	}
	return -1
}
