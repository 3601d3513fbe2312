package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// testLimit bounds every wait of a test for a program.
const testLimit = 60 * time.Second

// program is the real binary, running.
type program struct {
	t      *testing.T
	cmd    *exec.Cmd
	stage  stage
	stdout bytes.Buffer
	exited chan struct{}

	mu    sync.Mutex
	lines []string // of stderr
	more  chan struct{}
	done  bool
}

// programOptions are what differs between tests.
type programOptions struct {
	dir   string
	env   []string
	stdin string
	// input is there instead of stdin where it is not nil.
	input *os.File
	// stage is where it runs; nil: where the test's cases run, which is on pipes but in
	// TestOnATerminal.
	stage stage
}

// stage changes how a command is started and says what its stderr is read from;
// nil: a pipe. started is called when it runs.
type stage interface {
	prepare(cmd *exec.Cmd) (stderr io.Reader)
	started()
}

// atKeyboard is a stage with a keyboard, on which Ctrl-C is pressed, and with a screen, on
// which a line is seen otherwise than it was written.
type atKeyboard interface {
	pressCtrlC()
	seen(line string) string
}

// startProgram runs the binary. Whatever is left of it at the end is killed.
func startProgram(t *testing.T, o programOptions, args ...string) *program {
	t.Helper()
	return startCommand(t, o, append([]string{binary}, args...)...)
}

// startCommand runs a command that ends up as the binary: a shell's line, say.
func startCommand(t *testing.T, o programOptions, command ...string) *program {
	t.Helper()
	if o.stage == nil {
		o.stage = stageOfCases(t)
	}
	p := &program{t: t, stage: o.stage, exited: make(chan struct{}), more: make(chan struct{})}
	p.cmd = exec.Command(command[0], command[1:]...)
	p.cmd.Dir = o.dir
	p.cmd.Env = append(cleanEnvironment(), "PYTHONPATH="+filepath.Join(repository, "sdk/python/src"))
	p.cmd.Env = append(p.cmd.Env, o.env...)
	p.cmd.Stdin = strings.NewReader(o.stdin)
	if o.input != nil {
		p.cmd.Stdin = o.input
	}
	p.cmd.Stdout = &p.stdout
	var stderr io.Reader
	if o.stage != nil {
		stderr = o.stage.prepare(p.cmd)
	}
	if stderr == nil {
		pipe, err := p.cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		stderr = pipe
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if o.stage != nil {
		o.stage.started()
	}
	go func() { // ends with the program; awaited through exited
		defer close(p.exited)
		p.read(bufio.NewReader(stderr))
		_ = p.cmd.Wait() // the exit code is what tests look at
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.exited
		if t.Failed() {
			t.Logf("%s wrote to stderr:\n%s", strings.Join(command, " "), tail([]byte(p.stderr()), 6000))
		}
	})
	return p
}

// cleanEnvironment is ours without settings of the program under test.
func cleanEnvironment() []string {
	var env []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "FLOW_") && !strings.HasPrefix(e, "ANKKA_FLOW_") {
			env = append(env, e)
		}
	}
	return env
}

func (p *program) read(r *bufio.Reader) {
	for {
		line, err := r.ReadString('\n')
		line, whole := strings.CutSuffix(line, "\n")
		if x, ok := p.stage.(atKeyboard); ok {
			line = x.seen(line)
		}
		p.mu.Lock()
		if whole || line != "" {
			p.lines = append(p.lines, line)
		}
		p.done = p.done || err != nil
		close(p.more)
		p.more = make(chan struct{})
		p.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (p *program) stderr() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "\n")
}

// await waits for a line of stderr that matches, and returns its groups.
func (p *program) await(pattern string) []string {
	p.t.Helper()
	return p.awaitFrom(0, pattern)
}

// awaitFrom looks at the lines from number from on.
func (p *program) awaitFrom(from int, pattern string) []string {
	p.t.Helper()
	re := regexp.MustCompile(pattern)
	limit := time.NewTimer(testLimit)
	defer limit.Stop()
	for {
		p.mu.Lock()
		lines, more, done := p.lines[min(from, len(p.lines)):], p.more, p.done
		p.mu.Unlock()
		for _, line := range lines {
			if m := re.FindStringSubmatch(line); m != nil {
				return m
			}
		}
		if done {
			p.t.Fatalf("the program ended without a line that matches %q", pattern)
		}
		select {
		case <-more:
		case <-limit.C:
			p.t.Fatalf("no line that matches %q within %v", pattern, testLimit)
		}
	}
}

// count is how many lines of stderr there are so far.
func (p *program) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.lines)
}

// since is the lines from number from on, joined.
func (p *program) since(from int) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines[min(from, len(p.lines)):], "\n")
}

// interrupt is Ctrl-C, from the keyboard where there is one.
func (p *program) interrupt() {
	p.t.Helper()
	if x, ok := p.stage.(atKeyboard); ok {
		x.pressCtrlC()
		return
	}
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		p.t.Fatal(err)
	}
}

// wait returns the exit code; a signal is 128 + n.
func (p *program) wait() int {
	p.t.Helper()
	select {
	case <-p.exited:
	case <-time.After(testLimit):
		p.t.Fatalf("the program did not end within %v", testLimit)
	}
	state := p.cmd.ProcessState
	if s, ok := state.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		return 128 + int(s.Signal())
	}
	return state.ExitCode()
}

// runProgram runs the binary to its end.
func runProgram(t *testing.T, o programOptions, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	p := startProgram(t, o, args...)
	code = p.wait()
	return code, p.stdout.String(), p.stderr()
}

// exampleDir is a directory with a copy of the examples.
func exampleDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "examples"), os.DirFS(filepath.Join(repository, "examples"))); err != nil && !errors.Is(err, os.ErrExist) {
		t.Fatal(err)
	}
	return dir
}
