package observe

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"ankka-flow/delivery"
	"ankka-flow/delivery/driver"
)

// Status is /status.json: what runs and how it goes. Durations are in seconds;
// a field that is null is not known.
type Status struct {
	Pipeline  string `json:"pipeline"`
	Streamlet string `json:"streamlet"`
	Command   string `json:"command"`
	Version   string `json:"version"`
	Protocol  string `json:"protocol"`
	// Started is when this supervisor was.
	Started       time.Time `json:"started"`
	UptimeSeconds float64   `json:"uptime_seconds"`
	Ready         bool      `json:"ready"`
	// Alive: the supervisor's loop turns. Where it does not, what follows is as
	// it was when it did last.
	Alive bool `json:"alive"`
	// State is down, discovering, running, ending or stopping.
	State        string `json:"state"`
	Conversation uint64 `json:"conversation"`
	// WaitSeconds is what is left of the wait for the next conversation.
	WaitSeconds *float64 `json:"wait_seconds"`
	// AwaitsSave: nothing happens before a watched file is saved, or under
	// --attach before a program attaches.
	AwaitsSave bool           `json:"awaits_save"`
	Process    ProcessStatus  `json:"process"`
	Rates      Rates          `json:"rates"`
	Batches    BatchStatus    `json:"batches"`
	HeldBytes  int            `json:"held_bytes"`
	Failures   uint64         `json:"failures"`
	Behind     *int64         `json:"behind"`
	Inlets     []PortStatus   `json:"inlets"`
	Outlets    []PortStatus   `json:"outlets"`
	Partitions []PartitionRow `json:"partitions"`
	// Events are the newest starts, exits, rebalances, reloads and failures,
	// newest first.
	Events []Happening `json:"events"`
}

// ProcessStatus is the child process.
type ProcessStatus struct {
	// PID is 0 where none runs.
	PID    int    `json:"pid"`
	Starts uint64 `json:"starts"`
	// UptimeSeconds is of the process that runs.
	UptimeSeconds *float64    `json:"uptime_seconds"`
	LastExit      *ExitStatus `json:"last_exit"`
}

// ExitStatus is how a process ended.
type ExitStatus struct {
	At time.Time `json:"at"`
	// Code is its exit code, or 128 + n for a signal.
	Code   int    `json:"code"`
	Reason string `json:"reason"`
}

// Rates are records per second over the last 30 seconds.
type Rates struct {
	In  float64 `json:"in_per_second"`
	Out float64 `json:"out_per_second"`
}

// BatchStatus is about batches: what is with the process now, how long the
// newest 1,000 were there, and what is committed.
type BatchStatus struct {
	InFlight            int      `json:"in_flight"`
	P50Seconds          *float64 `json:"p50_seconds"`
	P99Seconds          *float64 `json:"p99_seconds"`
	Committed           uint64   `json:"committed"`
	CommittedRecordsIn  uint64   `json:"committed_records_in"`
	CommittedRecordsOut uint64   `json:"committed_records_out"`
}

// PortStatus is an inlet or an outlet.
type PortStatus struct {
	Port  string `json:"port"`
	Topic string `json:"topic"`
	// Group is an inlet's.
	Group string `json:"group,omitempty"`
}

// PartitionRow is one partition that is ours, or that the process still owes an
// answer for (state lost).
type PartitionRow struct {
	Inlet     string `json:"inlet"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	// State is owned, revoking, suspended or lost.
	State     string `json:"state"`
	Committed int64  `json:"committed"`
	End       *int64 `json:"end"`
	Lag       *int64 `json:"lag"`
	// InFlight is of records.
	InFlight       int     `json:"in_flight"`
	StalledSeconds float64 `json:"stalled_seconds"`
	Attempts       int     `json:"attempts"`
	Failures       int     `json:"failures"`
	LastError      string  `json:"last_error,omitempty"`
	// Standing is accused or convicted (delivery.PartitionStatus.Standing); Tries
	// is how often the record at Suspect was found to fail, NextTrySeconds how long
	// it waits at least.
	Standing       string   `json:"standing,omitempty"`
	Tries          int      `json:"tries,omitempty"`
	Suspect        *int64   `json:"suspect,omitempty"`
	NextTrySeconds *float64 `json:"next_try_seconds,omitempty"`
	// Why is one word for what it waits for; empty: for records.
	Why string `json:"why,omitempty"`
	// Show is the command that shows the record it stands at, where it stands.
	Show string `json:"show,omitempty"`
}

// stuckAfter is how long a partition stands before the command that shows its
// record is offered.
const stuckAfter = 10 * time.Second

// status puts everything together.
func (v *view) status(ctx context.Context) Status {
	k := v.keeper
	now := time.Now()
	st := Status{
		Command: v.commands.Process, Version: v.build.Version, Protocol: v.build.Protocol, Started: k.began, UptimeSeconds: now.Sub(k.began).Seconds(),
		Ready: v.ready(), Alive: k.Alive(), State: delivery.Down.String(),
		Inlets: []PortStatus{}, Outlets: []PortStatus{}, Partitions: []PartitionRow{},
	}
	st.Process.Starts = k.watch.starts.Load()
	st.past(&k.watch.history, now)
	s, ok := k.snapshot(ctx)
	if !ok {
		last := k.lastSnapshot()
		if last == nil {
			return st
		}
		s = *last
	}
	st.State, st.Conversation, st.AwaitsSave = s.State.String(), s.Conversation, s.AwaitsSave
	if wait := s.NextDiscovery - s.Now; s.NextDiscovery > 0 && wait > 0 {
		st.WaitSeconds = seconds(wait)
	}
	if s.Alive {
		st.Process.PID = s.PID
	} else {
		st.Process.UptimeSeconds = nil
	}
	st.HeldBytes, st.Failures = s.HeldBytes, s.Failures
	st.Batches.InFlight, st.Batches.Committed = s.InFlight, s.Batches
	st.Batches.CommittedRecordsIn, st.Batches.CommittedRecordsOut = s.In, s.Out
	v.ports(&st, s.Plan)
	v.rows(&st, &s)
	return st
}

// past fills in what the history has.
func (st *Status) past(h *history, now time.Time) {
	if p50, p99, ok := h.quantiles(); ok {
		st.Batches.P50Seconds, st.Batches.P99Seconds = seconds(p50), seconds(p99)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	st.Events = slices.Clone(h.last)
	if st.Events == nil {
		st.Events = []Happening{}
	}
	slices.Reverse(st.Events)
	if h.lastExit != nil {
		st.Process.LastExit = &ExitStatus{At: h.lastExit.At, Code: h.exitCode, Reason: h.lastExit.Text}
	}
	if !h.started.IsZero() {
		st.Process.UptimeSeconds = seconds(now.Sub(h.started))
	}
}

func seconds(d time.Duration) *float64 {
	s := d.Seconds()
	return &s
}

func (v *view) ports(st *Status, plan *driver.Plan) {
	if plan == nil {
		return
	}
	st.Pipeline, st.Streamlet = plan.Pipeline, plan.Streamlet
	for _, in := range plan.Inlets {
		st.Inlets = append(st.Inlets, PortStatus{Port: in.Port, Topic: in.Topic, Group: in.Group})
		st.Rates.In += v.keeper.watch.consumedRate(in.Port)
	}
	for _, out := range plan.Outlets {
		st.Outlets = append(st.Outlets, PortStatus{Port: out.Port, Topic: out.Topic})
		st.Rates.Out += v.keeper.watch.emittedRate(out.Port)
	}
}

func (v *view) rows(st *Status, s *driver.Snapshot) {
	behind, known := int64(0), true
	for i := range s.Partitions {
		p := &s.Partitions[i]
		in, _ := inletOf(s, p.TP.Inlet)
		row := PartitionRow{
			Inlet: p.TP.Inlet, Topic: in.Topic, Partition: p.TP.Partition, State: p.State, Committed: p.Next(), InFlight: p.InFlight,
			StalledSeconds: stalled(s, p), Attempts: p.Attempts, Failures: p.Failures, LastError: cut(p.LastError, maxText), Why: p.Why,
		}
		if p.Standing != "" {
			row.Standing, row.Tries, row.Suspect = p.Standing, p.Tries, &p.Suspect
			if wait := p.NextTry - s.Now; wait > 0 {
				row.NextTrySeconds = seconds(wait)
			}
		}
		if end, ok := v.keeper.ends.end(s, p, in.Topic); ok {
			lag := max(0, end-p.Next())
			row.End, row.Lag = &end, &lag
			behind += lag
		} else {
			known = known && p.State == "lost"
		}
		if row.StalledSeconds >= stuckAfter.Seconds() {
			connect := v.commands.Connect
			if connect != "" {
				connect += " "
			}
			row.Show = fmt.Sprintf("ankka-flow consume %s%s -p %d -o %d -n 1", connect, row.Topic, row.Partition, row.Committed)
		}
		st.Partitions = append(st.Partitions, row)
	}
	if known {
		st.Behind = &behind
	}
	sortStuckFirst(st.Partitions)
}

// sortStuckFirst puts what stands longest first, then what is furthest behind.
func sortStuckFirst(rows []PartitionRow) {
	lag := func(r PartitionRow) int64 {
		if r.Lag == nil {
			return 0
		}
		return *r.Lag
	}
	slices.SortStableFunc(rows, func(a, b PartitionRow) int {
		return cmp.Or(cmp.Compare(b.StalledSeconds, a.StalledSeconds), cmp.Compare(lag(b), lag(a)))
	})
}
