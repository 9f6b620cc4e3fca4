package walk

import (
	"context"
	"fmt"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Member is a process on the roll of walkers.
type Member struct {
	Name   string // of its node
	Holder string // of this process in this life
}

// placeKept is how long the place of a node that came back no more is kept.
const placeKept = time.Hour

// maxWalkers bounds what is read of the roll (I17).
const maxWalkers = 1000

// NewPlace is the place of the node called name on the roll of walkers, not yet
// taken. It is a lease: a node that dies is off the roll when it has run out. Who
// comes by three times in a lease, or a little more often, renews it each time.
func NewPlace(rows store.Rows, name, holder string, lasts time.Duration) *Lease {
	return &Lease{rows: rows, key: store.Key{Partition: walkerRoll, Clustering: name}, holder: holder, lasts: lasts, idle: lasts / 4, kept: placeKept}
}

// Members returns the processes on the roll at now, by name.
func Members(ctx context.Context, rows store.Rows, now mayfly.Instant) ([]Member, error) {
	found, err := rows.Range(ctx, Leases, store.Range{Partition: walkerRoll, Limit: maxWalkers})
	if err != nil {
		return nil, fmt.Errorf("roll of walkers: %w", err)
	}
	var roll []Member
	for _, row := range found {
		holder, until, err := readLease(row.Value)
		if err != nil {
			return nil, err
		}
		if now < until {
			roll = append(roll, Member{Name: row.Clustering, Holder: holder})
		}
	}
	return roll, nil
}

// ShardLeases are the rows of the shards' leases as they are, for HoldOver; of a
// shard that was never held nil.
func ShardLeases(ctx context.Context, rows store.Rows) ([mayfly.Shards][]byte, error) {
	var all [mayfly.Shards][]byte
	found, err := rows.Range(ctx, Leases, store.Range{Partition: shardLeases, Limit: mayfly.Shards})
	if err != nil {
		return all, fmt.Errorf("leases of shards: %w", err)
	}
	for _, row := range found {
		if len(row.Clustering) != 1 || int(row.Clustering[0]) >= mayfly.Shards {
			return all, mayfly.Errorf(mayfly.Corrupt, "a lease of the shard %x", row.Clustering)
		}
		all[row.Clustering[0]] = row.Value
	}
	return all, nil
}

// HolderOf returns the holder of a lease and until when, by its row; empty for nil.
func HolderOf(row []byte) (holder string, until mayfly.Instant, err error) {
	if row == nil {
		return "", 0, nil
	}
	return readLease(row)
}
