package supervisor

import (
	"math"
	"testing"
	"time"
)

func TestStopBudgetDividesTheTimeout(t *testing.T) {
	for _, c := range []struct {
		name    string
		timeout time.Duration
		want    StopBudget
	}{
		{"the default", DefaultStopTimeout, StopBudget{15 * time.Second, 20 * time.Second, 20 * time.Second, 23 * time.Second, 25 * time.Second}},
		{"a fifth of it", 5 * time.Second, StopBudget{3 * time.Second, 4 * time.Second, 4 * time.Second, 4600 * time.Millisecond, 5 * time.Second}},
		{"zero: at once", 0, StopBudget{}},
		{"negative: at once", -time.Second, StopBudget{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := NewStopBudget(c.timeout); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestStopBudgetIsInOrderForEveryTimeout(t *testing.T) {
	for _, timeout := range []time.Duration{1, 24, 25, time.Second, time.Hour, math.MaxInt64/25 + 1, math.MaxInt64} {
		b := NewStopBudget(timeout)
		steps := []time.Duration{0, b.Process, b.Commit, b.Terminate, b.Kill, b.Exit}
		for i := 1; i < len(steps); i++ {
			if steps[i] < steps[i-1] {
				t.Errorf("timeout %d: step %d at %v is before the one ahead of it (%v)", timeout, i, steps[i], steps[i-1])
			}
		}
		if b.Exit != timeout {
			t.Errorf("timeout %d: exit at %v", timeout, b.Exit)
		}
	}
}
