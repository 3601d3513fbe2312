package main

import (
	"bufio"
	"fmt"
	"os"
	"sync"
	"time"

	"ankka-flow/wire"
)

// tracer writes --trace's file. A nil one traces nothing.
type tracer struct {
	mu   sync.Mutex
	file *os.File
	out  *bufio.Writer
	line []byte
}

func openTrace(path string) (*tracer, error) {
	if path == "" {
		return nil, nil
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, misuse("--trace: %w", err)
	}
	return &tracer{file: file, out: bufio.NewWriterSize(file, 64<<10)}, nil
}

// frame writes one frame. Small writes are flushed at once, because the last
// lines before a crash are what a trace is read for.
func (t *tracer) frame(toProcess bool, body []byte) {
	if t == nil {
		return
	}
	direction := "from-process"
	if toProcess {
		direction = "to-process"
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.line = wire.TraceLine(t.line[:0], time.Now().UnixMilli(), direction, body)
	_, _ = t.out.Write(t.line) // a full disk must not stop the records
	_ = t.out.Flush()
}

func (t *tracer) close() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.file.Close(); err != nil {
		fmt.Fprintf(os.Stderr, "ankka-flow: closing the trace: %v\n", err)
	}
}
