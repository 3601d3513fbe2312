package group

import (
	"encoding/binary"
	"fmt"
)

// subscriptionVersion is what we write: Java's newest (KIP-881's rack, which
// stays null). Older Java clients read the part they know and ignore the rest.
const subscriptionVersion = 3

// TopicPartitions names partitions of one topic.
type TopicPartitions struct {
	Topic      string
	Partitions []int32
}

// Subscription is a member's metadata in JoinGroup: Java's
// ConsumerProtocolSubscription, versions 0 to 3.
type Subscription struct {
	// Topics the member reads.
	Topics []string
	// UserData belongs to the assignor; nil is null. cooperative-sticky
	// writes the generation here (see StickyUserData).
	UserData []byte
	// Owned are the partitions that the member holds and goes on with (v1+).
	Owned []TopicPartitions
	// Generation is the last one the member was in, -1: none or not said (v2+).
	Generation int32
	// Rack is client.rack, empty: none (v3+). Never written by us.
	Rack string
	// Truncated is set by DecodeSubscription where the version promises
	// fields that are not there: kafka-go claims version 1 and writes version 0.
	Truncated bool
}

// AppendTo appends the subscription as version 3. Truncated is not written.
func (s Subscription) AppendTo(dst []byte) []byte {
	dst = appendInt16(dst, subscriptionVersion)
	dst = appendInt32(dst, int32(len(s.Topics)))
	for _, t := range s.Topics {
		dst = appendString(dst, t)
	}
	dst = appendBytes(dst, s.UserData)
	dst = appendTopicPartitions(dst, s.Owned)
	dst = appendInt32(dst, s.Generation)
	return appendOptional(dst, s.Rack)
}

// DecodeSubscription reads a member's metadata. A newer version is read as
// version 3, as Java does: fields are only ever appended. What the version
// promises beyond version 0 and the bytes do not hold is left at "not said"
// and Truncated set, because refusing it costs the whole group its leader.
// An error wraps ErrMalformed: topics or user data cannot
// be read; the leader then gives this member nothing and names it (case 59).
func DecodeSubscription(src []byte) (Subscription, error) {
	r := reader{src: src}
	s := Subscription{Generation: -1}
	version := r.int16("subscription version")
	if version < 0 {
		r.fail("negative subscription version")
	}
	s.Topics = r.strings("topics")
	s.UserData = r.bytes("user data")
	if r.err != nil {
		return Subscription{Generation: -1}, fmt.Errorf("reading a member's subscription: %w", r.err)
	}
	if version >= 1 {
		s.Owned = r.topicPartitions("owned partitions")
	}
	if version >= 2 && r.err == nil {
		s.Generation = r.int32("generation")
	}
	if version >= 3 && r.err == nil {
		s.Rack = r.string("rack")
	}
	if r.err != nil {
		s.Owned, s.Generation, s.Rack, s.Truncated = nil, -1, "", true
	}
	return s, nil
}

// StickyUserData is what Java's CooperativeStickyAssignor writes as user data:
// the generation as one int32. Its members before version 2 of the
// subscription have no other place for it.
func StickyUserData(generation int32) []byte { return appendInt32(nil, generation) }

// claimGeneration is the generation that a cooperative-sticky member's claims
// are of: the subscription's field, else the user data's, else -1 (the order
// of Java's CooperativeStickyAssignor.memberData).
func (s Subscription) claimGeneration() int32 {
	if s.Generation >= 0 {
		return s.Generation
	}
	if len(s.UserData) >= 4 {
		return max(int32(binary.BigEndian.Uint32(s.UserData)), -1)
	}
	return -1
}

func appendTopicPartitions(dst []byte, tps []TopicPartitions) []byte {
	dst = appendInt32(dst, int32(len(tps)))
	for _, tp := range tps {
		dst = appendString(dst, tp.Topic)
		dst = appendInt32s(dst, tp.Partitions)
	}
	return dst
}

func (r *reader) topicPartitions(what string) []TopicPartitions {
	n := r.count(6, what)
	var out []TopicPartitions
	for range n {
		tp := TopicPartitions{Topic: r.string(what), Partitions: r.int32s(what)}
		if r.err != nil {
			return nil
		}
		out = append(out, tp)
	}
	return out
}
