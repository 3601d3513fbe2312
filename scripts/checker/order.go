package checker

import "github.com/twmb/franz-go/pkg/kgo"

// order follows the records of each key of one outlet. All records of a key are
// on one partition, so log order is the order.
type order struct {
	c    *check
	keys map[string]*keyOrder
}

// keyOrder is one key's records so far.
type keyOrder struct {
	// seen is how many of those due are there; next is due after them.
	seen int
	// last is the newest record of each producer.
	last map[int64]written
	// copies has the newest copy at each place.
	copies []written
}

// written is one record in the log: who wrote it, where.
type written struct {
	producer, offset int64
	place            int
}

func newOrder(c *check) *order { return &order{c: c, keys: map[string]*keyOrder{}} }

// next takes the log's next record in.
func (o *order) next(d *due, r *kgo.Record) {
	k := o.keys[string(d.want.Key)]
	if k == nil {
		k = &keyOrder{last: map[int64]written{}}
		o.keys[string(d.want.Key)] = k
	}
	switch {
	case d.place > k.seen:
		o.c.at(Order, r, "key %.40q: number %s came %d too early", d.want.Key, ID(r), d.place-k.seen)
	case d.place < k.seen && k.copies[d.place].offset < 0:
		o.c.at(Order, r, "key %.40q: number %s came after later ones", d.want.Key, ID(r))
	default:
		o.jump(k, d, r)
	}
	for len(k.copies) <= d.place {
		k.copies = append(k.copies, written{offset: -1})
	}
	k.seen = max(k.seen, d.place+1)
	now := written{producer: r.ProducerID, offset: r.Offset, place: d.place}
	k.last[r.ProducerID], k.copies[d.place] = now, now
}

// jump: between two records of one producer nothing is left out, unless another
// one has written it since.
func (o *order) jump(k *keyOrder, d *due, r *kgo.Record) {
	last, any := k.last[r.ProducerID]
	if !any {
		return
	}
	for place := last.place + 1; place < d.place; place++ {
		by := k.copies[place]
		if by.offset < 0 { // missing, which has been said
			continue
		}
		if by.producer == r.ProducerID || by.offset < last.offset {
			o.c.at(Order, r, "key %.40q: number %s came again, %d too early: its producer %d wrote offset %d before", d.want.Key, ID(r), d.place-place, r.ProducerID, last.offset)
			return
		}
	}
}

// lateness finds what was repeated after its commit in one partition of an
// outlet, and allows what the window without a fence allows.
type lateness struct {
	c *check
	// late is a producer's late batch for an inlet partition, until it has
	// written something else for it.
	late map[lateWriter]lateBatch
}

type lateWriter struct {
	producer  int64
	partition int32 // of the inlet
}

// lateBatch is a batch as far as records tell: those of one batch have all of
// this in common.
type lateBatch struct {
	epoch int16
	at    int64
}

func newLateness(c *check) *lateness { return &lateness{c: c, late: map[lateWriter]lateBatch{}} }

// next takes the log's next record in, before it is one of d's copies.
func (l *lateness) next(d *due, r *kgo.Record) {
	commit, done := first(l.c.commits, d.in)
	who, batch := lateWriter{r.ProducerID, d.in.Partition}, lateBatch{r.ProducerEpoch, appended(r)}
	before, any := l.late[who]
	if len(d.copies) == 0 || !done || !commit.precedes(r) {
		if any && before != batch { // the rest of a late batch may be due
			delete(l.late, who)
		}
		return
	}
	by, others := int64(-1), false
	for _, copy := range d.copies {
		by = copy.ProducerID
		others = others || copy.ProducerID != r.ProducerID && !commit.precedes(copy)
	}
	l.late[who] = batch
	switch {
	case !others:
		l.again(Again, d, r, commit, "of its own producer, which wrote it before (the last copy is of %d)", by)
	case any && before != batch:
		l.again(Again, d, r, commit, "of a producer that had its one late batch at %d already", before.at)
	default:
		l.again(late, d, r, commit, "(the last copy is of %d)", by)
	}
}

// again tells of a repeat after its commit.
func (l *lateness) again(kind Kind, d *due, r *kgo.Record, commit Commit, why string, args ...any) {
	all := append([]any{ID(r), d.in.Topic, d.in.Partition, d.in.Offset, r.ProducerID, appended(r), commit.Offset, commit.At}, args...)
	l.c.at(kind, r, "number %s of %s/%d@%d came again from producer %d at %d, after the commit of %d at %d "+why, all...)
}
