package walk

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Lease is a row that one process holds for a while: a shard that it walks, or its
// place on the roll of walkers. It is a hint that spares double work; correctness
// never rests on it (L4): rows are fenced by their generation, watermarks by
// compare-and-set. One goroutine uses it.
type Lease struct {
	rows   store.Rows
	key    store.Key
	holder string
	lasts  time.Duration
	idle   time.Duration // for how long after it was written it is not written again
	kept   time.Duration // how long a row that has run out is kept; 0 is for ever
	value  []byte        // the row as we last wrote it; nil when we hold nothing
	until  mayfly.Instant
	other  mayfly.Instant // until when another process holds it, as seen last
}

const (
	shardLeases = "walk"    // partition of the shards' leases
	walkerRoll  = "walkers" // partition of the walkers' places
)

func shardSort(shard mayfly.Shard) string { return string([]byte{byte(shard)}) }

// NewLease is holder's lease of shard, not yet taken. Holder names one process
// in one life: two that run at once never share it.
func NewLease(rows store.Rows, shard mayfly.Shard, holder string, lasts time.Duration) *Lease {
	return &Lease{rows: rows, key: store.Key{Partition: shardLeases, Clustering: shardSort(shard)}, holder: holder, lasts: lasts, idle: lasts / 3}
}

// Until is up to when the lease is held, by what we wrote last; 0: not at all.
func (l *Lease) Until() mayfly.Instant {
	if l.value == nil {
		return 0
	}
	return l.until
}

// Other returns until when another process held the lease when it was refused last.
func (l *Lease) Other() mayfly.Instant { return l.other }

// fresh says that the lease need not be written yet.
func (l *Lease) fresh(now mayfly.Instant) bool {
	return l.value != nil && l.until.Sub(now) > l.lasts-l.idle
}

// Hold takes the lease or renews it, and says whether it is held now. It writes
// only when a third of the time is gone; a place on the roll, a quarter.
func (l *Lease) Hold(ctx context.Context, now mayfly.Instant) (bool, error) {
	if l.fresh(now) {
		return true, nil
	}
	old := l.value
	if old == nil {
		found, err := l.rows.Get(ctx, Leases, l.key)
		if err != nil {
			return false, fmt.Errorf("lease: %w", err)
		}
		old = found[0]
	}
	return l.take(ctx, now, old, nil)
}

// HoldOver is Hold for who has just read the row and knows which holders are gone:
// from those it takes the lease before it has run out.
func (l *Lease) HoldOver(ctx context.Context, now mayfly.Instant, row []byte, gone func(holder string) bool) (bool, error) {
	if l.fresh(now) && bytes.Equal(row, l.value) {
		return true, nil
	}
	return l.take(ctx, now, row, gone)
}

func (l *Lease) take(ctx context.Context, now mayfly.Instant, old []byte, gone func(string) bool) (bool, error) {
	l.value = nil
	if old != nil {
		holder, until, err := readLease(old)
		if err != nil {
			return false, err
		}
		if holder != l.holder && now < until && (gone == nil || !gone(holder)) {
			l.other = until
			return false, nil
		}
	}
	until := now.Add(l.lasts)
	next := binary.BigEndian.AppendUint64(nil, uint64(until))
	next = append(next, l.holder...)
	swapped, _, err := l.rows.Swap(ctx, Leases, l.key, old, next, l.reclaimAt(until))
	if err != nil {
		return false, fmt.Errorf("lease: %w", err)
	}
	if swapped {
		l.value, l.until = next, until
	}
	return swapped, nil
}

func (l *Lease) reclaimAt(until mayfly.Instant) mayfly.Instant {
	if l.kept == 0 {
		return 0
	}
	return until.Add(l.kept)
}

// Release gives the lease up if it is still ours: the value is compared, so that
// the lease of another process is not freed (trap 4).
func (l *Lease) Release(ctx context.Context) error {
	if l.value == nil {
		return nil
	}
	old := l.value
	l.value = nil
	freed := binary.BigEndian.AppendUint64(nil, 0)
	if _, _, err := l.rows.Swap(ctx, Leases, l.key, old, freed, l.reclaimAt(l.until)); err != nil {
		return fmt.Errorf("release lease: %w", err)
	}
	return nil
}

func readLease(value []byte) (holder string, until mayfly.Instant, err error) {
	if len(value) < 8 {
		return "", 0, mayfly.Errorf(mayfly.Corrupt, "lease row of %d bytes", len(value))
	}
	return string(bytes.Clone(value[8:])), mayfly.Instant(binary.BigEndian.Uint64(value)), nil
}

// LeaseHolder returns the holder of the lease of a shard and until when; empty if
// it is not held.
func LeaseHolder(ctx context.Context, rows store.Rows, shard mayfly.Shard) (holder string, until mayfly.Instant, err error) {
	found, err := rows.Get(ctx, Leases, store.Key{Partition: shardLeases, Clustering: shardSort(shard)})
	if err != nil {
		return "", 0, fmt.Errorf("lease of shard: %w", err)
	}
	return HolderOf(found[0])
}
