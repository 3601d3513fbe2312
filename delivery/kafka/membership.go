package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"ankka-flow/delivery"
	"ankka-flow/delivery/kafka/group"
)

// drainState is the drain that the machine waits for; id 0: none.
type drainState struct {
	id      uint64
	suspend bool
	left    map[int32]bool // revoked partitions that are not released
}

// entered begins a generation. Partitions that stay may commit under it at
// once, so the core learns its number now; not between Suspended and Assigned,
// where what is missing counts as lost.
func (k *Consumer) entered(a group.Entered) {
	k.generation, k.member, k.live = a.Generation, a.Member, true
	k.inletRefused = codeNone
	k.c.log.Debug("joined the group", "inlet", k.in.Name, "group", k.in.Group, "generation", a.Generation, "kept", len(a.Kept))
	if !k.silent && len(a.Kept) > 0 {
		k.tell(delivery.Assigned{Inlet: k.in.Name, Generation: a.Generation, Continues: true})
	}
}

// assigned hands partitions to the core, once their starts are known.
func (k *Consumer) assigned(a group.Assigned) {
	for _, p := range a.Added {
		k.starts.pending[p.Partition] = p
	}
	k.starts.continues = a.Continues
	k.starts.due = true
	k.findStarts()
}

func (k *Consumer) revoked(a group.Revoke) {
	k.drain = drainState{id: a.Drain, left: map[int32]bool{}}
	var known []int32
	for _, p := range a.Partitions {
		delete(k.starts.pending, p)
		if k.told[p] {
			known = append(known, p)
			k.drain.left[p] = true
		}
	}
	if len(known) > 0 {
		left := max(0, a.Deadline-sinceBoot())
		if k.in.Now != nil {
			left += k.in.Now()
		}
		k.tell(delivery.Revoked{Inlet: k.in.Name, Partitions: known, Deadline: left})
	}
	k.endDrain()
}

func (k *Consumer) suspended(a group.Suspend) {
	k.c.log.Warn("the group's generation has ended: "+a.Reason, "inlet", k.in.Name, "group", k.in.Group)
	k.live = false
	clear(k.starts.pending) // they come again, or are gone
	k.starts.due = false
	// Nothing of ours can run where the core has no partition; where it was
	// suspended before, what was drained stays drained.
	running := len(k.told) > 0 && (!k.silent || k.drain.suspend)
	k.drain = drainState{id: a.Drain, suspend: running}
	for _, p := range a.Partitions {
		k.fetch.pause(p)
	}
	if running && !k.silent {
		k.silent = true
		k.tell(delivery.Suspended{Inlet: k.in.Name})
	}
	k.endDrain()
}

// released takes the core's word that something is drained.
func (k *Consumer) released(partitions []int32) {
	if k.drain.suspend && len(partitions) == 0 {
		k.drain.suspend = false
	}
	for _, p := range partitions {
		delete(k.drain.left, p)
	}
	k.endDrain()
}

// endDrain tells the machine when everything is drained. A commit that is on
// its way is waited for: it must not be overtaken by the next join.
func (k *Consumer) endDrain() {
	if k.drain.id == 0 || k.drain.suspend || len(k.drain.left) > 0 || k.committing {
		return
	}
	id := k.drain.id
	k.drain = drainState{}
	k.step(group.Released{Drain: id})
}

func (k *Consumer) dropped(partitions []int32) {
	for _, p := range partitions {
		delete(k.told, p)
		delete(k.starts.pending, p)
	}
	k.fetch.release(partitions)
}

func (k *Consumer) lost(a group.Lost) {
	level := slog.LevelWarn
	if k.leaving {
		level = slog.LevelDebug // as asked
	}
	k.c.log.Log(context.Background(), level, "every partition is lost: "+a.Reason, "inlet", k.in.Name, "group", k.in.Group)
	k.live, k.silent = false, false
	k.starts.due = false
	k.drain = drainState{}
	k.dropped(a.Partitions)
	clear(k.told)
	clear(k.starts.pending)
	k.fetch.releaseAll()
	k.tell(delivery.Lost{Inlet: k.in.Name})
}

// ask carries out the machine's requests, each in a goroutine of its own that
// ends within the action's timeout and answers once.
func (k *Consumer) ask(a group.Action) {
	switch a := a.(type) {
	case group.FindCoordinator:
		k.request(a.Attempt, a.Timeout, func(ctx context.Context) (group.Event, bool, error) {
			r, err := k.c.findCoordinator(ctx, k.in.Group)
			return group.CoordinatorAnswered{Attempt: a.Attempt, Answer: r}, true, err
		})
	case group.CountPartitions:
		k.request(a.Attempt, a.Timeout, func(ctx context.Context) (group.Event, bool, error) {
			counts, err := k.countPartitions(ctx, a.Topics)
			return group.PartitionsCounted{Attempt: a.Attempt, Counts: counts}, true, err
		})
	case group.Join:
		k.exchange(a.Attempt, a.Timeout, a.Node, group.JoinGroupKey, group.JoinGroupVersion, a.Request.AppendTo(nil), func(src []byte) (group.Event, error) {
			r, err := group.DecodeJoinGroup(src)
			return group.Joined{Attempt: a.Attempt, Answer: r}, err
		})
	case group.Sync:
		k.exchange(a.Attempt, a.Timeout, a.Node, group.SyncGroupKey, group.SyncGroupVersion, a.Request.AppendTo(nil), func(src []byte) (group.Event, error) {
			r, err := group.DecodeSyncGroup(src)
			return group.Synced{Attempt: a.Attempt, Answer: r}, err
		})
	case group.Heartbeat:
		k.exchange(a.Attempt, a.Timeout, a.Node, group.HeartbeatKey, group.HeartbeatVersion, a.Request.AppendTo(nil), func(src []byte) (group.Event, error) {
			code, err := group.DecodeHeartbeat(src)
			return group.HeartbeatAnswered{Attempt: a.Attempt, Code: code}, err
		})
	case group.FetchOffsets:
		k.fetchOffsets(a)
	case group.Leave:
		k.exchange(a.Attempt, a.Timeout, a.Node, group.LeaveGroupKey, group.LeaveGroupVersion, a.Request.AppendTo(nil), func(src []byte) (group.Event, error) {
			code, err := group.DecodeLeaveGroup(src)
			return group.LeaveAnswered{Attempt: a.Attempt, Code: code}, err
		})
	default:
		panic(fmt.Sprintf("kafka: the group machine asks for something unknown: %v", a))
	}
}

// exchange is request for one frame to one broker.
func (k *Consumer) exchange(attempt uint64, timeout time.Duration, node int32, key, version int16, body []byte, decode func([]byte) (group.Event, error)) {
	k.request(attempt, timeout, func(ctx context.Context) (group.Event, bool, error) {
		src, sent, err := k.c.requestSent(ctx, node, key, version, body)
		if err != nil {
			return nil, sent, err
		}
		ev, err := decode(src)
		return ev, true, err
	})
}

// request runs f and gives the machine its event, or the failure.
func (k *Consumer) request(attempt uint64, timeout time.Duration, f func(context.Context) (ev group.Event, sent bool, err error)) {
	k.wg.Go(func() {
		ctx, cancel := context.WithTimeout(k.ctx, timeout)
		defer cancel()
		ev, sent, err := f(ctx)
		if err != nil {
			ev = group.RequestFailed{Attempt: attempt, NotSent: !sent, Reason: err.Error()}
		}
		k.mailbox.put(func() { k.step(ev) })
	})
}

func (k *Consumer) countPartitions(ctx context.Context, topics []string) (map[string]int32, error) {
	infos, err := k.c.Topics(ctx, topics...)
	if err != nil {
		return nil, err
	}
	counts := map[string]int32{}
	for name, info := range infos {
		var code *CodeError
		switch {
		case info.Err == nil:
			counts[name] = info.Partitions
		case errors.As(info.Err, &code) && code.Code == codeUnknownTopic:
			counts[name] = 0
		default:
			return nil, info.Err
		}
	}
	return counts, nil
}
