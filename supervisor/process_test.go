package supervisor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ankka-flow/wire"
)

// frame is a message as a whole frame.
func frame(t *testing.T, m wire.Message) []byte {
	t.Helper()
	f, err := wire.Append(nil, m)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestALifeFromLaunchToExit(t *testing.T) {
	r := launchChild(t, Options{}, "echo")
	r.says("ready")
	r.Control(textFrame("one"))
	if got := expect[Received](r); got.Message != (wire.Stopped{}) || got.Bytes != 9 {
		t.Errorf("got %+v, want stopped in 9 bytes", got)
	}
	r.Data(1, textFrame("two"))
	expect[Received](r)
	r.CloseInput()
	if got := r.ends(); got.Code != 0 || got.Signal != 0 || got.String() != "exit 0" {
		t.Errorf("got %+v", got)
	}
}

func TestNothingPanicsAfterTheEnd(t *testing.T) {
	released := 0
	r := launchChild(t, Options{Release: func([]byte) { released++ }}, "arguments")
	r.ends()
	r.Control(textFrame("x"))
	r.Data(1, textFrame("x"))
	if r.Withdraw(1) || released != 1 {
		t.Errorf("a frame queued after the end: %d releases, and it could be withdrawn", released)
	}
	r.CloseInput()
	r.Terminate()
	r.Kill()
	r.Signal(syscall.SIGHUP)
	r.SpeaksPing()
	r.SpeaksPing()
}

func TestCase1_TextBeforeTheFirstFrameIsStray(t *testing.T) {
	r := python(t, Options{}, `out(b"loading model\n" + STOPPED)`)
	if got := expect[Stray](r); !strings.Contains(got.Text, "loading model") {
		t.Errorf("got %q", got.Text)
	}
	expect[Received](r)
	r.ends()
}

func TestCase1_TextAfterSpecIsAViolationThatQuotesIt(t *testing.T) {
	spec := frame(t, wire.Spec{Capabilities: wire.DefaultCapabilities()})
	r := python(t, Options{}, fmt.Sprintf(`
out(bytes.fromhex("%x"))
print("Hello world", flush=True)
out(STOPPED * 200000)
until_the_end_of_input()
`, spec))
	expect[Received](r)
	if got := expect[Broken](r); !strings.Contains(got.Err.Error(), "Hello world") {
		t.Errorf("the violation does not quote the text: %v", got.Err)
	}
	// What follows is thrown away, and 2.6 MB of it do not block the process.
	r.CloseInput()
	if got := r.ends(); got.Code != 0 {
		t.Errorf("got %v", got)
	}
}

func TestAFrameThatSaysNothingIsAViolation(t *testing.T) {
	r := python(t, Options{}, `out(frame(b"\x91\xa4nope") + STOPPED)`)
	var violation *wire.Violation
	if got := expect[Broken](r); !errors.As(got.Err, &violation) {
		t.Errorf("got %v, want a violation", got.Err)
	}
	r.ends()
}

func TestCase5_OneByteAWriteThenAThousandFramesInOne(t *testing.T) {
	r := python(t, Options{}, `
for b in STOPPED * 3:
    os.write(1, bytes([b]))
    os.sched_yield()
out(STOPPED * 1000)
`)
	for range 1003 {
		expect[Received](r)
	}
	r.ends()
}

func TestCase6_HalfAFrameThenExit0IsAViolationWithTheByteCounts(t *testing.T) {
	r := python(t, Options{}, `out(STOPPED + STOPPED[:7])`)
	expect[Received](r)
	if got := expect[Broken](r); !strings.Contains(got.Err.Error(), "3 of 9 bytes") {
		t.Errorf("the violation does not count: %v", got.Err)
	}
	if got := r.ends(); got.Code != 0 || got.HalfFrame == nil {
		t.Errorf("got %+v", got)
	}
}

func TestCase6_HalfAFrameBehindACrashDoesNotHideTheCrash(t *testing.T) {
	r := python(t, Options{}, `
out(STOPPED[:7])
os.kill(os.getpid(), signal.SIGSEGV)
`)
	if got := r.ends(); got.Signal != syscall.SIGSEGV || got.HalfFrame == nil {
		t.Errorf("got %+v", got)
	}
}

func TestHalfAFrameFromAProcessThatLivesOn(t *testing.T) {
	r := python(t, Options{}, `
out(STOPPED[:7])
os.close(1)
until_the_end_of_input()
`)
	expect[Broken](r)
	r.CloseInput()
	r.ends()
}

func TestOutputClosedByAProcessThatLivesOn(t *testing.T) {
	r := python(t, Options{}, `
out(STOPPED)
os.close(1)
until_the_end_of_input()
`)
	expect[Received](r)
	expect[OutputClosed](r)
	r.CloseInput()
	r.ends()
}

func TestInputBrokenByAProcessThatLivesOn(t *testing.T) {
	r := python(t, Options{}, `
os.close(0)
say("closed")
signal.pause()
`)
	r.says("closed")
	r.Data(1, textFrame("x"))
	r.Data(2, textFrame("y"))
	if got := expect[InputBroken](r); !errors.Is(got.Err, syscall.EPIPE) {
		t.Errorf("got %v, want EPIPE", got.Err)
	}
	if r.Withdraw(1) || !r.Withdraw(2) {
		t.Error("the frame that was begun could be withdrawn, or the other could not")
	}
	r.Kill()
	r.ends()
}

func TestCase14_StderrInOneHugeWriteAndInOneHugeLine(t *testing.T) {
	var count, longest int
	var last string
	r := python(t, Options{Stderr: func(line []byte) {
		count += len(line)
		longest = max(longest, len(line))
		last = string(line[:min(len(line), 20)])
	}}, `
os.write(2, (b"x" * 1023 + b"\n") * 1024)
os.write(2, b"y" * (10 << 20))
os.write(2, b"\nthe end")
out(STOPPED)
`)
	expect[Received](r)
	got := r.ends()
	if want := 1023*1024 + 10<<20 + len("the end"); count != want || longest != maxLine || last != "the end" {
		t.Errorf("%d bytes, longest line %d, last %q; want %d, %d and the end", count, longest, last, want, maxLine)
	}
	if n := len(got.LastLines); n != tailLines || got.LastLines[n-1] != "the end" {
		t.Errorf("%d last lines: %.100q", n, got.LastLines)
	}
}

func TestCase15_BothSidesBlocked(t *testing.T) {
	r := launchChild(t, Options{}, "both blocked")
	body := strings.Repeat("z", 1<<20)
	for id := range uint64(10) {
		r.Data(id, textFrame(body))
	}
	r.CloseInput() // the last nine are not begun, at least eight of them never will be
	frames := 0
	for ev := range r.Events() {
		switch ev := ev.(type) {
		case Received:
			frames++
		case Exited:
			if ev.Code != 0 {
				t.Errorf("got %v", ev)
			}
		default:
			t.Errorf("got %T %+v", ev, ev)
		}
	}
	if want := (10<<20 + len(stopped) - 1) / len(stopped); frames != want {
		t.Errorf("%d frames came, want %d", frames, want)
	}
}

func TestCase15_BothSidesBlockedAndNothingWithdrawn(t *testing.T) {
	r := launchChild(t, Options{}, "both blocked")
	body := strings.Repeat("z", 1<<20)
	for range 10 {
		r.Control(textFrame(body))
	}
	r.CloseInput()
	for range r.Events() {
	}
	r.says(fmt.Sprintf("read %d", 10<<20))
}

// gate is a named pipe: a child that opens it waits until the test opens it.
func gate(t *testing.T) (path string, open func()) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "gate")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path, func() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
}

func TestCase18_ControlOvertakesDataBetweenFrames(t *testing.T) {
	path, open := gate(t)
	r := launchChild(t, Options{}, "late reader", path)
	big := func(name string) []byte { return textFrame(name + strings.Repeat(".", 3<<20)) }
	r.Data(1, big("data 1"))
	r.says("begun") // so data 1 is begun, and larger than the pipe: nothing else can be
	r.Data(2, big("data 2"))
	r.Data(3, big("data 3"))
	r.Data(4, big("data 4"))
	r.Control(textFrame("control 1"))
	r.Control(textFrame("control 2"))
	if !r.Withdraw(3) {
		t.Error("data 3 is not begun and could not be withdrawn")
	}
	if r.Withdraw(1) {
		t.Error("data 1 is begun and could be withdrawn")
	}
	if r.Withdraw(99) {
		t.Error("an unknown id could be withdrawn")
	}
	open()
	for _, want := range []string{"data 1", "control 1", "control 2", "data 2", "data 4"} {
		r.says(want)
	}
	r.CloseInput()
	r.ends()
}

func TestCloseInputFinishesControlAndWhatIsBegun(t *testing.T) {
	path, open := gate(t)
	var released atomic.Int32
	r := launchChild(t, Options{Release: func([]byte) { released.Add(1) }}, "late reader", path)
	r.Data(1, textFrame("data 1"+strings.Repeat(".", 3<<20)))
	r.says("begun")
	r.Data(2, textFrame("data 2"))
	r.Data(3, textFrame("data 3"))
	r.Control(textFrame("stop"))
	r.CloseInput()
	r.Control(textFrame("too late"))
	if !r.Withdraw(2) {
		t.Error("data 2 will never be written and could not be withdrawn")
	}
	open()
	r.says("data 1")
	r.says("stop")
	if got := r.ends(); got.Code != 0 || len(r.lines) != 0 {
		t.Errorf("got %v, and %d more frames", got, len(r.lines))
	}
	if n := released.Load(); n != 3 {
		t.Errorf("%d of 3 data frames released", n)
	}
}

// TestR3_WithdrawRacesWithTheWriter: what was withdrawn never arrives, everything else does,
// whole and in order. The frame that is tried is always the one the writer comes to next.
func TestR3_WithdrawRacesWithTheWriter(t *testing.T) {
	const n = 5000
	var releases [n + 1]atomic.Int32
	var mu sync.Mutex
	head := 0 // the newest frame that is no longer queued
	newest := func() int { mu.Lock(); defer mu.Unlock(); return head }
	r := launchChild(t, Options{Release: func(frame []byte) {
		var id int
		fmt.Sscanf(string(frame[lengthBytes:]), "id %d", &id)
		releases[id].Add(1)
		mu.Lock()
		head = max(head, id)
		mu.Unlock()
	}}, "late reader", os.DevNull)
	var withdrawn [n + 1]bool
	for id := 1; id <= n; id++ {
		r.Data(uint64(id), textFrame(fmt.Sprintf("id %d", id)+strings.Repeat(".", id%700)))
	}
	for next := 1; next <= n; next = newest() + 1 {
		withdrawn[next] = r.Withdraw(uint64(next))
		for withdrawn[next] && next < n && newest() == next {
			runtime.Gosched() // until the writer has taken the one behind it
		}
	}
	r.Data(0, textFrame("id 0"))
	r.says("begun")
	last, arrived := 0, map[int]bool{}
	for line := r.line(); line != "id 0"; line = r.line() {
		var id int
		if _, err := fmt.Sscanf(line, "id %d", &id); err != nil || id <= last {
			t.Fatalf("got %q after %d", line, last)
		}
		last, arrived[id] = id, true
	}
	r.CloseInput()
	r.ends()
	for id := 1; id <= n; id++ {
		if arrived[id] == withdrawn[id] {
			t.Errorf("%d: arrived %v, withdrawn %v", id, arrived[id], withdrawn[id])
		}
		if got := releases[id].Load(); got != 1 {
			t.Errorf("%d: released %d times", id, got)
		}
	}
	t.Logf("%d of %d arrived", len(arrived), n)
}

func TestTraceSeesEveryFrameInBothDirections(t *testing.T) {
	var mu sync.Mutex
	var out, in []string
	r := launchChild(t, Options{Trace: func(toProcess bool, body []byte) {
		mu.Lock()
		defer mu.Unlock()
		if toProcess {
			out = append(out, string(body))
		} else {
			in = append(in, string(body))
		}
	}}, "echo")
	r.Control(textFrame("a"))
	r.Data(1, textFrame("b"))
	expect[Received](r)
	expect[Received](r)
	r.CloseInput()
	r.ends()
	if !slices.Equal(out, []string{"a", "b"}) || !slices.Equal(in, []string{stopped[4:], stopped[4:]}) {
		t.Errorf("out %q, in %q", out, in)
	}
}

func TestCase16_StoppedWhileAFrameLargerThanThePipeIsWritten(t *testing.T) {
	for _, end := range []string{"killed", "terminated"} {
		t.Run(end, func(t *testing.T) {
			// As an SDK does, it has a handler for SIGTERM that ends it.
			r := python(t, Options{ProcessTimeout: 800 * time.Millisecond}, `
signal.signal(signal.SIGTERM, lambda *_: os._exit(3))
os.read(0, 10)
say("stopping")
os.kill(os.getpid(), signal.SIGSTOP)
signal.pause()
`)
			r.SpeaksPing()
			r.Data(1, make([]byte, wire.MaxFrame+lengthBytes))
			r.says("stopping")
			r.Data(2, textFrame("x"))
			if got := expect[Unreachable](r); got.Silent < 800*time.Millisecond || !strings.Contains(got.Why, "read none") {
				t.Errorf("got %+v", got)
			}
			if r.Withdraw(1) || !r.Withdraw(2) {
				t.Error("the frame that was begun could be withdrawn, or the other could not")
			}
			r.CloseInput()
			if end == "killed" {
				r.Kill()
				if got := r.ends(); got.Signal != syscall.SIGKILL || !got.Killed || got.OutOfMemory {
					t.Errorf("got %+v", got)
				}
				return
			}
			r.Terminate()
			if got := r.ends(); got.Code != 3 {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestCase22_TheRealCauseIsNotHidden(t *testing.T) {
	for _, c := range []struct {
		name, script, want, lastLine string
	}{
		{"an exception at import", "import ankka_flow_is_not_here", "exit 1", "ModuleNotFoundError: No module named 'ankka_flow_is_not_here'"},
		{"SIGSEGV", "say('dying')\nos.kill(os.getpid(), signal.SIGSEGV)", "killed by SIGSEGV", "dying"},
		{"exit 0 in mid-batch", "os.read(0, 10)\nsay('bye')", "exit 0", "bye"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := python(t, Options{}, c.script)
			r.Data(1, make([]byte, 3<<20)) // the writer is blocked, then its pipe breaks
			got := r.ends()
			if got.String() != c.want || len(got.LastLines) == 0 || got.LastLines[len(got.LastLines)-1] != c.lastLine {
				t.Errorf("got %v %q, want %s %q", got, got.LastLines, c.want, c.lastLine)
			}
		})
	}
}

func TestCase23_TheLastLineOfStderrIsNeverLost(t *testing.T) {
	var done atomic.Bool
	var load sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		load.Go(func() {
			for n := 0; !done.Load(); n++ {
			}
		})
	}
	t.Cleanup(func() {
		done.Store(true)
		load.Wait()
		goleak.VerifyNone(t)
	})
	for i := range 200 {
		var got string
		p, err := Start(Command{Args: []string{"sh", "-c", "printf 'fatal: no newline' >&2; exit 3"}, Env: os.Environ()}, Options{
			Stderr: func(line []byte) { got = string(line) },
		})
		if err != nil {
			t.Fatal(err)
		}
		for ev := range p.Events() {
			exited, ok := ev.(Exited)
			if !ok || exited.Code != 3 || !slices.Equal(exited.LastLines, []string{"fatal: no newline"}) {
				t.Fatalf("launch %d: got %T %+v", i, ev, ev)
			}
		}
		if got != "fatal: no newline" {
			t.Fatalf("launch %d: the line was %q", i, got)
		}
	}
}

func TestCase25_ArgumentsArePassedAsTheyAre(t *testing.T) {
	r := launchChild(t, Options{}, "arguments", "my dir/s.py", "--re", `\d+`, "", "$HOME *", "ü\n")
	for _, want := range []string{`"my dir/s.py"`, `"--re"`, `"\\d+"`, `""`, `"$HOME *"`, `"ü\n"`} {
		r.says(want)
	}
	r.ends()
}

func TestTheWorkingDirectoryAndTheEnvironmentArePassed(t *testing.T) {
	dir := t.TempDir()
	r := launch(t, Options{}, Command{Args: []string{"sh", "-c", `pwd -P >&2; echo "$GREETING" >&2`}, Dir: dir, Env: []string{"PATH=" + os.Getenv("PATH"), "GREETING=hello"}})
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	r.says(real)
	r.says("hello")
	r.ends()
}

func TestCase27_HowAProcessEnded(t *testing.T) {
	for _, c := range []struct {
		script, want string
	}{
		{"exit 0", "exit 0"},
		{"exit 1", "exit 1"},
		{"exit 42", "exit 42"},
		{"kill -TERM $$", "killed by SIGTERM"},
		{"kill -KILL $$", "killed by SIGKILL"},
	} {
		t.Run(c.script, func(t *testing.T) {
			r := launch(t, Options{}, Command{Args: []string{"sh", "-c", c.script}, Env: os.Environ()})
			if got := r.ends(); got.String() != c.want || got.Killed || got.OutOfMemory {
				t.Errorf("got %+v, want %s", got, c.want)
			}
		})
	}
}

func TestCase31_AStoppedProcessIsUnreachable(t *testing.T) {
	r := python(t, Options{ProcessTimeout: 500 * time.Millisecond}, `
say("stopping")
os.kill(os.getpid(), signal.SIGSTOP)
`)
	r.says("stopping")
	r.SpeaksPing()
	if got := expect[Unreachable](r); got.Silent < 500*time.Millisecond {
		t.Errorf("judged after %v", got.Silent)
	}
	r.Kill()
	r.ends()
}

func TestCase32_TheKillPathNeedsNobodysHelp(t *testing.T) {
	r := launchChild(t, Options{}, "ignores TERM")
	r.says("ready")
	r.CloseInput()
	r.Terminate()
	r.says("terminated")
	r.Kill()
	if got := r.ends(); got.Signal != syscall.SIGKILL {
		t.Errorf("got %v", got)
	}
}

// TestCase33: the main thread computes under the interpreter's lock for many timeouts, and a
// side thread pongs.
func TestCase33_BusyIsNotTakenForHung(t *testing.T) {
	r := python(t, Options{ProcessTimeout: time.Second}, `
def answer():
    while True:
        length = os.read(0, 4)
        if not length: os._exit(0)
        body = os.read(0, struct.unpack(">I", length)[0])
        out(frame(b"\x92\xa4pong" + body[6:]))
threading.Thread(target=answer, daemon=True).start()
say("busy")
while True: pass
`)
	r.says("busy")
	r.SpeaksPing()
	for want := range uint64(12) {
		if got := expect[Received](r); got.Message != (wire.Pong{N: want + 1}) {
			t.Fatalf("got %+v, want pong %d", got, want+1)
		}
	}
	r.CloseInput()
	r.ends()
}

func TestAProcessThatCannotPongIsNeverPinged(t *testing.T) {
	r := launchChild(t, Options{ProcessTimeout: 20 * time.Millisecond}, "late reader", os.DevNull)
	fired := time.NewTimer(400 * time.Millisecond) // twenty timeouts in which nothing may come
	select {
	case ev := <-r.Events():
		t.Fatalf("got %T %+v", ev, ev)
	case <-fired.C:
	}
	r.Data(1, textFrame("first"))
	r.says("begun")
	r.says("first")
	r.CloseInput()
	r.ends()
}

func TestSignalReachesTheChildAlone(t *testing.T) {
	r := launchChild(t, Options{}, "ignores TERM")
	r.says("ready")
	r.Signal(syscall.SIGHUP)
	r.says("hangup")
	r.Signal(syscall.SIGUSR1)
	r.says("user defined signal 1")
	r.Kill()
	r.ends()
}
