package store

import (
	"context"
	"time"

	"github.com/mayflyhq/mayfly"
)

// Log is the durable event stream (L8): at least once, ordered per item. No
// step of the engine itself depends on it.
type Log interface {
	// Append adds events, durable on return. Events of one item in one call, and
	// in calls that follow each other, are read in that order. On an error some
	// of them may be in the log, or land later.
	Append(ctx context.Context, events ...mayfly.Event) error

	// Reader reads a stream for a group from where the group last committed; a
	// new group starts at the oldest event that is kept. One reader per group at
	// a time in a process.
	Reader(ctx context.Context, stream mayfly.Stream, group string) (Reader, error)

	// Trim forgets events older than keep before now; the space comes back in
	// time. It never forgets a younger one.
	Trim(ctx context.Context, now mayfly.Instant, keep time.Duration) error
}

// Reader reads one stream for one group. Not safe for concurrent use.
type Reader interface {
	// Next waits until there is at least one record, and returns at most limit.
	// Records of one partition come in offset order.
	Next(ctx context.Context, limit int) ([]Record, error)

	// Commit says that everything returned by Next so far has taken effect; a
	// later reader of the group starts behind it. Durable on return.
	Commit(ctx context.Context) error

	// Seek moves to the first event appended at or after the instant, by the
	// event's own At (0 is the oldest kept). It is not durable until Commit.
	Seek(ctx context.Context, at mayfly.Instant) error

	// Lag is how many records are waiting behind what Next has returned.
	Lag(ctx context.Context) (int64, error)

	// Close gives the group's place up to another reader.
	Close() error
}

// Record is an event with its place in the log.
type Record struct {
	Partition uint32
	Offset    uint64
	Event     mayfly.Event
}
