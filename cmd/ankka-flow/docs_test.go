package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// walkthrough runs the commands of a page in order, as a person would who types them
// in one folder: cd and export stay in force, a run goes on in its terminal until the
// next one is typed.
type walkthrough struct {
	t        *testing.T
	o        programOptions
	before   string // what stays in force
	running  *program
	commands int
}

func (w *walkthrough) page(name string, change ...string) {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, "docs", name))
	if err != nil {
		w.t.Fatal(err)
	}
	outside := regexp.MustCompile("(?s)```.*?```").ReplaceAllString(string(text), "")
	for _, m := range regexp.MustCompile(`(?m)^    (\S.*)$`).FindAllStringSubmatch(outside, -1) {
		w.commands++
		w.line(strings.NewReplacer(change...).Replace(m[1]))
	}
	w.stop()
}

func (w *walkthrough) line(line string) {
	w.t.Helper()
	switch {
	case strings.HasPrefix(line, "cd "), strings.HasPrefix(line, "export "):
		w.before += line + " && "
	case strings.HasPrefix(line, "ankka-flow run "):
		w.stop()
		w.running = startCommand(w.t, w.o, "bash", "-c", w.before+"exec "+line)
		if strings.HasSuffix(line, "--attach") {
			w.running.await(`attach +waiting for a program`)
			startCommand(w.t, w.o, "bash", "-c", w.before+"exec python3 streamlet.py")
		}
		w.running.await(`\bready\b`)
		if strings.Contains(line, "--input") {
			w.running.await(`committed +3 in, 2 out, 0 behind`)
		}
	default:
		p := startCommand(w.t, w.o, "bash", "-c", w.before+line)
		if code := p.wait(); code != 0 {
			w.t.Errorf("%s: exit code %d\n%s", line, code, p.stdout.String())
		}
		if strings.Contains(line, "consume") && !strings.Contains(p.stdout.String(), `"value":"{\"total\":7}"`) {
			w.t.Errorf("%s shows %q", line, p.stdout.String())
		}
	}
}

func (w *walkthrough) stop() {
	w.t.Helper()
	if w.running != nil {
		w.running.stopsWell()
		w.running = nil
	}
}

// onPath is a folder with the program in it, to be found by its name; none of the
// settings of this test's own environment is there, and no SDK.
func onPath(t *testing.T, env ...string) programOptions {
	t.Helper()
	bin := t.TempDir()
	if err := os.Symlink(binary, filepath.Join(bin, "ankka-flow")); err != nil {
		t.Fatal(err)
	}
	env = append(env, "PYTHONPATH=", "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	return programOptions{dir: t.TempDir(), env: env}
}

// The page on the terminal, typed from top to bottom.
func TestTerminalPageRuns(t *testing.T) {
	t.Parallel()
	w := &walkthrough{t: t, o: onPath(t, "FLOW_LOG_FORMAT=text")}
	w.page("terminal.md")
	if w.commands < 10 {
		t.Errorf("%d commands: does the test still find them?", w.commands)
	}
}

// The page on the container, typed from top to bottom, where a cluster is.
func TestContainerPageRuns(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t)
	w := &walkthrough{t: t, o: onPath(t)}
	w.line("ankka-flow new hello")
	w.line("cd hello")
	w.page("container.md", "kafka:9092", b.address(), "/tmp/flow-state", filepath.Join(w.o.dir, "state"))
	if w.commands < 9 {
		t.Errorf("%d commands: does the test still find them?", w.commands)
	}
}
