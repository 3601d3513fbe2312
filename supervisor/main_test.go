package supervisor

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// childVariable makes the test binary one of the named children instead of the tests.
const childVariable = "SUPERVISOR_TEST_CHILD"

func TestMain(m *testing.M) {
	if name := os.Getenv(childVariable); name != "" {
		child, ok := children[name]
		if !ok {
			fmt.Fprintf(os.Stderr, "no child %q\n", name)
			os.Exit(99)
		}
		os.Exit(child(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// patience is how long a test waits for what must come. It decides nothing but how soon a
// broken test ends.
const patience = 30 * time.Second

// running is a process under test.
type running struct {
	*Process
	t     *testing.T
	lines chan string // of its stderr
	seen  []Event
}

// launchChild runs one of the named children.
func launchChild(t *testing.T, opts Options, name string, args ...string) *running {
	t.Helper()
	return launch(t, opts, Command{Args: append([]string{self(t)}, args...), Env: childEnvironment(name)})
}

func childEnvironment(name string) []string {
	env := slices.DeleteFunc(os.Environ(), func(entry string) bool { return strings.HasPrefix(entry, childVariable+"=") })
	return append(env, childVariable+"="+name)
}

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// python runs a script after a preamble that knows frames.
func python(t *testing.T, opts Options, script string) *running {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		t.Fatalf("these tests need python3: %v", err)
	}
	return launch(t, opts, Command{Args: []string{path, "-c", pythonPreamble + script}, Env: os.Environ()})
}

const pythonPreamble = `
import os, signal, struct, sys, threading
def frame(body): return struct.pack(">I", len(body)) + body
STOPPED = frame(b"\x91\xa7stopped")
def pong(n): return frame(b"\x92\xa4pong" + bytes([n]))
def out(data):
    while data: data = data[os.write(1, data):]
def say(line): os.write(2, line.encode() + b"\n")
def until_the_end_of_input():
    while os.read(0, 65536): pass
`

// launch starts cmd. However the test ends, the process ends with it and no goroutine stays.
func launch(t *testing.T, opts Options, cmd Command) *running {
	t.Helper()
	r := &running{t: t, lines: make(chan string, 100_000)}
	if opts.Stderr == nil {
		opts.Stderr = func(line []byte) { r.lines <- string(line) }
	}
	p, err := Start(cmd, opts)
	if err != nil {
		t.Fatalf("launching %q: %v", cmd.Args, err)
	}
	r.Process = p
	t.Cleanup(func() {
		p.Kill()
		for range p.Events() {
		}
		if t.Failed() {
			close(r.lines)
			for line := range r.lines {
				t.Logf("stderr: %.200s", line)
			}
		}
		goleak.VerifyNone(t)
	})
	return r
}

// event is the next event.
func (r *running) event() Event {
	r.t.Helper()
	select {
	case ev, ok := <-r.Events():
		if !ok {
			r.t.Fatalf("no more events; seen: %v", r.seen)
		}
		r.seen = append(r.seen, ev)
		return ev
	case <-time.After(patience):
		r.t.Fatalf("no event within %v; seen: %v", patience, r.seen)
		return nil
	}
}

// expect is the next event, which must be a T.
func expect[T Event](r *running) T {
	r.t.Helper()
	ev := r.event()
	got, ok := ev.(T)
	if !ok {
		r.t.Fatalf("got %T %+v, want a %T", ev, ev, got)
	}
	return got
}

// ends is the process's Exited, which must be the next event and the last.
func (r *running) ends() Exited {
	r.t.Helper()
	exited := expect[Exited](r)
	if ev, more := <-r.Events(); more {
		r.t.Fatalf("%T %+v came after Exited", ev, ev)
	}
	return exited
}

// line waits for the next line of stderr.
func (r *running) line() string {
	r.t.Helper()
	select {
	case line := <-r.lines:
		return line
	case <-time.After(patience):
		r.t.Fatalf("no line on stderr within %v; events seen: %v", patience, r.seen)
		return ""
	}
}

// says waits for a line of stderr, which must be this.
func (r *running) says(want string) {
	r.t.Helper()
	if got := r.line(); got != want {
		r.t.Fatalf("stderr: got %q, want %q", got, want)
	}
}

// textFrame is a frame whose body is text: children that know no messages read these.
func textFrame(body string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// stopped is the frame of the message by that name.
const stopped = "\x00\x00\x00\x09\x91\xa7stopped"

// children are the programs that the tests launch, each a small function of its arguments
// that returns an exit code. They say what they did on stderr, a line each.
var children = map[string]func(args []string) int{
	"idle":         childIdle,
	"echo":         childEcho,
	"arguments":    childArguments,
	"late reader":  childLateReader,
	"both blocked": childBothBlocked,
	"ignores TERM": childIgnoresTerm,
	"busy":         childBusy,
	"floods":       childFloods,
	"supervisor":   childSupervisor,
}

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// childIdle waits for the end of its input.
func childIdle([]string) int {
	say("ready")
	io.Copy(io.Discard, os.Stdin)
	return 0
}

// childEcho answers every frame with `stopped`, whatever it was.
func childEcho([]string) int {
	say("ready")
	for body := range framesFrom(os.Stdin) {
		_ = body
		os.Stdout.WriteString(stopped)
	}
	return 0
}

func childArguments(args []string) int {
	for _, a := range args {
		say("%q", a)
	}
	return 0
}

// childLateReader reads one byte, says so, waits until the file named by its argument is
// there (a named pipe: opening it waits), and then names every frame.
func childLateReader(args []string) int {
	in := bufio.NewReader(os.Stdin)
	in.Peek(1)
	say("begun")
	gate, err := os.Open(args[0])
	if err != nil {
		say("%v", err)
		return 1
	}
	gate.Close()
	for body := range framesFrom(in) {
		say("%.10s", strings.TrimRight(body, "."))
	}
	return 0
}

// childBothBlocked writes 10 MiB before it reads on.
func childBothBlocked([]string) int {
	out := bufio.NewWriter(os.Stdout)
	for n := 0; n < 10<<20; n += len(stopped) {
		out.WriteString(stopped)
	}
	out.Flush()
	total := 0
	for body := range framesFrom(os.Stdin) {
		total += len(body)
	}
	say("read %d", total)
	return 0
}

// framesFrom are the bodies of the frames that come from r, to its end.
func framesFrom(r io.Reader) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		var length [4]byte
		for {
			if _, err := io.ReadFull(r, length[:]); err != nil {
				return
			}
			body := make([]byte, binary.BigEndian.Uint32(length[:]))
			if _, err := io.ReadFull(r, body); err != nil {
				say("half a frame: %v", err)
				return
			}
			if !yield(string(body)) {
				return
			}
		}
	}
}

// childBusy computes for ever and reads nothing.
func childBusy([]string) int {
	say("ready")
	for n := 0; ; n++ {
		if n < 0 {
			return 1
		}
	}
}

// childFloods writes frames for ever.
func childFloods([]string) int {
	say("ready")
	for {
		if _, err := os.Stdout.WriteString(stopped); err != nil {
			return 0
		}
	}
}

// childSupervisor launches another child under this package, says its pid, and forwards its
// lines, until it is killed or its input ends. A frame from us goes on to the child; a frame
// from the child is a line.
func childSupervisor(args []string) int {
	path, _ := os.Executable()
	p, err := Start(Command{Args: []string{path}, Env: childEnvironment(args[0])}, Options{
		Stderr: func(line []byte) { say("child: %s", line) },
	})
	if err != nil {
		say("%v", err)
		return 1
	}
	say("pid %d", p.Pid())
	notifyInterrupts()
	var events sync.WaitGroup
	events.Go(func() {
		for ev := range p.Events() {
			if _, ok := ev.(Received); ok && args[0] == "echo" {
				say("answered")
			}
		}
	})
	for body := range framesFrom(os.Stdin) {
		p.Data(1, textFrame(body))
	}
	p.CloseInput()
	events.Wait()
	return 0
}
