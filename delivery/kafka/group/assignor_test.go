package group

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func member(id string, generation int32, topics []string, owned ...TopicPartitions) candidate {
	return candidate{member: id, subscription: Subscription{Topics: topics, Owned: owned, Generation: generation}}
}

func sorted(cs []candidate) []candidate {
	slices.SortFunc(cs, compareCandidates)
	return cs
}

// TestRangeIsJavas has the figures of Java's RangeAssignor documentation: two
// topics of three partitions over two members.
func TestRangeIsJavas(t *testing.T) {
	cs := sorted([]candidate{member("C1", -1, []string{"t0", "t1"}), member("C0", -1, []string{"t0", "t1"})})
	p := assignRange(cs, map[string]int32{"t0": 3, "t1": 3})
	want := [][]TopicPartitions{
		{{"t0", []int32{0, 1}}, {"t1", []int32{0, 1}}},
		{{"t0", []int32{2}}, {"t1", []int32{2}}},
	}
	for i := range want {
		if got := p.topicPartitions(i); !reflect.DeepEqual(got, want[i]) {
			t.Errorf("%s: got %v, want %v", cs[i].member, got, want[i])
		}
	}
}

func TestStaticMembersComeFirst(t *testing.T) {
	cs := sorted([]candidate{{member: "a"}, {member: "z", instance: "i2"}, {member: "y", instance: "i1"}})
	if got := cs[0].instance + cs[1].instance + cs[2].member; got != "i1i2a" {
		t.Errorf("order %q", got)
	}
}

// Three topics of one partition over three members: kafka-go's balancers give
// one member everything (run p32).
func TestBalanceIsOverAllTopics(t *testing.T) {
	topics := []string{"a", "b", "c"}
	cs := []candidate{member("1", -1, topics), member("2", -1, topics), member("3", -1, topics)}
	for i, share := range assignCooperative(cs, map[string]int32{"a": 1, "b": 1, "c": 1}) {
		if len(share) != 1 {
			t.Errorf("member %d has %v", i, share)
		}
	}
}

// A taker that reads only b gets one over a member that reads both.
func TestBalanceFindsChains(t *testing.T) {
	cs := []candidate{
		member("1", 5, []string{"a"}, TopicPartitions{"a", []int32{0, 1, 2, 3}}),
		member("2", 5, []string{"a", "b"}, TopicPartitions{"b", []int32{0, 1}}),
		member("3", 5, []string{"b"}),
	}
	p := assignSticky(cs, map[string]int32{"a": 4, "b": 2})
	if len(p[0]) != 2 || len(p[1]) != 2 || len(p[2]) != 2 {
		t.Errorf("shares %v", p)
	}
}

func TestAJoiningMemberMovesOnlyItsShare(t *testing.T) {
	topics := []string{"t"}
	cs := []candidate{
		member("1", 5, topics, TopicPartitions{"t", []int32{0, 1, 2, 3, 4}}),
		member("2", 5, topics, TopicPartitions{"t", []int32{5, 6, 7, 8, 9}}),
		member("3", -1, topics),
	}
	counts := map[string]int32{"t": 10}
	p := assignCooperative(cs, counts)
	if len(p[0])+len(p[1]) != 7 || len(p[2]) != 0 {
		t.Fatalf("first phase %v", p)
	}
	for i := range cs {
		cs[i].subscription.Owned = p.topicPartitions(i)
		cs[i].subscription.Generation = 6
	}
	q := assignCooperative(cs, counts)
	if len(q[2]) != 3 || len(q[0]) != len(p[0]) || len(q[1]) != len(p[1]) {
		t.Errorf("second phase %v", q)
	}
}

func TestTheNewerClaimWins(t *testing.T) {
	topics := []string{"t"}
	cs := []candidate{member("1", 4, topics, TopicPartitions{"t", []int32{0}}), member("2", 5, topics, TopicPartitions{"t", []int32{0}})}
	p := assignCooperative(cs, map[string]int32{"t": 1})
	if len(p[0]) != 0 || len(p[1]) != 1 {
		t.Errorf("got %v", p)
	}
	cs[0].subscription.Generation = 5
	if p := assignCooperative(cs, map[string]int32{"t": 1}); len(p[0])+len(p[1]) != 0 {
		t.Errorf("claimed twice in one generation: got %v, want it with nobody until both let go", p)
	}
}

// drawGroup makes a group with claims such as earlier generations leave.
func drawGroup(t *rapid.T) ([]candidate, map[string]int32, bool) {
	counts := map[string]int32{}
	topics := []string{"a", "b", "c"}[:rapid.IntRange(1, 3).Draw(t, "topics")]
	for _, topic := range topics {
		counts[topic] = rapid.Int32Range(0, 12).Draw(t, "count "+topic)
	}
	same := rapid.Bool().Draw(t, "same topics")
	var cs []candidate
	for i := range rapid.IntRange(1, 6).Draw(t, "members") {
		read := topics
		if !same {
			read = rapid.SliceOfNDistinct(rapid.SampledFrom(topics), 1, len(topics), rapid.ID[string]).Draw(t, "reads")
		}
		cs = append(cs, member(fmt.Sprint("m", i), rapid.Int32Range(3, 5).Draw(t, "generation"), read))
	}
	for _, topic := range topics {
		for p := range counts[topic] + 1 { // one that no longer exists as well
			for _, i := range rapid.SliceOfN(rapid.IntRange(-1, len(cs)-1), 1, 2).Draw(t, "claims") {
				if i >= 0 {
					s := &cs[i].subscription
					s.Owned = append(s.Owned, TopicPartitions{topic, []int32{p}})
				}
			}
		}
	}
	return cs, counts, same
}

func checkWhole(t *rapid.T, cs []candidate, counts map[string]int32, p plan) {
	seen := map[partition]bool{}
	read := map[string]bool{}
	for i, share := range p {
		for _, k := range share {
			if seen[k] {
				t.Fatalf("%v is given twice: %v", k, p)
			}
			seen[k] = true
			if !slices.Contains(cs[i].subscription.Topics, k.topic) {
				t.Fatalf("member %d does not read %v", i, k)
			}
		}
		for _, topic := range cs[i].subscription.Topics {
			read[topic] = true
		}
	}
	for topic, n := range counts {
		for i := range n {
			if read[topic] && !seen[partition{topic, i}] {
				t.Fatalf("%s/%d is given to nobody: %v", topic, i, p)
			}
		}
	}
}

func TestStickyIsWholeEvenAndStays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cs, counts, same := drawGroup(t)
		p := assignSticky(cs, counts)
		checkWhole(t, cs, counts, p)
		if !reflect.DeepEqual(p, assignSticky(cs, counts)) {
			t.Fatal("equal groups, different assignments")
		}
		for u := range cs {
			for v := range cs {
				for _, k := range p[v] {
					if len(p[v]) >= len(p[u])+2 && slices.Contains(cs[u].subscription.Topics, k.topic) {
						t.Fatalf("%d has %d, %d has %d and could have %v", v, len(p[v]), u, len(p[u]), k)
					}
				}
			}
		}
		if same {
			checkStickiness(t, cs, counts, p)
		}
	})
}

// checkStickiness: where all read the same, a member loses a held partition
// only if it holds more than its share, and then only what is over it.
func checkStickiness(t *rapid.T, cs []candidate, counts map[string]int32, p plan) {
	total := 0
	for _, n := range counts {
		total += int(n)
	}
	floor := total / len(cs)
	holds := make([]int, len(cs))
	for k, i := range holders(cs) {
		if i >= 0 && k.index < counts[k.topic] {
			holds[i]++
		}
	}
	for i := range cs {
		stay := 0
		for _, k := range p[i] {
			if holders(cs)[k] == i {
				stay++
			}
		}
		if stay < min(holds[i], floor) {
			t.Fatalf("member %d held %d of a share of %d and keeps %d", i, holds[i], floor, stay)
		}
	}
}

func TestCooperativePhasesNeverShareAndConverge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cs, counts, _ := drawGroup(t)
		generation := int32(6)
		for range 4 {
			before := map[partition][]int{}
			for i, c := range cs {
				for _, tp := range c.subscription.Owned {
					for _, p := range tp.Partitions {
						before[partition{tp.Topic, p}] = append(before[partition{tp.Topic, p}], i)
					}
				}
			}
			p := assignCooperative(cs, counts)
			for i, share := range p {
				for _, k := range share {
					if held := before[k]; len(held) > 0 && !slices.Contains(held, i) {
						t.Fatalf("%v went to %d while %v held it", k, i, held)
					}
				}
				cs[i].subscription.Owned = p.topicPartitions(i)
				cs[i].subscription.Generation = generation
			}
			generation++
		}
		last := assignCooperative(cs, counts)
		checkWhole(t, cs, counts, last)
		for i := range cs {
			if !reflect.DeepEqual(last.topicPartitions(i), cs[i].subscription.Owned) {
				t.Fatalf("still moving after four generations: %v", last)
			}
		}
	})
}

// A case that must stay quick: 100 members, 1,000 partitions, one member new.
func BenchmarkCooperativeSticky(b *testing.B) {
	topics := []string{"t"}
	var cs []candidate
	for i := range 100 {
		var own []int32
		for p := i; p < 1000 && i < 99; p += 99 {
			own = append(own, int32(p))
		}
		cs = append(cs, member(fmt.Sprintf("m%03d", i), 5, topics, TopicPartitions{"t", own}))
	}
	b.ReportAllocs()
	for b.Loop() {
		assignCooperative(cs, map[string]int32{"t": 1000})
	}
}
