package store

import (
	"context"
	"time"

	"github.com/mayflyhq/mayfly"
)

// Log is the durable event stream (L8), delivered at least once and ordered for each
// item. No step of the engine itself depends on it.
type Log interface {
	// Append appends events, durable on return. Events of one item in one call, and
	// in successive calls, are read in that order. After an error some of them may be
	// in the log, now or later.
	Append(ctx context.Context, events ...mayfly.Event) error

	// Reader returns a reader of a stream that starts where the group last committed;
	// a new group starts at the oldest event. A process has at most one reader of a
	// group at a time.
	Reader(ctx context.Context, stream mayfly.Stream, group string) (Reader, error)

	// Trim deletes events that are older than keep, now or later, and never a younger
	// one.
	Trim(ctx context.Context, now mayfly.Instant, keep time.Duration) error
}

// Reader reads one stream for one group. Not safe for concurrent use.
type Reader interface {
	// Next waits until there is at least one record, and returns at most limit.
	// Records of one partition come in offset order.
	Next(ctx context.Context, limit int) ([]Record, error)

	// Commit records that everything returned by Next so far has taken effect: a
	// later reader of the group starts after it. Durable on return.
	Commit(ctx context.Context) error

	// Seek moves to the first event whose At is at or after the instant; 0 means the
	// oldest event. It is not durable until Commit.
	Seek(ctx context.Context, at mayfly.Instant) error

	// Lag returns how many records Next has not returned yet.
	Lag(ctx context.Context) (int64, error)

	// Close ends the reader, so that another one of the group can be opened.
	Close() error
}

// Record is an event with its place in the log.
type Record struct {
	Partition uint32
	Offset    uint64
	Event     mayfly.Event
}
