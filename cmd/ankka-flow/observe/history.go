package observe

import (
	"slices"
	"sync"
	"time"
)

// Happening is one thing that people look for afterwards.
type Happening struct {
	At time.Time `json:"at"`
	// Kind is start, exit, rebalance, reload or failure.
	Kind string `json:"kind"`
	Text string `json:"text"`
}

// The bounds of what is kept of the past.
const (
	maxHappenings  = 20
	maxText        = 1000 // bytes
	latencySamples = 1000
)

// history is what happened last, and how long batches took. It is written by
// the loop and read by those who ask.
type history struct {
	mu       sync.Mutex
	last     []Happening // oldest first
	lastExit *Happening
	exitCode int
	started  time.Time // of the process that runs or ran last
	took     []time.Duration
	next     int
}

func (h *history) add(kind, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.append(Happening{At: time.Now(), Kind: kind, Text: cut(text, maxText)})
}

func (h *history) append(a Happening) {
	if len(h.last) == maxHappenings {
		h.last = slices.Delete(h.last, 0, 1)
	}
	h.last = append(h.last, a)
}

func (h *history) launched(text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.started = time.Now()
	h.append(Happening{At: h.started, Kind: "start", Text: text})
}

func (h *history) exited(text string, code int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := Happening{At: time.Now(), Kind: "exit", Text: cut(text, maxText)}
	h.lastExit, h.exitCode = &a, code
	h.append(a)
}

// batch notes how long a batch was with the process.
func (h *history) batch(took time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.took) < latencySamples {
		h.took = append(h.took, took)
		return
	}
	h.took[h.next] = took
	h.next = (h.next + 1) % latencySamples
}

// quantiles of the newest batches; ok is false before the first.
func (h *history) quantiles() (p50, p99 time.Duration, ok bool) {
	h.mu.Lock()
	took := slices.Clone(h.took)
	h.mu.Unlock()
	if len(took) == 0 {
		return 0, 0, false
	}
	slices.Sort(took)
	return took[(len(took)-1)/2], took[(len(took)-1)*99/100], true
}

// rate is what a counter gained per second over the last rateWindow. The keeper
// samples it each second.
type rate struct {
	samples []sample
}

type sample struct {
	at    time.Time
	total uint64
}

const rateWindow = 30 * time.Second

// sample notes the counter; the samples stay within the window, but for one
// that begins it.
func (r *rate) sample(at time.Time, total uint64) {
	r.samples = append(r.samples, sample{at, total})
	for len(r.samples) > 2 && at.Sub(r.samples[1].at) >= rateWindow {
		r.samples = slices.Delete(r.samples, 0, 1)
	}
}

// at is the rate up to now: what was gained since the window began, per second.
// A supervisor younger than the window divides by its age, of a second at least.
func (r *rate) at(now time.Time, total uint64) float64 {
	if len(r.samples) == 0 {
		return 0
	}
	begin := r.samples[0]
	for _, s := range r.samples[1:] {
		if now.Sub(s.at) < rateWindow {
			break
		}
		begin = s
	}
	return float64(total-begin.total) / max(now.Sub(begin.at), time.Second).Seconds()
}

// consumedRate is an inlet's records per second handed to the process.
func (w *Watch) consumedRate(port string) float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.inlets[port]; c != nil {
		return c.rate.at(time.Now(), c.consumedRecords.Load())
	}
	return 0
}

// emittedRate is an outlet's records per second confirmed by the broker.
func (w *Watch) emittedRate(port string) float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.outlets[port]; c != nil {
		return c.rate.at(time.Now(), c.records.Load())
	}
	return 0
}
