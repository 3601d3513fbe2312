package sequence

import (
	"fmt"
	"time"
)

// Config bounds a Machine. The zero value is good.
type Config struct {
	// MaxBatchBytes is what the pieces of one batch may take together, as their
	// Bytes say; a piece that is larger goes alone. 0: 1,000,000.
	MaxBatchBytes int
	// WriteTimeout is how long a batch may stay unknown before it is unsettled.
	// It is judged between attempts, so one request's own time can come on top.
	// 0: 120 s.
	WriteTimeout time.Duration
	// MaxInFlight is the number of requests in flight per output partition, 1 to
	// 5: brokers know the last 5 batches of a producer. 0: 5.
	MaxInFlight int
}

const (
	// A partition that confirmed nothing for so long takes one request at a time
	// again: brokers forget producers (producer.id.expiration.ms, a day unless
	// it is configured), and one that forgot takes any first sequence.
	idleWindow = 10 * time.Minute

	backoffMin = 20 * time.Millisecond
	backoffMax = time.Second

	maxEpoch = 1<<15 - 1
	// From this epoch on a new producer id is taken at the first moment when
	// nothing at all is open, long before the epochs are used up.
	renewEpoch = 30_000
	// With the epochs used up while something is unsettled, the old bytes cannot
	// be shut out, only outwaited: brokers cut connections idle for 10 minutes.
	quarantine = 15 * time.Minute
)

// Machine is the state of one producer id. Make it with New; drive it with
// Step, and again no later than at Wake.
type Machine struct {
	cfg Config
	now time.Duration
	out []Action

	parts   map[Partition]*part
	order   []*part // every part, in the order of their first piece
	touched []*part // to be looked at before Step returns
	watched []*part // those that wait for a time

	writes  map[uint64]*write
	opened  []*write // the open writes, in order; finished ones are dropped lazily
	failing int      // writes that failed and are not finished

	batches   map[uint64]*batch
	lastBatch uint64
	inFlight  int // batches
	unknown   int // batches, those in flight again included

	identity
}

// New makes a Machine without a producer id: the first piece asks for one.
func New(cfg Config) *Machine {
	if cfg.MaxBatchBytes <= 0 {
		cfg.MaxBatchBytes = 1_000_000
	}
	if cfg.WriteTimeout <= 0 {
		cfg.WriteTimeout = 120 * time.Second
	}
	if cfg.MaxInFlight <= 0 || cfg.MaxInFlight > 5 {
		cfg.MaxInFlight = 5
	}
	return &Machine{cfg: cfg, parts: map[Partition]*part{}, writes: map[uint64]*write{}, batches: map[uint64]*batch{}}
}

// Step applies ev, which happened at now, and appends to dst what to do. now is
// any monotonic clock and never goes back. It does not block and is not safe
// for concurrent use. An event that names an unknown batch, or one that is not
// in flight, is the driver's fault and panics.
func (m *Machine) Step(dst []Action, now time.Duration, ev Event) []Action {
	m.now, m.out = now, dst
	switch e := ev.(type) {
	case Begun:
		m.begin(e)
	case Added:
		m.add(e)
	case Ended:
		if w := m.writes[e.Write]; w != nil {
			w.ended = true
			m.finish(w)
		}
	case Hopeless:
		if w := m.writes[e.Write]; w != nil {
			m.fail(w, e.Reason, nil)
		}
	case Withdrawn:
		if w := m.writes[e.Write]; w != nil && !w.failed() {
			m.failNow(w)
			w.withdrawn = true
			w.dropped = !w.ended
			m.finish(w)
		}
	case Answered:
		m.answered(m.landed(e.Batch), e)
	case NoAnswer:
		b := m.landed(e.Batch)
		m.doubt(b, e.Reason, true)
	case NotSent:
		b := m.landed(e.Batch)
		if b.unknown {
			m.doubt(b, e.Reason, true)
		} else {
			m.retry(b.part, true)
		}
	case IDGranted, IDFailed, IDRefused:
		m.identified(ev)
	case RaiseAsked:
		m.raising, m.frozen = true, true
	case Refreshed:
		for _, p := range m.watched {
			p.retryAt = min(p.retryAt, m.now)
			m.touch(p)
		}
	case Ticked:
		for _, p := range m.watched {
			m.touch(p)
		}
	default:
		panic(fmt.Sprintf("sequence: unknown event %T", ev))
	}
	m.settle()
	dst, m.out = m.out, nil
	return dst
}

// settle looks at every partition that the event concerned, and then at the
// producer id, until nothing moves any more.
func (m *Machine) settle() {
	for {
		for len(m.touched) > 0 {
			p := m.touched[len(m.touched)-1]
			m.touched = m.touched[:len(m.touched)-1]
			p.touched = false
			m.pump(p)
		}
		if !m.turnOver() {
			break
		}
	}
	n := 0
	for _, p := range m.watched {
		if p.watched = p.waits(); p.watched {
			m.watched[n] = p
			n++
		}
	}
	m.watched = m.watched[:n]
}

// Wake is when Ticked is due, in Step's clock; ok is false when nothing waits
// for a time.
func (m *Machine) Wake() (at time.Duration, ok bool) {
	sooner := func(t time.Duration) {
		if !ok || t < at {
			at, ok = t, true
		}
	}
	for _, p := range m.watched {
		if p.inFlight > 0 {
			continue // the answers come first
		}
		// Also one that has passed: an event of another partition may have moved
		// the clock past it before Ticked came.
		if p.retryAt > 0 {
			sooner(p.retryAt)
		}
		for _, b := range p.batches {
			if b.unknown {
				sooner(b.unknownSince + m.cfg.WriteTimeout)
			}
		}
	}
	if at, waits := m.identityWake(); waits {
		sooner(at)
	}
	return at, ok
}

// Open is the number of writes without their last answer.
func (m *Machine) Open() int { return len(m.writes) }

// Epoch is the producer epoch; before an id was granted it is 0.
func (m *Machine) Epoch() int16 { return m.epoch }

// landed takes a batch out of flight.
func (m *Machine) landed(id uint64) *batch {
	b := m.batches[id]
	if b == nil || !b.inFlight {
		panic(fmt.Sprintf("sequence: batch %d is not in flight", id))
	}
	b.inFlight = false
	b.part.inFlight--
	m.inFlight--
	m.touch(b.part)
	return b
}

func (m *Machine) touch(p *part) {
	if !p.touched {
		p.touched = true
		m.touched = append(m.touched, p)
	}
}

func (m *Machine) watch(p *part) {
	if !p.watched {
		p.watched = true
		m.watched = append(m.watched, p)
	}
}

func (m *Machine) emit(a Action) { m.out = append(m.out, a) }
