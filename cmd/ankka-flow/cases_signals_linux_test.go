package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// Ctrl-C is seen by the supervisor alone: the process hears of it by stop, and
// finishes what it has.
func TestCase35_CtrlCIsAStop(t *testing.T) {
	everywhere(t, func(t *testing.T, at somewhere) {
		b := newCaseBroker(t)
		b.putN(1)
		h := newHeld(t)
		p := b.runCaseAt(at, nil, nil, misbehaves(t, "signals", "--until", h.path))
		p.await(`holding batch`)
		at.ctrlC(p)
		p.await(`stopping +Ctrl-C`)
		h.all()
		p.endsWith(0)
		b.awaitCommit(1)
		if strings.Contains(p.stderr(), "got SIG") {
			t.Error("the process has seen a signal")
		}
	})
}

// A second Ctrl-C forces: 130, at once, and no process is left.
func TestCase35_ASecondCtrlCForces(t *testing.T) {
	everywhere(t, func(t *testing.T, at somewhere) {
		b := newCaseBroker(t)
		b.putN(1)
		p := b.runCaseAt(at, []string{"FLOW_STOP_TIMEOUT=60s"}, nil, misbehaves(t, "signals", "--until", newHeld(t).path))
		p.await(`holding batch`)
		at.ctrlC(p)
		p.await(`stopping +Ctrl-C`)
		at.ctrlC(p)
		p.endsWith(130)
		if strings.Contains(p.stderr(), "got SIGINT") || b.committed(0) != 0 {
			t.Errorf("the process has seen the signal, or its batch is committed: %d", b.committed(0))
		}
		if _, namespaced := at.(*process1); !namespaced { // where it is gone with the namespace
			p.child(1).gone()
		}
	})
}

// HUP, USR1, USR2 and WINCH are the process's: it gets them as if they had been
// sent to it, and nothing else comes of them.
func TestSignalsArePassedOn(t *testing.T) {
	everywhere(t, func(t *testing.T, at somewhere) {
		b := newCaseBroker(t)
		p := b.runCaseAt(at, nil, nil, misbehaves(t, "signals"))
		p.await(`ready`)
		passed := map[string]syscall.Signal{"SIGUSR1": syscall.SIGUSR1, "SIGUSR2": syscall.SIGUSR2, "SIGWINCH": syscall.SIGWINCH}
		switch x := at.(type) {
		case *process1:
			passed["SIGHUP"] = syscall.SIGHUP
		case *onTerminal:
			delete(passed, "SIGWINCH")
			x.resize(30, 180)
			p.await(`case \| got SIGWINCH$`)
		}
		for name, number := range passed {
			if err := p.cmd.Process.Signal(number); err != nil {
				t.Fatal(err)
			}
			p.await(`case \| got ` + name + `$`)
		}
		b.putN(1)
		b.awaitCommit(1)
		at.ctrlC(p)
		p.endsWith(0)
		if n := p.launches(); n != 1 {
			t.Errorf("%d launches, want 1", n)
		}
	})
}

// A stop that comes while the configuration is still read is a stop like any
// other: exit code 0.
func TestAStopInTheFirstMoment(t *testing.T) {
	everywhere(t, func(t *testing.T, at somewhere) {
		b := newCaseBroker(t)
		config := filepath.Join(t.TempDir(), "flow.yaml")
		if err := syscall.Mkfifo(config, 0o600); err != nil {
			t.Fatal(err)
		}
		p := b.runCaseAt(at, nil, []string{"-c", config}, misbehaves(t, "good"))
		file, err := os.OpenFile(config, os.O_WRONLY, 0) // opens once it reads
		if err != nil {
			t.Fatal(err)
		}
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteString("pipeline: case\n"); err != nil {
			t.Fatal(err)
		}
		_ = file.Close()
		p.endsWith(0)
		p.says("INF", "stopping", "SIGTERM")
	})
}

// kill -9 of the supervisor leaves no process, whatever the process does.
func TestCase37_KillOfTheSupervisorLeavesNoProcess(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ state, mode, says string }{
		{"idle", "good", "ready"}, {"busy", "spins", "hangs"}, {"writing", "floods", "floods"}, {"frozen", "freezes", "hangs"},
	} {
		t.Run(c.state, func(t *testing.T) {
			everywhere(t, func(t *testing.T, at somewhere) {
				b := newCaseBroker(t)
				if c.state != "idle" {
					b.putN(1)
				}
				p := b.runCaseAt(at, nil, nil, misbehaves(t, c.mode))
				p.await(c.says)
				child := p.offspring()
				if err := p.cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
				p.endsWith(137)
				child.gone()
			})
		})
	}
}

// offspring is the one child of the program, seen from here also where it is process 1.
func (p *program) offspring() process {
	p.t.Helper()
	children := process{p.t, p.cmd.Process.Pid}.children()
	if len(children) != 1 {
		p.t.Fatalf("its children are %q, want one", children)
	}
	pid, _, _ := strings.Cut(children[0], " ")
	return process{p.t, atoi(p.t, pid)}
}

// As process 1: a thousand orphans end while the process exits with 7 again and
// again. It is always 7 that is seen, and no zombie is left.
func TestCase38_OrphansAreReapedAndTheStatusIsNotStolen(t *testing.T) {
	t.Parallel()
	const crashes, orphans = 5, 200
	b := newCaseBroker(t)
	b.putN(1)
	p := b.runCaseAt(newProcess1(t), nil, nil, misbehaves(t, "orphans", "--count", fmt.Sprint(orphans), "--code", "7"))
	ends := regexp.MustCompile(`process +(exit \d+|killed[^:]*):`)
	var seen [][]string
	eventually(t, fmt.Sprintf("%d ends", crashes), func() bool {
		seen = ends.FindAllStringSubmatch(p.stderr(), -1)
		return len(seen) >= crashes
	})
	for _, end := range seen {
		if end[1] != "exit 7" {
			t.Errorf("an end is %q, want exit 7", end[1])
		}
	}
	supervisor := process{t, p.cmd.Process.Pid}
	eventually(t, "no zombie is left", func() bool { return supervisor.zombies() == 0 })
	p.stopsWell()
}
