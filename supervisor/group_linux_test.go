package supervisor

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// handle follows a process that is not our child, so that its number cannot come to mean
// another one.
type handle struct {
	t  *testing.T
	fd int
}

func follow(t *testing.T, pid int) *handle {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatalf("following process %d: %v", pid, err)
	}
	t.Cleanup(func() {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		unix.Close(fd)
	})
	return &handle{t: t, fd: fd}
}

// goneWithin waits for its end.
func (h *handle) goneWithin(d time.Duration) bool {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(h.fd), Events: unix.POLLIN}}, int(d.Milliseconds()))
		if err != unix.EINTR {
			return n == 1
		}
	}
}

// number is the pid in a line like "sleeper 4711".
func number(t *testing.T, line string) int {
	t.Helper()
	_, digits, _ := strings.Cut(line, " ")
	pid, err := strconv.Atoi(digits)
	if err != nil {
		t.Fatalf("no pid in %q", line)
	}
	return pid
}

func shell(script string, args ...string) Command {
	return Command{Args: append([]string{"sh", "-c", script, "sh"}, args...), Env: os.Environ()}
}

func TestCase21_AGrandchildThatHoldsThePipes(t *testing.T) {
	for _, c := range []struct {
		name, script string
		kill         bool
		reported     bool
		limit        time.Duration
	}{
		{"in the group", `sleep 600 & echo "sleeper $!" >&2; exit 1`, false, true, 1500 * time.Millisecond},
		{"in the group, after a kill", `sleep 600 & echo "sleeper $!" >&2; exec sleep 500`, true, false, 1500 * time.Millisecond},
		{"in the group, and holds nothing", `sleep 600 </dev/null >/dev/null 2>&1 & echo "sleeper $!" >&2; exit 1`, false, true, 1500 * time.Millisecond},
		{"left the group", `setsid sleep 600 <&3 & echo "sleeper $!" >&2; while [ "$(cut -d' ' -f5 /proc/$!/stat)" != $! ]; do :; done; exit 1`, false, false, 3 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := launch(t, Options{}, shell("exec 3<&0; "+c.script))
			sleeper := follow(t, number(t, r.line()))
			r.Data(1, make([]byte, 3<<20)) // nobody reads it, and the sleeper may hold stdin
			if c.kill {
				r.Kill()
			} else {
				// Its exit comes without our doing: the zombie is there when waiting would not block.
				awaitEnd(r.Pid())
			}
			ended := time.Now()
			got := r.ends()
			if took := time.Since(ended); took > c.limit {
				t.Errorf("the exit was known %v after it", took)
			}
			if c.kill != (got.Signal == syscall.SIGKILL) || !c.kill && got.Code != 1 {
				t.Errorf("got %+v", got)
			}
			if c.reported != (len(got.Leftover) == 1 && strings.HasSuffix(got.Leftover[0], " sleep")) {
				t.Errorf("leftover: %q", got.Leftover)
			}
			if inGroup := c.name != "left the group"; inGroup && !sleeper.goneWithin(patience) {
				t.Error("the sleeper is still there")
			}
		})
	}
}

func TestCase21_AGrandchildThatFloodsStdoutDelaysNothing(t *testing.T) {
	r := launch(t, Options{}, shell(`setsid yes & echo "flood $!" >&2; while [ "$(cut -d' ' -f5 /proc/$!/stat)" != $! ]; do :; done; exit 1`))
	follow(t, number(t, r.line()))
	for {
		if exited, ok := r.event().(Exited); ok {
			if exited.Code != 1 {
				t.Errorf("got %v", exited)
			}
			return
		}
	}
}

func TestEveryFrameInThePipeComesBeforeExited(t *testing.T) {
	// A grandchild outside the group holds stdout; the frames are read late, because the
	// owner looks late.
	r := python(t, Options{}, `
import subprocess
sleeper = subprocess.Popen(["sleep", "600"], start_new_session=True, stderr=subprocess.DEVNULL)
out(STOPPED * 20000)
say("sleeper %d" % sleeper.pid)
`)
	follow(t, number(t, r.line()))
	awaitEnd(r.Pid())
	<-time.After(2 * pipeGrace) // the owner is busy for longer than the pipes may stay open
	for range 20000 {
		expect[Received](r)
	}
	r.ends()
}

func TestCase35_CtrlCReachesTheSupervisorAlone(t *testing.T) {
	r := launchChild(t, Options{}, "supervisor", "echo")
	child := follow(t, number(t, r.line()))
	r.says("child: ready")
	for range 2 {
		if err := syscall.Kill(-r.Pid(), syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		r.says("interrupted")
	}
	r.Data(1, textFrame("are you there"))
	r.says("answered")
	r.CloseInput()
	r.ends()
	if !child.goneWithin(patience) {
		t.Error("the child is still there")
	}
}

func TestCase36_AWrapperWithTheRealWorkerBehindIt(t *testing.T) {
	worker := `
import os, signal, sys
def term(*_):
    os.write(2, b"drained\n")
    os._exit(0)
signal.signal(signal.SIGTERM, term)
os.write(2, b"worker %d\n" % os.getpid())
while os.read(0, 100): pass
os.write(2, b"drained\n")
`
	for _, end := range []string{"end of input", "SIGTERM"} {
		t.Run(end, func(t *testing.T) {
			r := launch(t, Options{}, shell(`python3 -c "$1"; true`, worker))
			real := follow(t, number(t, r.line()))
			if end == "SIGTERM" {
				r.Terminate()
			} else {
				r.CloseInput()
			}
			r.says("drained")
			if got := r.ends(); len(got.Leftover) != 0 {
				t.Errorf("got %+v", got)
			}
			if !real.goneWithin(patience) {
				t.Error("the worker is still there")
			}
		})
	}
}

func TestCase37_KillOfTheSupervisorTakesTheProcessWithIt(t *testing.T) {
	for _, state := range []string{"idle", "busy", "floods"} {
		t.Run(state, func(t *testing.T) {
			r := launchChild(t, Options{}, "supervisor", state)
			child := follow(t, number(t, r.line()))
			r.says("child: ready")
			if err := syscall.Kill(r.Pid(), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if !child.goneWithin(5 * time.Second) {
				t.Error("the process outlives its supervisor")
			}
			if got := r.ends(); got.Signal != syscall.SIGKILL {
				t.Errorf("got %v", got)
			}
		})
	}
}

// endThreads has n goroutines lock their thread and return, which ends the thread, and
// returns when the threads are gone.
func endThreads(t *testing.T, n int) {
	t.Helper()
	for range n {
		id := make(chan int)
		go func() {
			runtime.LockOSThread()
			id <- unix.Gettid()
		}()
		thread := <-id
		if thread == os.Getpid() {
			continue // the main thread is never ended; Go parks it
		}
		task := fmt.Sprintf("/proc/self/task/%d", thread)
		for deadline := time.Now().Add(patience); ; runtime.Gosched() {
			if _, err := os.Stat(task); err != nil {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s does not end", task)
			}
		}
	}
}

func TestCase39_ThreadsThatEndDoNotKillTheProcess(t *testing.T) {
	var r *running
	var launched sync.WaitGroup
	launched.Go(func() {
		runtime.LockOSThread() // and this thread ends too
		r = launchChild(t, Options{}, "echo")
	})
	launched.Wait()
	r.says("ready")
	for id := range uint64(100) {
		endThreads(t, 2)
		r.Data(id, textFrame("still there?"))
		expect[Received](r)
	}
	r.CloseInput()
	if got := r.ends(); got.Code != 0 {
		t.Errorf("got %v", got)
	}
}

// The same as process 1 of a PID namespace, which takes orphans too.
func TestCase39_ThreadsThatEndDoNotKillTheProcessOfProcess1(t *testing.T) {
	cmd := exec.Command("sh", "-ec", `mount --make-rprivate /; mount -t proc proc /proc; exec "$@"`, "sh",
		self(t), "-test.v", "-test.run=^TestCase39_ThreadsThatEndDoNotKillTheProcess$")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestCase39") {
		t.Fatalf("%v\n%s", err, out)
	}
}

func TestPipesAreEnlargedAndTheChildsEndsBlock(t *testing.T) {
	r := python(t, Options{}, `
import fcntl
for fd in 0, 1: say("%d %s" % (fcntl.fcntl(fd, 1032), os.get_blocking(fd)))
say("%s %s" % (os.get_blocking(2), sorted(map(int, os.listdir("/proc/self/fd")))[:3]))
`)
	for _, want := range []string{"1048576 True", "1048576 True", "True [0, 1, 2]"} {
		r.says(want)
	}
	r.ends()
}

func TestParseStat(t *testing.T) {
	for _, c := range []struct {
		stat   string
		want   procStat
		living bool
	}{
		{"12 (a) b (c)) S 1 77 77 0 -1 4194304 5", procStat{"a) b (c)", 'S', 1, 77, 4194304}, true},
		{"12 (sh) Z 5 77 77 0 -1 4194304 5", procStat{"sh", 'Z', 5, 77, 4194304}, false},
		{"12 (sh) R 1 77 77 0 -1 4194308 5", procStat{"sh", 'R', 1, 77, 4194308}, false}, // exiting, and no zombie yet
	} {
		got, ok := parseStat(c.stat)
		if !ok || got != c.want || got.living() != c.living {
			t.Errorf("%s: got %+v %v", c.stat, got, ok)
		}
	}
	for _, stat := range []string{"12 (sh) R 1 77", "12 (cut", ""} {
		if got, ok := parseStat(stat); ok {
			t.Errorf("%q: got %+v", stat, got)
		}
	}
}
