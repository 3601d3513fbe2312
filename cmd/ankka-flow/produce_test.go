package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// typed is produce with a pipe in place of a person.
func typed(t *testing.T, dir string, args ...string) (p *program, keyboard *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p = startProgram(t, programOptions{dir: dir, input: r}, append([]string{"produce"}, args...)...)
	_ = r.Close()
	t.Cleanup(func() { _ = w.Close() })
	return p, w
}

func enter(t *testing.T, keyboard *os.File, text string) {
	t.Helper()
	if _, err := keyboard.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// valuesOf are the values of a topic with one partition, as JSON text.
func valuesOf(t *testing.T, b *caseBroker, topic string) []string {
	t.Helper()
	code, stdout, stderr := runProgram(t, programOptions{dir: b.dir}, "consume", "-b", b.address(), "-e", topic)
	if code != 0 {
		t.Fatalf("consume: exit code %d: %s", code, stderr)
	}
	var values []string
	for _, line := range strings.Split(strings.TrimSuffix(stdout, "\n"), "\n") {
		var record struct{ Value json.RawMessage }
		if line == "" {
			continue
		}
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatal(err)
		}
		values = append(values, string(record.Value))
	}
	return values
}

// holdWrites keeps every write without an answer until the test ends; the
// channel is closed when one is held.
func (b *caseBroker) holdWrites() <-chan struct{} {
	held, over := make(chan struct{}), make(chan struct{})
	var once sync.Once
	b.t.Cleanup(func() { close(over) })
	b.cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.cluster.KeepControl()
		once.Do(func() { close(held) })
		b.cluster.SleepControl(func() { <-over })
		return nil, nil, false
	})
	return held
}

// Lines are written as they are typed, and Ctrl-C ends it while nobody types.
func TestProduceWritesAsLinesCome(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t)
	p, keyboard := typed(t, b.dir, "-b", b.address(), caseIn)
	enter(t, keyboard, `{"value":"a"}`+"\n")
	eventually(t, "the first line is written", func() bool { return len(valuesOf(t, b, caseIn)) == 1 })
	enter(t, keyboard, `{"value":"b"}`+"\n"+`{"value":"c"}`+"\n"+`{"value":`)
	eventually(t, "two more are written", func() bool { return len(valuesOf(t, b, caseIn)) == 3 })
	p.interrupt()
	p.endsWith(130) // it is no terminal: there may be more of the input
	p.says("3 records written to " + caseIn)
}

// SIGTERM before anything was typed ends it too; a second signal ends even the
// waiting for a broker that does not confirm.
func TestProduceEndsWithSignals(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t)
	p, keyboard := typed(t, b.dir, "-b", b.address(), caseIn)
	enter(t, keyboard, `{"value":"a"}`+"\n")
	eventually(t, "the line is written", func() bool { return len(valuesOf(t, b, caseIn)) == 1 })
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.endsWith(128 + int(syscall.SIGTERM))

	held := b.holdWrites()
	p, keyboard = typed(t, b.dir, "-b", b.address(), caseIn)
	enter(t, keyboard, `{"value":"b"}`+"\n")
	<-held
	p.interrupt()
	eventually(t, "it ends after a second Ctrl-C", func() bool {
		_ = p.cmd.Process.Signal(syscall.SIGINT) // the first may still be on its way
		select {
		case <-p.exited:
			return true
		default:
			return false
		}
	})
	p.endsWith(130)
}

// What is no text, or given twice, is refused by line and field, after the lines
// before it were written.
func TestProduceRefusesWhatItWouldChange(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t)
	for line, want := range map[string][]string{
		"{\"value\":\"\xff\"}":         {"stdin:2:", "not UTF-8", "value_base64"},
		`{"value":"\ud800"}`:           {"stdin:2:", "value", `\ud800`, "base64"},
		`{"value":"a","value":"b"}`:    {"stdin:2:", `"value" twice`},
		`{"value":"a","partition":1x}`: {"stdin:2:", "not a JSON object"},
	} {
		before := len(valuesOf(t, b, caseIn))
		p := startProgram(t, programOptions{dir: b.dir, stdin: `{"value":"good"}` + "\n" + line + "\n"}, "produce", "-b", b.address(), caseIn)
		p.endsWith(1)
		p.says(append([]string{"ankka-flow: ", "1 record written"}, want...)...)
		if n := len(valuesOf(t, b, caseIn)); n != before+1 {
			t.Errorf("%s: %d records were written, want 1", line, n-before)
		}
	}
}

// Lines that have nothing are no records, and a byte order mark is no text; raw
// lines are values as they are.
func TestProduceLines(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t)
	produce := func(input string, args ...string) {
		t.Helper()
		p := startProgram(t, programOptions{dir: b.dir, stdin: input}, append([]string{"produce", "-b", b.address()}, args...)...)
		p.endsWith(0)
	}
	produce("\ufeff{\"value\":\"a\"}\r\n  \t\n\n{\"value\":\"b\",\"partition\":7}", caseIn)
	if got := strings.Join(valuesOf(t, b, caseIn), " "); got != `"a" "b"` {
		t.Errorf("JSON lines: %s", got)
	}
	produce("\ufeffa\r\n\n b \nc", "--raw", caseOut)
	if got := strings.Join(valuesOf(t, b, caseOut), " "); got != `"`+"\ufeff"+`a\r" "" " b " "c"` {
		t.Errorf("raw lines: %s", got)
	}
}

// A topic that does not exist is no success: on a real broker it is named with
// what is like it and how it is made; on the embedded one it is made.
func TestProduceToAMissingTopic(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t)
	for _, command := range []string{"produce", "consume"} {
		p := startProgram(t, programOptions{dir: b.dir}, command, "-b", b.address(), "case.inn")
		p.endsWith(1)
		p.says("ankka-flow: ", b.address(), "no such topic: case.inn", `did you mean "case.in"?`, "`ankka-flow topics create case.inn -b "+b.address()+"` makes it")
	}
	dir := t.TempDir()
	broker, _ := brokerIn(t, dir, "127.0.0.1:0")
	p := inDir(t, dir, "consume", "-e", "new")
	p.endsWith(1)
	p.says("ankka-flow: ", "no such topic: new", "`ankka-flow topics create new` makes it")
	p = inDir(t, dir, "produce", "new")
	p.endsWith(0)
	p.says("INF topics", "created new (3 partitions)")
	p.says("0 records written to new")

	// The embedded broker takes the protocol's largest records.
	large := startProgram(t, programOptions{dir: dir, stdin: strings.Repeat("x", 4<<20)}, "produce", "--raw", "new")
	large.endsWith(0)
	broker.stopsWell()
}

// What is wrong in a flag is said in words, not in Go's.
func TestFlagsAreExplained(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"consume", "t", "-n", "0"}, "a number from 1"},
		{[]string{"consume", "t", "-n", "many"}, "a number from 1"},
		{[]string{"consume", "t", "-p", "-1"}, "from 0"},
		{[]string{"consume", "t", "-e=maybe"}, "--exit=maybe: it is true or false"},
		{[]string{"produce", "t", "-p", "-3"}, "from 0"},
		{[]string{"produce", "t", "-p", "99999999999"}, "from 0"},
		{[]string{"broker", "-b", "x:1"}, "--brokers"},
		{[]string{"broker", "--listen", "9092"}, "host:port"},
		{[]string{"broker", "--listen", "127.0.0.1:99999"}, "host:port"},
	} {
		p := startProgram(t, programOptions{dir: dir}, c.args...)
		p.endsWith(2)
		p.says("ankka-flow: ", c.want)
		if text := p.stderr(); strings.Contains(text, "strconv") || strings.Contains(text, "parsing") {
			t.Errorf("%v: %s", c.args, text)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	p := startProgram(t, programOptions{dir: dir}, "run", "--input", "in=folder", "--", "true")
	p.endsWith(2)
	p.says("--input in", "folder is a directory")
	p = startProgram(t, programOptions{dir: dir}, "produce", "t", "folder")
	p.endsWith(1)
	p.says("folder is a directory")
	for _, command := range []string{"produce", "consume"} {
		if _, help, _ := runProgram(t, programOptions{}, command, "--help"); strings.Contains(help, "-1)") {
			t.Errorf("the help of %s has a default that is ours:\n%s", command, help)
		}
	}
}
