package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The scripts are loaded by the lines that a person types into each shell, on a terminal, and
// Tab completes a command, a command below it and a value of a flag: what is then run is what
// was completed.
func TestCompletionInEachShell(t *testing.T) {
	t.Parallel()
	out, err := exec.Command(filepath.Join(repository, "scripts/debian-root"), "shells", "bash", "bash-completion", "zsh", "fish", "ncurses-base", "sed").Output()
	if err != nil {
		t.Fatalf("making the root file system of the shells: %v", err)
	}
	root := strings.TrimSpace(string(out))
	if out, err := exec.Command("cp", "-f", binary, filepath.Join(root, "usr/bin/ankka-flow")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	const enter = `mount --make-rprivate /; mount -t proc proc "$1/proc"; mount --bind /dev "$1/dev"; root=$1; shift
exec chroot "$root" /usr/bin/env -i HOME=/tmp PATH=/usr/bin:/bin TERM=xterm "$@"`
	for _, c := range []struct {
		name  string
		shell []string
		load  string
	}{
		{"bash", []string{"bash", "--norc", "-i"}, "source /usr/share/bash-completion/bash_completion; source <(ankka-flow completion bash)"},
		{"zsh", []string{"zsh", "-f", "-i"}, "autoload -U compinit; compinit -D -u; source <(ankka-flow completion zsh)"},
		{"fish", []string{"fish", "--no-config", "-i"}, "ankka-flow completion fish | source"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			x, slave := openTerminal(t, 200, 50)
			command := append([]string{"unshare", "-m", "sh", "-ec", enter, "sh", root}, c.shell...)
			startOn(t, slave, programOptions{}, command...)
			x.typeIn(c.load + "; echo lo''aded\n")
			_, at := x.await(0, `loaded\r?\n`)
			x.typeIn("ankka-flow --color nev\ttopics cre\t--help\n")
			_, at = x.await(at, `Usage:\s+ankka-flow topics create`)
			x.typeIn("ankka-flow vers\t\n")
			x.await(at, `ankka-flow \S+ .*go1`)
		})
	}
}
