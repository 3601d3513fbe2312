package main

import (
	"os/exec"
	"strings"
	"testing"
)

// The scripts are there, a shell takes them, and what they ask for knows our commands
// and the values of our flags.
func TestCompletion(t *testing.T) {
	t.Parallel()
	o := programOptions{dir: t.TempDir()}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		code, script, _ := runProgram(t, o, "completion", shell)
		if code != 0 || !strings.Contains(script, "ankka-flow") {
			t.Errorf("completion %s: exit code %d, %d bytes", shell, code, len(script))
			continue
		}
		if path, err := exec.LookPath(shell); err == nil { // bash is everywhere
			check := exec.Command(path, "-n")
			check.Stdin = strings.NewReader(script)
			if out, err := check.CombinedOutput(); err != nil {
				t.Errorf("%s: %v: %s", shell, err, out)
			}
		}
	}
	for _, c := range []struct {
		typed []string
		want  []string
	}{
		{[]string{"ru"}, []string{"run"}},
		{[]string{"conf"}, []string{"conformance"}},
		{[]string{"conformance", "--l"}, []string{"--list"}},
		{[]string{"topics", ""}, []string{"create", "delete", "describe", "list"}},
		{[]string{"dead-letters", ""}, []string{"list", "redrive", "show"}},
		{[]string{"dead-letters", "redrive", "--max"}, []string{"--max-redrives"}},
		{[]string{"probe", ""}, []string{"ready", "live"}},
		{[]string{"run", "--log-format", ""}, []string{"auto", "text", "json"}},
		{[]string{"--color", ""}, []string{"auto", "always", "never"}},
		{[]string{"run", "--atta"}, []string{"--attach"}},
	} {
		_, stdout, _ := runProgram(t, o, append([]string{"__complete"}, c.typed...)...)
		for _, want := range c.want {
			if !strings.Contains("\n"+stdout, "\n"+want) {
				t.Errorf("%q offers no %q: %q", c.typed, want, stdout)
			}
		}
	}
}
