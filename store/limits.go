package store

import (
	"context"
	"time"

	"github.com/mayflyhq/mayfly"
)

// Limits counts how often something was done (C3), by GCRA: a bucket that
// refills evenly.
type Limits interface {
	// Take takes cost from the bucket of key, or takes nothing and says how long
	// until it would fit. Counters may be forgotten at any time (I19): then a
	// bucket is full. A cost over the rate's Count never fits: Invalid.
	Take(ctx context.Context, key string, rate Rate, cost int, now mayfly.Instant) (Taken, error)
}

// Rate allows Count in any Per, in one burst if need be.
type Rate struct {
	Count int
	Per   time.Duration
}

// Taken is what Take did.
type Taken struct {
	OK         bool
	Left       int           // how much would still fit now
	RetryAfter time.Duration // with OK false: when the cost would fit
}
