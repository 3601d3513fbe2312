package group

// LeaveGroup: API key 13, version 3 (instance ids; the last without flexible
// fields; Kafka 2.4).
const (
	LeaveGroupKey     = 13
	LeaveGroupVersion = 3
)

// LeaveGroupRequest ends one membership.
type LeaveGroupRequest struct {
	// Group is the group id.
	Group string
	// Member is the member id.
	Member string
	// Instance is group.instance.id; empty: a dynamic member.
	Instance string
}

// AppendTo appends the request's body, without the request header.
func (q LeaveGroupRequest) AppendTo(dst []byte) []byte {
	dst = appendString(dst, q.Group)
	dst = appendInt32(dst, 1)
	dst = appendString(dst, q.Member)
	return appendOptional(dst, q.Instance)
}

// DecodeLeaveGroup reads an answer's body and returns its error code, the
// member's own where the request's as a whole is 0. Its error wraps
// ErrMalformed.
func DecodeLeaveGroup(src []byte) (int16, error) {
	r := reader{src: src}
	r.int32("throttle time")
	code := r.int16("error code")
	n := r.count(6, "members")
	for range n {
		r.string("member id")
		r.string("instance id")
		if own := r.int16("member error code"); code == 0 {
			code = own
		}
		if r.err != nil {
			break
		}
	}
	return code, r.err
}
