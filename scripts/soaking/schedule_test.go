package main

import (
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"
)

// Equal seeds give equal schedules, others do not, and in three minutes every
// kind of the supervisors' faults comes, each within its bounds.
func TestSchedule(t *testing.T) {
	plan := func(seed uint64) []fault {
		return schedule(rand.New(rand.NewPCG(seed, 1)), supervisorDeck, 3*time.Minute, time.Second, 4*time.Second)
	}
	if !reflect.DeepEqual(plan(1), plan(1)) || reflect.DeepEqual(plan(1), plan(2)) {
		t.Error("a seed does not choose the schedule")
	}
	for seed := range uint64(20) {
		seen, last := map[kind]bool{}, time.Duration(0)
		for _, f := range plan(seed) {
			seen[f.Kind] = true
			if gap := f.At - last; gap < time.Second || gap > 4*time.Second || gap != f.Gap {
				t.Errorf("%v after the one before: %+v", gap, f)
			}
			if span := lasts[f.Kind]; f.For < span[0] || f.For > span[1] {
				t.Errorf("out of its bounds: %+v", f)
			}
			last = f.At
		}
		for _, kind := range supervisorDeck {
			if !seen[kind] {
				t.Errorf("seed %d: no %s in three minutes", seed, kind)
			}
		}
	}
}

// What stops are longer or shorter than is what they are named for.
func TestStopsAndSessions(t *testing.T) {
	for short, session := range map[kind]time.Duration{stopProcess: processTimeout, stopSupervisor: groupSession, stopBroker: brokerSession} {
		if lasts[short][1] >= session {
			t.Errorf("%s: up to %v, the session is %v", short, lasts[short][1], session)
		}
	}
	for long, session := range map[kind]time.Duration{freezeProcess: processTimeout, freezeSuper: groupSession, freezeBroker: brokerSession} {
		if lasts[long][0] <= session {
			t.Errorf("%s: from %v, the session is %v", long, lasts[long][0], session)
		}
	}
	for kind := range maps.Keys(lasts) {
		if !slices.Contains(supervisorDeck, kind) && !slices.Contains(brokerDeck, kind) {
			t.Errorf("%s is in no deck", kind)
		}
	}
}
