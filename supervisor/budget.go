package supervisor

import "time"

// DefaultStopTimeout is what FLOW_STOP_TIMEOUT is when nobody sets it: the whole
// time from the request to stop to our own exit. It lies under the 30 s that
// Kubernetes gives a pod before it kills it.
const DefaultStopTimeout = 25 * time.Second

// StopBudget divides the time of one orderly stop. Every field is measured from the
// moment the stop began, not from the field before it, so that a step that took
// long shortens the next one instead of moving the end.
//
// It is data: who waits for these moments is the conversation (Process, Commit) and
// the driver (the rest).
type StopBudget struct {
	// Process is how long the process may take to answer its batches and `stop`.
	// Then the stop becomes an `abandon`.
	Process time.Duration
	// Commit is when writes and commits still under way are given up. What is not
	// committed by then is delivered again at the next start (R4).
	Commit time.Duration
	// Terminate is when a process that still lives, its input closed, gets SIGTERM
	// (to its group).
	Terminate time.Duration
	// Kill is when it gets SIGKILL (to its group).
	Kill time.Duration
	// Exit is when we exit, whatever the broker, the client or the process does. It
	// is the timeout that the budget was made from.
	Exit time.Duration
}

// NewStopBudget divides timeout (FLOW_STOP_TIMEOUT) as 15, 20, 20, 23 and 25 of 25
// parts. Zero or less gives a budget of zeros: everything at once, which is also what
// a second Ctrl-C asks for.
func NewStopBudget(timeout time.Duration) StopBudget {
	timeout = max(timeout, 0)
	part := func(n int64) time.Duration {
		// Divided first where the product would not fit: a timeout of 12 years and more.
		if timeout > (1<<63-1)/25 {
			return timeout / 25 * time.Duration(n)
		}
		return timeout * time.Duration(n) / 25
	}
	return StopBudget{
		Process:   part(15),
		Commit:    part(20),
		Terminate: part(20),
		Kill:      part(23),
		Exit:      timeout,
	}
}
