package main

import (
	"bytes"
	"strings"
	"sync/atomic"
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

// line shows one line. As text it is written in one call, so that lines of ours
// never land inside it; as JSON it is a log record.
func (o *processOutput) line(line []byte) {
	name, _ := o.name.Load().(string)
	if !o.text {
		o.app.log.Info(string(line), "event", "output", "process", name)
		return
	}
	var out bytes.Buffer
	out.WriteString(name)
	out.WriteString(" | ")
	out.Write(line)
	out.WriteByte('\n')
	_, _ = o.app.stderr.Write(out.Bytes()) // nobody is left to tell
}
