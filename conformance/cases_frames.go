package conformance

import (
	"bytes"

	"ankka-flow/delivery/record"
	"ankka-flow/wire"
)

// How frames are cut by the pipe, and who reads when.
var frameCases = []Case{
	{
		Name: "stdio.one-byte-a-write", Section: sectionFrames,
		Sentence: "a conversation that arrives one byte at a time is understood",
		ask: func(t *talk) {
			t.phase = phaseAsked
			t.slowly(discoverInfo)
			t.await("spec, the answer to discover", func() bool { return t.phase == phaseReady })
			t.phase = phaseRunning
			t.slowly(t.startInfo(nil))
			b := t.prepare("in", 0, rec("echo", "a", header("h", "v")), rec("header-echo", "b"))
			t.deliver(b)
			t.slowly(b.message())
			t.acked(b)
			t.emits(b, "out", b.records[0], withEcho(b.records[1]))
			t.judge.stop(wire.Finish)
			t.slowly(wire.Stop{Mode: wire.Finish, Reason: "the case wants it"})
			t.stopped()
		},
	},
	{
		Name: "stdio.split-at-every-byte", Section: sectionFrames,
		Sentence: "a batch whose frame arrives in two pieces is understood, wherever it is cut",
		ask: func(t *talk) {
			t.begin()
			for cut := 1; t.failure == nil; cut++ {
				b := t.prepare("in", 0, rec("echo", "cut", header("h", "v")))
				frame := encoded(b.message())
				if cut >= len(frame) {
					break
				}
				t.deliver(b)
				t.write(frame[:cut])
				t.read("the process reads what there is of a frame")
				t.trace.add("S> " + showFrame(frame[frameHeader:]) + " in two pieces, the first of " + number(cut) + " bytes")
				t.write(frame[cut:])
				t.echoed(b)
			}
		},
	},
	{
		Name: "stdio.thousand-frames-in-one-write", Section: sectionFrames,
		Sentence: "a thousand frames that arrive at once are all understood",
		ask: func(t *talk) {
			t.begin()
			if t.failure != nil {
				return
			}
			var all []byte
			var batches []*batch
			for i := range 1000 {
				var m wire.Message = wire.Revoke{ID: 1_000_000 + uint64(i)} // never sent: ignored
				if i%250 == 100 {
					b := t.prepare("in", int32(i), rec("echo", number(i)))
					t.deliver(b)
					batches, m = append(batches, b), b.message()
				}
				all = append(all, encoded(m)...)
			}
			t.note("1000 frames in one write: 996 revokes of what was never sent, and 4 batches")
			t.write(all)
			t.echoed(batches...)
		},
	},
	{
		Name: "stdio.reads-while-writing", Section: sectionPipes,
		Sentence: "a process that writes 64 MiB which nobody reads yet goes on reading its stdin",
		ask: func(t *talk) {
			t.begin()
			t.holdReading()
			var writing []*batch
			for partition, n := range []int{9, 8} {
				var records []record.Record
				for range n {
					records = append(records, rec("make", "4000000"))
				}
				writing = append(writing, t.batch("in", int32(partition), records...))
			}
			t.filled("the emits fill stdout")
			large := []*batch{t.batch("side", 0, largest(0, nil)), t.batch("side", 1, largest(0, nil))}
			t.read("the process reads 8 MiB of batches while its stdout is full")
			t.goOn()
			t.acked(writing...)
			for _, b := range writing {
				var want []record.Record
				for range b.records {
					want = append(want, made("make", 4_000_000))
				}
				t.emits(b, "out", want...)
			}
			t.echoed(large...)
		},
	},
	{
		Name: "stdio.full-house", Section: sectionSupervisor,
		Sentence: "max_in_flight batches, each of its own partition, are taken and answered",
		ask: func(t *talk) {
			t.begin()
			if t.failure != nil {
				return
			}
			var batches []*batch
			for i := range min(t.spec.Capabilities.MaxInFlight, 64) {
				batches = append(batches, t.batch("in", int32(i), rec("echo", number(i)), rec("header-echo", "x")))
			}
			for _, b := range batches {
				t.acked(b)
				t.emits(b, "out", b.records[0], withEcho(b.records[1]))
			}
		},
	},
}

// slowly sends a frame one byte a write; within its length, and within its body, it waits until
// what was sent is read, so that the process surely reads each in pieces.
func (t *talk) slowly(m wire.Message) {
	frame := encoded(m)
	t.trace.add("S> " + showFrame(frame[frameHeader:]) + " in " + number(len(frame)) + " pieces")
	for i := range frame {
		t.write(frame[i : i+1])
		if i == 1 || i == len(frame)/2 {
			t.read("the process reads what there is of a frame")
		}
	}
}

// message is the batch as it is sent.
func (b *batch) message() wire.Batch {
	return wire.Batch{ID: b.id, Inlet: b.inlet, Partition: b.partition, Records: b.records, Attempt: 1}
}

// largest is a record with an echo's key of exactly the limit, as encoded, less what is given.
func largest(less int, headers []record.Header) record.Record {
	r := record.Record{Key: []byte("echo"), Headers: headers, Offset: 1, Timestamp: 1_700_000_000_000}
	r.Value = bytes.Repeat([]byte{0xa5}, wire.MaxRecord-100)
	r.Value = append(r.Value, bytes.Repeat([]byte{0x5a}, wire.MaxRecord-less-wire.RecordSize(&r))...)
	return r
}
