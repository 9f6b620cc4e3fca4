// Package store defines the contracts between the engine and its storage as operations
// with promises. Every driver must pass the suites in storetest; the code above is
// written once and runs on both profiles.
//
// The most important promise is Writer's: a failed Commit leaves a prefix of its
// stages; it is not a transaction. A store that cannot be reached returns errors of
// kind Unavailable; a driver is never nil.
package store

import (
	"context"

	"github.com/mayflyhq/mayfly"
)

// Set has the drivers of a node, one for each contract.
type Set struct {
	Writer  Writer
	Ledger  Ledger
	Rows    Rows
	Log     Log
	Hot     Blobs
	Cold    Blobs
	Limits  Limits
	Signals Signals
	KV      KV    // entries that carry their own expiry (K1)
	Fuse    *Fuse // blown when a store can no longer promise durability (I20)

	// Deletions is the deletion ledger: which accounts were erased. It is kept
	// outside backups and longer than they are, so that restoring a backup does not
	// bring an account back (ST14).
	Deletions Blobs

	// Time is the clock of the store's servers; nil for the embedded profile, which
	// has no servers.
	Time Time
}

// Writer writes batches.
type Writer interface {
	// Commit writes the stages of b in order. If it returns nil, everything is
	// durable and visible. If it returns an error or the process dies, the first k
	// stages are complete, any subset of stage k+1 is written, and nothing after it;
	// a write of the failed stage may still be done at any later time. The error is a
	// *StageError if it is known which stage failed.
	//
	// A whole batch may be committed again: every operation is idempotent except
	// Append, which appends again (readers drop repeats by the key of the event).
	// Errors: Full (the batch inserts and the free-space floor is reached; nothing
	// was written), Invalid (nothing was written), Unavailable, Unknown. Safe for
	// concurrent use.
	Commit(ctx context.Context, b *Batch) error
}

// Ledger holds the rows of items, laid out by deadline (L3).
type Ledger interface {
	// Get reads rows. It returns one entry for each id, in order; Found is false for
	// an item that does not exist. It sees every acknowledged write.
	Get(ctx context.Context, ids ...mayfly.ID) ([]Found, error)

	// Body reads the immutable content of items, as Get does.
	Body(ctx context.Context, ids ...mayfly.ID) ([]FoundBody, error)

	// Transition applies changes, each by compare-and-set on (state, generation)
	// through mayfly.Advance, and returns one Outcome for each change, in order.
	// Changes of the same row are applied in order. A change that is Applied is
	// durable on return. After an error the outcome of every change is unknown: read
	// the rows back and compare nonces. Changes of one pigeonhole in one call are
	// cheapest. Errors: Unavailable, Unknown. Safe for concurrent use.
	Transition(ctx context.Context, changes []mayfly.Change) ([]Outcome, error)

	// Walk reads at most limit rows of one pigeonhole in order of (deadline, id):
	// those after s.After with a deadline of at most s.To, in every state.
	Walk(ctx context.Context, s Stretch, limit int) ([]mayfly.Item, error)

	// Eternal reads the rows of a shard that never expire, in order of birth,
	// after the given id, at most limit of them.
	Eternal(ctx context.Context, shard mayfly.Shard, after mayfly.ID, limit int) ([]mayfly.Item, error)

	// NextMinute returns the first minute at or after from in which the shard has
	// rows of items that expire; found is false if there is none. It never skips a
	// minute with rows. It may return a minute without rows, if they were removed or
	// their birth failed. Errors: Unavailable.
	NextMinute(ctx context.Context, shard mayfly.Shard, from mayfly.Minute) (minute mayfly.Minute, found bool, err error)

	// EraseBody erases the content of items and keeps their rows: from then on Body
	// does not find it, and a birth inserted again does not bring it back. Every row
	// must be Deleted and not held; otherwise the error is Conflict and nothing is
	// erased. For an id without a row, what a failed birth may have left is erased;
	// that id must never be inserted again. Durable on return. Idempotent.
	EraseBody(ctx context.Context, ids ...mayfly.ID) error

	// Remove erases rows and bodies of items: the last step of an item (L13). Every
	// row must be Deleted and not held; otherwise the error is Conflict and nothing is
	// removed. Idempotent.
	Remove(ctx context.Context, ids ...mayfly.ID) error
}

// Found is the row of an item, if there is one.
type Found struct {
	Item  mayfly.Item
	Found bool
}

// FoundBody is the body of an item, if there is one.
type FoundBody struct {
	Body  mayfly.Body
	Found bool
}

// Position is a position in a pigeonhole, just after the row with this deadline and
// id. The zero Position is the beginning.
type Position struct {
	Deadline mayfly.Instant
	ID       mayfly.ID
}

// PositionOf returns the position just after item.
func PositionOf(item mayfly.Item) Position {
	return Position{Deadline: item.ID.Deadline(), ID: item.ID}
}

// Stretch is a part of one pigeonhole: the rows after After whose deadline is
// at most To.
type Stretch struct {
	Minute mayfly.Minute
	Shard  mayfly.Shard
	After  Position
	To     mayfly.Instant
}

// Result is the result of one change.
type Result uint8

// The results.
const (
	Applied Result = iota + 1 // Current is the row after it
	Stale                     // the row has changed; Current is the current row
	Refused                   // the row matches but the change is not allowed; Err says why
	Missing                   // the row does not exist
	InDoubt                   // the outcome is unknown: read the row back and compare the nonce
)

// String returns the result as text.
func (v Result) String() string {
	switch v {
	case Applied:
		return "applied"
	case Stale:
		return "stale"
	case Refused:
		return "refused"
	case Missing:
		return "missing"
	case InDoubt:
		return "in doubt"
	default:
		return "none"
	}
}

// Outcome is the result of one change, with the row.
type Outcome struct {
	Result  Result
	Current mayfly.Item // the row after the call; zero when Missing or InDoubt
	Err     error       // with Refused
}

// Time returns the clocks of the store's servers, with which nodes compare their own
// clocks (L7).
type Time interface {
	// Time asks servers in parallel and returns the time of each one that answered,
	// at least one, each read between the call and its return. Errors: Unavailable.
	// Safe for concurrent use.
	Time(ctx context.Context) ([]mayfly.Instant, error)
}
