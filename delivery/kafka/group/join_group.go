package group

import "time"

// JoinGroup: API key 11, version 5 (KIP-345's group.instance.id; the last
// without flexible fields).
const (
	JoinGroupKey     = 11
	JoinGroupVersion = 5
)

// JoinGroupRequest asks for a place in the group's next generation. The broker
// answers when every member has joined, or when the rebalance timeout is over.
type JoinGroupRequest struct {
	// Group is the group id.
	Group string
	// SessionTimeout is sent in whole milliseconds; the broker takes 6 s to
	// 30 min by default, otherwise code 26.
	SessionTimeout time.Duration
	// RebalanceTimeout bounds how long the broker waits for the others.
	RebalanceTimeout time.Duration
	// Member is the member id, empty at the first try.
	Member string
	// Instance is group.instance.id; empty: a dynamic member.
	Instance string
	// Protocols are the assignors, the preferred one first.
	Protocols []JoinProtocol
}

// JoinProtocol is one assignor that a member can work with.
type JoinProtocol struct {
	// Name is the assignor's, such as "cooperative-sticky".
	Name string
	// Metadata is an encoded Subscription.
	Metadata []byte
}

// AppendTo appends the request's body, without the request header.
func (q JoinGroupRequest) AppendTo(dst []byte) []byte {
	dst = appendString(dst, q.Group)
	dst = appendInt32(dst, millis(q.SessionTimeout))
	dst = appendInt32(dst, millis(q.RebalanceTimeout))
	dst = appendString(dst, q.Member)
	dst = appendOptional(dst, q.Instance)
	dst = appendString(dst, "consumer")
	dst = appendInt32(dst, int32(len(q.Protocols)))
	for _, p := range q.Protocols {
		dst = appendString(dst, p.Name)
		dst = appendBytes(dst, nonNil(p.Metadata))
	}
	return dst
}

// JoinGroupResponse is the answer.
type JoinGroupResponse struct {
	// ErrorCode is 0 or one of those in code.go.
	ErrorCode int16
	// Generation is the generation entered, -1 with an error.
	Generation int32
	// Protocol is the assignor that every member can work with.
	Protocol string
	// Leader is the member id of the one that assigns.
	Leader string
	// Member is our own id: also set with code 79 (member id required).
	Member string
	// Members is filled for the leader only.
	Members []JoinedMember
}

// JoinedMember is one member as the leader sees it.
type JoinedMember struct {
	// Member is its id, Instance its group.instance.id or empty.
	Member, Instance string
	// Metadata is its encoded Subscription for the chosen protocol.
	Metadata []byte
}

// DecodeJoinGroup reads an answer's body. Its error wraps ErrMalformed.
func DecodeJoinGroup(src []byte) (JoinGroupResponse, error) {
	r := reader{src: src}
	var a JoinGroupResponse
	r.int32("throttle time")
	a.ErrorCode = r.int16("error code")
	a.Generation = r.int32("generation")
	a.Protocol = r.string("protocol")
	a.Leader = r.string("leader")
	a.Member = r.string("member id")
	n := r.count(8, "members") // two string lengths and one bytes length
	for range n {
		var m JoinedMember
		m.Member = r.string("member id")
		m.Instance = r.string("instance id")
		m.Metadata = r.bytes("metadata")
		if r.err != nil {
			break
		}
		a.Members = append(a.Members, m)
	}
	return a, r.err
}

// millis rounds to whole milliseconds and keeps within int32, as the
// protocol's time fields are.
func millis(d time.Duration) int32 {
	ms := d / time.Millisecond
	return int32(min(max(ms, 0), 1<<31-1))
}

func nonNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
