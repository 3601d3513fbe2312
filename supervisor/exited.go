package supervisor

import (
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Exited is the end of a process: its wait status and what helps to understand it.
type Exited struct {
	// Code is its exit code, -1 where a signal ended it.
	Code int
	// Signal is the signal that ended it, 0 where it exited.
	Signal syscall.Signal
	// OutOfMemory: it got a SIGKILL that was not ours, and the kernel's count of
	// out-of-memory kills in our cgroup rose during its life.
	OutOfMemory bool
	// Killed: we sent it SIGKILL (Process.Kill).
	Killed bool
	// LastLines are its last lines on stderr, oldest first, at most 20; each is cut to
	// 2 KiB. They are as the process wrote them, control characters included.
	LastLines []string
	// HalfFrame is a *wire.Violation where its output ended within a frame, else nil.
	HalfFrame error
	// Disconnected: it was not launched but attached, and its connection is over; Killed: by
	// us. What became of the program is not known, and Code is -1.
	Disconnected bool
	// Leftover are the processes of its group that still lived and were killed with
	// SIGKILL, as "pid name". Those that left the group (setsid) are not seen.
	// Always empty where the system has no /proc.
	Leftover []string
}

// String is the cause in a few words: "exit 1", "killed by SIGSEGV".
func (e Exited) String() string {
	var b strings.Builder
	switch {
	case e.Disconnected:
		b.WriteString("disconnected")
	case e.Signal == 0:
		fmt.Fprintf(&b, "exit %d", e.Code)
	default:
		name := unix.SignalName(e.Signal)
		if name == "" {
			name = fmt.Sprintf("signal %d", int(e.Signal))
		}
		fmt.Fprintf(&b, "killed by %s", name)
	}
	if e.OutOfMemory {
		b.WriteString(" (out of memory: the container's limit was reached)")
	}
	return b.String()
}

func exitedFrom(status syscall.WaitStatus) Exited {
	if status.Signaled() {
		return Exited{Code: -1, Signal: status.Signal()}
	}
	return Exited{Code: status.ExitStatus()}
}
