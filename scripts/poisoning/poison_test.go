package main

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// A short form of scripts/poison: one of each kind at once, named, isolated and
// mended. The time is too short, and a busy machine too slow, for the whole share
// of the others' throughput; half of it would not be there if they waited.
func TestPoison_ShortForm(t *testing.T) {
	cmd := exec.Command("../poison", "--kinds", "mixed", "--record", "3ms", "--window", "8s", "--share", "0.5", "--within", "90s", "--after", "60s")
	out, err := cmd.CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	last := regexp.MustCompile(`^poison: 20 partitions, 3 bad, .*mixed: named [\d.]+s, others [\d.]+ %, \d+ repeats, on [\d.]+s after a save; 0 promises not kept$`)
	if err != nil || !last.MatchString(lines[len(lines)-1]) {
		t.Fatalf("%v:\n%s", err, out)
	}
	t.Log(lines[len(lines)-1])
}
