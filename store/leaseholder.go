package store

import (
	"context"
	"fmt"

	"github.com/mayflyhq/mayfly"
)

// LeaseHolder says who holds the lease of a shard and until when, for people who
// ask; nobody: empty.
func LeaseHolder(ctx context.Context, rows Rows, shard mayfly.Shard) (holder string, until mayfly.Instant, err error) {
	found, err := rows.Get(ctx, Leases, Key{Partition: shardLeases, Clustering: shardSort(shard)})
	if err != nil {
		return "", 0, fmt.Errorf("lease of shard: %w", err)
	}
	return HolderOf(found[0])
}
