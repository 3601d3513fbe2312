package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"
)

// From a save to the launch of the new process, and from there until everything runs,
// with idle handlers: what a reload takes, and the process's own start. To be read, and
// not judged by a test: the machine decides. -benchtime 50x is fifty reloads.
func BenchmarkReload(b *testing.B) {
	dir := b.TempDir()
	source, err := os.ReadFile(filepath.Join(repository, "examples", "cart_router.py"))
	if err != nil {
		b.Fatal(err)
	}
	script := filepath.Join(dir, "s.py")
	save := func() {
		source = append(source, "# saved\n"...)
		if err := os.WriteFile(script, source, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	save()
	cmd := exec.Command(binary, "--log-format", "text", "run", "--watch", "--metrics-port", "0", "--", "python3", "s.py")
	cmd.Dir = dir
	cmd.Env = append(cleanEnvironment(), "PYTHONPATH="+filepath.Join(repository, "sdk/python/src"))
	stderr, err := cmd.StderrPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	}()
	lines := bufio.NewScanner(stderr)
	await := func(pattern string) time.Time {
		re := regexp.MustCompile(pattern)
		for lines.Scan() {
			if re.MatchString(lines.Text()) {
				return time.Now()
			}
		}
		b.Fatalf("no line that matches %q", pattern)
		return time.Time{}
	}
	await(`ready `)
	var reloads, starts []float64
	for b.Loop() {
		saved := time.Now()
		save()
		launched := await(`process +pid`)
		ready := await(`ready `)
		reloads, starts = append(reloads, launched.Sub(saved).Seconds()), append(starts, ready.Sub(launched).Seconds())
	}
	slices.Sort(reloads)
	slices.Sort(starts)
	b.ReportMetric(reloads[len(reloads)/2], "s-reload-p50")
	b.ReportMetric(reloads[len(reloads)-1], "s-reload-max")
	b.ReportMetric(starts[len(starts)/2], "s-start-p50")
}
