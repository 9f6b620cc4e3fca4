package store

import (
	"context"

	"github.com/mayflyhq/mayfly"
)

// Rows holds everything beside items and bodies, in declared tables of
// (partition, sort) → value. Plain tables are written through a Batch; swapped
// tables only through Swap (trap 19).
type Rows interface {
	// Get reads rows of one table. One entry per key, in order; a row that is
	// not there is nil. It sees every acknowledged write. A row whose ReclaimAt
	// has passed may or may not still be there.
	Get(ctx context.Context, t Table, keys ...Key) ([][]byte, error)

	// Range reads rows of one partition in byte order of their clustering key, from
	// From (included) to To (excluded; empty is the end), at most Limit of them;
	// Reverse reads from the end.
	Range(ctx context.Context, t Table, r Range) ([]Row, error)

	// Swap replaces old by new if the row still is old; nil stands for absence on
	// either side. It answers whether it did and, if not, what the row is. The
	// outcome is durable on return. On an error of kind Unknown it may or may not
	// have happened: read the row; a value that only this caller can have written
	// tells. reclaimAt is when the driver may take the space back; 0 is never.
	// Errors: Invalid (a plain table), Unavailable, Unknown.
	Swap(ctx context.Context, t Table, key Key, old, new []byte, reclaimAt mayfly.Instant) (swapped bool, current []byte, err error)

	// Tables returns the tables that the store was opened with. Every operation
	// refuses another table with Invalid.
	Tables() []Table
}

// Key names a row. Both parts are bytes, held in strings so that keys compare.
type Key struct {
	Partition  string
	Clustering string
}

// Row is a row as Range reads it.
type Row struct {
	Clustering string
	Value      []byte
}

// Range is a slice of a partition.
type Range struct {
	Partition string
	From, To  string
	Limit     int
	Reverse   bool
}

// MaxPartition and MaxClustering bound the parts of a key, in bytes.
const (
	MaxPartition  = 512
	MaxClustering = 1024
)
