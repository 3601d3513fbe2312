package main

import (
	"strings"
	"sync/atomic"

	"ankka-flow/cmd/ankka-flow/screen"
)

// processOutput shows the process's lines of stderr, with its name before each.
type processOutput struct {
	app  *app
	name atomic.Value // string
	text bool
}

// newProcessOutput names the process after its program until discovery tells
// the streamlet's name.
func newProcessOutput(a *app, args []string) *processOutput {
	o := &processOutput{app: a}
	_, o.text = a.log.Handler().(columns)
	o.name.Store(displayName(args))
	return o
}

// detail shows what the process tells of a failure, a traceback say, as if it
// had written it to stderr: whoever looks for the mistake looks there.
func (o *processOutput) detail(lines string) {
	for line := range strings.SplitSeq(lines, "\n") {
		o.line([]byte(line))
	}
}

func (o *processOutput) rename(streamlet string) { o.name.Store(streamlet) }

// line shows one line, without what would set a terminal up: as text in one call, so
// that lines of ours never land inside it; as JSON as a log record.
func (o *processOutput) line(line []byte) {
	screen.Parts(line, o.part)
}

// part shows a line, or what stands between its carriage returns.
func (o *processOutput) part(line []byte) {
	name, _ := o.name.Load().(string)
	if !o.text {
		o.app.log.Info(string(screen.Clean(nil, line, false)), "event", "output", "process", name)
		return
	}
	out := make([]byte, 0, len(name)+len(line)+8)
	out = append(append(out, name...), " | "...)
	out = append(screen.Clean(out, line, o.app.color), '\n')
	_, _ = o.app.stderr.Write(out) // nobody is left to tell
}
