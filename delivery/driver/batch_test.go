package driver

import (
	"testing"

	"ankka-flow/delivery"
	"ankka-flow/delivery/record"
)

func TestSpareMemoryIsBounded(t *testing.T) {
	var f frames
	f.put(make([]byte, 10, spareFrame+1))
	f.put(nil)
	if got := f.get(); got != nil {
		t.Errorf("a frame of %d bytes was kept", cap(got))
	}
	for range shelfSpare + 5 {
		f.put(make([]byte, 10, 20))
	}
	if len(f.free) != shelfSpare {
		t.Errorf("%d frames are kept", len(f.free))
	}
	if got := f.get(); len(got) != 0 || cap(got) != 20 {
		t.Errorf("a spare frame has %d of %d bytes", len(got), cap(got))
	}

	s := shelf{batches: map[uint64]*batch{}}
	for id := range uint64(shelfSpare + 5) {
		s.take(id, delivery.TP{}, nil)
	}
	s.take(99, delivery.TP{}, nil).held = make([]record.Record, spareRecords+1)
	s.drop(99)
	s.drop(99) // of one that is gone it does nothing
	if len(s.free) != 0 {
		t.Error("a batch of a burst was kept")
	}
	for id := range uint64(shelfSpare + 5) {
		s.drop(id)
	}
	if len(s.free) != shelfSpare || len(s.batches) != 0 {
		t.Errorf("%d batches are kept, %d at hand", len(s.free), len(s.batches))
	}
}

// A spare batch pins no bytes of the last one.
func TestSpareBatchesForgetTheirRecords(t *testing.T) {
	s := shelf{batches: map[uint64]*batch{}}
	b := s.take(1, delivery.TP{}, nil)
	b.records = values("a", "b")
	b.held = values("c")
	b.run("out", 0)
	s.drop(1)
	for _, r := range append(b.records[:2], b.held[:1]...) {
		if r.Value != nil {
			t.Errorf("%q is still there", r.Value)
		}
	}
	if again := s.take(2, delivery.TP{}, nil); again != b || len(b.records)+len(b.held)+len(b.emits) != 0 || b.id != 2 {
		t.Errorf("%+v", again)
	}
}
