package checker

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
)

// order follows the records of each key of one outlet. All records of a key are
// on one partition, so log order is the order.
type order struct {
	c    *check
	keys map[string]*keyOrder
}

// keyOrder is one key's records so far.
type keyOrder struct {
	due []*due // of this key, in order
	// seen is how many of those due are there; next is due after them.
	seen int
	// last is the place of the newest record of each producer.
	last map[int64]int
}

func newOrder(c *check, all map[string]*due) *order {
	o := &order{c: c, keys: map[string]*keyOrder{}}
	for _, d := range all {
		k := o.keys[string(d.want.Key)]
		if k == nil {
			k = &keyOrder{last: map[int64]int{}}
			o.keys[string(d.want.Key)] = k
		}
		k.due = append(k.due, d)
	}
	for _, k := range o.keys {
		slices.SortFunc(k.due, func(a, b *due) int { return a.place - b.place })
	}
	return o
}

// next takes the log's next record in, before it is one of d's copies.
func (o *order) next(d *due, r *kgo.Record) {
	k := o.keys[string(d.want.Key)]
	switch {
	case d.place > k.seen:
		o.c.at(Order, r, "key %.40q: number %s came %d too early", d.want.Key, ID(r), d.place-k.seen)
	case d.place < k.seen && len(d.copies) == 0:
		o.c.at(Order, r, "key %.40q: number %s came after later ones", d.want.Key, ID(r))
	default:
		o.leftOut(k, d, r)
	}
	k.seen = max(k.seen, d.place+1)
	k.last[r.ProducerID] = d.place
}

// leftOut: what a producer has not written itself just before, it has found
// committed. Offsets rise with places, so the place before tells of all.
func (o *order) leftOut(k *keyOrder, d *due, r *kgo.Record) {
	last, any := k.last[r.ProducerID]
	if d.place == 0 || any && d.place <= last+1 {
		return
	}
	before := k.due[d.place-1]
	if len(before.copies) == 0 { // missing, which has been said
		return
	}
	if commit, done := first(o.c.asked, before.in); !done || commit.follows(r) {
		o.c.at(Order, r, "key %.40q: number %s came from producer %d, which has not written number %s before, and nobody had committed it", d.want.Key, ID(r), r.ProducerID, ID(before.want))
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
