package store

import (
	"context"
	"time"

	"github.com/mayflyhq/mayfly"
)

// Limits limits how often something is done (C3), by GCRA: buckets that refill evenly.
type Limits interface {
	// Take takes cost from the bucket of key, or takes nothing and returns when to
	// retry. A bucket may be lost at any time (I19) and is then full. A cost above the
	// rate's Count is Invalid.
	Take(ctx context.Context, key string, rate Rate, cost int, now mayfly.Instant) (Taken, error)
}

// Rate allows Count in every Per, also in one burst.
type Rate struct {
	Count int
	Per   time.Duration
}

// Taken is the result of Take.
type Taken struct {
	OK         bool
	Left       int           // what is left in the bucket
	RetryAfter time.Duration // if not OK: how long until the cost fits
}
