package group

import (
	"cmp"
	"slices"
)

// The assignors by their Java names.
const (
	// CooperativeSticky moves as little as it must and, at a rebalance, stops
	// only what moves (KIP-429).
	CooperativeSticky = "cooperative-sticky"
	// Range gives each member a run of each topic's partitions; for groups
	// shared with Java members that know nothing else. With it in the list
	// every rebalance suspends every partition, as in Java.
	Range = "range"
)

// candidate is one member as the assignors see it.
type candidate struct {
	member, instance string
	subscription     Subscription
}

// compareCandidates is the order of Java's AbstractPartitionAssignor: static members by
// instance id first, then dynamic ones by member id. All members must order
// alike only in so far as one leader decides; it is fixed so that equal groups
// give equal assignments.
func compareCandidates(a, b candidate) int {
	switch {
	case a.instance != "" && b.instance == "":
		return -1
	case a.instance == "" && b.instance != "":
		return 1
	case a.instance != "" && a.instance != b.instance:
		return cmp.Compare(a.instance, b.instance)
	}
	return cmp.Compare(a.member, b.member)
}

// partition names one partition of one topic.
type partition struct {
	topic string
	index int32
}

func comparePartitions(a, b partition) int {
	if c := cmp.Compare(a.topic, b.topic); c != 0 {
		return c
	}
	return cmp.Compare(a.index, b.index)
}

// plan is an assignment under construction: partitions by position of the
// member in the sorted candidates.
type plan [][]partition

// topicPartitions gives one member's share, by topic, sorted.
func (p plan) topicPartitions(member int) []TopicPartitions {
	share := slices.SortedFunc(slices.Values(p[member]), comparePartitions)
	var out []TopicPartitions
	for _, tp := range share {
		if n := len(out); n == 0 || out[n-1].Topic != tp.topic {
			out = append(out, TopicPartitions{Topic: tp.topic})
		}
		last := &out[len(out)-1]
		last.Partitions = append(last.Partitions, tp.index)
	}
	return out
}

// subscribedTopics lists every topic that some candidate reads, sorted, once.
func subscribedTopics(cs []candidate) []string {
	var topics []string
	for _, c := range cs {
		topics = append(topics, c.subscription.Topics...)
	}
	slices.Sort(topics)
	return slices.Compact(topics)
}
