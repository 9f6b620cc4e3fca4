package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/mayflyhq/mayfly"
)

// Lease is the right to walk one shard, for a while. It is a hint that spares
// double work; correctness never rests on it (L4): rows are fenced by their
// generation, watermarks by compare-and-set.
type Lease struct {
	rows   Rows
	key    Key
	holder string
	lasts  time.Duration
	value  []byte // the row as we last wrote it; nil when we hold nothing
	until  mayfly.Instant
}

// NewLease is holder's lease of shard, not yet taken. Holder names one process
// in one life: two that run at once never share it.
func NewLease(rows Rows, shard mayfly.Shard, holder string, lasts time.Duration) *Lease {
	return &Lease{rows: rows, key: Key{Partition: "walk", Sort: string([]byte{byte(shard)})}, holder: holder, lasts: lasts}
}

// Hold takes the lease or renews it, and says whether it is held now. It writes
// only when less than two thirds of the time are left.
func (l *Lease) Hold(ctx context.Context, now mayfly.Instant) (bool, error) {
	if l.value != nil && l.until.Sub(now) > l.lasts*2/3 {
		return true, nil
	}
	old := l.value
	if old == nil {
		found, err := l.rows.Get(ctx, Leases, l.key)
		if err != nil {
			return false, fmt.Errorf("lease of shard: %w", err)
		}
		if old = found[0]; old != nil {
			holder, until, err := readLease(old)
			if err != nil {
				return false, err
			}
			if holder != l.holder && now < until {
				return false, nil
			}
		}
	}
	until := now.Add(l.lasts)
	next := binary.BigEndian.AppendUint64(nil, uint64(until))
	next = append(next, l.holder...)
	swapped, _, err := l.rows.Swap(ctx, Leases, l.key, old, next, 0)
	if err != nil || !swapped {
		l.value = nil
		if err != nil {
			return false, fmt.Errorf("lease of shard: %w", err)
		}
		return false, nil
	}
	l.value, l.until = next, until
	return true, nil
}

// Release gives the lease up if it is still ours: the token is compared, so
// that nobody else's is freed (trap 4).
func (l *Lease) Release(ctx context.Context) error {
	if l.value == nil {
		return nil
	}
	old := l.value
	l.value = nil
	freed := binary.BigEndian.AppendUint64(nil, 0)
	if _, _, err := l.rows.Swap(ctx, Leases, l.key, old, freed, 0); err != nil {
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
