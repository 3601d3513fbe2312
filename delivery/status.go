package delivery

import "time"

// counters only rise.
type counters struct {
	// committed counts what was committed by this supervisor.
	committed tally
	// failures counts what failed the stream, stale the events that belonged
	// to something that was over (R12).
	failures, stale uint64
}

// Status is a snapshot for people, metrics and readiness. It shares nothing
// with the core.
type Status struct {
	State State
	// Conversation counts from 1; 0: none yet.
	Conversation uint64
	// Ready: the conversation runs and every inlet is subscribed.
	Ready bool
	// Process counts launches from 1; Alive is from Launched to Exited.
	Process uint64
	Alive   bool
	// NextDiscovery is when the wait in Down or Ending ends; 0: no wait.
	NextDiscovery time.Duration
	// AwaitsSave: nothing happens before the next save, or the next attached
	// program (Config.Watch, Config.Attach).
	AwaitsSave bool
	// Stopping: the supervisor's stop was asked for.
	Stopping bool
	// InFlight and Owed count batches with the process, live and void ones.
	InFlight, Owed int
	// HeldBytes is the size of all held emits.
	HeldBytes int
	// Batches, In and Out count what was committed: batches, records consumed,
	// records emitted.
	Batches, In, Out uint64
	// Failures counts what failed the stream, Stale the events that belonged
	// to something that was over (R12).
	Failures, Stale uint64
	Partitions      []PartitionStatus
}

// PartitionStatus is one partition that this supervisor holds, or that is still
// owed an answer.
type PartitionStatus struct {
	TP TP
	// State is lost, owned, revoking or suspended.
	State string
	// Committed is -1 before a start that was looked up is committed.
	Committed, Confirmed, Position int64
	// InFlight is the number of records with the process or being written.
	InFlight int
	// Batch is the batch with the process; Owed: it is void. 0: none.
	Batch uint64
	Owed  bool
	// Attempts counts the deliveries of the batch that was cut last from the
	// confirmed end, Failures the failures charged to the partition since its
	// last commit.
	Attempts, Failures int
	LastError          string
	// Standing is accused while a trial has to tell whether the partition is what
	// fails the stream, convicted when it is: then Tries is how often the record
	// at Suspect was found to fail, and NextTry when it is tried again, at the
	// earliest; 0: no time is set. Otherwise it is empty.
	Standing string
	Tries    int
	Suspect  int64
	NextTry  time.Duration
	// Since is when its oldest uncommitted record was first seen; -1: nothing
	// is uncommitted.
	Since time.Duration
	// Why is one word for what it waits for; empty: for records.
	Why string
}

// Next is the offset that is committed next: the first that is not committed.
func (p *PartitionStatus) Next() int64 {
	if p.Committed < 0 { // a start that was looked up
		return p.Confirmed
	}
	return p.Committed
}

// Status takes the snapshot. It allocates; it is not for the hot path.
func (c *Core) Status() Status {
	v := &c.conv
	s := Status{
		State: v.state, Conversation: v.number, Ready: v.ready,
		Process: c.process.number, Alive: c.process.state == processUp || c.process.state == processDying,
		AwaitsSave: v.awaitSave, Stopping: c.stop.asked,
		InFlight: c.with.live, Owed: c.with.owed, HeldBytes: c.held,
		Batches: c.count.committed.batches, In: c.count.committed.in, Out: c.count.committed.out,
		Failures: c.count.failures, Stale: c.count.stale,
	}
	if (v.state == Down || v.state == Ending) && !v.awaitSave {
		s.NextDiscovery = v.waitUntil
	}
	c.eachPartition(func(p *partition) {
		if p.state != lost || p.owed != nil || p.w != nil {
			s.Partitions = append(s.Partitions, c.partitionStatus(p))
		}
	})
	return s
}

// Ready is Status.Ready, at the cost of nothing.
func (c *Core) Ready() bool { return c.conv.ready }

var partitionStateNames = [...]string{"lost", "owned", "revoking", "suspended"}

func (c *Core) partitionStatus(p *partition) PartitionStatus {
	s := PartitionStatus{
		TP: p.tp, State: nameOf(partitionStateNames[:], int(p.state)),
		Committed: p.committed, Confirmed: p.confirmed, Position: p.position,
		Failures: p.failures, LastError: p.lastError, Since: p.since, Why: c.why(p),
	}
	if ch := &p.charge; ch.standing != blameless {
		s.Standing, s.Tries, s.Suspect = ch.standing.String(), ch.tries, ch.record
	}
	if p.gate == gateWaiting {
		s.NextTry = p.gateUntil
	}
	s.NextTry = max(s.NextTry, c.spacedUntil(p))
	for _, b := range [...]*batch{p.p, p.w} {
		if b != nil && !b.void {
			s.InFlight += b.records
		}
	}
	switch {
	case p.owed != nil:
		s.Batch, s.Owed = p.owed.id, true
	case p.p != nil && !p.p.acked:
		s.Batch = p.p.id
	}
	for _, t := range p.tries {
		s.Attempts = max(s.Attempts, t.n)
	}
	return s
}

// why is the one word, the innermost reason first.
func (c *Core) why(p *partition) string {
	switch {
	case p.state != owned:
		return nameOf(partitionStateNames[:], int(p.state))
	case p.blocked:
		return "blocked"
	case p.oversized == p.position && p.gate == gateWaiting:
		return "oversized"
	case p.gate == gateWaiting:
		return convicted.String()
	case c.trials.part == p:
		return "trial"
	case p.w != nil && p.w.unknown:
		return "unknown"
	case p.p != nil && !p.p.acked && p.p.waiting:
		return "retrying"
	case p.p != nil && !p.p.acked:
		return "process"
	case p.owed != nil:
		return "owed"
	case p.w != nil || p.p != nil:
		return "writing"
	case p.startPending || p.confirmed > p.committed:
		return "committing"
	case p.since >= 0 && c.conv.state != Running:
		return c.conv.state.String()
	case p.charge.due:
		return p.charge.standing.String()
	case !p.available:
		return ""
	case p.charge.standing == convicted && c.owing():
		return convicted.String()
	case c.trials.part != nil:
		return "paused"
	case c.held > c.cfg.HoldSoft:
		return "held"
	case !c.creditLeft():
		return "credit"
	}
	return ""
}
