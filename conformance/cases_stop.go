package conformance

import "ankka-flow/wire"

// The end of a conversation, and what lives on after it.
var stopCases = []Case{
	{
		Name: "stdio.stop-finish-waits", Section: sectionSupervisor,
		Sentence: "after stop (finish) every batch is answered, and stopped follows the last answer",
		ask: func(t *talk) {
			t.begin()
			first, second := t.gate("first"), t.gate("second")
			a, b := t.running(0, first), t.batch("in", 1, late(second))
			t.stop(wire.Finish)
			t.taken("while two batches are in flight")
			t.open(second)
			t.echoed(b)
			t.taken("while one batch is in flight")
			t.open(first)
			t.echoed(a)
			t.stopped()
			t.quiet("after stopped")
		},
	},
	{
		Name: "stdio.stop-abandon-at-once", Section: sectionSupervisor,
		Sentence: "stop (abandon) is answered by stopped at once, with handlers still running",
		ask: func(t *talk) {
			t.begin()
			gate := t.gate("late")
			t.running(0, gate)
			t.batch("in", 1, late(gate))
			t.abandon()
		},
	},
	{
		Name: "stdio.late-answer-next-conversation", Section: sectionBatch,
		Sentence: "the handlers of an abandoned conversation answer in the next one, once, and their partitions go on",
		ask: func(t *talk) {
			t.begin()
			gate := t.gate("late")
			old, older := t.running(0, gate), t.batch("side", 0, late(gate))
			t.abandon()
			t.again()
			t.alive(5)
			t.open(gate)
			t.answer(old)
			t.answer(older)
			t.echoed(t.batch("in", 0, rec("echo", "again")), t.batch("side", 0, rec("echo", "again")))
			t.finish()
			t.quiet("after stopped")
		},
	},
	{
		Name: "stdio.late-answer-when-stopped", Section: sectionStates,
		Sentence: "and where they end before the next discovery, they answer then",
		ask: func(t *talk) {
			t.begin()
			gate := t.gate("late")
			old := t.running(0, gate)
			t.abandon()
			t.open(gate)
			t.answer(old)
			t.again()
			t.echoed(t.batch("in", 0, rec("echo", "again")))
		},
	},
	{
		Name: "stdio.failure-beside-a-long-handler", Section: sectionBatch,
		Sentence: "the failure of one partition waits for no handler of another: the failed batch comes again and is done while it still runs",
		ask: func(t *talk) {
			t.begin()
			gate := t.gate("late")
			long := t.running(0, gate)
			t.fails(t.batch("in", 1, rec("fail", "no total")), "no total")
			t.abandon()
			t.again()
			t.echoed(t.batch("in", 1, rec("echo", "it works now")))
			t.open(gate)
			t.answer(long)
			t.echoed(t.batch("in", 0, rec("echo", "again")))
		},
	},
	{
		Name: "stdio.finish-then-abandon", Section: sectionStates,
		Sentence: "stop (abandon) after stop (finish) ends the wait for answers: one stopped, at once",
		ask: func(t *talk) {
			t.begin()
			gate := t.gate("late")
			b := t.running(0, gate)
			t.stop(wire.Finish)
			t.taken("while a batch is in flight")
			t.abandon()
			t.quiet("after stopped")
			t.again()
			t.alive(1)
			t.open(gate)
			t.answer(b)
			t.alive(0)
		},
	},
	{
		Name: "stdio.stop-when-stopped", Section: sectionStates,
		Sentence: "a stop and a revoke that arrive when the process is stopped crossed with stopped, and are ignored",
		ask: func(t *talk) {
			t.begin()
			b := t.batch("in", 0, rec("echo", "a"))
			t.echoed(b)
			t.finish()
			t.stop(wire.Abandon)
			t.send(wire.Revoke{ID: b.id})
			t.send(wire.Revoke{ID: b.id + 1})
			t.taken("after stopped")
			t.nextID += 2
			t.again()
			t.echoed(t.batch("in", 0, rec("echo", "b")))
		},
	},
	{
		Name: "stdio.discover-again", Section: sectionStates,
		Sentence: "one process is discovered and started any number of times, and describes itself in the same way each time",
		ask: func(t *talk) {
			first := ""
			for i := range int64(5) {
				t.discover()
				if t.failure != nil {
					return
				}
				described := string(t.spec.Descriptor.CanonicalJSON())
				if i > 0 && described != first {
					t.fail("the descriptor of the first discovery", described)
				}
				first = described
				t.start(map[string]any{"factor": i})
				t.multiplies(7, int(7*i))
				t.finish()
			}
		},
	},
}

func (t *talk) exitsInBatch() *batch {
	return t.batch("in", 1, rec("print-err", "about to exit"), rec("exit", ""))
}
