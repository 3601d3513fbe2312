package group

// FindCoordinator: API key 10, version 2 (the last without flexible fields).
const (
	FindCoordinatorKey     = 10
	FindCoordinatorVersion = 2
)

// FindCoordinatorRequest asks any broker which one coordinates a group.
type FindCoordinatorRequest struct {
	// Group is the group id.
	Group string
}

// AppendTo appends the request's body, without the request header.
func (q FindCoordinatorRequest) AppendTo(dst []byte) []byte {
	dst = appendString(dst, q.Group)
	return append(dst, 0) // key type 0: a group
}

// FindCoordinatorResponse is the answer.
type FindCoordinatorResponse struct {
	// ErrorCode is 0, 15 (not available yet) or 30 (no DESCRIBE right on the group).
	ErrorCode int16
	// ErrorMessage is the broker's own text, often empty.
	ErrorMessage string
	// Node is the coordinator's broker id, -1 with an error.
	Node int32
	// Host and Port are where it listens.
	Host string
	Port int32
}

// DecodeFindCoordinator reads an answer's body. Its error wraps ErrMalformed.
func DecodeFindCoordinator(src []byte) (FindCoordinatorResponse, error) {
	r := reader{src: src}
	var a FindCoordinatorResponse
	r.int32("throttle time")
	a.ErrorCode = r.int16("error code")
	a.ErrorMessage = r.string("error message")
	a.Node = r.int32("node id")
	a.Host = r.string("host")
	a.Port = r.int32("port")
	return a, r.err
}
