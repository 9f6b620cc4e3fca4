package loop

import (
	"context"
	"time"
)

// Rest waits for d, or until ctx ends; then it answers why.
func Rest(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Measure is how long do took.
func Measure(do func()) time.Duration {
	start := time.Now()
	do()
	return time.Since(start)
}

// Stopwatch starts a watch; each call of what it returns says how long ago that was.
func Stopwatch() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}
