package main

import (
	"maps"
	"slices"
	"time"

	"ankka-flow/cmd/ankka-flow/config"
)

// timing has the waits that the configuration may change.
type timing struct {
	reconnectMax time.Duration // at least 500 ms
	discovery    time.Duration
	process      time.Duration
	batch        time.Duration // 0: none
	stop         time.Duration
	write        time.Duration
	stall        time.Duration // 0: no warning
}

func timingOf(s *config.Settings) *timing {
	t := &s.Timings
	return &timing{
		reconnectMax: t.ReconnectMax, discovery: t.Discovery, process: t.Process, batch: t.Batch,
		stop: t.Stop, write: t.Write, stall: t.Stall,
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
