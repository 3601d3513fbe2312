package sequence

import (
	"fmt"
	"slices"

	"ankka-flow/delivery"
)

// write is what one inlet batch emits.
type write struct {
	id      uint64
	from    delivery.TP
	parts   []*part // where it has or had pieces
	pending int     // records that are not confirmed, refused or withdrawn
	ended   bool    // no piece follows
	told    bool    // Unknown was said

	// refused and unsettled are reasons; empty: not so. Unsettled goes first.
	refused, unsettled string
	accused            []delivery.TP

	withdrawn bool // nobody wants it
	dropped   bool // and some of it was taken back
}

// failed says that nothing of it needs to be written any more.
func (w *write) failed() bool { return w.refused != "" || w.unsettled != "" || w.withdrawn }

func (m *Machine) begin(e Begun) {
	if m.writes[e.Write] != nil {
		panic(fmt.Sprintf("sequence: write %d begins twice", e.Write))
	}
	w := &write{id: e.Write, from: e.From}
	m.writes[e.Write] = w
	if len(m.opened) > 2*len(m.writes)+16 {
		m.opened = slices.DeleteFunc(m.opened, func(w *write) bool { return m.writes[w.id] != w })
	}
	m.opened = append(m.opened, w)
}

func (m *Machine) add(e Added) {
	w := m.writes[e.Write]
	if w == nil || w.failed() {
		return
	}
	if w.ended || e.Piece.Records < 1 {
		panic(fmt.Sprintf("sequence: %v: the write has ended, or the piece is empty", e))
	}
	p := m.part(e.Piece.Partition)
	p.queue = append(p.queue, waiting{Piece: e.Piece, write: w})
	w.pending += e.Piece.Records
	if !slices.Contains(w.parts, p) {
		w.parts = append(w.parts, p)
	}
	m.touch(p)
}

// fail ends a write as refused; what it still has waiting is withdrawn when its
// partitions are looked at.
func (m *Machine) fail(w *write, reason string, accused []delivery.TP) {
	m.failNow(w)
	if w.refused == "" {
		w.refused = reason
	}
	if len(accused) == 0 {
		accused = []delivery.TP{w.from}
	}
	for _, tp := range accused {
		if !slices.Contains(w.accused, tp) {
			w.accused = append(w.accused, tp)
		}
	}
	m.finish(w)
}

func (m *Machine) failNow(w *write) {
	if !w.failed() {
		m.failing++
		for _, p := range w.parts {
			m.touch(p)
		}
	}
}

// resolve takes records of a batch off their writes.
func (m *Machine) resolve(b *batch) {
	for i, s := range b.spans {
		b.owners[i].pending -= s.To - s.From
	}
	for _, w := range b.owners {
		m.finish(w)
	}
}

// finish says a write's last answer, once nothing of it is under way.
func (m *Machine) finish(w *write) {
	if m.writes[w.id] != w || w.pending > 0 || !w.ended && !w.failed() {
		return
	}
	delete(m.writes, w.id)
	if w.failed() {
		m.failing--
	}
	switch {
	case w.unsettled != "":
		m.emit(Unsettled{Write: w.id, Reason: w.unsettled})
	case w.refused != "":
		m.emit(Refused{Write: w.id, Reason: w.refused, Accused: w.accused})
	case w.dropped:
		m.emit(Refused{Write: w.id, Reason: "withdrawn before it was written", Accused: []delivery.TP{w.from}})
	default:
		m.emit(Written{Write: w.id})
	}
}
