package store

import (
	"context"

	"github.com/mayflyhq/mayfly"
)

// Rows holds everything except items and bodies, in declared tables of (partition,
// clustering) → value. Plain tables are written through a Batch, swapped tables only
// through Swap (trap 19).
type Rows interface {
	// Get reads rows of one table. It returns one entry for each key, in order; an
	// absent row is nil. It sees every acknowledged write. A row whose ReclaimAt has
	// passed may be absent.
	Get(ctx context.Context, t Table, keys ...Key) ([][]byte, error)

	// Range reads at most Limit rows of one partition in byte order of their
	// clustering key, from From (included) to To (excluded; empty means the end);
	// Reverse reads from the end.
	Range(ctx context.Context, t Table, r Range) ([]Row, error)

	// Ranges is Range for many partitions of one table: one entry for each, in order.
	// The driver reads them together, so that many short ones cost little more than one.
	Ranges(ctx context.Context, t Table, all ...Range) ([][]Row, error)

	// Swap replaces old by new if the row still has the value old; nil means absent,
	// for both. It returns whether it did and, if not, the current value. The outcome
	// is durable on return. After an error of kind Unknown swap again with the same
	// values: a current value that only this caller can have written shows that it was
	// done. Get and Range need not see such a swap, and it may still be done after
	// them. A driver that settles an unknown outcome by itself takes a row that is new
	// for swapped. The driver may remove the row after reclaimAt; 0 means never.
	// Errors: Invalid (a plain table), Unavailable, Unknown.
	Swap(ctx context.Context, t Table, key Key, old, new []byte, reclaimAt mayfly.Instant) (swapped bool, current []byte, err error)

	// Partitions lists the partitions of a table that have rows, for what checks all of
	// it: about limit of them from where an earlier call stopped (cursor; "" is the
	// beginning), in an order of the driver's own, and where to go on; "" at the end. A
	// page may be empty before the end. Errors: Invalid (a cursor of something else).
	Partitions(ctx context.Context, t Table, cursor string, limit int) (partitions []string, next string, err error)

	// Tables returns the tables that the store was opened with. Every operation
	// refuses another table with Invalid.
	Tables() []Table
}

// EachRange implements Ranges by a function like Range, one after the other: for stores
// in tests that stand around another one.
func EachRange(ctx context.Context, read func(context.Context, Table, Range) ([]Row, error), t Table, all []Range) ([][]Row, error) {
	found := make([][]Row, len(all))
	for i, r := range all {
		var err error
		if found[i], err = read(ctx, t, r); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// Key is the key of a row. Both parts are bytes, in strings so that keys are
// comparable.
type Key struct {
	Partition  string
	Clustering string
}

// Row is a row returned by Range.
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

// MaxPartition and MaxClustering are the longest parts of a key, in bytes.
const (
	MaxPartition  = 512
	MaxClustering = 1024
)
