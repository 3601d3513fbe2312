package conformance

import (
	"ankka-flow/delivery/record"
	"ankka-flow/wire"
)

// The end of the process, by itself and by the end of its input.
var endCases = []Case{
	{
		Name: "stdio.clean-exit", Section: sectionPipes,
		Sentence: "after stopped and the end of its input the process exits with 0, and stdout ends between two frames",
		ask: func(t *talk) {
			t.begin()
			t.echoed(t.batch("in", 0, rec("echo", "a")), t.batch("side", 0, rec("echo", "b")))
			t.finish()
			t.closeInput()
			t.exits(0)
		},
	},
	ending("new", "before discover", 0, func(t *talk) {}),
	ending("asked", "right behind discover", 0, func(t *talk) {
		t.phase = phaseAsked
		t.send(discoverInfo)
	}),
	ending("ready", "before start", 0, func(t *talk) { t.discover() }),
	ending("idle", "in a conversation without a batch in flight", 0, func(t *talk) {
		t.begin()
		t.echoed(t.batch("in", 0, rec("echo", "a")))
	}),
	ending("busy", "with a batch in flight", 1, func(t *talk) {
		t.begin()
		t.running(0, t.gate("never"))
	}),
	ending("finishing", "after stop (finish) with a batch in flight", 1, func(t *talk) {
		t.begin()
		t.running(0, t.gate("never"))
		t.stop(wire.Finish)
		t.taken("while a batch is in flight")
	}),
	ending("abandoned", "after stopped with a handler of the abandoned conversation still running", 1, func(t *talk) {
		t.begin()
		t.running(0, t.gate("never"))
		t.abandon()
	}),
	ending("computing", "with a batch in flight whose handler lets nobody else run", 1, func(t *talk) {
		t.begin()
		t.batch("in", 0, rec("print-err", "busy from here on"), busy(t.gate("never")))
		t.says("busy from here on")
	}),
	{
		Name: "stdio.cannot-begin", Section: sectionPipes,
		Sentence: "a process that cannot begin with the configuration of start says why on stderr and exits with 1",
		ask: func(t *talk) {
			t.beginIn("broken")
			t.exits(1)
			t.says(modeIsBroken)
		},
	},
	{
		Name: "stdio.exit-in-batch", Section: sectionPipes,
		Sentence: "where user code exits in the middle of a batch, the batch's fail is sent first",
		ask: func(t *talk) {
			t.begin()
			t.fails(t.exitsInBatch())
		},
	},
	{
		Name: "stdio.exit-loses-nothing", Section: sectionPipes,
		Sentence: "also where stdout is full at that moment: the fail and all that was sent before it arrive, whole",
		ask: func(t *talk) {
			t.begin()
			t.holdReading()
			made := t.batch("in", 0, rec("make", "3000000"), rec("make", "3000000"), rec("make", "3000000"))
			t.filled("the emits of batch 1 fill stdout")
			leaving := t.exitsInBatch()
			// A process may write from the thread that its handlers run in, and so get to this
			// one only later.
			t.maySay("about to exit")
			t.goOn()
			t.fails(leaving)
			t.await("the ack of batch 1 or an exit", func() bool { return made.answered || t.exited != nil })
		},
	},
}

// ending closes the process's input in one of its states.
func ending(name, when string, code int, before func(*talk)) Case {
	return Case{
		Name: "stdio.input-ends-" + name, Section: sectionPipes,
		Sentence: "at the end of its input " + when + " the process exits with " + number(code),
		ask: func(t *talk) {
			before(t)
			t.closeInput()
			t.exits(code)
		},
	}
}

// busy is a record whose handler computes until the file is there.
func busy(gate []byte) record.Record { return record.Record{Key: []byte("busy"), Value: gate} }
