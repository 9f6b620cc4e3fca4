package store

import (
	"context"

	"github.com/mayflyhq/mayfly"
)

// Signals carries invalidations between caches. A subscriber that has lost its lease
// does not use its cache, so that a lost signal costs time but never a wrong answer
// (I19, trap 18). Cached entries also expire by age (CacheAge).
type Signals interface {
	// Publish sends a signal to every subscriber. It returns nil when each of them has
	// handled the signal or has lost its lease: from then on none of them uses what
	// the signal invalidates. Errors: Unavailable, Unknown (the caller must then wait
	// for CacheWait: see Invalidate).
	Publish(ctx context.Context, s Signal) error

	// Subscribe calls handle with every signal published from now on, in order, until
	// the Subscription is closed. handle must be quick and must not publish.
	Subscribe(ctx context.Context, handle func(Signal)) (Subscription, error)
}

// Signal reports that cached data is out of date.
type Signal struct {
	Topic Topic
	ID    mayfly.ID     // Row, RestoredSet: the item; TokenDenied: 128 bits that name the token; Relations: to whom, zero: to any user
	Owner mayfly.UserID // Relations: whose relations
}

// Topic is the kind of data that a signal invalidates.
type Topic uint8

// The topics.
const (
	RowChanged Topic = iota + 1
	RestoredSet
	RelationsChanged
	TokenDenied
)

// Subscription is the subscription of one cache.
type Subscription interface {
	// Lease reports whether the subscriber may use its cache, and the epoch: while
	// held is true, handle was called with every signal published in this epoch. A
	// lease that was lost and came back has another epoch. It is cheap: every cached
	// read calls it.
	Lease() (epoch uint64, held bool)

	// Close ends the subscription.
	Close() error
}
