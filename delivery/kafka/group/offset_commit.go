package group

// OffsetCommit: API key 8, version 7 (instance ids; the last without flexible
// fields).
const (
	OffsetCommitKey     = 8
	OffsetCommitVersion = 7
)

// OffsetCommitRequest commits positions of one topic. All partitions travel in
// one request: commits share the coordinator with heartbeats (rule 35).
type OffsetCommitRequest struct {
	// Group is the group id.
	Group string
	// Generation and Member are those under which the offsets were read;
	// never another generation's (rule 33), but for a partition that stayed.
	Generation int32
	Member     string
	// Instance is group.instance.id; empty: a dynamic member.
	Instance string
	// Topic is the inlet's topic.
	Topic string
	// Offsets holds each partition at most once.
	Offsets []CommitOffset
}

// CommitOffset is one partition's new position.
type CommitOffset struct {
	Partition int32
	// Offset is the next one to read, so the last settled one plus 1.
	Offset int64
	// LeaderEpoch is the epoch of the batch before Offset; -1: not known.
	// (kafka-go writes 0, which a franz-go successor took for data loss.
	// So there is no usable zero here.)
	LeaderEpoch int32
}

// AppendTo appends the request's body, without the request header.
func (q OffsetCommitRequest) AppendTo(dst []byte) []byte {
	dst = appendString(dst, q.Group)
	dst = appendInt32(dst, q.Generation)
	dst = appendString(dst, q.Member)
	dst = appendOptional(dst, q.Instance)
	dst = appendInt32(dst, 1)
	dst = appendString(dst, q.Topic)
	dst = appendInt32(dst, int32(len(q.Offsets)))
	for _, o := range q.Offsets {
		dst = appendInt32(dst, o.Partition)
		dst = appendInt64(dst, o.Offset)
		dst = appendInt32(dst, o.LeaderEpoch)
		dst = appendString(dst, "") // metadata: empty, as Java writes it
	}
	return dst
}

// OffsetCommitResponse is the answer: one code a partition.
type OffsetCommitResponse struct {
	Topics []CommittedTopic
}

// CommittedTopic is one topic of an OffsetCommitResponse.
type CommittedTopic struct {
	Topic      string
	Partitions []CommittedPartition
}

// CommittedPartition is one partition's result; JudgeCommit reads its code.
type CommittedPartition struct {
	Partition int32
	ErrorCode int16
}

// DecodeOffsetCommit reads an answer's body. Its error wraps ErrMalformed.
// A partition that was sent and is missing here was not committed.
func DecodeOffsetCommit(src []byte) (OffsetCommitResponse, error) {
	r := reader{src: src}
	var a OffsetCommitResponse
	r.int32("throttle time")
	n := r.count(6, "topics")
	for range n {
		t := CommittedTopic{Topic: r.string("topic")}
		k := r.count(6, "partitions")
		if r.err != nil {
			break
		}
		t.Partitions = make([]CommittedPartition, k)
		for i := range t.Partitions {
			t.Partitions[i].Partition = r.int32("partition")
			t.Partitions[i].ErrorCode = r.int16("error code")
		}
		a.Topics = append(a.Topics, t)
	}
	return a, r.err
}
