package group

import "slices"

// assignCooperative is the whole decision of a cooperative-sticky leader:
// balance first, then withhold what another member still holds (KIP-429). cs is
// sorted by compareCandidates.
func assignCooperative(cs []candidate, counts map[string]int32) plan {
	balanced := assignSticky(cs, counts)
	return withholdHeld(balanced, cs)
}

// assignSticky balances over all topics at once: everybody keeps what it
// holds, what is free goes to the member with least, and then single
// partitions move from a member to one with at least two fewer, along a chain
// of members where topics differ, until no such pair is left. Where all read
// the same topics the result is even within one; where they do not, no
// exchange can make it more even (the cost-reducing paths of optimal
// semi-matching; Java's sticky assignor searches pairs and may stop short).
func assignSticky(cs []candidate, counts map[string]int32) plan {
	b := newBalance(cs, counts)
	b.keepClaims()
	b.placeFree()
	for b.improve() {
	}
	return b.shares
}

// balance is an assignment being made even.
type balance struct {
	cs     []candidate
	counts map[string]int32
	topics []string
	// reads[i] has the indexes into topics that member i reads, sorted.
	reads [][]int
	// readers[t] has the members that read topic t.
	readers [][]int
	shares  plan
	// byTopic[i][t] counts member i's partitions of topic t.
	byTopic []map[int]int
	// kept marks partitions that are with their holder.
	kept  map[partition]bool
	topic map[string]int
}

func newBalance(cs []candidate, counts map[string]int32) *balance {
	b := &balance{
		cs: cs, counts: counts, topics: subscribedTopics(cs),
		reads: make([][]int, len(cs)), shares: make(plan, len(cs)),
		byTopic: make([]map[int]int, len(cs)),
		kept:    map[partition]bool{}, topic: map[string]int{},
	}
	b.readers = make([][]int, len(b.topics))
	for t, name := range b.topics {
		b.topic[name] = t
	}
	for i, c := range cs {
		b.byTopic[i] = map[int]int{}
		for _, name := range c.subscription.Topics {
			if t := b.topic[name]; !slices.Contains(b.reads[i], t) {
				b.reads[i] = append(b.reads[i], t)
				b.readers[t] = append(b.readers[t], i)
			}
		}
		slices.Sort(b.reads[i])
	}
	return b
}

// holders tells for each claimed partition who claims it and with the highest
// generation; -1: two members claim it with the same one. That happens only
// when something went wrong before, and then neither keeps it: each sees it
// missing, lets go, and it is given out at the next rebalance (as in Java).
func holders(cs []candidate) map[partition]int {
	holder := map[partition]int{}
	generation := map[partition]int32{}
	for i, c := range cs {
		g := c.subscription.claimGeneration()
		for _, tp := range c.subscription.Owned {
			for _, p := range tp.Partitions {
				k := partition{tp.Topic, p}
				h, claimed := holder[k]
				switch {
				case !claimed || g > generation[k]:
					holder[k], generation[k] = i, g
				case g == generation[k] && h != i:
					holder[k] = -1
				}
			}
		}
	}
	return holder
}

// keepClaims gives every holder what it claims, where the partition exists and
// the holder still reads its topic.
func (b *balance) keepClaims() {
	held := holders(b.cs)
	claims := make([]partition, 0, len(held))
	for k := range held {
		claims = append(claims, k)
	}
	slices.SortFunc(claims, comparePartitions)
	for _, k := range claims {
		i := held[k]
		t, known := b.topic[k.topic]
		if i < 0 || !known || k.index < 0 || k.index >= b.counts[k.topic] || !slices.Contains(b.reads[i], t) {
			continue
		}
		b.give(i, t, k)
		b.kept[k] = true
	}
}

// placeFree hands every other partition to its reader with least; topics with
// few readers go first, for they have the least choice.
func (b *balance) placeFree() {
	order := make([]int, len(b.topics))
	for t := range order {
		order[t] = t
	}
	slices.SortStableFunc(order, func(x, y int) int { return len(b.readers[x]) - len(b.readers[y]) })
	for _, t := range order {
		for p := range b.counts[b.topics[t]] {
			k := partition{b.topics[t], p}
			if !b.kept[k] {
				b.give(b.least(b.readers[t]), t, k)
			}
		}
	}
}

// least is the member with the fewest partitions, the first of equals.
func (b *balance) least(members []int) int {
	best := members[0]
	for _, i := range members[1:] {
		if len(b.shares[i]) < len(b.shares[best]) {
			best = i
		}
	}
	return best
}

func (b *balance) give(i, t int, k partition) {
	b.shares[i] = append(b.shares[i], k)
	b.byTopic[i][t]++
}

// improve makes one chain of moves towards evenness; false: there is none. It
// looks from the member with least, so that in the ordinary case (all read
// the same) one partition goes straight from the fullest to the emptiest.
func (b *balance) improve() bool {
	order := make([]int, len(b.cs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(x, y int) int { return len(b.shares[x]) - len(b.shares[y]) })
	for _, taker := range order {
		if chain := b.chainTo(taker); chain != nil {
			for i := 0; i+1 < len(chain); i++ {
				b.move(chain[i+1], chain[i])
			}
			return true
		}
	}
	return false
}

// chainTo searches breadth first for the fullest member that can give taker a
// partition, over others in between if need be, and has at least two more. The
// result runs from taker to giver.
func (b *balance) chainTo(taker int) []int {
	from := map[int]int{taker: -1}
	level := []int{taker}
	for len(level) > 0 {
		var next []int
		giver := -1
		for _, u := range level {
			for v := range b.cs {
				if _, seen := from[v]; seen || b.movable(v, u) < 0 {
					continue
				}
				from[v] = u
				next = append(next, v)
				if len(b.shares[v]) >= len(b.shares[taker])+2 && (giver < 0 || len(b.shares[v]) > len(b.shares[giver])) {
					giver = v
				}
			}
		}
		if giver >= 0 {
			var chain []int
			for v := giver; v >= 0; v = from[v] {
				chain = append(chain, v)
			}
			slices.Reverse(chain)
			return chain
		}
		level = next
	}
	return nil
}

// movable is a topic of which v has a partition that u may have; -1: none.
func (b *balance) movable(v, u int) int {
	for _, t := range b.reads[u] {
		if b.byTopic[v][t] > 0 {
			return t
		}
	}
	return -1
}

// move gives one partition of v to u: one that v does not hold yet if there
// is, otherwise the last.
func (b *balance) move(v, u int) {
	best := -1
	for i, k := range b.shares[v] {
		if !slices.Contains(b.reads[u], b.topic[k.topic]) {
			continue
		}
		if best < 0 || !b.kept[k] || b.kept[b.shares[v][best]] && comparePartitions(k, b.shares[v][best]) > 0 {
			best = i
			if !b.kept[k] {
				break
			}
		}
	}
	k := b.shares[v][best]
	b.shares[v] = slices.Delete(b.shares[v], best, best+1)
	t := b.topic[k.topic]
	b.byTopic[v][t]--
	delete(b.kept, k)
	b.give(u, t, k)
}

// withholdHeld takes out of a balanced plan every partition that somebody
// claims and that does not stay with its holder: whoever claims it has to let
// go first, sees it missing, revokes it and joins again, and the next generation
// hands it over. Every claim counts, also one of an old generation: a member
// that claims may still be writing.
func withholdHeld(p plan, cs []candidate) plan {
	held := holders(cs)
	for i := range p {
		p[i] = slices.DeleteFunc(p[i], func(k partition) bool {
			holder, claimed := held[k]
			return claimed && holder != i
		})
	}
	return p
}
