package conformance

import (
	"fmt"

	"ankka-flow/wire"
)

// Pings and revokes, which overtake batches.
var controlCases = []Case{
	{
		Name: "stdio.ping-while-handlers-wait", Section: sectionProcess, Needs: "ping",
		Sentence: "a process that promises ping answers it with its n while every handler waits",
		ask: func(t *talk) {
			t.discover()
			t.pingPong()
			t.start(nil)
			t.pingPong()
			gate := t.gate("late")
			var batches []*batch
			for partition := range int32(leastConcurrency) {
				batches = append(batches, t.batch("in", partition, late(gate)))
			}
			t.pingPong()
			t.open(gate)
			t.echoed(batches...)
			t.finish()
			t.pingPong()
		},
	},
	{
		Name: "stdio.ping-while-busy", Section: sectionProcess, Needs: "ping",
		Sentence: "and while a handler computes and lets nobody else run",
		ask: func(t *talk) {
			t.begin()
			gate := t.gate("busy")
			b := t.batch("in", 0, rec("print-err", "busy from here on"), busy(gate))
			t.says("busy from here on")
			t.pingPong()
			t.pingPong()
			t.open(gate)
			t.echoed(b)
		},
	},
	{
		Name: "stdio.control-overtakes-data", Section: sectionStates,
		Sentence: "a revoke may come for a batch that is then never sent, and ids may be left out: that is ignored",
		ask: func(t *talk) {
			t.begin()
			first := t.batch("in", 0, rec("echo", "first"))
			withdrawn := t.prepare("in", 1, rec("echo", "withdrawn"))
			t.send(wire.Revoke{ID: withdrawn.id})
			t.nextID += 5
			third := t.batch("in", 1, rec("echo", "third"))
			t.echoed(first, third)
			t.taken("for a batch that was never sent")
		},
	},
	{
		Name: "stdio.revoke-then-answer", Section: sectionBatch,
		Sentence: "a batch that is revoked while it is handled still gets its one answer, and its partition goes on",
		ask: func(t *talk) {
			t.begin()
			gate := t.gate("late")
			b := t.running(0, gate)
			t.revoke(b)
			t.echoed(t.batch("in", 1, rec("echo", "another partition")))
			t.open(gate)
			t.answer(b)
			t.taken("after the one answer of a batch that was revoked")
			t.echoed(t.batch("in", 0, rec("echo", "after the revoke")))
		},
	},
	{
		Name: "stdio.revoke-without-answer", Section: sectionSupervisor,
		Sentence: "stop (finish) does not wait for a batch that was revoked; its answer comes in the next conversation",
		ask: func(t *talk) {
			t.begin()
			gate := t.gate("late")
			b := t.running(0, gate)
			t.revoke(b)
			t.finish()
			t.again()
			t.alive(1)
			t.open(gate)
			t.answer(b)
			t.taken("after the one answer of a batch that was revoked")
			t.echoed(t.batch("in", 0, rec("echo", "after the answer")))
		},
	},
	{
		Name: "stdio.revoke-after-answer", Section: sectionSupervisor,
		Sentence: "a revoke of a batch that was answered is ignored",
		ask: func(t *talk) {
			t.begin()
			b := t.batch("in", 0, rec("echo", "a"))
			t.echoed(b)
			t.revoke(b)
			t.taken("for a batch that was answered before its revoke came")
			t.echoed(t.batch("in", 0, rec("echo", "b")))
		},
	},
}

// running is a batch whose handler has begun and waits for the gate. It is one record: between
// two, a process may end a batch that became void.
func (t *talk) running(partition int32, gate []byte) *batch {
	b := t.batch("in", partition, rec("run:late", fmt.Sprintf("echo a handler has begun >&2; while [ ! -e '%s' ]; do sleep 0.01; done", gate)))
	t.says("a handler has begun")
	return b
}
