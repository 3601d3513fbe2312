package driver

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"ankka-flow/delivery"
	"ankka-flow/wire"
)

// watcher is an Observer that keeps what it is told.
type watcher struct {
	ready bool
	told  []string
}

func (o *watcher) Stepped(_ time.Duration, ready bool, ev delivery.Event, actions []delivery.Action) {
	if o.ready != ready {
		o.told = append(o.told, fmt.Sprintf("ready %v", ready))
	}
	o.ready = ready
	switch ev.(type) {
	case delivery.Ticked, delivery.Fetched:
	default:
		o.told = append(o.told, ev.String())
	}
	for _, a := range actions {
		switch a.(type) {
		case delivery.Deliver, delivery.Write, delivery.Commit, delivery.Exit:
			o.told = append(o.told, a.String())
		}
	}
}

func (o *watcher) Writing(id uint64, outlet string, records, bytes int) {
	o.told = append(o.told, fmt.Sprintf("writing %d %s %d records %d bytes", id, outlet, records, bytes))
}

func (o *watcher) Reported(r wire.Report) {
	o.told = append(o.told, fmt.Sprintf("report %d %s", r.ID, r.Series[0].Name))
}

// The observer is told of events, of what follows from them, of what is written
// and of reports, in the order in which they happen.
func TestObserverIsToldEverything(t *testing.T) {
	bubble(t, func(w *world) {
		o := &watcher{}
		p := w.running(1, func(c *Config) { c.Observer = o })
		w.add("in", 0, values("a", "bc")...)
		from := len(o.told)
		id := p.batch().ID
		p.say(
			emitOf(id, "left", "abc"), emitOf(id, "left", "d"), emitOf(id, "right", "e"),
			wire.Report{ID: id, HasID: true, Series: []wire.Series{{Name: "seen", Value: 1}}},
			wire.Ack{ID: id},
		)
		told := slices.Clone(o.told)
		for _, line := range told[from:] {
			t.Log(line)
		}
		at := -1
		for _, want := range []string{
			"ready true", "Deliver", "Cut", "report 1 seen", "Acked", "Write", "writing 1 left 2 records 4 bytes",
			"writing 1 right 1 records 1 bytes", "Written", "Commit", "Committed",
		} {
			i := slices.IndexFunc(told[at+1:], func(s string) bool { return len(s) >= len(want) && s[:len(want)] == want })
			if i < 0 {
				t.Fatalf("%q does not come behind %q in %q", want, told[:at+1], told)
			}
			at += 1 + i
		}
		w.end()
		if o.ready || o.told[len(o.told)-1][:4] != "Exit" {
			t.Errorf("at the end: ready %v, %q", o.ready, o.told[len(o.told)-1])
		}
	})
}
