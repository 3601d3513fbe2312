package supervisor

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestOOMCounterReadsCgroupV2(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "kubepods", "pod1")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	events := "low 0\nhigh 4\nmax 17\noom 3\noom_kill 2\noom_group_kill 9\n"
	if err := os.WriteFile(filepath.Join(dir, "memory.events"), []byte(events), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, membership string
		want             uint64
	}{
		{"v2", "0::/kubepods/pod1\n", 2},
		{"v2 beside v1", "4:memory:/x\n0::/kubepods/pod1\n", 2},
		{"v1 alone", "4:memory:/kubepods/pod1\n", 0},
		{"another cgroup", "0::/kubepods\n", 0},
		{"nothing readable", "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := findOOMCounter(c.membership, []string{filepath.Join(root, "absent"), root}).kills(); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}

func TestOutOfMemoryNeedsBothASIGKILLThatIsNotOursAndARisenCount(t *testing.T) {
	for _, c := range []struct {
		name          string
		signal        syscall.Signal
		ours          bool
		before, after uint64
		want          bool
	}{
		{"both", syscall.SIGKILL, false, 1, 2, true},
		{"the count did not rise", syscall.SIGKILL, false, 2, 2, false},
		{"another signal", syscall.SIGSEGV, false, 1, 2, false},
		{"an exit", 0, false, 1, 2, false},
		{"our own kill", syscall.SIGKILL, true, 1, 2, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := ranOutOfMemory(c.signal, c.ours, c.before, c.after); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
