package driver

import (
	"sync"

	"ankka-flow/delivery"
	"ankka-flow/delivery/kafka"
	"ankka-flow/delivery/record"
	"ankka-flow/wire"
)

// batch is the bytes of one batch, from its Deliver to the last word about it.
type batch struct {
	id uint64
	tp delivery.TP
	// topics has outlet to topic as they were when the batch was delivered: a
	// reload may rename them while it is still being written.
	topics map[string]string
	// records alias the fetched record batches.
	records []record.Record
	// held has every emitted record in the order emitted; emits are its runs
	// by outlet. Runs and not slices, because held moves when it grows.
	held  []record.Record
	emits []emit
}

// emit is a run of held records for one outlet.
type emit struct {
	outlet   string
	from, to int
}

// hold keeps what an emit brought.
func (b *batch) hold(m *wire.Emit) {
	from := len(b.held)
	b.held = m.Records.Append(b.held)
	b.run(m.Outlet, from)
}

// holdForward keeps copies of the batch's own records, to be stamped when they
// are written. Only the headers of slices are copied, never a record's bytes.
// The indexes are in range: forwarded checked them.
func (b *batch) holdForward(m *wire.Forward) {
	from := len(b.held)
	if m.All {
		b.held = append(b.held, b.records...)
	} else {
		for _, i := range m.Indexes {
			b.held = append(b.held, b.records[i])
		}
	}
	for i := from; i < len(b.held); i++ {
		b.held[i].Timestamp = record.Now
	}
	b.run(m.Outlet, from)
}

// run notes what was appended since from, joining it to the run before where
// the outlet is the same.
func (b *batch) run(outlet string, from int) {
	if n := len(b.emits); n > 0 && b.emits[n-1].outlet == outlet {
		b.emits[n-1].to = len(b.held)
		return
	}
	b.emits = append(b.emits, emit{outlet: outlet, from: from, to: len(b.held)})
}

// recordMemory is what holding a record takes beside its bytes: a frame can
// forward an empty one a million times.
const recordMemory = 88

// forwarded is how many records a forward stands for and how many bytes they
// take to hold; outside is the first index that is out of range, or -1.
func (b *batch) forwarded(m *wire.Forward) (records, bytes, outside int) {
	if m.All {
		for i := range b.records {
			bytes += b.records[i].Size() + recordMemory
		}
		return len(b.records), bytes, -1
	}
	for _, i := range m.Indexes {
		if i < 0 || i >= len(b.records) {
			return 0, 0, i
		}
		bytes += b.records[i].Size() + recordMemory
	}
	return len(m.Indexes), bytes, -1
}

// outs is what is held, by topic and in order, as the producer takes it.
func (b *batch) outs() []kafka.Out {
	outs := make([]kafka.Out, len(b.emits))
	for i, e := range b.emits {
		outs[i] = kafka.Out{Topic: b.topics[e.outlet], Records: b.held[e.from:e.to]}
	}
	return outs
}

// shelf has the batches at hand and the memory of those that are gone.
type shelf struct {
	batches map[uint64]*batch
	free    []*batch
}

// shelfSpare is how many emptied batches are kept for the next ones: as many
// as a process usually has at once.
const shelfSpare = 32

// A spare batch has room for at most so many records, and a spare frame for so
// many bytes: what one burst needed must not be kept for ever.
const (
	spareRecords = 16 << 10
	spareFrame   = 2 << 20
)

func (s *shelf) take(id uint64, tp delivery.TP, topics map[string]string) *batch {
	b := &batch{}
	if n := len(s.free); n > 0 {
		b, s.free = s.free[n-1], s.free[:n-1]
	}
	b.id, b.tp, b.topics = id, tp, topics
	s.batches[id] = b
	return b
}

// drop lets go of a batch's bytes; of one that is not there it does nothing.
func (s *shelf) drop(id uint64) {
	b, ok := s.batches[id]
	if !ok {
		return
	}
	delete(s.batches, id)
	if len(s.free) == shelfSpare || cap(b.records)+cap(b.held) > spareRecords {
		return
	}
	// Cleared, so that a spare batch pins no fetched bytes.
	clear(b.records)
	clear(b.held)
	clear(b.emits)
	b.records, b.held, b.emits = b.records[:0], b.held[:0], b.emits[:0]
	s.free = append(s.free, b)
}

// frames keeps the memory of frames that were sent for the next ones. It is
// used by the loop and by the goroutines of the process.
type frames struct {
	mu   sync.Mutex
	free [][]byte
}

// get returns an empty slice, with memory where there is some.
func (f *frames) get() []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(f.free)
	if n == 0 {
		return nil
	}
	frame := f.free[n-1]
	f.free = f.free[:n-1]
	return frame[:0]
}

// put takes a frame's memory back. What a burst needed beyond shelfSpare, or a
// large record beyond spareFrame, is left to the collector.
func (f *frames) put(frame []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.free) < shelfSpare && cap(frame) > 0 && cap(frame) <= spareFrame {
		f.free = append(f.free, frame)
	}
}
