package kafka

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"ankka-flow/delivery"
	"ankka-flow/delivery/kafka/group"
)

// starts are the partitions whose beginning is being looked up: those without
// a commit and, where a policy is set for it, those whose commit may be
// outside the log. The core is told when all are known.
type starts struct {
	pending   map[int32]group.Position
	due       bool // an Assigned is owed to the core
	continues bool
	running   bool
	fails     int
	// added says that the group has commits of this topic: what has none was
	// added later and starts at its first record (R11).
	added bool
}

// startsTimeout bounds one look.
const startsTimeout = 10 * time.Second

// findStarts tells the core what is pending when every start is known, and
// otherwise looks once more.
func (k *Consumer) findStarts() {
	s := &k.starts
	if !s.due || s.running {
		return
	}
	wanted := maps.Clone(s.pending)
	maps.DeleteFunc(wanted, func(_ int32, p group.Position) bool {
		return p.Offset >= 0 && k.in.Reset == ResetBlock
	})
	if len(wanted) == 0 {
		k.tellStarts(nil)
		return
	}
	s.running = true
	fails, added := s.fails, s.added
	k.wg.Go(func() { // ends within startsTimeout and retryMost
		if fails > 0 {
			sleep(k.ctx, backoff(retryFirst, retryMost, fails))
		}
		ctx, cancel := context.WithTimeout(k.ctx, startsTimeout)
		defer cancel()
		found, err := k.lookUp(ctx, wanted, added)
		k.mailbox.put(func() { k.startsFound(wanted, found, err) })
	})
}

func (k *Consumer) startsFound(wanted map[int32]group.Position, found map[int32]delivery.Start, err error) {
	s := &k.starts
	s.running = false
	if err != nil {
		if s.fails++; s.fails == tellAfter {
			k.c.log.Log(k.ctx, levelOf(NeedsPerson(err)), "the start of a partition cannot be looked up; trying on", "inlet", k.in.Name, "topic", k.in.Topic, "error", err)
		}
		k.findStarts()
		return
	}
	s.fails = 0
	for p, pos := range s.pending {
		// Only what was looked up for this assignment counts.
		if w, ok := wanted[p]; (!ok || w != pos) && (pos.Offset < 0 || k.in.Reset != ResetBlock) {
			k.findStarts()
			return
		}
	}
	k.tellStarts(found)
}

// tellStarts sends the Assigned that is owed.
func (k *Consumer) tellStarts(found map[int32]delivery.Start) {
	s := &k.starts
	if !s.due {
		return
	}
	ev := delivery.Assigned{Inlet: k.in.Name, Generation: k.generation, Continues: s.continues}
	for _, p := range slices.Sorted(maps.Keys(s.pending)) {
		start, ok := found[p]
		if !ok {
			start = delivery.Start{Partition: p, Offset: s.pending[p].Offset}
		}
		ev.Starts = append(ev.Starts, start)
		k.told[p] = true
	}
	k.fetch.assign(slices.Sorted(maps.Keys(s.pending)))
	clear(s.pending)
	s.due, k.silent = false, false
	k.tell(ev)
}

// lookUp finds the starts of partitions without a commit, and of commits that
// the log no longer has.
func (k *Consumer) lookUp(ctx context.Context, wanted map[int32]group.Position, added bool) (map[int32]delivery.Start, error) {
	byLeader := map[int32][]int32{}
	for p := range wanted {
		node, ok := k.c.leader(k.in.Topic, p)
		if !ok {
			k.c.stale(k.in.Topic)
			return nil, fmt.Errorf("partition %d of topic %s has no leader", p, k.in.Topic)
		}
		byLeader[node] = append(byLeader[node], p)
	}
	out := map[int32]delivery.Start{}
	for node, partitions := range byLeader {
		first, err := k.listed(ctx, node, partitions, Earliest, true)
		if err != nil {
			return nil, err
		}
		last, err := k.listed(ctx, node, partitions, Latest, true)
		if err != nil {
			return nil, err
		}
		stable := last
		if k.in.StartLatest && !k.in.ReadUncommitted {
			if stable, err = k.listed(ctx, node, partitions, Latest, false); err != nil {
				return nil, err
			}
		}
		for _, p := range partitions {
			out[p] = k.start(wanted[p], first[p], last[p], stable[p], added)
		}
	}
	return out, nil
}

// start decides where one partition begins.
func (k *Consumer) start(p group.Position, first, last, stable int64, added bool) delivery.Start {
	s := delivery.Start{Partition: p.Partition, Offset: p.Offset}
	switch {
	case p.Offset < 0 && k.in.StartLatest && !added:
		s.Offset, s.LookedUp = stable, true
	case p.Offset < 0:
		s.Offset, s.LookedUp = first, true
	case p.Offset < first || p.Offset > last:
		if to, ok := k.in.Reset.target(first, last); ok {
			s.Offset, s.LookedUp = to, true
			k.c.log.Warn("committed offset outside the log: going on where the configuration says",
				"inlet", k.in.Name, "topic", k.in.Topic, "partition", p.Partition, "offset", p.Offset, "to", to)
		}
	}
	return s
}

func (k *Consumer) listed(ctx context.Context, node int32, partitions []int32, at int64, uncommitted bool) (map[int32]int64, error) {
	got, err := k.c.listOffsetsAt(ctx, node, k.in.Topic, partitions, at, uncommitted)
	if err != nil {
		k.c.stale(k.in.Topic)
		return nil, err
	}
	out := map[int32]int64{}
	for _, p := range partitions {
		o, ok := got[p]
		if !ok {
			return nil, fmt.Errorf("%w: partition %d is missing", errMalformed, p)
		}
		if o.code != codeNone {
			k.c.stale(k.in.Topic)
			return nil, k.c.codeErr(o.code, "listing offsets of %s/%d", k.in.Topic, p)
		}
		out[p] = o.offset
	}
	return out, nil
}

// fetchOffsets asks for the commits of every partition of the topic where that
// matters: a group that has some is no new group, and a partition without one
// was added later. The machine gets what it asked for.
func (k *Consumer) fetchOffsets(a group.FetchOffsets) {
	q := a.Request
	if k.in.StartLatest {
		n, _ := k.c.partitions(k.in.Topic)
		q.Partitions = slices.Clone(q.Partitions)
		for p := range n {
			if !slices.Contains(a.Request.Partitions, p) {
				q.Partitions = append(q.Partitions, p)
			}
		}
	}
	k.exchange(a.Attempt, a.Timeout, a.Node, group.OffsetFetchKey, group.OffsetFetchVersion, q.AppendTo(nil), func(src []byte) (group.Event, error) {
		r, err := group.DecodeOffsetFetch(src)
		if err != nil {
			return nil, err
		}
		added := false
		for i := range r.Topics {
			t := &r.Topics[i]
			added = added || slices.ContainsFunc(t.Partitions, func(o group.FetchedOffset) bool { return o.Offset >= 0 })
			t.Partitions = slices.DeleteFunc(t.Partitions, func(o group.FetchedOffset) bool {
				return !slices.Contains(a.Request.Partitions, o.Partition)
			})
		}
		k.mailbox.put(func() { k.starts.added = k.starts.added || added })
		return group.OffsetsFetched{Attempt: a.Attempt, Answer: r}, nil
	})
}
