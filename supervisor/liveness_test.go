package supervisor

import (
	"fmt"
	"reflect"
	"testing"
	"time"
)

// livenessRun steps a judge whose timeout is 16 s, so that its interval is 1 s.
type livenessRun struct {
	t      *testing.T
	l      *liveness
	at     time.Duration
	frames uint64
	wrote  int64
	unread int64
}

func newLivenessRun(t *testing.T) *livenessRun {
	r := &livenessRun{t: t, l: newLiveness(16 * time.Second)}
	if got := r.l.Interval(); got != time.Second {
		t.Fatalf("interval %v, want 1s", got)
	}
	r.l.Step(nil, speaksPing{})
	r.expect(0)
	return r
}

// expect lets d pass, tick by tick, and compares everything decided meanwhile.
func (r *livenessRun) expect(d time.Duration, want ...string) {
	r.t.Helper()
	var got []string
	for end := r.at + d; ; r.at += time.Second {
		for _, a := range r.l.Step(nil, ticked{At: r.at, Frames: r.frames, Written: r.wrote, Unread: r.unread}) {
			switch a := a.(type) {
			case sendPing:
				got = append(got, fmt.Sprintf("%v ping %d", r.at, a.N))
				r.wrote, r.unread = r.wrote+10, r.unread+10
			case judgeUnreachable:
				got = append(got, fmt.Sprintf("%v unreachable, silent %v", r.at, a.Silent))
			}
		}
		if r.at >= end {
			break
		}
	}
	if !reflect.DeepEqual(got, want) {
		r.t.Errorf("at %v: got %q, want %q", r.at, got, want)
	}
}

func TestLivenessPingsAfterAQuarterAndJudgesAfterTheTimeout(t *testing.T) {
	r := newLivenessRun(t)
	r.expect(3 * time.Second)
	r.expect(12*time.Second, "4s ping 1")
	r.expect(5*time.Second, "16s unreachable, silent 16s")
}

func TestLivenessAnyFrameCounts(t *testing.T) {
	r := newLivenessRun(t)
	r.expect(15*time.Second, "4s ping 1")
	r.frames++
	r.expect(3 * time.Second)
	r.expect(12*time.Second, "19s ping 2")
	r.expect(time.Second, "31s unreachable, silent 16s")
}

func TestCase16_LivenessJudgesTheStoppedProcessWithAFullPipe(t *testing.T) {
	r := newLivenessRun(t)
	r.wrote, r.unread = 1<<20, 1<<20
	r.expect(15*time.Second, "4s ping 1")
	r.expect(time.Second, "16s unreachable, silent 16s")
}

func TestLivenessReadingCountsAsLife(t *testing.T) {
	r := newLivenessRun(t)
	r.wrote, r.unread = 1<<20, 1<<20
	r.expect(10*time.Second, "4s ping 1")
	r.unread -= 4096 // one page in 10 s
	r.expect(15 * time.Second)
	r.expect(time.Second, "26s unreachable, silent 26s")
}

func TestCase33_LivenessNeverJudgesTheOneThatPongs(t *testing.T) {
	r := newLivenessRun(t)
	for range 40 {
		r.expect(4*time.Second, fmt.Sprintf("%v ping %d", r.at+4*time.Second, r.l.pings+1))
		r.unread = 0
		r.frames++
		r.expect(0)
	}
}

func TestLivenessNeverJudgesTheOneThatCannotPong(t *testing.T) {
	r := &livenessRun{t: t, l: newLiveness(16 * time.Second)}
	r.expect(time.Hour)
}

func TestLivenessTimeInWhichTheMachineSleptDoesNotCount(t *testing.T) {
	r := newLivenessRun(t)
	r.expect(10*time.Second, "4s ping 1")
	r.at += 8 * time.Hour
	r.expect(4 * time.Second) // 10 s, the late tick's one, and 4
	r.expect(time.Second, "8h0m15s unreachable, silent 16s")
}

func TestLivenessATickAFewIntervalsLateCounts(t *testing.T) {
	r := newLivenessRun(t)
	r.at += 4 * time.Second
	r.expect(0, "4s ping 1")
}

func TestLivenessReportsOnce(t *testing.T) {
	r := newLivenessRun(t)
	r.expect(16*time.Second, "4s ping 1", "16s unreachable, silent 16s")
	r.expect(time.Hour)
}
