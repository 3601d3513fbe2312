package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"ankka-flow/conformance"
	"ankka-flow/wire"
)

// The cases of the suite that judge the supervisor, each with a process that is scripted for it:
// `ankka-flow conformance` cannot ask them of a process.
func TestConformance_TheSupervisor(t *testing.T) {
	t.Parallel()
	t.Run("violation.double-ack", func(t *testing.T) { afterTheAck(t, "ack-twice", "ack of batch 1") })
	t.Run("violation.emit-after-ack", func(t *testing.T) { afterTheAck(t, "emit-after-ack", "forward of batch 1") })
	t.Run("violation.unknown-batch", TestCase12_AnAckForABatchNeverSent)
	t.Run("version.refuses-other-major", func(t *testing.T) {
		t.Parallel()
		for _, version := range []string{"0.9", "2.0", "10.0"} {
			b := newCaseBroker(t)
			b.putN(1)
			p := b.runCase(nil, nil, misbehaves(t, "good", "--protocol", version)) // not even without --exit-on-failure it tries again
			p.endsWith(1)
			p.says("ERR", "the process speaks protocol "+version, "this supervisor speaks "+wire.Version, "another major version")
			p.says("misbehave.py | refused:", "another major version") // the process was told, too
			p.says("pid")                                              // one launch
			if b.committed(0) != 0 || len(b.out()) != 0 {
				t.Errorf("protocol %s: something was delivered", version)
			}
		}
	})
	t.Run("version.accepts-earlier-minor", func(t *testing.T) {
		t.Parallel()
		later := laterMinor(t)
		b := newCaseBroker(t)
		b.putN(3)
		args := append([]string{later, "--log-format", "text", "run", "-b", b.address(), "--until-end", "--"}, misbehaves(t, "good")...)
		p := startCommand(t, programOptions{dir: b.dir, env: caseEnv()}, args...)
		p.endsWith(0)
		if got := keys(b.out()); got != "k0 k1 k2" || b.committed(0) != 3 {
			t.Errorf("written: %s; committed: %d", got, b.committed(0))
		}
		// And it is the later one: it takes what ours refuses, and refuses the one after it.
		for version, code := range map[string]int{"1.1": 0, "1.2": 1} {
			p := startCommand(t, programOptions{}, append([]string{later, "descriptor", "--"}, misbehaves(t, "good", "--protocol", version)...)...)
			p.endsWith(code)
		}
	})
}

// laterMinor builds the program as one that speaks protocol 1.1: there is no minor before 1.0
// that ours could accept.
func laterMinor(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	limits := filepath.Join(repository, "wire", "limits.go")
	text, err := os.ReadFile(limits)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(text), `Version = "1.0"`, `Version = "1.1"`, 1)
	if changed == string(text) {
		t.Fatal("limits.go does not say what version it is")
	}
	overlay, _ := json.Marshal(map[string]any{"Replace": map[string]string{limits: filepath.Join(dir, "limits.go")}})
	for name, content := range map[string][]byte{"limits.go": []byte(changed), "overlay.json": overlay} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(dir, "ankka-flow")
	build := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", out, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building it: %v\n%s", err, output)
	}
	return out
}

// plainWith is the plain reference streamlet with one thing changed, as plain.py in a folder.
func plainWith(t *testing.T, old, changed string) programOptions {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, "conformance/streamlets/plain.py"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(text), old) != 1 {
		t.Fatalf("plain.py has %q %d times, want once", old, strings.Count(string(text), old))
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "plain.py"), []byte(strings.Replace(string(text), old, changed, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	return programOptions{dir: dir}
}

// What the page shows is what comes: its commands, their output and their exit codes.
func TestConformancePageRuns(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(repository, "docs/conformance.md"))
	if err != nil {
		t.Fatal(err)
	}
	o := plainWith(t, `[None, value, headers]`, `[b"", value, headers]`)
	shown := 0
	for _, m := range regexp.MustCompile("(?s)```\n\\$ ankka-flow (.*?)\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		shown++
		args := strings.Fields(strings.ReplaceAll(m[1], "'", ""))
		code, stdout, stderr := runProgram(t, o, args...)
		failed := strings.Contains(m[2], "FAIL")
		if want := map[bool]int{true: 1, false: 0}[failed]; code != want || stderr != "" {
			t.Errorf("ankka-flow %s: exit code %d, want %d; stderr %q", m[1], code, want, stderr)
		}
		if stdout != m[2] {
			t.Errorf("ankka-flow %s prints\n%s\nthe page shows\n%s", m[1], stdout, m[2])
		}
	}
	if shown < 2 {
		t.Errorf("%d commands on the page: does the test still find them?", shown)
	}
}

// --list has every case, --run chooses, --json is an object a case with what a failure needs.
func TestConformanceFlags(t *testing.T) {
	t.Parallel()
	o := plainWith(t, `[None, value, headers]`, `[b"", value, headers]`)
	code, stdout, _ := runProgram(t, o, "conformance", "--list")
	if n := strings.Count(stdout, "\n"); code != 0 || n != len(conformance.Cases()) || n < 45 {
		t.Errorf("--list: exit code %d, %d lines, want %d", code, n, len(conformance.Cases()))
	}
	code, stdout, stderr := runProgram(t, o, "conformance", "--json", "--run", "run.(unkeyed-emit|fan-out)", "--", "python3", "plain.py")
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if code != 1 || len(lines) != 2 || stderr != "1 passed, 1 failed" {
		t.Fatalf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	var results [2]struct {
		Case, Result, Sentence, Section string
		Failure                         struct{ Expected, Came string }
		Trace                           []string
	}
	for i := range results {
		if err := json.Unmarshal([]byte(lines[i]), &results[i]); err != nil {
			t.Fatal(err)
		}
	}
	if r := results[0]; r.Case != "run.fan-out" || r.Result != "passed" || r.Sentence == "" || r.Section == "" {
		t.Errorf("%+v", r)
	}
	if r := results[1]; r.Result != "failed" || !strings.Contains(r.Failure.Expected, "key null") || !strings.Contains(r.Failure.Came, `key ""`) || len(r.Trace) < 5 {
		t.Errorf("%+v", r)
	}
	for _, wrong := range [][]string{{"--run", "("}, {"--run", "no.such"}, {}, {"--", "python3"}, {"--timeout", "-1s", "--", "true"}} {
		if code, stdout, stderr := runProgram(t, o, append([]string{"conformance"}, wrong...)...); code != 2 || stdout != "" || stderr == "" {
			t.Errorf("%q: exit code %d, stdout %q, stderr %q", wrong, code, stdout, stderr)
		}
	}
}

// A process that cannot be asked gets one message, and no line for every case.
func TestConformanceOfWhatIsNoReferenceStreamlet(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		command []string
		code    int
		words   []string
	}{
		{"exits", []string{"sh", "-c", "echo not me >&2; exit 3"}, 1, []string{"answers no discovery", "exit 3", "| not me", "does it call serve()?"}},
		{"never speaks", []string{"sleep", "600"}, 1, []string{"answers no discovery", "nothing for"}},
		{"another streamlet", misbehaves(t, "good"), 1, []string{`the streamlet "case"`, `"conformance"`, "REFERENCE.md"}},
		{"no program", []string{"no-such-program"}, 127, []string{"no-such-program", "PATH"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := runProgram(t, programOptions{}, append([]string{"conformance", "--timeout", "1s", "--"}, c.command...)...)
			if code != c.code || stdout != "" {
				t.Errorf("exit code %d, want %d; stdout %q", code, c.code, stdout)
			}
			for _, word := range c.words {
				if !strings.Contains(stderr, word) {
					t.Errorf("stderr does not say %q: %s", word, stderr)
				}
			}
		})
	}
}
