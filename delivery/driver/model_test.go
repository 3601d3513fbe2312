package driver

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"ankka-flow/delivery"
	"ankka-flow/delivery/record"
	"ankka-flow/supervisor"
	"ankka-flow/wire"
)

// modelRun is a run in which everything that may happen does, by chance: the
// process answers in any order, late or never, fails and dies; writes are
// confirmed, refused, unknown and unsettled; the group takes partitions and
// gives them back; the process is replaced. Every batch is forwarded whole, so
// what is written tells what was skipped.
type modelRun struct {
	*world
	rnd  *rand.Rand
	in   *fakeInlet
	proc *modelProcess
	size []int // records in each partition's log
	// bad has the first record of each partition that fails until it is mended, -1:
	// none.
	bad    []int
	mended bool
}

// modelProcess is what the process of a modelRun knows.
type modelProcess struct {
	*fakeProcess
	owed     []wire.Batch
	stop     *wire.Stop
	forwards map[uint64]bool
}

const modelPartitions = 3

func (r *modelRun) one(n int) bool { return r.rnd.IntN(n) == 0 }

// hear takes what the process has read, and answers what is asked at once.
func (r *modelRun) hear() {
	r.in = r.broker.inlet("in") // another one when the group was left meanwhile
	r.in.mu.Lock()
	r.in.generation = max(1, r.in.generation)
	r.in.mu.Unlock()
	if p := r.world.proc(); r.proc == nil || r.proc.fakeProcess != p {
		r.proc = &modelProcess{fakeProcess: p, forwards: map[uint64]bool{}}
	}
	p := r.proc
	for _, m := range p.take() {
		switch m := m.(type) {
		case wire.Discover:
			p.tell(wire.Spec{Descriptor: r.descriptor, Capabilities: wire.DefaultCapabilities()})
		case wire.Stop:
			p.stop = &m
		case wire.Batch:
			if slices.ContainsFunc(p.owed, func(b wire.Batch) bool { return b.Partition == m.Partition }) {
				r.Errorf("R3: partition %d has two batches with the process", m.Partition)
			}
			p.owed = append(p.owed, m)
		}
	}
	if p.stop != nil && (p.stop.Mode == wire.Abandon || len(p.owed) == 0) {
		p.stop = nil
		p.tell(wire.Stopped{})
	}
}

// tell says something, unless the process has ended.
func (p *modelProcess) tell(messages ...wire.Message) {
	p.mu.Lock()
	ended := p.ended
	p.mu.Unlock()
	if !ended {
		p.say(messages...)
	}
}

// answer answers one batch that it owes.
func (r *modelRun) answer(fails bool) {
	p := r.proc
	if len(p.owed) == 0 {
		return
	}
	i := r.rnd.IntN(len(p.owed))
	b := p.owed[i]
	fails = fails || r.isBad(b)
	if !p.forwards[b.ID] {
		p.forwards[b.ID] = true
		p.tell(wire.Forward{ID: b.ID, Outlet: "left", All: true})
		if !fails && r.one(2) {
			return // the answer comes later
		}
	}
	p.owed = slices.Delete(p.owed, i, i+1)
	if fails {
		p.tell(wire.Fail{ID: b.ID, Message: "by chance"})
	} else {
		p.tell(wire.Ack{ID: b.ID})
	}
}

// isBad: the batch has a record that fails whenever it is handled.
func (r *modelRun) isBad(b wire.Batch) bool {
	bad := r.bad[b.Partition]
	return !r.mended && bad >= 0 && slices.ContainsFunc(b.Records, func(rec record.Record) bool { return rec.Offset == int64(bad) })
}

func (r *modelRun) write() {
	open := r.broker.producer.openIDs()
	if len(open) == 0 {
		return
	}
	id := open[r.rnd.IntN(len(open))]
	var ev delivery.Event = delivery.Written{ID: id}
	switch {
	case r.one(20):
		ev = delivery.Refused{ID: id, Reason: "by chance"}
	case r.one(20):
		ev = delivery.Unsettled{ID: id, Reason: "by chance"}
	case r.one(20):
		ev = delivery.WriteUnknown{ID: id, Reason: "by chance"}
	}
	r.broker.producer.answer(ev)
}

func (r *modelRun) rebalance() {
	in := r.in
	switch r.rnd.IntN(3) {
	case 0:
		in.stopFetching()
		in.sink(delivery.Suspended{Inlet: "in"})
		r.act()
		in.next(r.one(3))
	case 1:
		in.stopFetching()
		in.sink(delivery.Lost{Inlet: "in"})
		r.act()
		in.next(false)
	case 2:
		gone := int32(r.rnd.IntN(modelPartitions))
		in.mu.Lock()
		delete(in.pos, gone)
		in.mu.Unlock()
		in.sink(delivery.Revoked{Inlet: "in", Partitions: []int32{gone}, Deadline: in.now() + time.Second})
		r.act()
		if in.called(fmt.Sprintf("Release [%d]", gone)) {
			in.stopFetching()
			in.next(false)
		} else {
			r.pass(2 * time.Second)
			in.next(false)
		}
	}
}

// act is one thing that happens.
func (r *modelRun) act() {
	r.hear()
	switch n := r.rnd.IntN(100); {
	case n < 25:
		p := r.rnd.IntN(modelPartitions)
		for range 1 + r.rnd.IntN(5) {
			r.add("in", p, values(fmt.Sprintf("%d-%d", p, r.size[p]))...)
			if r.bad[p] < 0 && r.one(20) {
				r.bad[p] = r.size[p]
			}
			r.size[p]++
		}
	case n < 60:
		r.answer(r.one(15))
	case n < 80:
		r.write()
	case n < 88:
		r.pass(time.Duration(r.rnd.IntN(2000)) * time.Millisecond)
	case n < 92:
		r.proc.setStuck(r.one(2))
	case n < 94:
		r.proc.exit(supervisor.Exited{Code: 1})
	case n < 96:
		select {
		case r.reloads <- "by chance":
		default:
		}
	default:
		r.rebalance()
	}
	synctest.Wait()
}

// stopFetching is what the Kafka side does by itself when a generation ends.
func (in *fakeInlet) stopFetching() {
	in.mu.Lock()
	defer in.mu.Unlock()
	clear(in.pos)
	in.generation++
}

// next begins the next generation.
func (in *fakeInlet) next(continues bool) {
	in.mu.Lock()
	in.generation++
	ev := delivery.Assigned{Inlet: "in", Generation: in.generation, Continues: continues}
	for p := range int32(modelPartitions) {
		ev.Starts = append(ev.Starts, delivery.Start{Partition: p, Offset: in.committed[p]})
	}
	in.mu.Unlock()
	in.sink(ev)
}

// check holds the log of the outlet against what was committed.
func (r *modelRun) check() {
	r.Helper()
	next := make([]int, modelPartitions)
	for _, rec := range r.broker.producer.in("app.left") {
		var p, n int
		if _, err := fmt.Sscanf(string(rec.Value), "%d-%d", &p, &n); err != nil {
			r.Fatalf("R8: written was %q", rec.Value)
		}
		if n > next[p] {
			r.Fatalf("R5: record %d of partition %d was written before %d", n, p, next[p])
		}
		next[p] = max(next[p], n+1)
	}
	for p := range modelPartitions {
		at := r.in.committedAt(int32(p))
		if at > int64(next[p]) {
			r.Fatalf("R1: partition %d is committed at %d and written up to %d", p, at, next[p])
		}
		if bad := r.bad[p]; !r.mended && bad >= 0 && at > int64(bad) {
			r.Fatalf("R5: partition %d is committed at %d, behind the record %d that fails", p, at, bad)
		}
	}
}

// isolate lets everything succeed but the records that fail, until each of them is
// named by its offset and everybody else is done.
func (r *modelRun) isolate() {
	r.Helper()
	for range 2000 {
		r.hear()
		r.proc.setStuck(false)
		for _, id := range r.broker.producer.openIDs() {
			r.broker.producer.answer(delivery.Written{ID: id})
		}
		for n := len(r.proc.owed); n > 0; n-- {
			r.answer(false)
			r.answer(false) // the answer may come later than the forward
		}
		if r.isolated() {
			return
		}
		r.pass(500 * time.Millisecond)
	}
	r.Fatalf("R5: %v are bad, and: %+v", r.bad, r.snapshot())
}

func (r *modelRun) isolated() bool {
	for p := range modelPartitions {
		want := int64(r.size[p])
		if r.bad[p] >= 0 {
			want = int64(r.bad[p])
		}
		if r.in.committedAt(int32(p)) != want {
			return false
		}
	}
	for _, row := range r.snapshot().Partitions {
		bad := r.bad[row.TP.Partition]
		if bad >= 0 && (row.Standing != "convicted" || row.Suspect != int64(bad)) || bad < 0 && row.Standing != "" {
			return false
		}
	}
	return true
}

// settle lets everything succeed until all is committed.
func (r *modelRun) settle() {
	r.Helper()
	r.broker.producer.hold(false)
	r.isolate()
	r.mended = true
	select {
	case r.reloads <- "mended":
	default:
	}
	for range 200 {
		r.hear()
		r.proc.setStuck(false)
		for _, id := range r.broker.producer.openIDs() {
			r.broker.producer.answer(delivery.Written{ID: id})
		}
		for r.hear(); len(r.proc.owed) > 0; r.hear() {
			r.answer(false)
		}
		done := true
		for p := range modelPartitions {
			done = done && r.in.committedAt(int32(p)) == int64(r.size[p])
		}
		if done {
			return
		}
		r.pass(time.Second)
	}
	r.Fatalf("it does not get done: %+v", r.snapshot())
}

func TestModel_WhateverHappensNothingIsSkippedAndAllGetsDone(t *testing.T) {
	seeds := uint64(150)
	if testing.Short() {
		seeds = 20
	}
	for seed := range seeds {
		ok := t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(w *world) {
				r := &modelRun{world: w, rnd: rand.New(rand.NewPCG(seed, 1)), size: make([]int, modelPartitions), bad: []int{-1, -1, -1}}
				w.running(modelPartitions, func(c *Config) {
					c.Core.MaxRecords = 3
					c.Core.ReconnectMin, c.Core.ReconnectMax = 100*time.Millisecond, 2*time.Second
				})
				w.broker.producer.hold(true)
				for range 150 {
					r.act()
					r.check()
				}
				r.settle()
				r.check()
				if n := w.atHand(); n != 0 {
					t.Errorf("%d batches are still at hand", n)
				}
				w.end()
			})
		})
		if !ok {
			return
		}
	}
}
