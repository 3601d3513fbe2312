package group

// Heartbeat: API key 12, version 3 (the last without flexible fields).
const (
	HeartbeatKey     = 12
	HeartbeatVersion = 3
)

// HeartbeatRequest keeps a member's session and asks whether a rebalance runs.
type HeartbeatRequest struct {
	// Group is the group id.
	Group string
	// Generation and Member are those that JoinGroup gave.
	Generation int32
	Member     string
	// Instance is group.instance.id; empty: a dynamic member.
	Instance string
}

// AppendTo appends the request's body, without the request header.
func (q HeartbeatRequest) AppendTo(dst []byte) []byte {
	dst = appendString(dst, q.Group)
	dst = appendInt32(dst, q.Generation)
	dst = appendString(dst, q.Member)
	return appendOptional(dst, q.Instance)
}

// DecodeHeartbeat reads an answer's body and returns its error code: 0, or 27
// while a rebalance runs (kafka-go reads the two fields in the wrong order and
// so never sees it). Its error wraps ErrMalformed.
func DecodeHeartbeat(src []byte) (int16, error) {
	r := reader{src: src}
	r.int32("throttle time")
	code := r.int16("error code")
	return code, r.err
}
