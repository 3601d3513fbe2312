package driver

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"ankka-flow/delivery"
)

// subscribe consumes an inlet as soon as its plan is prepared.
func (d *Driver) subscribe(port string) {
	if !d.ready {
		d.waiting = append(d.waiting, port)
		return
	}
	in, ok := d.plan.Inlet(port)
	if !ok {
		panic(fmt.Sprintf("driver: subscribe to %s, which is not in the plan", port))
	}
	c := &consumed{port: port, planned: in}
	d.inlets[port] = c // before its first event can be looked at
	c.Inlet = d.cfg.Broker.Consume(in, d.now, d.sink(c))
}

// leave leaves an inlet's group beside the loop: the broker may take its time.
func (d *Driver) leave(port string) {
	d.waiting = slices.DeleteFunc(d.waiting, func(p string) bool { return p == port })
	in, ok := d.inlets[port]
	if !ok {
		return
	}
	delete(d.inlets, port)
	d.others.Add(1)
	ctx, cancel := context.WithTimeout(context.Background(), d.leaveTimeout())
	go func() { // ends with ctx; Run awaits it
		defer d.others.Done()
		defer cancel()
		if err := in.Leave(ctx); err != nil {
			d.log.Warn(fmt.Sprintf("leaving the group of inlet %s: %v; its partitions wait for the session timeout", port, err), "event", "group", "inlet", port)
		}
	}()
}

// adopt makes a plan the current one and has it prepared. A plan that changes
// nothing on the broker's side is still prepared again: a topic may be gone.
func (d *Driver) adopt(plan *Plan) {
	d.plan, d.topics, d.ready = plan, plan.OutletTopics(), false
	d.renew()
	if d.prepare != nil {
		d.prepare()
	}
	ctx, cancel := context.WithCancel(context.Background())
	before, ended := d.preparing, make(chan struct{})
	d.prepare, d.preparing = cancel, ended
	d.others.Add(1)
	go func() { // ends with ctx, which the next plan or close cancels; Run awaits it
		defer d.others.Done()
		defer close(ended)
		if before != nil {
			<-before // its context is cancelled: one at a time
		}
		err := d.cfg.Broker.Prepare(ctx, plan)
		select {
		case d.prepared <- preparation{plan: plan, err: err}:
		case <-ctx.Done():
		case <-d.done:
		}
	}()
}

// renew consumes anew the inlets whose topic or group is another in the new
// plan, for the core knows an inlet by its port. To the core the membership was
// lost, and the commit that was on the way went nowhere.
func (d *Driver) renew() {
	for _, port := range slices.Sorted(maps.Keys(d.inlets)) {
		in := d.inlets[port]
		planned, ok := d.plan.Inlet(port)
		if !ok || planned == in.planned { // the core leaves what is no more
			continue
		}
		d.leave(port)
		d.waiting = append(d.waiting, port)
		d.step(delivery.Lost{Inlet: port})
		if in.committing != 0 {
			d.step(delivery.Committed{Inlet: port, Sequence: in.committing, Outcome: delivery.CommitStale, Reason: "the inlet reads another topic now"})
		}
	}
}

// onPrepared consumes the inlets that waited for the plan.
func (d *Driver) onPrepared(p preparation) {
	if p.plan != d.plan {
		return // replaced meanwhile
	}
	if p.err != nil {
		d.say(slog.LevelError, "failed", p.err.Error())
		d.told = p.err.Error()
		d.exit = &delivery.Exit{Code: 1, Reason: p.err.Error()}
		return
	}
	d.ready = true
	waiting := d.waiting
	d.waiting = nil
	for _, port := range waiting {
		d.subscribe(port)
	}
}
