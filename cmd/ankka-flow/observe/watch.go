package observe

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ankka-flow/delivery"
	"ankka-flow/wire"
)

// failureKinds are the values of the label reason of stream failures.
var failureKinds = []string{
	"fail", "violation", "exit", "launch", "unreachable", "timeout", "oversized", "held", "write_refused", "write_unsettled", "commit_refused", "other",
}

// inletCounts only rise, through conversations, processes and rebalances.
type inletCounts struct {
	consumedRecords, consumedBytes, committedRecords atomic.Uint64
	delivered, acked, committed, failed, rebalances  atomic.Uint64
	batchSeconds, writeSeconds, deliverySeconds      prometheus.Observer
	rate                                             rate // guarded by Watch.mu
}

type outletCounts struct {
	records, bytes atomic.Uint64
	rate           rate // guarded by Watch.mu
}

// Watch counts what a run does. It is the driver's Observer; everything that is
// read of it may be read from any goroutine.
type Watch struct {
	mirror  mirror // the loop's alone
	history history
	reports *reports

	ready       atomic.Bool
	readySignal chan struct{} // capacity 1

	starts, conversations, violations, unknown, unsettled atomic.Uint64

	mu       sync.Mutex // guards the maps; the loop alone writes them
	inlets   map[string]*inletCounts
	outlets  map[string]*outletCounts
	failures map[string]uint64
	exits    map[int]uint64

	batchSeconds, writeSeconds, deliverySeconds *prometheus.HistogramVec
}

// NewWatch makes a Watch that has seen nothing. What it cannot show of the
// process's reports is said to log, once.
func NewWatch(log *slog.Logger) *Watch {
	return &Watch{
		mirror: newMirror(), reports: newReports(log), readySignal: make(chan struct{}, 1),
		inlets: map[string]*inletCounts{}, outlets: map[string]*outletCounts{}, failures: map[string]uint64{}, exits: map[int]uint64{},
		batchSeconds: mBatchSeconds.histogram(), writeSeconds: mWriteSeconds.histogram(), deliverySeconds: mDeliverySeconds.histogram(),
	}
}

// Ready says that the conversation runs and every inlet is subscribed.
func (w *Watch) Ready() bool { return w.ready.Load() }

// inlet is called by the loop only, which alone adds to the map.
func (w *Watch) inlet(port string) *inletCounts {
	if c := w.inlets[port]; c != nil {
		return c
	}
	c := &inletCounts{
		batchSeconds: w.batchSeconds.WithLabelValues(port), writeSeconds: w.writeSeconds.WithLabelValues(port),
		deliverySeconds: w.deliverySeconds.WithLabelValues(port),
	}
	c.rate.sample(time.Now(), 0)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inlets[port] = c
	return c
}

func (w *Watch) outlet(port string) *outletCounts {
	if c := w.outlets[port]; c != nil {
		return c
	}
	c := &outletCounts{}
	c.rate.sample(time.Now(), 0)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.outlets[port] = c
	return c
}

// Stepped implements driver.Observer.
func (w *Watch) Stepped(now time.Duration, ready bool, ev delivery.Event, actions []delivery.Action) {
	if !w.brokerEvent(now, ev) {
		w.processEvent(now, ev)
	}
	for _, action := range actions {
		w.action(now, ev, action)
	}
	if ready != w.ready.Load() {
		w.ready.Store(ready)
		select {
		case w.readySignal <- struct{}{}:
		default: // whoever looks will see the newest
		}
	}
}

// brokerEvent reports whether ev is of the broker's side.
func (w *Watch) brokerEvent(now time.Duration, ev delivery.Event) bool {
	m := &w.mirror
	switch e := ev.(type) {
	case delivery.Assigned:
		in := w.inlet(e.Inlet)
		in.rebalances.Add(1)
		m.assigned(e, in)
		w.history.add("rebalance", fmt.Sprintf("inlet %s: generation %d, %d partitions given", e.Inlet, e.Generation, len(e.Starts)))
	case delivery.Revoked:
		m.revoked(e)
		w.history.add("rebalance", fmt.Sprintf("inlet %s: %d partitions taken away", e.Inlet, len(e.Partitions)))
	case delivery.Suspended:
		m.suspended(e.Inlet)
	case delivery.Lost:
		m.lostAll(e.Inlet)
		w.history.add("rebalance", fmt.Sprintf("inlet %s: every partition lost", e.Inlet))
	case delivery.Written:
		w.written(now, e.ID)
	case delivery.WriteUnknown:
		w.unknown.Add(1)
	case delivery.Refused:
		delete(m.writes, e.ID)
	case delivery.Unsettled:
		w.unsettled.Add(1)
		delete(m.writes, e.ID)
	case delivery.Committed:
		m.committed(e, func(t *tracked) { w.committed(now, t) })
	case delivery.Fetched, delivery.FetchFailed, delivery.EpochRaised:
	default:
		return false
	}
	return true
}

func (w *Watch) processEvent(now time.Duration, ev delivery.Event) {
	m := &w.mirror
	switch e := ev.(type) {
	case delivery.Cut:
		if t := m.cut(e, w.inlet(m.delivering.TP.Inlet)); t != nil && e.Records > 0 {
			in := t.part.inlet
			in.delivered.Add(1)
			in.consumedRecords.Add(uint64(e.Records))
			in.consumedBytes.Add(uint64(e.Bytes))
		}
	case delivery.Emitted:
		if t := m.live[e.ID]; t != nil && e.Records > 0 {
			t.emits = true
		}
	case delivery.Acked:
		if t := m.live[e.ID]; t != nil && !t.acked {
			t.acked = true
			t.part.inlet.acked.Add(1)
			t.part.inlet.batchSeconds.Observe((now - t.deliveredAt).Seconds())
			w.history.batch(now - t.deliveredAt)
			m.settled(t)
		}
	case delivery.Failed:
		if t := m.live[e.ID]; t != nil && !t.acked {
			t.part.inlet.failed.Add(1)
		}
	case delivery.Launched:
		w.starts.Add(1)
		w.history.launched(fmt.Sprintf("process %d, pid %d", e.Process, e.PID))
	case delivery.Exited:
		w.mu.Lock()
		w.exits[e.Code]++
		w.mu.Unlock()
		w.history.exited(e.Reason, e.Code)
	}
}

func (w *Watch) action(now time.Duration, ev delivery.Event, action delivery.Action) {
	m := &w.mirror
	switch a := action.(type) {
	case delivery.Deliver:
		m.delivering, m.deliverAt = a, now
	case delivery.Drop:
		m.dropped(a.ID)
	case delivery.Write:
		t := m.live[a.ID]
		if t != nil {
			m.writes[a.ID] = &writing{inlet: t.part.inlet, at: now}
		}
	case delivery.Commit:
		m.commit(a)
	case delivery.Release:
		for _, p := range a.Partitions {
			m.lost(delivery.TP{Inlet: a.Inlet, Partition: p})
		}
	case delivery.Leave:
		m.lostAll(a.Inlet)
	case delivery.Begin:
		w.conversations.Add(1)
	case delivery.Note:
		w.note(ev, a)
	}
}

func (w *Watch) note(ev delivery.Event, n delivery.Note) {
	switch n.Kind {
	case delivery.NoteFailed:
		kind := failureKind(ev, n.Text)
		if kind == "violation" {
			w.violations.Add(1)
		}
		w.mu.Lock()
		w.failures[kind]++
		w.mu.Unlock()
		w.history.add("failure", n.Text)
	case delivery.NoteReloading:
		w.history.add("reload", n.Text)
	}
}

// deadlines are the core's words for what was not done in time. Such a failure
// comes with whatever event came then.
var deadlines = []string{
	"no answer to discovery", "the process did not answer stop", "the process closed its stdout", "the process answered none of", " was not answered within ",
}

// failureKind is the kind of what failed the stream.
func failureKind(ev delivery.Event, text string) string {
	if strings.HasPrefix(text, "protocol violation: ") {
		return "violation"
	}
	if _, theirs := ev.(delivery.Failed); !theirs { // whose text is the process's
		for _, words := range deadlines {
			if strings.Contains(text, words) {
				return "timeout"
			}
		}
	}
	switch ev.(type) {
	case delivery.Failed:
		return "fail"
	case delivery.Exited:
		return "exit"
	case delivery.LaunchFailed:
		return "launch"
	case delivery.Unreachable:
		return "unreachable"
	case delivery.Oversized:
		return "oversized"
	case delivery.Emitted:
		return "held"
	case delivery.Refused:
		return "write_refused"
	case delivery.Unsettled:
		return "write_unsettled"
	case delivery.Committed:
		return "commit_refused"
	case delivery.Ticked:
		return "timeout"
	}
	return "other"
}

func (w *Watch) written(now time.Duration, id uint64) {
	m := &w.mirror
	if t := m.live[id]; t != nil {
		t.written = true
		m.settled(t)
	}
	wr := m.writes[id]
	if wr == nil {
		return
	}
	delete(m.writes, id)
	wr.inlet.writeSeconds.Observe((now - wr.at).Seconds())
	for _, r := range wr.runs {
		r.outlet.records.Add(r.records)
		r.outlet.bytes.Add(r.bytes)
	}
}

func (w *Watch) committed(now time.Duration, t *tracked) {
	in := t.part.inlet
	in.committed.Add(t.batches)
	in.committedRecords.Add(t.records)
	if t.countsInLatency {
		in.deliverySeconds.Observe((now - t.deliveredAt).Seconds())
	}
	for s, value := range t.reported {
		w.reports.count(s, value)
	}
}

// Writing implements driver.Observer.
func (w *Watch) Writing(id uint64, outlet string, records, bytes int) {
	if wr := w.mirror.writes[id]; wr != nil {
		wr.runs = append(wr.runs, run{w.outlet(outlet), uint64(records), uint64(bytes)})
	}
}

// Reported implements driver.Observer. What is reported with a batch counts when
// it commits, and not at all when it is void.
func (w *Watch) Reported(r wire.Report) {
	t := w.mirror.live[r.ID]
	if r.HasID && (t == nil || t.acked) {
		return
	}
	for i := range r.Series {
		s := w.reports.admit(&r.Series[i])
		switch {
		case s == nil:
		case r.HasID:
			t.report(s, r.Series[i].Value)
		default:
			w.reports.count(s, r.Series[i].Value)
		}
	}
}

// sample notes the counters for the rates.
func (w *Watch) sample(at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.inlets {
		c.rate.sample(at, c.consumedRecords.Load())
	}
	for _, c := range w.outlets {
		c.rate.sample(at, c.records.Load())
	}
}
