// Package store is in charge of the contracts between the engine and its
// storage: operations with promises, not technologies. Every driver keeps them
// and is held to them by the suites in storetest; everything above is written
// once and runs on both profiles.
//
// The promise that carries the rest is Writer's: a prefix, not a transaction.
// What cannot be reached is an error of kind Unavailable, never a nil driver.
package store

import (
	"context"

	"github.com/mayflyhq/mayfly"
)

// Set is everything that a node stands on: one driver per contract.
type Set struct {
	Writer  Writer
	Ledger  Ledger
	Rows    Rows
	Log     Log
	Hot     Blobs
	Cold    Blobs
	Limits  Limits
	Signals Signals
	Fuse    *Fuse // blown when a store can no longer promise durability (I20)

	// Deletions is the deletion ledger: which accounts were erased. It is kept
	// outside backups and outlives them, so that a backup that is put back brings
	// no account back (ST14).
	Deletions Blobs

	// Time is the clock of the store's servers; nil when the store is this process
	// and has no clock of its own (embedded).
	Time Time
}

// Writer writes batches.
type Writer interface {
	// Commit writes the stages of b in order. It returned nil: everything is
	// durable and visible. It returned an error, or the process died: the first
	// k stages are whole, any subset of stage k+1 is written, nothing later; and
	// a write of the failed stage may still land at any later time. Where it is
	// known which stage failed the error is a *StageError.
	//
	// A batch may be committed again, whole: every operation in it is idempotent
	// except Append, which then appends once more (events carry a key for that).
	// Errors: Full (an insert, and the free-space floor is reached; nothing was
	// written), Invalid (nothing was written), Unavailable, Unknown. Safe for
	// concurrent use.
	Commit(ctx context.Context, b *Batch) error
}

// Ledger holds the rows of items, laid out by deadline (L3).
type Ledger interface {
	// Get reads rows. The answer has one entry per id, in order; an item that is
	// not there has Found false. It sees every acknowledged write.
	Get(ctx context.Context, ids ...mayfly.ID) ([]Found, error)

	// Body reads the immutable content of items, as Get does.
	Body(ctx context.Context, ids ...mayfly.ID) ([]FoundBody, error)

	// Transition applies changes, each by compare-and-set on (state, generation)
	// through mayfly.Advance, and answers with one Outcome per change, in order.
	// Rows named twice in one call are applied in order. Outcomes that say
	// Applied are durable on return. On an error nothing is known of any change:
	// read the rows back and compare nonces. Changes of one pigeonhole in one
	// call are cheapest. Errors: Unavailable, Unknown. Safe for concurrent use.
	Transition(ctx context.Context, changes []mayfly.Change) ([]Outcome, error)

	// Walk reads the rows of one pigeonhole in order of (deadline, id), from the
	// position after s.After, with deadlines at most s.To, at most limit of them.
	// It answers rows whatever their state, and no row before it is due.
	Walk(ctx context.Context, s Stretch, limit int) ([]mayfly.Item, error)

	// Eternal reads the rows of a shard that never expire, in order of birth,
	// after the given id, at most limit of them.
	Eternal(ctx context.Context, shard mayfly.Shard, after mayfly.ID, limit int) ([]mayfly.Item, error)

	// NextMinute returns the first minute at or after from in which the shard has
	// rows of items that expire; found is false if there is none. It never passes
	// over a minute that has a row. It may name a minute without rows: one whose
	// rows were removed or whose birth failed. Errors: Unavailable.
	NextMinute(ctx context.Context, shard mayfly.Shard, from mayfly.Minute) (minute mayfly.Minute, found bool, err error)

	// EraseBody erases the content of items and leaves their rows: from then on
	// Body does not find it, and a birth inserted again does not bring it back.
	// Only of a row that is Deleted and not held; another answers Conflict and
	// nothing of the call is erased. An id without a row must never be born any
	// more: what a birth that was given up may have left of it is erased. Durable on
	// return. Idempotent.
	EraseBody(ctx context.Context, ids ...mayfly.ID) error

	// Remove erases rows and bodies of items for good: the last step of a life
	// (L13). Only a row that is Deleted and not held is removed; another answers
	// Conflict and nothing of the call is removed. Idempotent.
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

// Position is a place in a pigeonhole: just after the row with this deadline
// and id. The zero Position is its beginning.
type Position struct {
	Deadline mayfly.Instant
	ID       mayfly.ID
}

// PositionOf is the place just after item.
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

// Result is what became of one change.
type Result uint8

// What may become of a change.
const (
	Applied Result = iota + 1 // Current is the row after it
	Stale                     // the row has moved; Current is the row as it is
	Refused                   // the row matches but the change is not allowed; Err says why
	Missing                   // there is no such row
	InDoubt                   // the outcome is not known: read back and compare the nonce
)

// String is the verdict's word.
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

// Outcome is what became of one change.
type Outcome struct {
	Result  Result
	Current mayfly.Item // the row after the call; zero when Missing or InDoubt
	Err     error       // with Refused
}
