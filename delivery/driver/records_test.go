package driver

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ankka-flow/delivery"
	"ankka-flow/delivery/record"
	"ankka-flow/wire"
)

// odd are records in every shape that R8 names.
func odd() []record.Record {
	return []record.Record{
		{Key: []byte("k"), Value: []byte("v"), Timestamp: 1700000000000},
		{Key: nil, Value: []byte{}, Timestamp: record.NoTimestamp},
		{Key: []byte{}, Value: nil, Timestamp: 0},
		{Key: []byte{0xff, 0x00, 0xfe}, Value: []byte{0x00}, Timestamp: 5, Headers: []record.Header{
			{Name: []byte("h"), Value: []byte("1")}, {Name: []byte("h"), Value: nil}, {Name: []byte{0xff}, Value: []byte{}}, {Name: []byte{}, Value: []byte("h")},
		}},
	}
}

// plain is records without what does not cross: the offset, which is the
// log's, and empty for no headers.
func plain(records []record.Record, timestamp bool) (out []record.Record) {
	for _, r := range records {
		r = cloneRecord(r)
		r.Offset = 0
		if !timestamp {
			r.Timestamp = 0
		}
		out = append(out, r)
	}
	return out
}

func TestR8_BytesCrossUnchangedThroughForwardAndEmit(t *testing.T) {
	for name, answer := range map[string]func(b wire.Batch) wire.Message{
		"forward all": func(b wire.Batch) wire.Message { return wire.Forward{ID: b.ID, Outlet: "left", All: true} },
		"forward each": func(b wire.Batch) wire.Message {
			return wire.Forward{ID: b.ID, Outlet: "left", Indexes: []int{0, 1, 2, 3}}
		},
		"emit": func(b wire.Batch) wire.Message {
			return wire.Emit{ID: b.ID, Outlet: "left", Records: wire.EncodeRecords(b.Records)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				p := w.running(1)
				w.add("in", 0, odd()...)
				b := p.batch()
				if got := plain(b.Records, true); !reflect.DeepEqual(got, plain(odd(), true)) {
					t.Errorf("the frame has %v", got)
				}
				m := answer(b)
				p.say(m, wire.Ack{ID: b.ID})
				got := w.broker.producer.in("app.left")
				if !reflect.DeepEqual(plain(got, false), plain(odd(), false)) {
					t.Errorf("written was %v", got)
				}
				for i, r := range got {
					want := record.Now // a forward is stamped when it is written
					if _, emit := m.(wire.Emit); emit {
						want = odd()[i].Timestamp
					}
					if r.Timestamp != want {
						t.Errorf("record %d has timestamp %d, not %d", i, r.Timestamp, want)
					}
				}
				if at := w.broker.inlet("in").committedAt(0); at != 4 {
					t.Errorf("committed is %d", at)
				}
				w.end()
			})
		})
	}
}

func TestR6_ForwardsAndEmitsKeepTheirOrderByOutlet(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.running(1)
		w.add("in", 0, values("a", "b", "c")...)
		b := p.batch()
		p.say(
			wire.Forward{ID: b.ID, Outlet: "left", Indexes: []int{2, 0, 2}},
			emitOf(b.ID, "right", "x"),
			emitOf(b.ID, "left", "y", "z"),
			wire.Forward{ID: b.ID, Outlet: "left", All: true},
			wire.Forward{ID: b.ID, Outlet: "right", Indexes: []int{1}},
			emitOf(b.ID, "left"),
			wire.Ack{ID: b.ID},
		)
		if got := texts(w.broker.producer.in("app.left")); got != "c a c y z a b c" {
			t.Errorf("left has %s", got)
		}
		if got := texts(w.broker.producer.in("app.right")); got != "x b" {
			t.Errorf("right has %s", got)
		}
		w.end()
	})
}

func TestNextBatchGoesOutBeforeTheWriteOfTheLast(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.running(1, func(c *Config) { c.Core.MaxRecords = 1 })
		w.add("in", 0, values("a", "b")...)
		b := p.batch()
		p.say(emitOf(b.ID, "left", "A"))
		w.broker.takeTrace()
		p.say(wire.Ack{ID: b.ID})
		if got := strings.Join(w.broker.takeTrace(), ", "); got != "Cut 1, Write 1" {
			t.Errorf("the order was: %s", got)
		}
		if got := texts(p.batch().Records); got != "b" {
			t.Errorf("the next batch is %s", got)
		}
		p.say(wire.Ack{ID: 2})
		w.end()
	})
}

func TestAFrameThatIsFullGivesTheTailBackAndItComesNext(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.running(1, func(c *Config) { c.Core.MaxBytes, c.Core.MaxRecords = 16<<20, 100 })
		var records []record.Record
		for i := range 7 {
			records = append(records, record.Record{Value: []byte(strings.Repeat(string(rune('a'+i)), 1<<20))})
		}
		w.add("in", 0, records...)
		first := p.batch()
		if len(first.Records) != 3 {
			t.Fatalf("the first batch has %d records", len(first.Records))
		}
		if !w.broker.inlet("in").called("CutBack 0 3") {
			t.Errorf("the tail was not given back: %v", w.broker.inlet("in").calls)
		}
		p.say(wire.Ack{ID: first.ID})
		second := p.batch()
		p.say(wire.Ack{ID: second.ID})
		third := p.batch()
		p.say(wire.Ack{ID: third.ID})
		got := append(append(first.Records, second.Records...), third.Records...)
		if len(got) != 7 {
			t.Fatalf("%d records came", len(got))
		}
		for i, r := range got {
			if r.Offset != int64(i) || r.Value[0] != byte('a'+i) {
				t.Errorf("record %d has offset %d and value %c", i, r.Offset, r.Value[0])
			}
		}
		w.end()
	})
}

func TestCase51_ARecordOverTheLimitWaitsAndWhatIsBeforeItIsDelivered(t *testing.T) {
	for name, before := range map[string][]record.Record{"first": nil, "behind others": values("a", "b")} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				p := w.running(2, func(c *Config) { c.Core.MaxBytes = 16 << 20 })
				huge := record.Record{Value: make([]byte, wire.MaxRecord)}
				w.add("in", 0, append(before, huge)...)
				if len(before) > 0 {
					b := p.batch()
					if got := texts(b.Records); got != "a b" {
						t.Errorf("delivered was %.20s", got)
					}
					p.say(wire.Ack{ID: b.ID})
				}
				if !w.said.has("over the protocol's limit") {
					t.Error("nobody was told")
				}
				for _, m := range p.take() {
					if m.Kind() == wire.KindBatch {
						t.Error("it was sent")
					}
				}
				// The stream has failed and goes on with the other partition.
				p.say(wire.Stopped{})
				w.pass(time.Second)
				w.answerDiscovery()
				w.add("in", 1, values("x")...)
				b := p.batch()
				if b.Partition != 1 || texts(b.Records) != "x" {
					t.Errorf("delivered was partition %d: %.20s", b.Partition, texts(b.Records))
				}
				p.say(wire.Ack{ID: b.ID})
				if at := w.broker.inlet("in").committedAt(0); at != int64(len(before)) {
					t.Errorf("committed is %d", at)
				}
				w.end()
			})
		})
	}
}

// Both partitions wait for the one credit: the Step that answers the first's
// Deliver has the second's in it, and nothing may come between that and its Cut.
func TestABatchThatCannotBeReadDoesNotTouchTheOthers(t *testing.T) {
	bubble(t, func(w *world) {
		w.broker.logs["app.in"] = make([][]record.Record, 3)
		w.run()
		p := w.proc()
		p.say(wire.Spec{Descriptor: w.descriptor, Capabilities: wire.Capabilities{MaxInFlight: 1}})
		in := w.broker.inlet("in")
		in.cutErr = map[int32]error{0: errors.New("bad checksum")}
		w.add("in", 2, values("a")...)
		w.add("in", 0, values("b")...)
		w.add("in", 1, values("c")...)
		p.say(wire.Ack{ID: p.batch().ID})
		b := p.batch()
		if b.Partition != 1 {
			t.Fatalf("partition %d was delivered", b.Partition)
		}
		p.say(wire.Ack{ID: b.ID})
		for _, s := range w.snapshot().Partitions {
			if s.TP.Partition == 0 && (s.LastError != "bad checksum" || s.Position != 0 || s.Why != "blocked") {
				t.Errorf("%+v", s)
			}
		}
		w.end()
	})
}

func TestR5_AnEmptyCutSendsNothingAndIsAskedAgain(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.running(1)
		in := w.broker.inlet("in")
		in.sink(delivery.Fetched{TP: delivery.TP{Inlet: "in"}}) // a stale hint
		if got := p.batches(); len(got) != 0 {
			t.Errorf("sent was %v", got)
		}
		w.add("in", 0, values("a")...)
		b := p.batch()
		p.say(wire.Ack{ID: b.ID})
		w.end()
	})
}

func TestMemoryUsedAgainNeverShowsInWhatIsHeldOrWritten(t *testing.T) {
	bubble(t, func(w *world) {
		const partitions, rounds = 4, 30
		p := w.running(partitions, func(c *Config) { c.Core.MaxRecords = 3 })
		w.broker.producer.hold(true)
		var want []string
		for round := range rounds {
			for partition := range partitions {
				v := strings.Repeat(string(rune('a'+(round+partition)%26)), 1+(7*round+partition)%50)
				w.add("in", partition, values(v, v+"1", v+"2")...)
			}
			// Batches are held while others come, are answered and given back in
			// another order.
			batches := p.batches()
			for i, b := range batches {
				if i%2 == 0 {
					p.say(wire.Forward{ID: b.ID, Outlet: "left", All: true})
				} else {
					p.say(wire.Emit{ID: b.ID, Outlet: "left", Records: wire.EncodeRecords(b.Records)})
				}
			}
			for i := range batches {
				b := batches[len(batches)-1-i]
				want = append(want, texts(b.Records))
				p.say(wire.Ack{ID: b.ID})
			}
			if open := w.broker.producer.openIDs(); round%3 == 2 {
				for i := range open {
					w.broker.producer.answer(delivery.Written{ID: open[len(open)-1-i]})
				}
				synctest.Wait()
			}
		}
		w.broker.producer.hold(false)
		for _, id := range w.broker.producer.openIDs() {
			w.broker.producer.answer(delivery.Written{ID: id})
		}
		for batches := p.batches(); len(batches) > 0; batches = p.batches() {
			for _, b := range batches {
				want = append(want, texts(b.Records))
				p.say(wire.Forward{ID: b.ID, Outlet: "left", All: true}, wire.Ack{ID: b.ID})
			}
		}
		delivered := strings.Fields(strings.Join(want, " "))
		if len(delivered) != 3*partitions*rounds {
			t.Errorf("%d records were delivered", len(delivered))
		}
		got := strings.Fields(texts(w.broker.producer.in("app.left")))
		slices.Sort(delivered)
		slices.Sort(got)
		if !slices.Equal(got, delivered) {
			t.Errorf("written was %v, delivered %v", got, delivered)
		}
		w.end()
	})
}

func TestR10_ManySmallRecordsCountForTheMemoryThatTheyTake(t *testing.T) {
	for name, m := range map[string]func(b wire.Batch) wire.Message{
		"headers": func(b wire.Batch) wire.Message {
			headers := make([]record.Header, 200_000)
			for i := range headers {
				headers[i].Name = []byte{}
			}
			return wire.Emit{ID: b.ID, Outlet: "left", Records: wire.EncodeRecords([]record.Record{{Headers: headers}})}
		},
		"forwards": func(b wire.Batch) wire.Message {
			return wire.Forward{ID: b.ID, Outlet: "left", Indexes: make([]int, 100_000)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				p := w.running(1)
				w.add("in", 0, record.Record{})
				b := p.batch()
				p.say(m(b))
				if held := w.snapshot().HeldBytes; held < 8<<20 {
					t.Errorf("counted are %d bytes", held)
				}
				p.say(wire.Ack{ID: b.ID})
				w.end()
			})
		})
	}
}
