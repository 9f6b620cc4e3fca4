package store

import (
	"context"

	"github.com/mayflyhq/mayfly"
)

// Signals carries invalidations between caches. They only hurry what would be
// found out anyway: a subscriber whose lease is lost uses no cache, so that a
// lost signal costs time and never an answer (I19, trap 18). What they cannot
// tell ends by its age (CacheAge).
type Signals interface {
	// Publish tells every subscriber. It returns nil when each of them has
	// handled the signal or has lost its lease: from then on none of them answers
	// from what the signal invalidates. Errors: Unavailable, Unknown (then the
	// caller waits CacheWait before it answers: see Invalidate).
	Publish(ctx context.Context, s Signal) error

	// Subscribe hands every signal published from now on to handle, in order,
	// until the Subscription is closed. handle must be quick and must not publish.
	Subscribe(ctx context.Context, handle func(Signal)) (Subscription, error)
}

// Signal says that what is known about a thing is out of date.
type Signal struct {
	Topic Topic
	ID    mayfly.ID     // Row, RestoredSet: the item
	Owner mayfly.UserID // Relations: whose relations
}

// Topic is what sort of thing a signal invalidates.
type Topic uint8

// The topics.
const (
	RowChanged Topic = iota + 1
	RestoredSet
	RelationsChanged
)

// Subscription is one subscriber's end.
type Subscription interface {
	// Lease says whether the subscriber may use what it has cached, and in which
	// epoch: while held is true every signal published so far in this epoch has
	// been handed over. A lease that was lost and came back is another epoch.
	// It is cheap: every cached read asks it.
	Lease() (epoch uint64, held bool)

	// Close ends the subscription.
	Close() error
}
