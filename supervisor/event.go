package supervisor

import (
	"time"

	"ankka-flow/wire"
)

// Event is what happened to one process. Events come from Process.Events in the order
// in which they happened to it, Exited is the last, then the channel is closed.
type Event interface{ processEvent() }

// Received is a frame from the process, parsed. Bytes is the length of its body: what it
// holds in memory for as long as anything of Message is kept (records alias the frame).
type Received struct {
	Message wire.Message
	Bytes   int
}

// Stray is text that stood on stdout before the first frame: quoted, skipped, harmless.
// Somebody should be told to print to stderr.
type Stray struct{ Text string }

// Broken: the process broke the protocol (Err is a *wire.Violation). What comes after it
// is thrown away; the process cannot be used again and should be killed. Half a frame at
// the end of the output is reported so only where the process exited with 0; otherwise
// the exit is the cause and Exited.HalfFrame has the text.
type Broken struct{ Err error }

// OutputClosed: the process closed its stdout and still lived a second later, so no exit
// explains it. It can never answer again and should be killed.
type OutputClosed struct{}

// Unreachable: see liveness. It should be killed. Sent once.
type Unreachable struct {
	Silent time.Duration // how long no frame came
	Why    string
}

// InputBroken: the process closed its stdin (Err says EPIPE) and still lived a second
// later, so no exit explains it. Nothing more is written; it should be killed.
type InputBroken struct{ Err error }

func (Received) processEvent()     {}
func (Stray) processEvent()        {}
func (Broken) processEvent()       {}
func (OutputClosed) processEvent() {}
func (Unreachable) processEvent()  {}
func (InputBroken) processEvent()  {}
func (Exited) processEvent()       {}
