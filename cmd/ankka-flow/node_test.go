package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// bringNode brings the Node.js SDK's packages and builds it, once.
var bringNode = sync.OnceValues(func() ([]byte, error) {
	return exec.Command(filepath.Join(repository, "scripts", "node")).CombinedOutput()
})

// written is a record as consume prints it, without what differs between runs.
type written struct {
	Partition int    `json:"partition"`
	Offset    int    `json:"offset"`
	Key       string `json:"key"`
	Value     string `json:"value"`
}

// routed runs a cart router over the example's carts, and gives what each of
// its outlets then has.
func routed(t *testing.T, command ...string) map[string][]written {
	t.Helper()
	dir := t.TempDir()
	o := programOptions{dir: dir}
	carts := filepath.Join(repository, "examples", "carts.jsonl")
	p := startProgram(t, o, append([]string{"--log-format", "text", "run", "--metrics-port", "0", "--input", "in=" + carts, "--"}, command...)...)
	p.await(`committed +50 in, 50 out, 0 behind`)
	topics := map[string][]written{}
	for _, topic := range []string{"cart-router.valid", "cart-router.review"} {
		code, stdout, stderr := runProgram(t, o, "consume", topic, "-e")
		if code != 0 {
			t.Fatalf("consume ended with %d: %s", code, stderr)
		}
		for line := range strings.Lines(stdout) {
			var r written
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatalf("consume printed %q: %v", line, err)
			}
			topics[topic] = append(topics[topic], r)
		}
		slices.SortFunc(topics[topic], func(a, b written) int {
			return (a.Partition-b.Partition)*1_000_000 + a.Offset - b.Offset
		})
	}
	p.interrupt()
	if code := p.wait(); code != 0 {
		t.Errorf("Ctrl-C ended it with %d, want 0", code)
	}
	return topics
}

// The example in JavaScript does what the one in Python does, record for record.
func TestNodeExampleDoesWhatThePythonOneDoes(t *testing.T) {
	t.Parallel()
	if output, err := bringNode(); err != nil {
		t.Fatalf("scripts/node: %v\n%s", err, output)
	}
	want := routed(t, "python3", filepath.Join(repository, "examples", "cart_router.py"))
	got := routed(t, "node", filepath.Join(repository, "examples", "cart_router.mjs"))
	for topic, records := range want {
		if len(records) == 0 {
			t.Errorf("%s is empty", topic)
		}
		if !slices.Equal(got[topic], records) {
			t.Errorf("%s has\n%v\nfrom JavaScript, and\n%v\nfrom Python", topic, got[topic], records)
		}
	}
}

// The two examples declare the same streamlet, so that one can be deployed in
// place of the other.
func TestNodeExampleHasThePythonOnesDescriptor(t *testing.T) {
	t.Parallel()
	if output, err := bringNode(); err != nil {
		t.Fatalf("scripts/node: %v\n%s", err, output)
	}
	o := programOptions{dir: t.TempDir()}
	file := filepath.Join(o.dir, "descriptor.json")
	if code, _, stderr := runProgram(t, o, "descriptor", "--output", file, "--", "python3", filepath.Join(repository, "examples", "cart_router.py")); code != 0 {
		t.Fatalf("descriptor ended with %d: %s", code, stderr)
	}
	p := startProgram(t, o, "run", "--metrics-port", "0", "--descriptor", file, "--until-end", "--", "node", filepath.Join(repository, "examples", "cart_router.mjs"))
	if code := p.wait(); code != 0 {
		t.Fatalf("run with the other's descriptor ended with %d", code)
	}
}

// nodeStreamlet writes a program of the Node.js SDK into dir, beside the SDK's packages,
// and gives its name.
func nodeStreamlet(t *testing.T, dir, name, code string) string {
	t.Helper()
	if output, err := bringNode(); err != nil {
		t.Fatalf("scripts/node: %v\n%s", err, output)
	}
	sdk := filepath.Join(repository, "sdk", "node")
	code = strings.ReplaceAll(code, "../../dist/index.js", filepath.Join(sdk, "dist", "index.js"))
	err := errors.Join(
		os.MkdirAll(dir, 0o755),
		os.Symlink(filepath.Join(sdk, "node_modules"), filepath.Join(dir, "node_modules")),
		os.WriteFile(filepath.Join(dir, name), []byte(code), 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// A streamlet in TypeScript, started as its page says, by npx: what tsx and npx start
// between us and the program gets in nobody's way.
func TestNodeTypeScriptByNpxTsx(t *testing.T) {
	t.Parallel()
	code, err := os.ReadFile(filepath.Join(repository, "sdk", "node", "test", "streamlets", "upper.ts"))
	if err != nil {
		t.Fatal(err)
	}
	b := newCaseBroker(t)
	b.put(&kgo.Record{Key: []byte("k"), Value: []byte("abc")})
	name := nodeStreamlet(t, b.dir, "upper.ts", strings.ReplaceAll(string(code), `"upper"`, `"case"`))
	p := b.runCase(nil, []string{"--param", "suffix=!"}, []string{"npx", "tsx", name})
	p.await(`committed +1 in, 1 out, 0 behind`)
	if out := b.out(); len(out) != 1 || string(out[0].Value) != "ABC!" {
		t.Fatalf("written: %v", out)
	}
	p.says(" | 1 records of " + caseIn)
	p.stopsWell()
}

// A program of Node.js that was started by hand finds the supervisor from its folder
// upwards, and one that waits for a debugger waits as long as it likes.
func TestAttach_Node(t *testing.T) {
	t.Parallel()
	code, err := os.ReadFile(filepath.Join(repository, "sdk", "node", "test", "streamlets", "debugged.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	b := newCaseBroker(t)
	b.put(&kgo.Record{Key: []byte("k"), Value: []byte("21")})
	p := b.attach("FLOW_PROCESS_TIMEOUT=1s", "FLOW_BATCH_TIMEOUT=1s", "FLOW_DISCOVERY_TIMEOUT=1s")
	below := filepath.Join(b.dir, "src", "deep")
	name := nodeStreamlet(t, below, "debugged.mjs", strings.ReplaceAll(string(code), `"debugged"`, `"case"`))
	program := startCommand(t, programOptions{dir: below}, "node", "--inspect=127.0.0.1:0", name)
	b.awaitCommit(1)
	if out := b.out(); len(out) != 1 || string(out[0].Value) != "42" {
		t.Fatalf("written: %v", out)
	}
	program.says("case is attached; stdin and stdout are its own")
	program.says("Debugger listening on")
	p.stopsWell()
	program.endsWith(0)
}
