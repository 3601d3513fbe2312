package supervisor

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// oomCounter reads how often the kernel killed for memory in our cgroup (the zero value,
// and every error, reads 0, so that nothing is ever claimed without proof).
type oomCounter struct{ file string }

// cgroupRoots is where cgroups are mounted: v2 alone, or beside v1, and v1's for memory.
var cgroupRoots = []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/memory"}

// ownOOMCounter finds the counter of the cgroup that we, and so our children, are in.
func ownOOMCounter() oomCounter {
	membership, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return oomCounter{}
	}
	return findOOMCounter(string(membership), cgroupRoots)
}

// findOOMCounter looks below the roots for the cgroups of a membership (lines
// "number:controllers:path"; v2 has no controllers), and then in the roots themselves: a
// container that shares the cgroup namespace of its host has its own cgroup mounted there,
// and a path that is none inside.
func findOOMCounter(membership string, roots []string) oomCounter {
	var below, mounted []string
	for line := range strings.Lines(membership) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(fields) < 3 {
			continue
		}
		name := "memory.events" // each with a line "oom_kill N"
		if fields[1] != "" {
			name = "memory.oom_control"
			if !slices.Contains(strings.Split(fields[1], ","), "memory") {
				continue
			}
		}
		for _, root := range roots {
			below = append(below, filepath.Join(root, fields[2], name))
			mounted = append(mounted, filepath.Join(root, name))
		}
	}
	for _, file := range append(below, mounted...) {
		if _, err := os.Stat(file); err == nil {
			return oomCounter{file: file}
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
