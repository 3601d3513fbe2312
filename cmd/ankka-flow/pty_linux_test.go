package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// terminal is a pseudo terminal of the system and what was written to it.
type terminal struct {
	t      *testing.T
	master *os.File

	mu   sync.Mutex
	got  bytes.Buffer
	more chan struct{}
	read sync.WaitGroup
}

// openPty makes a pseudo terminal: our end, and the one for programs.
func openPty(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatalf("opening a pseudo terminal: %v", err)
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}

// openTerminal makes one of this size, and returns the end for programs too.
func openTerminal(t *testing.T, columns, rows int) (*terminal, *os.File) {
	t.Helper()
	master, slave := openPty(t)
	x := &terminal{t: t, master: master, more: make(chan struct{})}
	x.resize(columns, rows)
	x.read.Go(x.readAll) // ends when nobody has the other end any more
	t.Cleanup(func() {
		_ = slave.Close()
		_ = master.Close()
		x.read.Wait()
	})
	return x, slave
}

func (x *terminal) resize(columns, rows int) {
	x.t.Helper()
	size := &unix.Winsize{Col: uint16(columns), Row: uint16(rows)}
	if err := unix.IoctlSetWinsize(int(x.master.Fd()), unix.TIOCSWINSZ, size); err != nil {
		x.t.Fatal(err)
	}
}

func (x *terminal) readAll() {
	chunk := make([]byte, 64<<10)
	for {
		n, err := x.master.Read(chunk)
		x.mu.Lock()
		x.got.Write(chunk[:n])
		close(x.more)
		x.more = make(chan struct{})
		x.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// bytes is everything that was written so far.
func (x *terminal) bytes() []byte {
	x.mu.Lock()
	defer x.mu.Unlock()
	return bytes.Clone(x.got.Bytes())
}

// await waits until what was written from an offset on matches, and returns the
// groups and the offset behind them.
func (x *terminal) await(from int, pattern string) ([]string, int) {
	x.t.Helper()
	re := regexp.MustCompile(pattern)
	limit := time.NewTimer(testLimit)
	defer limit.Stop()
	for {
		x.mu.Lock()
		text, more := x.got.String()[from:], x.more
		x.mu.Unlock()
		if at := re.FindStringSubmatchIndex(text); at != nil {
			return re.FindStringSubmatch(text), from + at[1]
		}
		select {
		case <-more:
		case <-limit.C:
			x.t.Fatalf("nothing that matches %q within %v; the terminal has\n%q", pattern, testLimit, tail([]byte(text), 4000))
		}
	}
}

func (x *terminal) typeIn(text string) {
	x.t.Helper()
	if _, err := x.master.WriteString(text); err != nil {
		x.t.Fatal(err)
	}
}

// startOn runs a command whose controlling terminal this is. Whatever is left of
// it at the end is killed.
func startOn(t *testing.T, slave *os.File, o programOptions, command ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir = o.dir
	cmd.Env = append(cleanEnvironment(), "TERM=xterm-256color", "PYTHONPATH="+repository+"/sdk/python/src")
	cmd.Env = append(cmd.Env, o.env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // nil where the test has waited
	})
	return cmd
}
