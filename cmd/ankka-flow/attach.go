package main

import (
	"fmt"
	"path/filepath"

	"ankka-flow/delivery/driver"
	"ankka-flow/supervisor"
)

// attachedProgram stands where otherwise the command's line does.
const attachedProgram = "the attached program"

// listen opens the socket of --attach and says where it is.
func (a *app) listen(came chan<- string) (*supervisor.Listener, error) {
	path := a.settings.AttachPath
	l, err := supervisor.Listen(path, came, func(pid int) {
		a.log.Warn(fmt.Sprintf("pid %d wants to attach, but another program is attached; it was sent away", pid), "event", "attach")
	})
	if err != nil {
		return nil, fmt.Errorf("--attach: %w", err)
	}
	where := "start it in this folder or below"
	if path != defaultAttach {
		full, err := filepath.Abs(path)
		if err != nil {
			full = path
		}
		where = "start it with FLOW_ATTACH=" + full
	}
	a.log.Info(fmt.Sprintf("waiting for a program at %s: %s, in a debugger if you like", path, where), "event", "attach")
	return l, nil
}

// defaultAttach is where programs look for the socket, upwards from where they run.
var defaultAttach = filepath.Join(".ankka-flow", "attach.sock")

// attacher gives the driver the programs that come, where otherwise they are
// launched.
func attacher(l *supervisor.Listener, opts supervisor.Options) func(release func([]byte)) (driver.Process, error) {
	return func(release func([]byte)) (driver.Process, error) {
		opts.Release = release
		p, err := l.Take(opts)
		if err != nil {
			return nil, err // not p: a nil *Attached would be a Process that is not nil
		}
		return p, nil
	}
}
