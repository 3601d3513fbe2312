package driver

import "time"

// awaken lets the memberships speak first when the program has not run for a
// while. The process may have acked meanwhile, and writes been confirmed; taken
// before the end of the generation, these would start writes that the
// partitions' next owner has made already, and that nothing fences. It is false
// when the run has ended by what was told.
func (d *Driver) awaken() bool {
	asleep, slept := d.sleeps()
	if !asleep && !slept {
		return true
	}
	var later []arrival // the producer's: the end of a write starts the next one
	take := func(a arrival) {
		if a.from == nil {
			later = append(later, a)
		} else if d.exit == nil {
			d.onBroker(a)
		}
	}
	// It is a matter of microseconds: the membership's goroutine is due.
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for asleep {
		select {
		case a := <-d.events:
			take(a)
		case <-look.C:
		}
		asleep, _ = d.sleeps()
	}
	for told := true; told; { // the end of the generation is among these
		select {
		case a := <-d.events:
			take(a)
		default:
			told = false
		}
	}
	for _, a := range later {
		if d.exit == nil {
			d.onBroker(a)
		}
	}
	return d.exit == nil
}

// sleeps is whether a membership is about to find that it slept, and whether one
// has found so since the last look.
func (d *Driver) sleeps() (asleep, slept bool) {
	for _, in := range d.inlets {
		n, now := in.Sleeps()
		asleep = asleep || now
		slept = slept || n != in.sleeps
		in.sleeps = n
	}
	return asleep, slept
}
