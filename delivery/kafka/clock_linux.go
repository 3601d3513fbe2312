package kafka

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot is a clock that goes on while the machine sleeps, as the broker's
// does; Go's monotonic clock stands still then, and a session would seem alive
// that the broker ended long ago.
func sinceBoot() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return time.Since(processStart)
	}
	return time.Duration(ts.Nano())
}
