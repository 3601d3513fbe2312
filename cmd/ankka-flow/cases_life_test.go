package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A grandchild holds every pipe when the process exits: the death is known from
// the wait status, at once, and the grandchild is gone and named.
func TestCase21_AGrandchildHoldsThePipes(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t)
	b.putN(1)
	p := b.runCase(nil, []string{"--exit-on-failure"}, misbehaves(t, "held-by-grandchild", "--code", "5"))
	sleeper := p.spoken("grandchild")
	p.endsWith(5)
	p.says("ERR process", "exit 5", "1 batch was unanswered")
	p.says("WRN process", fmt.Sprintf("%d sleep", sleeper.pid))
	sleeper.gone()
}

// The same after Ctrl-C, and behind a shell.
func TestCase21_AGrandchildHoldsThePipesAtAStop(t *testing.T) {
	t.Parallel()
	for name, command := range map[string][]string{
		"its own child": misbehaves(t, "kept-by-grandchild"),
		"of a shell":    {"sh", "-c", `sleep 600 & echo "grandchild $!" >&2; exec "$@"`, "sh", "python3", misbehaves(t, "")[1]},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newCaseBroker(t)
			b.putN(1)
			p := b.runCase(nil, nil, command)
			sleeper := p.spoken("grandchild")
			b.awaitCommit(1)
			p.stopsWell()
			sleeper.gone()
		})
	}
}

// The last line of stderr has no newline and is shown.
func TestCase23_TheLastLineWithoutANewline(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t)
	p := b.runCase(nil, []string{"--exit-on-failure"}, []string{"sh", "-c", "printf 'fatal: no newline' >&2; exit 3"})
	p.endsWith(3)
	p.says("sh | fatal: no newline")
}

// Arguments are passed as they are.
func TestCase25_Arguments(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t)
	folder := filepath.Join(b.dir, "my dir")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "s.py"), []byte("import sys\nsys.exit(ascii(sys.argv))\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := b.runCase(nil, []string{"--exit-on-failure"}, []string{"python3", "my dir/s.py", "--re", `\d+`, "", "$HOME *", "ü", "--brokers", "-"})
	p.endsWith(1)
	p.says(`s.py | ['my dir/s.py', '--re', '\\d+', '', '$HOME *', '\xfc', '--brokers', '-']`)
}

// --exit-on-failure ends with the process's own code, or 128 + n.
func TestCase27_ExitOnFailure(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mode       string
		with, code int
		says       string
	}{
		{"exit-in-batch", 0, 1, "exit 0"}, // not 0: there was work
		{"exit-in-batch", 1, 1, "exit 1"},
		{"exit-in-batch", 42, 42, "exit 42"},
		{"dies-by", 15, 143, "killed by SIGTERM"},
		{"dies-by", 9, 137, "killed by SIGKILL"},
	} {
		t.Run(c.says, func(t *testing.T) {
			t.Parallel()
			b := newCaseBroker(t)
			b.putN(1)
			p := b.runCase(nil, []string{"--exit-on-failure"}, misbehaves(t, c.mode, "--code", fmt.Sprint(c.with)))
			p.endsWith(c.code)
			p.says("ERR process", c.says+": python3")
		})
	}
}

// A slow start is judged by the deadline for discovery alone.
func TestCase28_ASlowStart(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t)
	b.putN(1)
	p := b.runCase([]string{"FLOW_PROCESS_TIMEOUT=500ms", "FLOW_BATCH_TIMEOUT=60s"}, nil, misbehaves(t, "slow-start", "--count", "3000"))
	b.awaitCommit(1)
	if n := p.launches(); n != 1 {
		t.Errorf("%d launches, want 1", n)
	}
	p.stopsWell()
}

// A process that hangs in a batch is killed at the limit for batches, whatever
// it hangs in, and the batch comes again.
func TestCase31_AHungBatchIsKilledAndRedelivered(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"spins", "blocks", "freezes", "dead-handler"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			b := newCaseBroker(t)
			b.putN(3)
			p := b.runCase([]string{"FLOW_BATCH_TIMEOUT=1s"}, nil, misbehaves(t, mode, "--once", once(t)))
			first := p.child(1)
			b.awaitCommit(3)
			if got := keys(b.out()); got != "k0 k1 k2" {
				t.Errorf("written: %s", got)
			}
			p.says("WRN failed", "case.in/0, offsets 0 to 2", "batch 1 was not answered within 1s")
			first.gone()
			p.stopsWell()
		})
	}
}

// Without that limit it is a stall that everybody sees, and nobody is killed.
func TestCase31_AHungBatchIsAVisibleStall(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"spins", "blocks"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			b := newCaseBroker(t)
			b.putN(3)
			p := b.runCase([]string{"FLOW_STALL_WARNING_AFTER=1s"}, nil, misbehaves(t, mode))
			p.await(`WRN stalled +inlet in: case.in/0@0 .*has not answered batch`)
			if n := p.launches(); n != 1 {
				t.Errorf("%d launches, want 1", n)
			}
			child := p.child(1)
			p.interrupt()
			p.endsWith(1)
			child.gone()
		})
	}
}

// The stopped one answers no ping: it is unreachable, and killed.
func TestCase31_AStoppedProcessIsUnreachable(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t)
	b.putN(3)
	p := b.runCase([]string{"FLOW_PROCESS_TIMEOUT=1s"}, nil, misbehaves(t, "freezes", "--once", once(t)))
	first := p.child(1)
	b.awaitCommit(3)
	first.gone()
	p.says("WRN failed", "unreachable", "did not answer a ping")
	p.stopsWell()
}

// SIGTERM is ignored, stop is not answered, and a grandchild holds stderr: SIGKILL
// comes within the budget and takes both.
func TestCase32_AProcessThatIgnoresEverything(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t)
	b.putN(1)
	p := b.runCase(nil, nil, misbehaves(t, "ignores"))
	sleeper, child := p.spoken("grandchild"), p.child(1)
	p.await(`case \| hangs`)
	p.interrupt()
	p.endsWith(1)
	p.says("case | ignores SIGTERM")
	p.says("INF process", "killed: python3")
	child.gone()
	sleeper.gone()
}

// Busy is not hung: a batch computes for several of the process's time limits
// under the interpreter's lock, with a thread that answers pings.
func TestCase33_BusyIsNotTakenForHung(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t)
	b.putN(1)
	p := b.runCase([]string{"FLOW_PROCESS_TIMEOUT=2s"}, nil, misbehaves(t, "busy", "--count", "7000"))
	p.await(`case \| busy`)
	b.awaitCommit(1)
	if n := p.launches(); n != 1 {
		t.Errorf("%d launches, want 1", n)
	}
	p.stopsWell()
}

// A thread answers pings while the handler is dead: the stall shows progress, not
// pings, and the process is left alone for several of its time limits.
func TestCase34_PingsAreNoProgress(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t)
	b.putN(3)
	p := b.runCase([]string{"FLOW_PROCESS_TIMEOUT=1s", "FLOW_STALL_WARNING_AFTER=4s"}, nil, misbehaves(t, "dead-handler"))
	p.await(`WRN stalled +inlet in: case.in/0@0 .*has not answered batch`)
	if n := p.launches(); n != 1 || strings.Contains(p.stderr(), "unreachable") {
		t.Errorf("%d launches, want 1", n)
	}
	p.interrupt()
	p.wait() // its thread may answer stop or not: the batch is delivered again either way
	if b.committed(0) != 0 {
		t.Errorf("committed at %d, want nothing", b.committed(0))
	}
}
