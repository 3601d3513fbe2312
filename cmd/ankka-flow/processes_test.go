package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// once is the file by which a fixture misbehaves only the first time.
func once(t *testing.T) string { return filepath.Join(t.TempDir(), "once") }

// config is a configuration file with this text.
func (b *caseBroker) config(text string) string {
	b.t.Helper()
	path := filepath.Join(b.t.TempDir(), "flow.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	return path
}

// process is one that a test did not launch itself.
type process struct {
	t   *testing.T
	pid int
}

// child waits for the n-th launch, from 1, and is the process of it.
func (p *program) child(n int) process {
	p.t.Helper()
	pids := regexp.MustCompile(`process +pid (\d+):`)
	var found [][]string
	eventually(p.t, fmt.Sprintf("launch %d", n), func() bool {
		found = pids.FindAllStringSubmatch(p.stderr(), -1)
		return len(found) >= n
	})
	return process{p.t, atoi(p.t, found[n-1][1])}
}

// launches is how often a process was launched so far.
func (p *program) launches() int {
	return len(regexp.MustCompile(`process +pid \d+:`).FindAllString(p.stderr(), -1))
}

// spoken waits for a line that ends with "WORD PID" and is that process.
func (p *program) spoken(word string) process {
	p.t.Helper()
	return process{p.t, atoi(p.t, p.await(word + ` (\d+)$`)[1])}
}

func atoi(t *testing.T, digits string) int {
	t.Helper()
	n, err := strconv.Atoi(digits)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// gone waits for its end.
func (c process) gone() {
	c.t.Helper()
	eventually(c.t, fmt.Sprintf("process %d is gone", c.pid), func() bool { return !c.lives() })
}

// lives says that it has not ended; a zombie has.
func (c process) lives() bool {
	if runtime.GOOS == "linux" {
		stat := c.stat()
		return len(stat) > 0 && stat[0] != "Z" && stat[0] != "X"
	}
	state, err := exec.Command("ps", "-o", "stat=", "-p", fmt.Sprint(c.pid)).Output()
	return err == nil && !strings.HasPrefix(string(state), "Z")
}

// stat is what /proc says of it, from its state on; nothing where it is gone.
func (c process) stat() []string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.pid))
	if err != nil {
		return nil
	}
	return strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
}

// rests is a condition for eventually: the process has used no processor for
// ten looks in a row.
func (c process) rests() func() bool {
	last, same := "", 0
	return func() bool {
		used := ""
		if stat := c.stat(); len(stat) > 12 {
			used = stat[11] + " " + stat[12]
		}
		if same++; used != last {
			last, same = used, 0
		}
		return same >= 10
	}
}

// checkMemory fails the test where a program has ever held more than so many MB,
// as far as the system says.
func checkMemory(t *testing.T, p *program, limit int) {
	t.Helper()
	if runtime.GOOS != "linux" {
		return
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	peak := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(text)
	if peak == nil {
		t.Fatalf("no peak in %s", text)
	}
	if mb := atoi(t, string(peak[1])) / 1000; mb > limit {
		t.Errorf("it has held %d MB, want at most %d", mb, limit)
	}
}
