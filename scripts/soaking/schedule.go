package main

import (
	"math/rand/v2"
	"time"
)

// fault is one thing that is done to the cluster or to a supervisor.
type fault struct {
	// At is when it is due, from the start; those of the brokers come one after
	// another instead, Gap after the one before has healed.
	At, Gap time.Duration
	Kind    kind
	// Pick chooses the victim among those that there are at the time.
	Pick uint64
	// For is how long it lasts, where it lasts.
	For time.Duration
}

// kind is what is done.
type kind string

const (
	killProcess    kind = "kill -9 of a process"
	stopProcess    kind = "SIGSTOP of a process, short"
	freezeProcess  kind = "SIGSTOP of a process, beyond its timeout"
	killSupervisor kind = "kill -9 of a supervisor"
	stopSupervisor kind = "SIGSTOP of a supervisor, within its session"
	freezeSuper    kind = "SIGSTOP of a supervisor, beyond its session"
	endSupervisor  kind = "SIGTERM of a supervisor"
	addSupervisor  kind = "a supervisor more"
	removeSuper    kind = "a supervisor less"
	moveLeaders    kind = "leaders move"
	killBroker     kind = "kill -9 of a broker"
	endBroker      kind = "SIGTERM of a broker"
	stopBroker     kind = "SIGSTOP of a broker, within its session"
	freezeBroker   kind = "SIGSTOP of a broker, beyond its session"
	starveOutlets  kind = "outlets without in-sync replicas"
	stopTwoBrokers kind = "SIGSTOP of two brokers"
)

// The sessions that stops are shorter or longer than.
const (
	groupSession   = 6 * time.Second
	processTimeout = 10 * time.Second
	brokerSession  = 3 * time.Second // broker.session.timeout.ms of scripts/kafka
)

// lasts is how long a kind lasts, between and including both.
var lasts = map[kind][2]time.Duration{
	killSupervisor: {0, 3 * time.Second}, // until it is started again
	endSupervisor:  {0, 2 * time.Second},
	stopProcess:    {500 * time.Millisecond, 4 * time.Second},
	freezeProcess:  {processTimeout + 2*time.Second, processTimeout + 6*time.Second},
	stopSupervisor: {500 * time.Millisecond, 4 * time.Second},
	freezeSuper:    {groupSession + 2*time.Second, groupSession + 8*time.Second},
	killBroker:     {0, 4 * time.Second},
	endBroker:      {0, 4 * time.Second},
	stopBroker:     {500 * time.Millisecond, 2 * time.Second},
	freezeBroker:   {brokerSession + 2*time.Second, brokerSession + 8*time.Second},
	starveOutlets:  {4 * time.Second, 10 * time.Second},
	stopTwoBrokers: {2 * time.Second, 8 * time.Second},
}

// The decks: a shuffled deck is dealt to its end, then shuffled again, so that
// every kind comes soon and as often as its cards.
var (
	supervisorDeck = []kind{
		killProcess, killProcess, killProcess, stopProcess, freezeProcess, killSupervisor, killSupervisor, stopSupervisor,
		freezeSuper, endSupervisor, addSupervisor, removeSuper, moveLeaders, moveLeaders,
	}
	brokerDeck = []kind{killBroker, killBroker, endBroker, stopBroker, freezeBroker, starveOutlets, stopTwoBrokers}
)

// schedule deals the faults of a time from a deck; equal seeds give equal
// schedules. The faults of a deck are most apart from each other between least
// and most.
func schedule(random *rand.Rand, deck []kind, total, least, most time.Duration) []fault {
	between := func(least, most time.Duration) time.Duration {
		return least + time.Duration(random.Int64N(int64(most-least)+1))
	}
	var faults []fault
	var left []kind
	for at := time.Duration(0); ; {
		gap := between(least, most)
		at += gap
		if at > total {
			return faults
		}
		if len(left) == 0 {
			left = append(left, deck...)
			random.Shuffle(len(left), func(i, j int) { left[i], left[j] = left[j], left[i] })
		}
		f := fault{At: at, Gap: gap, Kind: left[0], Pick: random.Uint64()}
		left = left[1:]
		if span, ok := lasts[f.Kind]; ok {
			f.For = between(span[0], span[1])
		}
		faults = append(faults, f)
	}
}
