package group

// OffsetFetch: API key 9, version 5 (leader epochs; the last without flexible
// fields). Its successor's RequireStable concerns offsets that are committed
// inside transactions, which this group never does.
const (
	OffsetFetchKey     = 9
	OffsetFetchVersion = 5
)

// OffsetFetchRequest asks for committed positions of one topic.
type OffsetFetchRequest struct {
	// Group is the group id.
	Group string
	// Topic is the inlet's topic, Partitions those asked for.
	Topic      string
	Partitions []int32
}

// AppendTo appends the request's body, without the request header.
func (q OffsetFetchRequest) AppendTo(dst []byte) []byte {
	dst = appendString(dst, q.Group)
	dst = appendInt32(dst, 1)
	dst = appendString(dst, q.Topic)
	return appendInt32s(dst, q.Partitions)
}

// OffsetFetchResponse is the answer.
type OffsetFetchResponse struct {
	Topics []FetchedTopic
	// ErrorCode is for the request as a whole: 0, 14, 15, 16 or 30.
	ErrorCode int16
}

// FetchedTopic is one topic of an OffsetFetchResponse.
type FetchedTopic struct {
	Topic      string
	Partitions []FetchedOffset
}

// FetchedOffset is one partition's committed position.
type FetchedOffset struct {
	Partition int32
	// Offset is the next one to read; -1: nothing is committed.
	Offset int64
	// LeaderEpoch is the one committed with it; -1: none.
	LeaderEpoch int32
	// ErrorCode is this partition's own: 0, 29 (no right on the topic), 3.
	ErrorCode int16
}

// DecodeOffsetFetch reads an answer's body. Its error wraps ErrMalformed.
func DecodeOffsetFetch(src []byte) (OffsetFetchResponse, error) {
	r := reader{src: src}
	var a OffsetFetchResponse
	r.int32("throttle time")
	n := r.count(6, "topics")
	for range n {
		t := FetchedTopic{Topic: r.string("topic")}
		k := r.count(20, "partitions")
		if r.err != nil {
			break
		}
		t.Partitions = make([]FetchedOffset, k)
		for i := range t.Partitions {
			p := &t.Partitions[i]
			p.Partition = r.int32("partition")
			p.Offset = r.int64("offset")
			p.LeaderEpoch = r.int32("leader epoch")
			r.string("metadata")
			p.ErrorCode = r.int16("error code")
		}
		a.Topics = append(a.Topics, t)
	}
	a.ErrorCode = r.int16("error code")
	return a, r.err
}
