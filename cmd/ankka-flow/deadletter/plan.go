package deadletter

import (
	"cmp"
	"slices"

	"ankka-flow/delivery/record"
)

// Past is a redrive of the topic, this one's earlier runs too: what its selection would
// write is written in each partition below the offset that its group has committed.
type Past struct {
	Selection Selection
	Committed map[int32]int64
}

// Plan is a redrive.
type Plan struct {
	Selection Selection
	Past      []Past
}

// Judge says what becomes of the letter at an offset of a partition.
func (p *Plan) Judge(partition int32, r *record.Record, l *Letter) Verdict {
	verdict := p.Selection.Judge(r.Headers, l)
	if verdict == Unselected {
		return verdict
	}
	for i := range p.Past {
		past := &p.Past[i]
		if r.Offset < past.Committed[partition] && past.Selection.Judge(r.Headers, l) == Redrive {
			return Done
		}
	}
	return verdict
}

// Kind is what letters are counted by.
type Kind struct {
	Letter Letter // Partition is always AnyPartition
	// Verdict and To are those of a redrive; empty in a list.
	Verdict Verdict
	To      string
}

// Histogram counts letters by kind.
type Histogram map[Kind]int

// Add counts a letter.
func (h Histogram) Add(l *Letter, verdict Verdict, to string) {
	kind := Kind{*l, verdict, to}
	kind.Letter.Partition = AnyPartition
	h[kind]++
}

// Count is how many letters have a verdict.
func (h Histogram) Count(verdict Verdict) int {
	n := 0
	for kind, count := range h {
		if kind.Verdict == verdict {
			n += count
		}
	}
	return n
}

// Targets are the topics that letters are redriven to, sorted.
func (h Histogram) Targets() []string {
	var topics []string
	for kind := range h {
		if kind.Verdict == Redrive {
			topics = append(topics, kind.To)
		}
	}
	slices.Sort(topics)
	return slices.Compact(topics)
}

// Kinds are the kinds, the most frequent first.
func (h Histogram) Kinds() []Kind {
	var kinds []Kind
	for kind := range h {
		kinds = append(kinds, kind)
	}
	slices.SortFunc(kinds, func(a, b Kind) int {
		return cmp.Or(cmp.Compare(h[b], h[a]), cmp.Compare(a.Verdict, b.Verdict), cmp.Compare(a.To, b.To),
			cmp.Compare(a.Letter.Topic, b.Letter.Topic), cmp.Compare(a.Letter.Failed, b.Letter.Failed), cmp.Compare(a.Letter.Stage, b.Letter.Stage),
			cmp.Compare(a.Letter.Exception, b.Letter.Exception), cmp.Compare(a.Letter.Reason, b.Letter.Reason), cmp.Compare(a.Letter.Redrives, b.Letter.Redrives))
	})
	return kinds
}
