//go:build !linux

package kafka

import "time"

// sinceBoot is a monotonic clock.
func sinceBoot() time.Duration { return time.Since(processStart) }
