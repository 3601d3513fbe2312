package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"ankka-flow/supervisor"
)

// timing has the waits that the environment may change. Zero in a field means
// what its comment says; the defaults are of timingFromEnvironment.
type timing struct {
	reconnectMax time.Duration // FLOW_RECONNECT_MAX_BACKOFF, at least 500 ms
	discovery    time.Duration // FLOW_DISCOVERY_TIMEOUT
	process      time.Duration // FLOW_PROCESS_TIMEOUT
	batch        time.Duration // FLOW_BATCH_TIMEOUT; 0: none
	stop         time.Duration // FLOW_STOP_TIMEOUT
	write        time.Duration // FLOW_WRITE_TIMEOUT
	stall        time.Duration // FLOW_STALL_WARNING_AFTER; 0: no warning
	session      time.Duration // FLOW_SESSION_TIMEOUT; 0: the broker's kind decides
}

// timingFromEnvironment reads durations such as 500ms, 30s or 5m. Every problem
// is in the error.
func timingFromEnvironment(lookup func(string) (string, bool)) (*timing, error) {
	t := &timing{
		reconnectMax: 30 * time.Second, discovery: 60 * time.Second, process: 60 * time.Second,
		stop: supervisor.DefaultStopTimeout, write: 120 * time.Second, stall: 5 * time.Minute,
	}
	var problems []error
	read := func(name string, to *time.Duration, least time.Duration) {
		value, ok := lookup(name)
		if !ok || value == "" {
			return
		}
		d, err := time.ParseDuration(value)
		if err != nil || d < least {
			problems = append(problems, fmt.Errorf("%s=%q: it is a duration of at least %v, such as 500ms, 30s or 5m", name, value, least))
			return
		}
		*to = d
	}
	read("FLOW_RECONNECT_MAX_BACKOFF", &t.reconnectMax, 500*time.Millisecond)
	read("FLOW_DISCOVERY_TIMEOUT", &t.discovery, time.Millisecond)
	read("FLOW_PROCESS_TIMEOUT", &t.process, time.Millisecond)
	read("FLOW_BATCH_TIMEOUT", &t.batch, 0)
	read("FLOW_STOP_TIMEOUT", &t.stop, time.Millisecond)
	read("FLOW_WRITE_TIMEOUT", &t.write, time.Millisecond)
	read("FLOW_STALL_WARNING_AFTER", &t.stall, 0)
	read("FLOW_SESSION_TIMEOUT", &t.session, time.Second)
	if err := errors.Join(problems...); err != nil {
		return nil, misuse("%w", err)
	}
	return t, nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
