package supervisor

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// oomCounter reads how often the kernel killed for memory in our cgroup (v2 only; the
// zero value, and every error, reads 0, so that nothing is ever claimed without proof).
type oomCounter struct{ file string }

// cgroupRoots is where cgroup v2 is mounted, alone or beside v1.
var cgroupRoots = []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}

// ownOOMCounter finds the counter of the cgroup that we, and so our children, are in.
func ownOOMCounter() oomCounter {
	membership, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return oomCounter{}
	}
	return findOOMCounter(string(membership), cgroupRoots)
}

func findOOMCounter(membership string, roots []string) oomCounter {
	for line := range strings.Lines(membership) {
		path, v2 := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::")
		if !v2 {
			continue
		}
		for _, root := range roots {
			file := filepath.Join(root, path, "memory.events")
			if _, err := os.Stat(file); err == nil {
				return oomCounter{file: file}
			}
		}
	}
	return oomCounter{}
}

// kills is the count so far, of this cgroup and those below it.
func (c oomCounter) kills() uint64 {
	if c.file == "" {
		return 0
	}
	text, err := os.ReadFile(c.file)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "oom_kill "); ok {
			n, _ := strconv.ParseUint(strings.TrimSpace(rest), 10, 64)
			return n
		}
	}
	return 0
}

// ranOutOfMemory is the judgement: a SIGKILL that was not ours, while the count rose.
func ranOutOfMemory(signal syscall.Signal, ours bool, before, after uint64) bool {
	return signal == syscall.SIGKILL && !ours && after > before
}
