package conformance

import (
	"ankka-flow/delivery/record"
)

// What every streamlet does, in the order in which one would write an SDK.
var runCases = []Case{
	{
		Name: "run.start-then-silence", Section: sectionStates,
		Sentence: "start is not answered: a process without a batch says nothing of one",
		ask: func(t *talk) {
			t.begin()
			t.taken("between start and the first batch")
		},
	},
	{
		Name: "run.echo-preserves-record", Section: sectionTypes,
		Sentence: "a record comes back with its key, its value and its headers, byte for byte",
		ask: func(t *talk) {
			t.begin()
			t.echoed(t.batch("in", 0,
				rec("echo:1", `{"total":180}`, header("trace", "one"), header("trace", "two")),
				rec("echo:\x00\xff", "\x00\x01\xfe\xff no UTF-8", header("bytes", "\xff\x00")),
				rec("no word at all", "Grüße, 世界"),
			))
		},
	},
	{
		Name: "run.fan-out", Section: sectionProcess,
		Sentence: "one record may become several, on several outlets, each in order",
		ask: func(t *talk) {
			t.begin()
			a, b := rec("fan:a", "1"), rec("fan:b", "2", header("h", "v"))
			sent := t.batch("in", 0, a, b)
			t.acked(sent)
			t.emits(sent, "out", a, a, b, b)
			t.emits(sent, "other", a, b)
		},
	},
	{
		Name: "run.skip-acks-without-emit", Section: sectionProcess,
		Sentence: "a batch whose records are all skipped is acknowledged, and nothing is emitted",
		ask: func(t *talk) {
			t.begin()
			b := t.batch("in", 0, rec("skip:1", "a"), rec("skip:2", "b"))
			t.acked(b)
			t.emits(b, "out")
			t.emits(b, "other")
		},
	},
	{
		Name: "run.fail-sends-fail", Section: sectionProcess,
		Sentence: "an error of a handler is one fail, with its message, and with the offset of its record where it is given",
		ask: func(t *talk) {
			t.begin()
			b := t.batch("in", 0, rec("echo", "a"), rec("fail", "no such cart"), rec("echo", "b"))
			t.fails(b, "no such cart")
			if t.failure == nil && b.failed.HasOffset && b.failed.Offset != b.records[1].Offset {
				t.fail("fail with the offset 1, that of the record, or with none", "offset "+number(int(b.failed.Offset)))
			}
			t.quiet("after the fail")
		},
	},
	{
		Name: "run.emits-precede-ack", Section: sectionBatch,
		Sentence: "everything that a batch emits is sent before its ack, and nothing of it after",
		ask: func(t *talk) {
			t.begin()
			var records []record.Record
			for i := range 100 {
				records = append(records, rec("echo:"+number(i), number(i)))
			}
			b := t.batch("in", 0, records...)
			t.echoed(b) // the judge refuses an emit after the ack
			t.quiet("after the ack")
		},
	},
	{
		Name: "run.two-partitions-interleave", Section: sectionSupervisor,
		Sentence: "a batch that takes long does not hold up that of another partition",
		ask: func(t *talk) {
			t.begin()
			gate := t.gate("late")
			slow := t.batch("in", 0, late(gate))
			t.echoed(t.batch("in", 1, rec("echo", "a")), t.batch("in", 2, rec("echo", "b")))
			if t.failure == nil && slow.answered {
				t.fail("batch 1 waits for its file", "its answer")
			}
			t.open(gate)
			t.echoed(slow)
		},
	},
	{
		Name: "run.two-inlets", Section: sectionSupervisor,
		Sentence: "batches of both inlets are handled, also beside each other where their partitions have one number",
		ask: func(t *talk) {
			t.begin()
			gate := t.gate("late")
			slow := t.batch("in", 0, late(gate))
			t.echoed(t.batch("side", 0, rec("echo", "from the side")))
			t.open(gate)
			t.echoed(slow)
		},
	},
	{
		Name: "run.batch-order-within-partition", Section: sectionBatch,
		Sentence: "the batches of a partition are answered one after the other, and their records come out in order",
		ask: func(t *talk) {
			t.begin()
			for i := range 10 {
				n := 3 * i
				t.echoed(t.batch("in", 0, rec("echo", number(n)), rec("echo", number(n+1)), rec("echo", number(n+2))))
			}
		},
	},
	{
		Name: "run.config-applied", Section: sectionSupervisor,
		Sentence: "the parameters that start brings are those that the handlers see",
		ask: func(t *talk) {
			t.beginWith(map[string]any{"factor": int64(7)})
			t.multiplies(6, 42)
		},
	},
	{
		Name: "run.unkeyed-emit", Section: sectionProcess,
		Sentence: "a record emitted without a key has the key nil; value and headers are as they came",
		ask: func(t *talk) {
			t.begin()
			r := rec("unkeyed", "v", header("h", "1"))
			b := t.batch("in", 0, r)
			t.acked(b)
			r.Key = nil
			t.emits(b, "out", r)
		},
	},
	{
		Name: "run.header-order", Section: sectionTypes,
		Sentence: "headers keep their order, also where one name comes twice, and one that is added stands where it was added",
		ask: func(t *talk) {
			t.begin()
			t.headersEchoed(t.batch("in", 0,
				rec("header-echo:1", "v", header("b", "1"), header("a", "2"), header("b", "0"), header("A", "3"), header("a", "2")),
				rec("header-echo:2", "w"),
			))
		},
	},
	{
		Name: "run.large-record", Section: sectionLimits,
		Sentence: "a record of a megabyte comes in and goes out",
		ask: func(t *talk) {
			t.begin()
			r := made("header-echo", 1<<20)
			t.headersEchoed(t.batch("in", 0, r))
		},
	},
	{
		Name: "run.stop-completes", Section: sectionStates,
		Sentence: "stop (finish) without a batch in flight is answered by stopped, and then nothing comes",
		ask: func(t *talk) {
			t.begin()
			t.echoed(t.batch("in", 0, rec("echo", "a")))
			t.finish()
			t.quiet("after stopped")
		},
	},
	{
		Name: "run.reconnect-new-conversation", Section: sectionStates,
		Sentence: "after stopped the same process is discovered and started again, and the new start's parameters hold",
		ask: func(t *talk) {
			t.begin()
			t.multiplies(6, 6*defaultFactor)
			t.finish()
			t.beginWith(map[string]any{"factor": int64(3)})
			t.multiplies(6, 18)
		},
	},
	{
		Name: "run.rogue-outlet", Section: sectionProcess,
		Sentence: "an emit to an outlet that is not declared is not sent: the batch fails, and its message names the outlet",
		ask: func(t *talk) {
			t.begin()
			t.fails(t.batch("in", 0, rec("rogue-outlet", "v")), "nowhere")
		},
	},
}

// multiplies sends a number and waits for its product.
func (t *talk) multiplies(n, product int) {
	r := rec("multiply", number(n), header("h", "kept"))
	b := t.batch("in", 0, r)
	t.acked(b)
	r.Value = []byte(number(product))
	t.emits(b, "out", r)
}

// alive is what a process does that came through a case well.
func (t *talk) alive(partition int32) {
	t.echoed(t.batch("side", partition, rec("echo", "still there")))
}

// again begins a new conversation after stopped.
func (t *talk) again() {
	t.discover()
	t.start(nil)
}
