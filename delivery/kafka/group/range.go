package group

import "slices"

// assignRange is Java's RangeAssignor without racks: per topic the members that
// read it, in order, get runs of n/m partitions, the first n%m of them one
// more. cs is sorted by compareCandidates.
func assignRange(cs []candidate, counts map[string]int32) plan {
	out := make(plan, len(cs))
	for _, topic := range subscribedTopics(cs) {
		var readers []int
		for i, c := range cs {
			if slices.Contains(c.subscription.Topics, topic) {
				readers = append(readers, i)
			}
		}
		n, m := int(counts[topic]), len(readers)
		next := int32(0)
		for i, reader := range readers {
			size := n / m
			if i < n%m {
				size++
			}
			for range size {
				out[reader] = append(out[reader], partition{topic, next})
				next++
			}
		}
	}
	return out
}
