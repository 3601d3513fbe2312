package group

// SyncGroup: API key 14, version 3 (the last without flexible fields).
const (
	SyncGroupKey     = 14
	SyncGroupVersion = 3
)

// SyncGroupRequest hands in the leader's assignments, or asks for one's own.
type SyncGroupRequest struct {
	// Group is the group id.
	Group string
	// Generation and Member are those that JoinGroup gave.
	Generation int32
	Member     string
	// Instance is group.instance.id; empty: a dynamic member.
	Instance string
	// Assignments is filled by the leader, empty for the others.
	Assignments []MemberAssignment
}

// MemberAssignment is what the leader gives one member.
type MemberAssignment struct {
	// Member is its id.
	Member string
	// Assignment is an encoded Assignment.
	Assignment []byte
}

// AppendTo appends the request's body, without the request header.
func (q SyncGroupRequest) AppendTo(dst []byte) []byte {
	dst = appendString(dst, q.Group)
	dst = appendInt32(dst, q.Generation)
	dst = appendString(dst, q.Member)
	dst = appendOptional(dst, q.Instance)
	dst = appendInt32(dst, int32(len(q.Assignments)))
	for _, a := range q.Assignments {
		dst = appendString(dst, a.Member)
		dst = appendBytes(dst, nonNil(a.Assignment))
	}
	return dst
}

// SyncGroupResponse is the answer.
type SyncGroupResponse struct {
	// ErrorCode is 0 or one of those in code.go.
	ErrorCode int16
	// Assignment is our own encoded Assignment; empty: nothing.
	Assignment []byte
}

// DecodeSyncGroup reads an answer's body. Its error wraps ErrMalformed.
func DecodeSyncGroup(src []byte) (SyncGroupResponse, error) {
	r := reader{src: src}
	var a SyncGroupResponse
	r.int32("throttle time")
	a.ErrorCode = r.int16("error code")
	a.Assignment = r.bytes("assignment")
	return a, r.err
}
