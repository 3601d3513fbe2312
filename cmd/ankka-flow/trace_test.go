package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"ankka-flow/wire"
)

// A trace is JSON lines: one for each frame, none between them.
func TestTraceHasOneLineAFrame(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "trace.jsonl")
	tr, err := openTrace(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []wire.Message{wire.Ping{N: 1}, wire.Pong{N: 1}, wire.Ack{ID: 7}} {
		frame, err := wire.Append(nil, m)
		if err != nil {
			t.Fatal(err)
		}
		tr.frame(m.Kind() == wire.KindPing, frame[4:])
	}
	tr.close()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(text, []byte("\n"))
	if len(lines) != 4 || len(lines[3]) != 0 {
		t.Fatalf("3 frames are %d lines, the last one %q:\n%s", len(lines)-1, lines[len(lines)-1], text)
	}
	for _, line := range lines[:3] {
		if !json.Valid(line) {
			t.Errorf("not JSON: %q", line)
		}
	}
}
