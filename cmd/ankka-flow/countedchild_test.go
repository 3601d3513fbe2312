package main

import (
	"fmt"
	"net"
	"os"
	"syscall"

	"ankka-flow/wire"
)

// countedChild is the variable that makes the test's own program a streamlet:
// "case", as testdata/misbehave.py is, which starts in a fraction of Python's
// time. Its value is the address that is told of every frame before it goes
// out and after it came in, and says whether the streamlet goes on; or "-".
const countedChild = "COUNTED_CHILD"

// What a counted child is told of a frame.
const (
	frameGoesOn = '.'
	frameKills  = 'k' // it kills itself
)

// childMain forwards every batch and acks it.
func childMain(address string) error {
	var tell net.Conn
	if address != "-" {
		var err error
		if tell, err = net.Dial("tcp", address); err != nil {
			return err
		}
	}
	counted := func() error {
		if tell == nil {
			return nil
		}
		told := []byte{'f'}
		if _, err := tell.Write(told); err != nil {
			return err
		}
		if _, err := tell.Read(told); err != nil {
			return err
		}
		if told[0] == frameKills {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		return nil
	}
	var failed error
	send := func(m wire.Message) {
		frame, err := wire.Append(nil, m)
		if err == nil {
			err = counted()
		}
		if err == nil {
			_, err = os.Stdout.Write(frame)
		}
		if failed == nil {
			failed = err
		}
	}
	in := wire.NewReader(os.Stdin)
	in.Speaks()
	for failed == nil {
		body, err := in.Next()
		if err != nil {
			return nil // the supervisor is gone
		}
		m, err := wire.ParseFromSupervisor(body)
		if err != nil {
			return err
		}
		if err := counted(); err != nil {
			return err
		}
		childAnswers(m, send)
	}
	return failed
}

func childAnswers(m wire.Message, send func(wire.Message)) {
	switch m := m.(type) {
	case wire.Discover:
		port := func(name string) []wire.Port {
			return []wire.Port{{Name: name, Contract: wire.Contract{Format: "json", SchemaName: "any", Fingerprint: wire.Fingerprint("any")}}}
		}
		capabilities := wire.DefaultCapabilities()
		capabilities.Ping = true
		send(wire.Spec{Capabilities: capabilities, Descriptor: wire.Descriptor{
			ProtocolVersion: wire.Version, SDK: wire.SDK{Name: "counted", Version: "0"},
			Streamlet: wire.Streamlet{Name: "case", Inlets: port("in"), Outlets: port("out")},
		}})
	case wire.Batch:
		send(wire.Forward{ID: m.ID, Outlet: "out", All: true})
		send(wire.Ack{ID: m.ID})
	case wire.Revoke:
		send(wire.Ack(m))
	case wire.Stop:
		send(wire.Stopped{})
	case wire.Ping:
		send(wire.Pong(m))
	case wire.Refuse:
		fmt.Fprintln(os.Stderr, m.Problems)
	}
}

// countedCommand is the command line of a counted child.
func countedCommand() []string { return []string{os.Args[0]} }
