package driver

import (
	"bytes"
	"context"
	"encoding/binary"
	"log/slog"
	"testing"
	"time"

	"ankka-flow/delivery"
	"ankka-flow/delivery/kafka"
	"ankka-flow/delivery/record"
	"ankka-flow/supervisor"
	"ankka-flow/wire"
)

// bench is a run whose loop is the benchmark: it never waits.
type bench struct {
	tb       testing.TB
	d        *Driver
	records  []record.Record
	sink     func(delivery.Event)
	pos      int64
	release  func([]byte)
	id       uint64 // of the batch that was sent last
	bytes    int    // of its frame
	written  int    // records
	producer func(delivery.Event)
}

// The ports. Only those that are on the hot path do something.
func (b *bench) Events() <-chan supervisor.Event { return nil }
func (b *bench) Control([]byte)                  {}
func (b *bench) CloseInput()                     {}
func (b *bench) Terminate()                      {}
func (b *bench) Kill()                           {}
func (b *bench) Pid() int                        { return 1 }
func (b *bench) SpeaksPing()                     {}

func (b *bench) Data(id uint64, frame []byte) {
	b.id, b.bytes = id, len(frame)
	b.release(frame)
}

func (b *bench) Withdraw(uint64) bool                 { return false }
func (b *bench) Prepare(context.Context, *Plan) error { return nil }
func (b *bench) Leave(context.Context) error          { return nil }
func (b *bench) Release([]int32)                      {}
func (b *bench) Pause(int32)                          {}
func (b *bench) Seek(int32, int64)                    {}
func (b *bench) CutBack(int32, int64)                 {}
func (b *bench) Ends() map[int32]kafka.End            { return nil }
func (b *bench) Produce(f func(delivery.Event)) Producer {
	b.producer = f
	return benchProducer{b}
}

func (b *bench) Consume(_ PlannedInlet, _ func() time.Duration, sink func(delivery.Event)) Inlet {
	b.sink = sink
	sink(delivery.Assigned{Inlet: "in", Generation: 1, Starts: []delivery.Start{{Partition: 0}}})
	return benchInlet{b}
}

func (b *bench) Cut(_ int32, dst []record.Record, maxRecords, _ int) ([]record.Record, int64, int64, bool, error) {
	first := b.pos
	dst = append(dst[:0], b.records[:min(maxRecords, len(b.records))]...)
	for i := range dst {
		dst[i].Offset = b.pos
		b.pos++
	}
	return dst, first, b.pos, false, nil
}

// benchInlet and benchProducer are the same bench with methods of their own.
type benchInlet struct{ *bench }

func (b benchInlet) Close()                 {}
func (b benchInlet) Sleeps() (uint64, bool) { return 0, false }

func (b benchInlet) Commit(c delivery.Commit) {
	b.sink(delivery.Committed{Inlet: c.Inlet, Sequence: c.Sequence})
}

type benchProducer struct{ b *bench }

func (p benchProducer) Write(id uint64, _ delivery.TP, outs []kafka.Out) {
	for i := range outs {
		p.b.written += len(outs[i].Records)
	}
	p.b.producer(delivery.Written{ID: id})
}

func (p benchProducer) Withdraw(uint64)             {}
func (p benchProducer) RaiseEpoch()                 {}
func (p benchProducer) Close(context.Context) error { return nil }

// newBench is a conversation that runs.
func newBench(tb testing.TB, records, size int) *bench {
	b := &bench{tb: tb}
	for range records {
		b.records = append(b.records, record.Record{
			Key: bytes.Repeat([]byte("k"), 10), Value: bytes.Repeat([]byte("v"), size-10), Timestamp: 1700000000000,
		})
	}
	d, err := New(Config{
		Core: delivery.Config{MaxRecords: records}, Broker: b, Logger: slog.New(slog.DiscardHandler),
		Launch: func(release func([]byte)) (Process, error) { b.release = release; return b, nil },
	})
	if err != nil {
		tb.Fatal(err)
	}
	b.d, d.began = d, time.Now()
	d.producer = b.Produce(d.sink(nil))
	d.step(delivery.Ticked{})
	d.received(wire.Spec{Descriptor: describe("app", []string{"in"}, []string{"out"}), Capabilities: wire.DefaultCapabilities()})
	d.onPrepared(<-d.prepared)
	b.drain()
	return b
}

// drain is the loop, until nothing is left to do.
func (b *bench) drain() {
	for {
		select {
		case a := <-b.d.events:
			b.d.onBroker(a)
		default:
			return
		}
	}
}

// turn is one batch: from Fetched to Written. body is the process's emit or
// forward, whose id is patched in.
func (b *bench) turn(body []byte) {
	b.sink(delivery.Fetched{TP: delivery.TP{Inlet: "in"}})
	b.drain()
	binary.BigEndian.PutUint64(body[bytes.IndexByte(body, 0xcf)+1:], b.id)
	m, err := wire.ParseFromProcess(body)
	if err != nil {
		b.tb.Fatal(err)
	}
	b.d.received(m)
	b.d.received(wire.Ack{ID: b.id})
	b.drain()
}

// answers are what a process makes of a batch.
var answers = map[string]func(b *bench) wire.Message{
	"forward": func(*bench) wire.Message { return wire.Forward{ID: 1 << 40, Outlet: "out", All: true} },
	"emit": func(b *bench) wire.Message {
		return wire.Emit{ID: 1 << 40, Outlet: "out", Records: wire.EncodeRecords(b.records)}
	},
}

func (b *bench) answer(name string) (body []byte) {
	frame, err := wire.Append(nil, answers[name](b)) // so large an id has its 8 bytes
	if err != nil {
		b.tb.Fatal(err)
	}
	return frame[4:]
}

// BenchmarkBatch is the way of a record from a Deliver into its frame, and from
// the frame of an emit or a forward into a Write.
func BenchmarkBatch(b *testing.B) {
	for name := range answers {
		b.Run(name, func(b *testing.B) {
			const records = 1000
			w := newBench(b, records, 100)
			body := w.answer(name)
			w.turn(body)
			b.ReportAllocs()
			b.SetBytes(int64(w.bytes))
			w.written = 0
			for b.Loop() {
				w.turn(body)
			}
			if w.written != records*b.N {
				b.Fatalf("%d records were written", w.written)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(w.written), "ns/record")
		})
	}
}

func TestNoAllocationsPerRecord(t *testing.T) {
	for name := range answers {
		t.Run(name, func(t *testing.T) {
			allocs := func(records int) float64 {
				w := newBench(t, records, 100)
				body := w.answer(name)
				w.turn(body)
				n := testing.AllocsPerRun(50, func() { w.turn(body) })
				if w.written != 52*records {
					t.Errorf("%d records were written", w.written)
				}
				return n
			}
			few, many := allocs(10), allocs(1000)
			if many > few+1 {
				t.Errorf("%v allocations for 1000 records, %v for 10", many, few)
			}
			t.Logf("%v allocations a batch", many)
		})
	}
}
