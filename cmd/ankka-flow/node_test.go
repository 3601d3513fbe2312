package main

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
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
