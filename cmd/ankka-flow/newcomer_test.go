package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// readmeSection is the README from one heading to the next, without the heading.
func readmeSection(t *testing.T, heading string) string {
	t.Helper()
	_, section, ok := strings.Cut(readme(t), "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("the README has no section %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	return section
}

// freshClone is a folder with what `make demo` leaves in one, and without the
// settings of this test's own environment.
func freshClone(t *testing.T) programOptions {
	t.Helper()
	dir := t.TempDir()
	for name, target := range map[string]string{"ankka-flow": binary, "sdk": filepath.Join(repository, "sdk")} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return programOptions{dir: dir, env: []string{"PYTHONPATH=", "FLOW_LOG_FORMAT=text"}}
}

// readmeStreamlet saves the README's own streamlet under the name that the first
// line to type has, beside what a fresh clone holds, and returns the lines to type.
func readmeStreamlet(t *testing.T) (o programOptions, lines []string) {
	t.Helper()
	section := readmeSection(t, "Your own streamlet")
	code := regexp.MustCompile("(?s)```python\n(.*?)```").FindStringSubmatch(section)
	typed := regexp.MustCompile(`(?m)^    (.+)$`).FindAllStringSubmatch(section[strings.LastIndex(section[:strings.Index(section, "./ankka-flow")], "```"):], -1)
	if code == nil || len(typed) < 4 {
		t.Fatalf("the section has code %q and %d lines to type, want a program and at least 4", code, len(typed))
	}
	for _, line := range typed {
		lines = append(lines, line[1])
	}
	script := regexp.MustCompile(`\S+\.py`).FindString(lines[0])
	if !strings.Contains(section, "`"+script+"`") {
		t.Errorf("the section does not say that the program is saved as %s", script)
	}
	o = freshClone(t)
	if err := os.WriteFile(filepath.Join(o.dir, script), []byte(code[1]), 0o600); err != nil {
		t.Fatal(err)
	}
	return o, lines
}

// The README's own streamlet, saved under the name and run by the lines that the
// README gives, as they stand there.
func TestReadmeStreamletRunsAsWritten(t *testing.T) {
	t.Parallel()
	o, lines := readmeStreamlet(t)
	run, put, look := lines[0], lines[1], lines[2]
	p := startCommand(t, o, "bash", "-c", run)
	p.await(`INF ready`)
	if w := startCommand(t, o, "bash", "-c", put); w.wait() != 0 {
		t.Fatal("the record was not written")
	}
	r := startCommand(t, o, "bash", "-c", look)
	if r.wait() != 0 || !strings.Contains(r.stdout.String(), `"value":"42"`) {
		t.Fatalf("one sees %q, want the value 42", r.stdout.String())
	}
	p.stopsWell()
}

// The README's line for a Kafka of one's own: nothing of it but the broker's
// address is another.
func TestReadmeStreamletOnAKafkaOfOnesOwn(t *testing.T) {
	t.Parallel()
	o, lines := readmeStreamlet(t)
	own := lines[3]
	address, topic := regexp.MustCompile(`-b (\S+)`).FindStringSubmatch(own), regexp.MustCompile(`in=(\S+)`).FindStringSubmatch(own)
	if address == nil || topic == nil {
		t.Fatalf("the line %q names no broker or no topic", own)
	}
	b := newCaseBroker(t, kfake.SeedTopics(1, topic[1], "doubler.out"))
	r := &kgo.Record{Topic: topic[1], Key: []byte("k"), Value: []byte("21")}
	if err := b.client.ProduceSync(b.ctx, r).FirstErr(); err != nil {
		t.Fatal(err)
	}
	o.env = append(o.env, "PYTHONPATH="+filepath.Join(repository, "sdk", "python", "src"))
	p := startCommand(t, o, "bash", "-c", strings.Replace(own, address[1], b.address(), 1))
	p.await(`committed +1 in, 1 out, 0 behind`)
	p.stopsWell()
	log := readLogs(b.ctx, t, b.cluster.ListenAddrs(), []string{"doubler.out"})["doubler.out"][0]
	if len(log) != 1 || string(log[0].Key) != "k" || string(log[0].Value) != "42" {
		t.Errorf("doubler.out has %d records, want one with key k and value 42: %v", len(log), log)
	}
}

// Without the SDK it cannot run, and is told what to do.
func TestReadmeStreamletWithoutTheSDK(t *testing.T) {
	t.Parallel()
	o := freshClone(t)
	if err := os.WriteFile(filepath.Join(o.dir, "s.py"), []byte("import ankka_flow\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startProgram(t, o, "run", "--exit-on-failure", "--", "python3", "s.py")
	p.endsWith(1)
	p.says("ERR process", "exit 1", "pip install ./sdk/python", "PYTHONPATH=sdk/python/src")
	p = startProgram(t, o, "descriptor", "--", "python3", "s.py")
	p.endsWith(1)
	p.says("ankka-flow: ", "exit 1", "pip install ./sdk/python")
}

// A terminal that is closed asks for a stop: what is in flight is finished.
func TestSignalOfAClosedTerminal(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t)
	b.putN(1)
	h := newHeld(t)
	p := b.runCase(nil, nil, misbehaves(t, "hold", "--until", h.path))
	h.one()
	b.awaitCommit(1)
	b.putN(1)
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	p.await(`stopping +SIGHUP`)
	h.all()
	p.endsWith(0)
	p.says("INF stopped", "SIGHUP")
}

// Under nohup nobody wants to hear of it.
func TestSignalOfAClosedTerminalUnderNohup(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t)
	o := programOptions{dir: b.dir, env: append(caseEnv(), "FLOW_LOG_FORMAT=text", "FLOW_BROKERS="+b.address())}
	p := startCommand(t, o, append([]string{"bash", "-c", `trap "" HUP; exec "$@"`, "-", binary, "run", "--"}, misbehaves(t, "good")...)...)
	p.await(`INF ready`)
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	b.putN(1)
	b.awaitCommit(1)
	if strings.Contains(p.stderr(), "SIGHUP") {
		t.Error("it took the signal for a stop")
	}
	p.stopsWell()
}

// One event is one line, whatever the text holds; a failure's detail is lines
// with the process's name before each.
func TestOneEventIsOneLine(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	a := &app{stderr: &out, global: globalFlags{logLevel: "info", logFormat: "text", color: "never"}}
	if err := a.openLog(); err != nil {
		t.Fatal(err)
	}
	a.log.Error("2 problems\r\n\n  total: missing\n  id: missing\n", "event", "failed")
	output := newProcessOutput(a, []string{"python3"})
	output.detail("Traceback\n  at line 1")
	want := "ERR failed     2 problems / total: missing / id: missing\npython3 | Traceback\npython3 |   at line 1\n"
	if out.String() != want {
		t.Errorf("got  %q\nwant %q", out.String(), want)
	}
}
