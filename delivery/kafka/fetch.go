package kafka

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"ankka-flow/delivery/kafka/recordbatch"
)

const (
	// longPoll is how long a request for partitions without news waits at the
	// broker. It answers at once when a record comes.
	longPoll = 500 * time.Millisecond
	// shortPoll is the same where such a partition cannot join the long poll
	// that is under way, and must not be waited for by those that are behind.
	shortPoll = 20 * time.Millisecond
	// answerBytes bounds one answer of partitions that are behind, idleBytes
	// one of a long poll.
	answerBytes = 8 << 20
	idleBytes   = 1 << 20
	// leastBytes is the least a fetch is worth starting with.
	leastBytes = 64 << 10
	// fetchMargin is what an answer may take beyond its wait at the broker.
	fetchMargin = 10 * time.Second
	// leaderlessAfter is how long a partition may be without a leader before
	// that is told; an election takes a few seconds.
	leaderlessAfter = 5 * time.Second
	// tellAfter is how many failures in a row are nothing unusual.
	tellAfter = 3
)

// fetcher prefetches the partitions of one inlet: for every leader two
// goroutines, each with one request under way at most. The first serves what
// is behind, and never waits at the broker; the second holds the long poll of
// all that has nothing new. So a partition with records to fetch never waits
// for one without (and a Seek never waits at all), and an idle inlet costs a
// request each half second and leader.
type fetcher struct {
	c       *Client
	in      Inlet
	failed  func(partition int32, reason string, blocked bool) // tells, without blocking
	fetched func(partition int32)                              // tells; may block
	ctx     context.Context
	wg      *sync.WaitGroup

	mu         sync.Mutex
	partitions map[int32]*partition
	order      []int32 // of partitions, sorted
	loops      map[int32]*leaderLoop
	flights    uint64
	lastCut    int32 // the partition of the last Cut
	saidCode   int16 // the code that was said last, since the last good answer
	commitCode int16 // by which commits are refused, and that was said; 0: they are not
}

// refuses reports whether reading is refused by that code, and this was said: a
// commit needs the right to read the topic too.
func (f *fetcher) refuses(code int16) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.saidCode == code
}

// commitsRefused takes the code by which commits are refused; 0: they are not.
func (f *fetcher) commitsRefused(code int16) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.commitCode = code
}

// leaderLoop is what the two goroutines of one leader share; the fetcher's
// mutex guards polling, held and turn.
type leaderLoop struct {
	node    int32
	wakes   [2]chan struct{} // of lagging, of idle; capacity 1
	polling bool             // a long poll is under way
	held    time.Time        // no request before this: a quota of the broker
	turn    int              // where the next request begins in order
}

const (
	lagging = iota
	idle
)

// partition gives the state of a partition, made at first sight. The caller
// holds mu.
func (f *fetcher) partition(id int32) *partition {
	p := f.partitions[id]
	if p == nil {
		p = &partition{id: id, end: End{-1, -1, -1}}
		f.partitions[id] = p
		at, _ := slices.BinarySearch(f.order, id)
		f.order = slices.Insert(f.order, at, id)
	}
	return p
}

// assign takes partitions on. Nothing is fetched before their Seek.
func (f *fetcher) assign(ids []int32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range ids {
		p := f.partition(id)
		if !p.owned {
			p.owned, p.running = true, false
		}
	}
}

// release lets partitions go.
func (f *fetcher) release(ids []int32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range ids {
		p := f.partition(id)
		f.drop(p)
		p.owned, p.running = false, false
	}
}

// releaseAll lets every partition go.
func (f *fetcher) releaseAll() {
	f.mu.Lock()
	ids := slices.Clone(f.order)
	f.mu.Unlock()
	f.release(ids)
}

// ends gives the newest known ends of the partitions held.
func (f *fetcher) ends() map[int32]End {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make(map[int32]End, len(f.partitions))
	for id, p := range f.partitions {
		if p.owned && p.end.HighWatermark >= 0 {
			out[id] = p.end
		}
	}
	return out
}

// wake makes every loop look again. The caller holds mu.
func (f *fetcher) wake() {
	for _, l := range f.loops {
		for _, w := range l.wakes {
			select {
			case w <- struct{}{}:
			default:
			}
		}
	}
}

// ensureLoops starts the loops of leaders that have none, and wakes all, for
// a leader may have changed. A loop lives until the consumer ends: there are
// no more of them than brokers.
func (f *fetcher) ensureLoops() {
	n, _ := f.c.partitions(f.in.Topic)
	f.mu.Lock()
	defer f.mu.Unlock()
	for id := range n {
		node, ok := f.c.leader(f.in.Topic, id)
		if !ok || f.loops[node] != nil || f.ctx.Err() != nil {
			continue
		}
		l := &leaderLoop{node: node, wakes: [2]chan struct{}{make(chan struct{}, 1), make(chan struct{}, 1)}}
		f.loops[node] = l
		f.wg.Go(func() { f.run(l, lagging) })
		f.wg.Go(func() { f.run(l, idle) })
	}
	f.wake()
}

// tellLeaderless tells about partitions that have had no leader for a while.
func (f *fetcher) tellLeaderless() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range f.order {
		p := f.partitions[id]
		_, led := f.c.leader(f.in.Topic, id)
		switch {
		case led || !p.owned || !p.running || p.blocked:
			p.orphan = time.Time{}
		case p.orphan.IsZero():
			p.orphan = time.Now()
		case time.Since(p.orphan) > leaderlessAfter && !p.told:
			p.told = true
			f.failed(id, "the partition has no leader: its brokers are away, or the topic is gone", false)
		}
	}
}

// run is one of the two goroutines of a leader. It ends with the consumer.
func (f *fetcher) run(l *leaderLoop, kind int) {
	w := &fetchWorker{f: f, l: l, buf: bufio.NewReaderSize(nil, 64<<10)}
	fails := 0
	for f.ctx.Err() == nil {
		wait := f.plan(w, kind)
		if len(w.req.asks) == 0 {
			f.await(l.wakes[kind], wait)
			continue
		}
		throttle, err := w.fetch()
		if wait := f.c.throttled("reading", f.in.ClientID, l.node, throttle); wait > 0 {
			f.mu.Lock()
			l.held = time.Now().Add(wait)
			f.mu.Unlock()
		}
		f.settle(w, kind, err)
		if err == nil {
			fails = 0
			continue
		}
		fails++
		f.c.stale(f.in.Topic)
		sleep(f.ctx, backoff(retryFirst, retryMost, fails))
	}
}

// planWait is why a plan is empty.
type planWait struct {
	until  time.Time // look again then; zero: when woken
	budget bool      // look again when budget comes back
}

// await waits for a reason to plan again.
func (f *fetcher) await(wake <-chan struct{}, w planWait) {
	var timer <-chan time.Time
	if !w.until.IsZero() {
		t := time.NewTimer(max(time.Until(w.until), time.Millisecond))
		defer t.Stop()
		timer = t.C
	}
	var freed <-chan struct{}
	if w.budget {
		// What came back between the plan and this wait is seen by the timer.
		freed = f.c.budget.wait()
		if timer == nil {
			t := time.NewTimer(shortPoll)
			defer t.Stop()
			timer = t.C
		}
	}
	select {
	case <-f.ctx.Done():
	case <-wake:
	case <-timer:
	case <-freed:
	}
}

// plan fills the worker's request with the partitions whose turn it is, and
// marks them as under way; empty where there is nothing to fetch now.
func (f *fetcher) plan(w *fetchWorker, kind int) (wait planWait) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w.begin()
	now := time.Now()
	if w.l.held.After(now) {
		return planWait{until: w.l.held}
	}
	most, behind := answerBytes, false
	if kind == idle {
		most = idleBytes
	}
	asked := 0
	for i := range f.order {
		p := f.partitions[f.order[(w.l.turn+i)%len(f.order)]]
		if !p.wants() || kind == idle && p.behind || kind == lagging && !p.behind && !w.l.polling {
			continue
		}
		if node, ok := f.c.leader(f.in.Topic, p.id); !ok || node != w.l.node {
			continue
		}
		if p.retryAt.After(now) {
			if wait.until.IsZero() || p.retryAt.Before(wait.until) {
				wait.until = p.retryAt
			}
			continue
		}
		behind = behind || p.behind
		asked += p.limit
		w.req.asks = append(w.req.asks, fetchAsk{p.id, p.next, p.limit})
	}
	if len(w.req.asks) == 0 {
		return wait
	}
	w.reserved = f.c.budget.take(min(max(most, w.req.asks[0].limit), asked), leastBytes)
	if w.reserved == 0 {
		w.req.asks = w.req.asks[:0]
		wait.budget = true
		return wait
	}
	if kind == lagging {
		w.fit()
	}
	w.l.turn += len(w.req.asks)
	f.flights++
	w.flight = f.flights
	for _, a := range w.req.asks {
		f.partitions[a.partition].flight = w.flight
	}
	w.req.maxBytes = w.reserved
	switch {
	case kind == idle:
		w.req.maxWait, w.l.polling = longPoll, true
	case behind:
		w.req.maxWait = 0
	default:
		w.req.maxWait = shortPoll
	}
	return wait
}

// fit drops partitions for which nothing is reserved; their turn is next. A
// broker keeps to the limit of the whole answer, but kfake sends a batch of
// each partition whatever it is.
func (w *fetchWorker) fit() {
	asked := 0
	for i, a := range w.req.asks {
		if asked += a.limit; asked > w.reserved && i > 0 {
			w.req.asks = w.req.asks[:i]
			return
		}
	}
}

// fetchWorker is one loop's request and its buffers.
type fetchWorker struct {
	f        *fetcher
	l        *leaderLoop
	req      fetchRequest
	flight   uint64
	reserved int
	answered int // bytes of records in the answer
	body     []byte
	frame    []byte
	buf      *bufio.Reader
	reader   fetchReader
	ready    []int32 // partitions that have something to cut now
	confirm  []fetchAsk
}

func (w *fetchWorker) begin() {
	w.req = fetchRequest{topic: w.f.in.Topic, uncommitted: w.f.in.ReadUncommitted, asks: w.req.asks[:0]}
	w.reserved, w.answered = 0, 0
	w.ready, w.confirm = w.ready[:0], w.confirm[:0]
}

// fetch sends the request and takes the answer, partition by partition.
func (w *fetchWorker) fetch() (throttle time.Duration, err error) {
	f := w.f
	ctx, cancel := context.WithTimeout(f.ctx, w.req.maxWait+fetchMargin)
	defer cancel()
	w.body = w.req.appendTo(w.body[:0])
	id := correlation.Add(1)
	w.frame = appendFrame(w.frame[:0], fetchKey, fetchVersion, id, f.in.ClientID, w.body)
	var code int16
	_, err = f.c.exchange(ctx, w.l.node, func(rw io.ReadWriter) error {
		if _, err := rw.Write(w.frame); err != nil {
			return err
		}
		w.buf.Reset(rw)
		w.reader.buf = w.buf
		var err error
		throttle, code, err = w.reader.answer(id, w.wanted, w.take)
		if err == nil && throttle > 0 {
			return errMuted
		}
		return err
	})
	w.buf.Reset(nil)
	if errors.Is(err, errMuted) {
		err = nil
	}
	if err == nil && code != codeNone {
		err = f.c.codeErr(code, "fetching from broker %d", w.l.node)
	}
	return throttle, err
}

func (w *fetchWorker) wanted(id int32) bool {
	w.f.mu.Lock()
	defer w.f.mu.Unlock()
	p := w.f.partitions[id]
	return p != nil && p.flight == w.flight
}

// take keeps one partition of the answer, unless a Seek came between.
func (w *fetchWorker) take(a fetched) {
	f := w.f
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.partitions[a.partition]
	w.answered += len(a.data)
	if p == nil || p.flight != w.flight {
		return
	}
	p.flight = 0
	if a.code != codeNone {
		f.refused(w, p, a.code)
		return
	}
	p.end = a.end
	f.saidCode = codeNone
	if len(a.data) == 0 {
		w.nothing(p)
		return
	}
	f.store(w, p, a)
}

// refused takes a partition's error code.
func (f *fetcher) refused(w *fetchWorker, p *partition, code int16) {
	p.behind = true
	switch code {
	case codeOffsetOutOfRange:
		p.flight = w.flight // not fetched again before it is confirmed
		w.confirm = append(w.confirm, fetchAsk{p.id, p.next, 0})
		return
	case codeUnknownTopic, codeLeaderNotAvailable, codeNotLeader, codeReplicaNotAvailable,
		codeFencedLeaderEpoch, codeUnknownLeaderEpoch, codeKafkaStorage:
		f.c.stale(f.in.Topic)
	case codeOffsetNotAvailable:
	default: // a right that is missing, or what a person has to look at
		text := f.c.topicText(code, f.in.Topic)
		first := f.saidCode != code // it is of the topic, not of one partition
		f.saidCode = code
		if first && f.commitCode != code {
			f.c.log.Error("the topic cannot be read: "+text+"; trying on", "inlet", f.in.Name, "topic", f.in.Topic)
		}
		f.fail(p, text, corruptMost, 1)
		return
	}
	f.fail(p, codeText(code), retryMost, tellAfter)
}

// fail puts a partition's next fetch off, and tells it when it goes on.
func (f *fetcher) fail(p *partition, reason string, most time.Duration, tell int) {
	p.fails++
	p.retryAt = time.Now().Add(backoff(retryFirst, most, p.fails))
	if p.fails >= tell && !p.told {
		p.told = true
		f.failed(p.id, reason, false)
	}
}

// nothing takes an answer without records: the end is reached, or a batch is
// larger than what was asked for (a broker sends only the first batch of an
// answer whole whatever its size).
func (w *fetchWorker) nothing(p *partition) {
	p.fails, p.told = 0, false
	end := p.end.LastStable
	if w.f.in.ReadUncommitted {
		end = p.end.HighWatermark
	}
	if p.next >= end {
		p.behind, p.empties = false, 0
		return
	}
	p.empties++
	// Where there was room in the answer, the limit was in the way.
	if w.answered+p.limit <= w.req.maxBytes || len(w.req.asks) == 1 {
		p.limit = min(2*p.limit, largestChunk)
	}
	// What claims to be there and never comes must not spin.
	p.behind = p.empties < 8
}

// store keeps an answer's whole batches.
func (f *fetcher) store(w *fetchWorker, p *partition, a fetched) {
	whole, next, readable := wholeBatches(a.data, p.next)
	if whole == 0 {
		var r recordbatch.Reader
		r.Reset(a.data, p.next, nil, recordbatch.Limits{})
		size := r.FirstPartial()
		if size > largestChunk {
			p.blocked = true
			f.stops(p, fmt.Sprintf("the batch at offset %d has %d bytes, more than the %d that a batch may have here", p.next, size, largestChunk), true)
			return
		}
		p.limit = max(size, min(2*p.limit, largestChunk))
		return
	}
	if readable && next == p.next {
		f.fail(p, fmt.Sprintf("the broker answered offset %d with batches that end before it", p.next), corruptMost, 1)
		return
	}
	p.fails, p.told, p.empties, p.limit = 0, false, 0, chunkBytes
	p.stuck = !readable
	if whole < len(a.data)/2 {
		a.data = slices.Clone(a.data[:whole]) // do not keep what was cut off
	}
	if len(p.chunks) == 0 {
		w.ready = append(w.ready, p.id)
	}
	c := chunk{start: p.next, end: next, data: a.data[:whole], aborted: a.aborted}
	if f.in.ReadUncommitted {
		c.aborted = nil // some brokers send the list all the same
	}
	p.chunks = append(p.chunks, c)
	p.held += len(c.data)
	w.pay(len(c.data))
	p.next = next
	end := p.end.LastStable
	if f.in.ReadUncommitted {
		end = p.end.HighWatermark
	}
	p.behind = p.next < end
}

// pay takes n bytes out of what the request reserved, and what is more than
// that from the budget itself.
func (w *fetchWorker) pay(n int) {
	own := min(n, w.reserved)
	w.reserved -= own
	if n > own {
		w.f.c.budget.charge(n - own)
	}
}

// settle ends a request: what is left of its reservation goes back, partitions that the
// answer did not name are free again (throttled, or the exchange failed), and
// what there is to say is said.
func (f *fetcher) settle(w *fetchWorker, kind int, err error) {
	f.mu.Lock()
	if kind == idle {
		w.l.polling = false
	}
	for _, a := range w.req.asks {
		p := f.partitions[a.partition]
		if p.flight != w.flight || slices.ContainsFunc(w.confirm, func(c fetchAsk) bool { return c.partition == p.id }) {
			continue
		}
		p.flight = 0
		if err != nil && f.ctx.Err() == nil {
			f.fail(p, fmt.Sprintf("the partition's leader cannot be read from: %v", err), retryMost, tellAfter)
			p.retryAt = time.Time{} // the loop itself waits
		}
	}
	flight := w.flight
	confirm := slices.Clone(w.confirm)
	f.wake()
	f.mu.Unlock()
	f.c.budget.charge(-w.reserved)
	for _, id := range w.ready {
		f.fetched(id)
	}
	for _, a := range confirm {
		f.wg.Go(func() {
			if f.confirmRange(w.l.node, a, flight) {
				f.fetched(a.partition)
			}
		})
	}
}

// confirmRange asks the leader itself whether an offset is outside the log,
// since the code alone may come from a replica that lags (rule 18).
// ready says that there is something to cut now.
func (f *fetcher) confirmRange(node int32, a fetchAsk, flight uint64) (ready bool) {
	ctx, cancel := context.WithTimeout(f.ctx, fetchMargin)
	defer cancel()
	first, last, err := f.logRange(ctx, node, a.partition)
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.partitions[a.partition]
	if p.flight != flight {
		return false
	}
	p.flight = 0
	f.wake()
	switch {
	case err != nil:
		f.c.stale(f.in.Topic)
		f.fail(p, fmt.Sprintf("offset %d may be outside the log: %v", a.offset, err), retryMost, tellAfter)
		return false
	case a.offset >= first && a.offset <= last:
		f.fail(p, codeText(codeOffsetOutOfRange), retryMost, tellAfter)
		return false
	case len(p.chunks) > 0:
		// Told when the position is there.
		p.retryAt = time.Now().Add(retryMost)
		return false
	}
	p.end.LogStart, p.end.HighWatermark = first, last
	if to, ok := f.in.Reset.target(first, last); ok && to > a.offset {
		f.c.log.Warn("offset outside the log: going on where the configuration says",
			"inlet", f.in.Name, "topic", f.in.Topic, "partition", p.id, "offset", a.offset, "to", to)
		// A range without records: the position moves by being delivered.
		p.next = to
		p.chunks = append(p.chunks, chunk{start: a.offset, end: to})
		return true
	}
	p.blocked = true
	f.stops(p, outsideLog(f.in.Topic, p.id, a.offset, first, last), true)
	return false
}

func outsideLog(topic string, id int32, offset, first, last int64) string {
	return fmt.Sprintf("offset %d of %s/%d is outside the log, which goes from %d to %d: retention has removed it, or the topic was made again; nothing is skipped until the configuration says where to go on (auto.offset.reset, or reset the group)",
		offset, topic, id, first, last)
}

// logRange gives the first offset of a partition and the one behind its last.
func (f *fetcher) logRange(ctx context.Context, node, id int32) (first, last int64, err error) {
	for _, q := range []struct {
		at int64
		to *int64
	}{{Earliest, &first}, {Latest, &last}} {
		got, err := f.c.listOffsetsAt(ctx, node, f.in.Topic, []int32{id}, q.at, true)
		if err != nil {
			return 0, 0, err
		}
		o, ok := got[id]
		if !ok {
			return 0, 0, fmt.Errorf("%w: partition %d is missing", errMalformed, id)
		}
		if o.code != codeNone {
			return 0, 0, f.c.codeErr(o.code, "listing offsets of %s/%d", f.in.Topic, id)
		}
		*q.to = o.offset
	}
	return first, last, nil
}

func isCorrupt(err error) bool { return errors.Is(err, recordbatch.ErrCorrupt) }
