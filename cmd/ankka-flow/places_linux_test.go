package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// somewhere is a place with its name and what a person may do there.
type somewhere interface {
	stage
	// ctrlC is Ctrl-C as it happens there.
	ctrlC(p *program)
}

// places are where a streamlet is run: on pipes (a service, CI), on a terminal, and as
// process 1 of a container.
func places(t *testing.T) map[string]somewhere {
	return map[string]somewhere{"pipe": &onPipes{}, "terminal": newTerminal(t), "process 1": newProcess1(t)}
}

// everywhere runs a test at every place.
func everywhere(t *testing.T, test func(t *testing.T, at somewhere)) {
	t.Parallel()
	for _, name := range []string{"pipe", "terminal", "process 1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, places(t)[name])
		})
	}
}

// onPipes has a process group of its own, as a shell without job control gives it.
type onPipes struct{}

func (*onPipes) prepare(cmd *exec.Cmd) io.Reader {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return nil
}

func (*onPipes) started() {}

// ctrlC is what `timeout -s INT` or a terminal does to a group.
func (*onPipes) ctrlC(p *program) {
	p.t.Helper()
	if err := syscall.Kill(-p.cmd.Process.Pid, syscall.SIGINT); err != nil {
		p.t.Fatal(err)
	}
}

// onTerminal is a pseudo terminal that controls the program's session.
type onTerminal struct {
	t               *testing.T
	keyboard, slave *os.File
}

func newTerminal(t *testing.T) *onTerminal {
	t.Helper()
	keyboard, slave := openPty(t)
	t.Cleanup(func() {
		_ = keyboard.Close()
		_ = slave.Close()
	})
	mode, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	mode.Oflag &^= unix.ONLCR // lines end as on a pipe
	mode.Lflag &^= unix.ECHO
	if err := unix.IoctlSetTermios(int(slave.Fd()), unix.TCSETS, mode); err != nil {
		t.Fatal(err)
	}
	return &onTerminal{t: t, keyboard: keyboard, slave: slave}
}

func (x *onTerminal) prepare(cmd *exec.Cmd) io.Reader {
	cmd.Stdin, cmd.Stderr = x.slave, x.slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	cmd.Env = append(cmd.Env, "TERM=xterm")
	x.resize(24, 200)
	return x.keyboard
}

func (x *onTerminal) started() { _ = x.slave.Close() }

// resize changes the window, which its programs hear of by SIGWINCH.
func (x *onTerminal) resize(rows, columns uint16) {
	x.t.Helper()
	if err := unix.IoctlSetWinsize(int(x.keyboard.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns}); err != nil {
		x.t.Fatal(err)
	}
}

func (x *onTerminal) ctrlC(*program) { x.pressCtrlC() }

// seen is what a person sees of a line: what was drawn before the last erasure, the live
// line, is gone, and colours are none.
func (x *onTerminal) seen(line string) string {
	if at := strings.LastIndex(line, "\x1b[J"); at >= 0 {
		line = line[at:]
	}
	return escapes.ReplaceAllString(line, "")
}

// pressCtrlC presses the keys.
func (x *onTerminal) pressCtrlC() {
	x.t.Helper()
	if _, err := x.keyboard.WriteString("\x03"); err != nil {
		x.t.Fatal(err)
	}
}

// process1 is a PID namespace of its own, as a container has it, with a /proc of its own.
type process1 struct{ t *testing.T }

func newProcess1(t *testing.T) *process1 { return &process1{t} }

// prepare goes through a shell that mounts /proc and becomes the program, so that the
// program is process 1 itself.
func (x *process1) prepare(cmd *exec.Cmd) io.Reader {
	x.t.Helper()
	path, err := exec.LookPath("sh")
	if err != nil {
		x.t.Fatal(err)
	}
	cmd.Args = append([]string{"sh", "-ec", `mount --make-rprivate /; mount -t proc proc /proc; exec "$@"`, "sh", cmd.Path}, cmd.Args[1:]...)
	cmd.Path = path
	cmd.SysProcAttr = namespaces(x.t)
	// There the port and the folder are not shared with the other tests.
	cmd.Env = append(cmd.Env, "FLOW_METRICS_PORT=0", "FLOW_STATE_DIR="+filepath.Join(x.t.TempDir(), "state"))
	return nil
}

func (*process1) started() {}

// ctrlC is `docker stop -s INT`, or Ctrl-C in `docker run` without -t.
func (*process1) ctrlC(p *program) { p.interrupt() }

// namespaces are the attributes of a process 1. They need root or user namespaces.
func namespaces(t *testing.T) *syscall.SysProcAttr {
	t.Helper()
	attributes := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
	if os.Getuid() != 0 {
		attributes.Cloneflags |= syscall.CLONE_NEWUSER
		attributes.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		attributes.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	probe := exec.Command("true")
	probe.SysProcAttr = attributes
	if err := probe.Run(); err != nil {
		t.Fatalf("this test needs a PID namespace, which root may make, or anybody where user namespaces are allowed: %v", err)
	}
	copied := *attributes
	return &copied
}

// children are the children of a process, as "pid state", seen from outside its namespace.
func (c process) children() []string {
	c.t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		c.t.Fatal(err)
	}
	var found []string
	for _, path := range stats {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if stat := (process{c.t, pid}).stat(); len(stat) > 1 && stat[1] == fmt.Sprint(c.pid) {
			found = append(found, fmt.Sprintf("%d %s", pid, stat[0]))
		}
	}
	return found
}

// zombies are those of its children that have ended and wait to be taken.
func (c process) zombies() int {
	n := 0
	for _, child := range c.children() {
		if strings.HasSuffix(child, " Z") {
			n++
		}
	}
	return n
}
