package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// attach runs `run --attach` on a case broker, and awaits that it listens.
func (b *caseBroker) attach(env ...string) *program {
	b.t.Helper()
	p := startProgram(b.t, programOptions{dir: b.dir, env: caseEnv(env...)}, "--log-format", "text", "run", "-b", b.address(), "--attach")
	p.await(`attach +waiting for a program at `)
	return p
}

const debugged = `
from ankka_flow import JsonInlet, JsonOutlet, Streamlet, serve

class Case(Streamlet):
    name = "case"
    inlet = JsonInlet("in", schema_name="any")
    out = JsonOutlet("out", schema_name="any")

    def process_record(self, record, ctx):
        doubled = 2 * int(record.value)
        breakpoint()
        return self.out.emit(record, value=str(doubled).encode())

serve(Case())
`

// A real debugger: the program is started by hand on a terminal, stops at the
// breakpoint in its handler, shows what is there, lets it be changed, goes on; what
// it then emits is written and the record is committed.
func TestAttach_Pdb(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t)
	b.put(&kgo.Record{Key: []byte("k"), Value: []byte("21")})
	p := b.attach("FLOW_PROCESS_TIMEOUT=1s", "FLOW_BATCH_TIMEOUT=1s", "FLOW_DISCOVERY_TIMEOUT=1s")
	below := filepath.Join(b.dir, "src", "deep")
	if err := os.MkdirAll(below, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(below, "streamlet.py"), []byte(debugged), 0o600); err != nil {
		t.Fatal(err)
	}
	x, slave := openTerminal(t, 200, 50)
	startOn(t, slave, programOptions{dir: below}, "python3", "streamlet.py")
	_, at := x.await(0, `case is attached; stdin and stdout are its own`)
	_, at = x.await(at, `streamlet\.py\(12\)process_record\(\)(?s:.*)\(Pdb\) `)
	x.typeIn("p doubled, record.key\n")
	_, at = x.await(at, `\(42, b'k'\)(?s:.*)\(Pdb\) `)
	// Somebody thinks, for longer than every timer of a process.
	x.typeIn("import threading; threading.Event().wait(2.5); print('thou' + 'ght')\n")
	_, at = x.await(at, `thought\r\n(?s:.*)\(Pdb\) `)
	if at := b.committed(0); at != 0 {
		t.Fatalf("%d is committed before the handler went on", at)
	}
	x.typeIn("doubled = 43\n")
	x.await(at, `\(Pdb\) `)
	x.typeIn("c\n")
	b.awaitCommit(1)
	if out := b.out(); len(out) != 1 || string(out[0].Value) != "43" {
		t.Fatalf("written: %v", out)
	}
	p.stopsWell()
	if strings.Contains(p.stderr(), "killed") || strings.Contains(p.stderr(), "ERR") || strings.Contains(p.stderr(), "WRN") {
		t.Error("something was wrong")
	}
}

// A program that goes away with a batch is waited for, without a backoff: the next
// one is served at once. A second one beside it is sent away with a line on both
// sides.
func TestAttach_ComeAndGo(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t)
	p := b.attach("FLOW_RECONNECT_MAX_BACKOFF=5m")
	h := newHeld(t)
	script := sdkStreamlet(t, "import os, sys", `
        if not os.environ.get("GOOD"):
            print("holding", file=sys.stderr)
            open(os.environ["HELD"]).close()
        return self.out.emit(record)
`)
	b.putN(1)
	first := startCommand(t, programOptions{dir: b.dir, env: []string{"HELD=" + h.path}}, script...)
	p.await(`process +pid \d+: the attached program`)
	first.await(`holding`)

	second := startCommand(t, programOptions{dir: b.dir}, script...)
	second.endsWith(1)
	second.says("another program is attached", "end it first")
	p.says("WRN attach", "another program is attached")

	for range 6 { // the backoff would be long by now
		at := p.count()
		_ = first.cmd.Process.Kill()
		first.wait()
		p.awaitFrom(at, `waiting +for a program to attach`)
		at = p.count()
		first = startCommand(t, programOptions{dir: b.dir, env: []string{"HELD=" + h.path}}, script...)
		p.awaitFrom(at, `ready +conversation`)
	}
	_ = first.cmd.Process.Kill()
	first.wait()
	last := startCommand(t, programOptions{dir: b.dir, env: []string{"GOOD=1"}}, script...)
	b.awaitCommit(1)
	if got := keys(b.out()); got != "k0" {
		t.Errorf("written: %s", got)
	}
	p.stopsWell()
	last.endsWith(0)
	if _, err := os.Lstat(filepath.Join(b.dir, defaultAttach)); err == nil {
		t.Error("the socket is still there")
	}
}

// FLOW_ATTACH names the socket on both sides; a program that finds nobody there
// says so, and one that finds nothing anywhere says how to run it.
func TestAttach_Named(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t)
	socket := "FLOW_ATTACH=" + filepath.Join(t.TempDir(), "s")
	script := sdkStreamlet(t, "", "        return self.out.emit(record)\n")
	p := startCommand(t, programOptions{dir: b.dir, env: []string{socket}}, script...)
	p.endsWith(2)
	p.says(socket, "ankka-flow run --attach")
	p = startCommand(t, programOptions{dir: b.dir}, script...)
	p.endsWith(2)
	p.says("debug: ankka-flow run --attach, then start this program again")

	b.putN(1)
	p = b.attach(socket)
	q := startCommand(t, programOptions{dir: t.TempDir(), env: []string{socket}}, script...)
	b.awaitCommit(1)
	p.stopsWell()
	q.endsWith(0)
}

// What cannot be: with a command, with --watch, beside another one.
func TestAttach_Misuse(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t)
	p := b.attach()
	for _, c := range []struct {
		args []string
		code int
		says []string
	}{
		{[]string{"--", "python3", "x.py"}, 2, []string{"--attach launches nothing", "python3 x.py"}},
		{[]string{"--watch"}, 2, []string{"--attach and --watch"}},
		{nil, 1, []string{"another ankka-flow run --attach", "FLOW_ATTACH"}},
	} {
		q := startProgram(t, programOptions{dir: b.dir}, append([]string{"run", "-b", b.address(), "--metrics-port", "0", "--attach"}, c.args...)...)
		q.endsWith(c.code)
		q.says(c.says...)
	}
	p.stopsWell()
}
