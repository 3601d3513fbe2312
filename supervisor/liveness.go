package supervisor

import (
	"fmt"
	"time"
)

// liveness judges whether a process can still be reached. It is pure: times and counts
// come in with the events, and it must be stepped by one goroutine.
//
//  1. Any frame counts as a sign of life, and so does reading: a process that works its
//     way through a large frame has not come to our ping yet.
//  2. It is pinged when it sent nothing for a quarter of the timeout; one ping is
//     outstanding at most, so pings never pile up in a pipe that nobody reads.
//  3. It is unreachable when a ping is outstanding and for the timeout it neither sent a
//     frame nor read anything. (A ping that is queued behind a half-written frame is
//     outstanding too: that is what a stopped process looks like.)
//  4. One that cannot pong is never judged: it is only a stall.
//  5. Time in which nobody looked does not count: after a tick that comes much too late
//     (the machine slept, we were stopped) only one interval has passed, because the
//     process had no time in which to answer either.
type liveness struct {
	timeout  time.Duration
	interval time.Duration

	started  bool
	lastTick time.Duration // of the clock
	now      time.Duration // of the time that counts
	sent     time.Duration // when it last sent a frame, in time that counts
	read     time.Duration // when it last read
	frames   uint64
	consumed int64

	canPong  bool
	pings    uint64
	waiting  bool // a ping is outstanding
	reported bool
}

// livenessEvent is what the watch tells the judge.
type livenessEvent interface{ livenessEvent() }

// speaksPing: the process's capabilities say that it answers pings.
type speaksPing struct{}

// ticked: a look at the counters. It is due every interval.
type ticked struct {
	// At is the time since any fixed moment.
	At time.Duration
	// Frames counts the frames that came from the process in its life.
	Frames uint64
	// Written counts the bytes we put into its pipe in its life; Unread how many of them
	// still lie there, 0 where the system does not say.
	Written, Unread int64
}

// livenessAction is what the judge decides.
type livenessAction interface{ livenessAction() }

// sendPing: queue a ping with this number, above every number before it.
type sendPing struct{ N uint64 }

// judgeUnreachable: it is unreachable. Decided once in a process's life.
type judgeUnreachable struct {
	Silent time.Duration
	Why    string
}

func (speaksPing) livenessEvent()        {}
func (ticked) livenessEvent()            {}
func (sendPing) livenessAction()         {}
func (judgeUnreachable) livenessAction() {}

const (
	// quarter: silent for timeout/quarter is pinged.
	quarter = 4
	// ticksPerTimeout makes the judgement at most a sixteenth of the timeout late.
	ticksPerTimeout = 16
	// lateTicks: a tick that is this many intervals late says that we slept.
	lateTicks = 4
)

// newLiveness judges by timeout (FLOW_PROCESS_TIMEOUT), which must be above 0.
func newLiveness(timeout time.Duration) *liveness {
	interval := min(max(timeout/ticksPerTimeout, time.Millisecond), time.Second)
	return &liveness{timeout: timeout, interval: interval}
}

// Interval is how often ticked is due: a sixteenth of the timeout, 1 ms to 1 s.
func (l *liveness) Interval() time.Duration { return l.interval }

// Step applies ev and appends to dst what it calls for, at most one action.
func (l *liveness) Step(dst []livenessAction, ev livenessEvent) []livenessAction {
	switch ev := ev.(type) {
	case speaksPing:
		l.canPong = true
	case ticked:
		l.look(ev)
		return l.judge(dst, ev)
	}
	return dst
}

// look moves the time that counts and notes every sign of life since the last tick.
func (l *liveness) look(ev ticked) {
	if l.started {
		passed := max(ev.At-l.lastTick, 0)
		if passed > lateTicks*l.interval {
			passed = l.interval
		}
		l.now += passed
	}
	l.started, l.lastTick = true, ev.At
	if ev.Frames != l.frames {
		l.frames, l.sent, l.waiting = ev.Frames, l.now, false
	}
	// The two counts are not taken at the same moment, so the difference may step back by
	// what was written between; only a new highest value is a sign of life.
	if c := ev.Written - ev.Unread; c > l.consumed {
		l.consumed, l.read = c, l.now
	}
}

func (l *liveness) judge(dst []livenessAction, ev ticked) []livenessAction {
	silent := l.now - l.sent
	switch {
	case !l.canPong || l.reported:
	case !l.waiting && silent >= l.timeout/quarter:
		l.waiting = true
		l.pings++
		return append(dst, sendPing{N: l.pings})
	case l.waiting && silent >= l.timeout && l.now-l.read >= l.timeout:
		l.reported = true
		return append(dst, judgeUnreachable{Silent: silent, Why: l.why(ev)})
	}
	return dst
}

func (l *liveness) why(ev ticked) string {
	s := fmt.Sprintf("it sent nothing for %v, did not answer a ping", (l.now - l.sent).Round(time.Millisecond))
	if ev.Unread > 0 {
		return fmt.Sprintf("%s, and read none of the %d bytes that wait for it", s, ev.Unread)
	}
	return s + ", and read nothing"
}
