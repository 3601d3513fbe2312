package driver

import (
	"time"

	"ankka-flow/delivery"
	"ankka-flow/wire"
)

// Observer is told what happens, for metrics and for people. The loop calls it
// and waits: it must not block, keep what it is given beyond the call (but for
// the values in it), or call the Driver.
type Observer interface {
	// Stepped is told of every event and of the actions that the core answered
	// with, before they are carried out; now is the core's time. ready is
	// delivery.Status.Ready after the event.
	Stepped(now time.Duration, ready bool, ev delivery.Event, actions []delivery.Action)
	// Writing is told what a batch that is handed to the producer has for one
	// outlet, in the order emitted; bytes are of keys, values and headers.
	Writing(id uint64, outlet string, records, bytes int)
	// Reported is told of a report of the process, whether its batch is void or
	// not.
	Reported(r wire.Report)
}

// decide has the core say what follows from an event. The actions lie in the
// queue already.
func (d *Driver) decide(ev delivery.Event) []delivery.Action {
	from, now := len(d.queue), d.now()
	d.queue = d.core.Step(d.queue, now, ev)
	actions := d.queue[from:]
	if d.cfg.Observer != nil {
		d.cfg.Observer.Stepped(now, d.core.Ready(), ev, actions)
	}
	return actions
}

// observeWrite tells the observer what is being written.
func (d *Driver) observeWrite(b *batch) {
	if d.cfg.Observer == nil {
		return
	}
	for _, e := range b.emits {
		bytes := 0
		for i := e.from; i < e.to; i++ {
			bytes += b.held[i].Size()
		}
		d.cfg.Observer.Writing(b.id, e.outlet, e.to-e.from, bytes)
	}
}
