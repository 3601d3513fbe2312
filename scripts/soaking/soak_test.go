//go:build kafka

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Programs that break a rule on purpose are caught, each by its kind of
// violation, and what explains it is kept.
func TestKafka_Soak_CatchesBrokenRules(t *testing.T) {
	for tag, kind := range map[string]string{"broken_early": "early", "broken_order": "order", "broken_skip": "skipped"} {
		t.Run(tag, func(t *testing.T) {
			t.Parallel() // the brokers are left alone
			dir := t.TempDir()
			cmd := exec.Command("../soak", "--minutes", "0.2", "--seed", "7", "--tags", tag, "--faults", "supervisors", "--dir", dir)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 1 {
				t.Fatalf("%v, want exit 1:\n%s", err, out)
			}
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			if last := lines[len(lines)-1]; !strings.HasPrefix(last, "soak: seed 7, ") {
				t.Errorf("the last line is %q, want the figures and the seed", last)
			}
			kept := map[string]string{}
			for _, name := range []string{"violations.txt", "faults.log", "commits.tsv", "forward-1.log", "kafka-1.log"} {
				text, err := os.ReadFile(filepath.Join(dir, name))
				if err != nil {
					t.Error(err)
				}
				kept[name] = string(text)
			}
			if !strings.Contains("\n"+kept["violations.txt"], "\n"+kind+": ") {
				t.Errorf("no violation of the kind %s:\n%s", kind, out)
			}
		})
	}
}

// Three minutes of everything that a cluster, a machine and a person do.
// SOAK_SEED replays the choices; .cache/soak keeps what explains a violation.
func TestKafka_Soak(t *testing.T) {
	args := []string{"--minutes", "3"}
	if seed := os.Getenv("SOAK_SEED"); seed != "" {
		args = append(args, "--seed", seed)
	}
	out, err := exec.Command("../soak", args...).CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Errorf("scripts/soak: %v", err)
	}
}
