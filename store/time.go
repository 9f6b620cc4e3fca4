package store

import (
	"context"

	"github.com/mayflyhq/mayfly"
)

// Time is what the store's own servers say the time is: nodes that share a store
// compare their clocks through it (L7).
type Time interface {
	// Time asks the servers, each at once, and answers one reading for every one
	// that answered: each was taken between the call and its return. At least one,
	// or an error. Errors: Unavailable. Safe for concurrent use.
	Time(ctx context.Context) ([]mayfly.Instant, error)
}
