package conformance

import (
	"bytes"
	"strings"

	"ankka-flow/delivery/record"
	"ankka-flow/wire"
)

// The limits, from both sides.
var sizeCases = []Case{
	{
		Name: "stdio.largest-record-in", Section: sectionLimits,
		Sentence: "a record of exactly 4,128,768 bytes as encoded is taken",
		ask: func(t *talk) {
			t.begin()
			t.echoed(t.batch("in", 0, largest(0, nil)))
		},
	},
	{
		Name: "stdio.largest-frame-in", Section: sectionLimits,
		Sentence: "a frame of exactly 4,194,304 bytes is taken",
		ask: func(t *talk) {
			t.begin()
			b := t.prepare("in", 0, largest(0, nil), rec("echo", ""))
			// The encoder leaves room for what it may still have to add; this one is exact.
			filling := wire.MaxFrame - (len(encoding{}.batch(b)) - frameHeader) - 1 // its length takes a byte more
			b.records[1].Value = bytes.Repeat([]byte("f"), filling)
			frame := encoding{}.batch(b)
			t.deliver(b)
			t.sendFrame(frame)
			t.echoed(b)
		},
	},
	{
		Name: "stdio.largest-record-out", Section: sectionLimits,
		Sentence: "a record of 4,128,768 bytes as encoded is emitted",
		ask: func(t *talk) {
			t.begin()
			b := t.batch("in", 0, rec("make", number(largestMade)))
			t.acked(b)
			t.emits(b, "out", made("make", largestMade))
		},
	},
	{
		Name: "stdio.over-limit-record-fails", Section: sectionLimits,
		Sentence: "a record over the limit is not sent: the batch fails, and its message gives the limit",
		ask: func(t *talk) {
			t.begin()
			t.fails(t.batch("in", 0, rec("make", number(largestMade+16))), number(wire.MaxRecord))
		},
	},
	{
		Name: "stdio.emits-over-frames", Section: sectionBatch,
		Sentence: "what a batch emits is split, so that no frame is over 4 MiB",
		ask: func(t *talk) {
			t.begin()
			big := t.batch("in", 0, rec("make", "3000000"), rec("make", "3000000"), rec("make", "3000000"))
			var many, want []record.Record
			for range 200 {
				many = append(many, rec("make", "50000"))
				want = append(want, made("make", 50_000))
			}
			small := t.batch("in", 1, many...)
			t.acked(big, small)
			t.emits(big, "out", made("make", 3_000_000), made("make", 3_000_000), made("make", 3_000_000))
			t.emits(small, "out", want...)
		},
	},
	{
		Name: "stdio.sizes-around-powers", Section: sectionTypes,
		Sentence: "values of every length at which msgpack changes its header come in and go out",
		ask: func(t *talk) {
			t.begin()
			var records []record.Record
			for _, n := range []int{0, 1, 15, 16, 31, 32, 33, 255, 256, 257, 65_531, 65_532, 65_533, 65_534, 65_535, 65_536, 65_537, 65_538, 65_539, 65_540, 65_541} {
				records = append(records, made("header-echo", n))
			}
			t.headersEchoed(t.batch("in", 0, records...))
			var headers []record.Header
			for i := range 40 { // over 15 as well
				headers = append(headers, header(strings.Repeat("n", 8*i), strings.Repeat("v", 40*i)))
			}
			t.headersEchoed(t.batch("in", 1, rec("header-echo:"+strings.Repeat("k", 300), "v", headers...), rec("header-echo:"+strings.Repeat("k", 70_000), "v")))
		},
	},
	{
		Name: "stdio.long-failure-text", Section: sectionLimits,
		Sentence: "an error whose message has megabytes fails its batch like any other: the process cuts it, and the frame keeps its limit",
		ask: func(t *talk) {
			t.begin()
			t.fails(t.batch("in", 0, rec("fail", "the beginning "+strings.Repeat("of a long story ", 250_000))), "the beginning of a long story")
		},
	},
	{
		Name: "stdio.large-integers", Section: sectionTypes,
		Sentence: "an id, an offset and a timestamp of 2^53 - 1 come through, and partitions to 2^31 - 1",
		ask: func(t *talk) {
			t.begin()
			t.echoed(t.batch("in", 1<<31-1, record.Record{Offset: wire.MaxInteger - 1, Timestamp: wire.MaxInteger, Key: []byte("echo"), Value: []byte("a")},
				record.Record{Offset: wire.MaxInteger, Timestamp: record.NoTimestamp, Key: []byte("echo"), Value: []byte("b")}))
			t.nextID = wire.MaxInteger - 2
			t.echoed(t.batch("in", 0, rec("echo", "a"), rec("no word", "b")))
			t.fails(t.batch("in", 1, record.Record{Offset: wire.MaxInteger, Timestamp: 1, Key: []byte("fail"), Value: []byte("at the end of all offsets")}), "at the end of all offsets")
		},
	},
}

// largestMade is the size of a value for which make emits a record of the limit, where it
// spells out [key, value, headers, timestamp]: 1 for the array, 2 and 4 for the key, 5 before
// the value, 1 for the headers and 1 for the timestamp.
const largestMade = wire.MaxRecord - 1 - 6 - 5 - 1 - 1
