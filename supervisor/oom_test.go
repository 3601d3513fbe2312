package supervisor

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestOOMCounterReadsTheCgroupsFile(t *testing.T) {
	root := t.TempDir()
	write := func(path, text string) {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("v2/kubepods/pod1/memory.events", "low 0\nhigh 4\nmax 17\noom 3\noom_kill 2\noom_group_kill 9\n")
	write("inside/memory.events", "oom 3\noom_kill 4\n")
	write("v1/kubepods/pod1/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n")
	write("v1/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 99\n")
	for _, c := range []struct {
		name, membership string
		mounted          []string
		want             uint64
	}{
		{"v2", "0::/kubepods/pod1\n", []string{"absent", "v2"}, 2},
		{"v2 beside v1", "4:memory:/x\n0::/kubepods/pod1\n", []string{"v2"}, 2},
		{"v2, seen from inside", "0::/system.slice/some-container\n", []string{"inside"}, 4},
		{"v1", "9:name=systemd:/\n4:cpu,memory:/kubepods/pod1\n0::/\n", []string{"v2", "v1"}, 5},
		{"v1, another controller", "4:cpu:/kubepods/pod1\n", []string{"v1"}, 0},
		{"another cgroup", "0::/kubepods\n", []string{"v2"}, 0},
		{"nothing readable", "", []string{"v2", "inside", "v1"}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var roots []string
			for _, name := range c.mounted {
				roots = append(roots, filepath.Join(root, name))
			}
			if got := findOOMCounter(c.membership, roots).kills(); got != c.want {
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
