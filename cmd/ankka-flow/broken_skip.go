//go:build broken_skip

package main

import (
	"ankka-flow/delivery/driver"
	"ankka-flow/supervisor"
	"ankka-flow/wire"
)

// breakRule breaks R5: a batch that failed counts as done.
func breakRule(cfg *driver.Config) {
	launch := cfg.Launch
	cfg.Launch = func(release func([]byte)) (driver.Process, error) {
		p, err := launch(release)
		if err != nil {
			return nil, err
		}
		s := &skipping{Process: p, events: make(chan supervisor.Event)}
		go s.copy() // ends with the process, after its last event
		return s, nil
	}
}

type skipping struct {
	driver.Process
	events chan supervisor.Event
}

func (s *skipping) Events() <-chan supervisor.Event { return s.events }

func (s *skipping) copy() {
	defer close(s.events)
	for ev := range s.Process.Events() {
		if received, ok := ev.(supervisor.Received); ok {
			if fail, ok := received.Message.(wire.Fail); ok {
				received.Message = wire.Ack{ID: fail.ID}
				ev = received
			}
		}
		s.events <- ev
	}
}
