package pebblestore

import (
	"context"
	"slices"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// locks are held from the read of a row until its change is applied, which makes
// compare-and-set atomic and keeps the log in order. They are released before the
// fsync, so that many writes share one (Swap alone keeps its lock). Locks are
// numbered and always taken in ascending order, so that there is no deadlock.
// A lock is a channel, so that waiting for it ends with the context or the fuse.
type locks [lastLock]chan struct{}

// lock is the number of a lock.
type lock uint16

const (
	ledgerStripes = 256
	rowStripes    = 1024

	ledgerLocks lock = 0
	logLocks         = ledgerLocks + ledgerStripes
	rowLocks         = logLocks + streams*partitions
	lastLock         = rowLocks + rowStripes
)

func (l *locks) init() {
	for n := range l {
		l[n] = make(chan struct{}, 1)
	}
}

// ledgerLock returns the lock of an item's row, which is that of its pigeonhole. The
// minute is hashed, so that births with a lifetime of a day do not share a lock with
// the sweep of today's minute.
func ledgerLock(id mayfly.ID) lock {
	minute := uint32(id.Minute())
	if !id.Expires() {
		minute = uint32(id[12])<<8 | uint32(id[13])
	}
	mixed := minute * 0x9e3779b1 >> 28
	return ledgerLocks + lock(mixed<<4|uint32(id.Shard()))
}

func logLock(stream mayfly.Stream, partition uint32) lock {
	return logLocks + lock(tailIndex(stream, partition))
}

func rowLock(table uint8, key store.Key) lock {
	h := uint32(2166136261) // FNV-1a
	h = (h ^ uint32(table)) * 16777619
	for i := range len(key.Partition) {
		h = (h ^ uint32(key.Partition[i])) * 16777619
	}
	for i := range len(key.Clustering) {
		h = (h ^ uint32(key.Clustering[i])) * 16777619
	}
	return rowLocks + lock((h^h>>16)%rowStripes)
}

// sorted sorts the locks and removes duplicates.
func sorted(wanted []lock) []lock {
	slices.Sort(wanted)
	return slices.Compact(wanted)
}

// take takes all the locks, which must be sorted, or none.
func (l *locks) take(ctx context.Context, fuse *store.Fuse, wanted []lock) error {
	for i, n := range wanted {
		select {
		case l[n] <- struct{}{}:
			continue
		default:
		}
		var err error
		select {
		case l[n] <- struct{}{}:
			continue
		case <-fuse.Blown():
			err = fuse.Err()
		case <-ctx.Done():
			err = mayfly.Wrap(mayfly.Unavailable, ctx.Err(), "")
		}
		l.free(wanted[:i])
		return err
	}
	// The last holder may have released the lock because the fuse has blown.
	if err := fuse.Err(); err != nil {
		l.free(wanted)
		return err
	}
	return nil
}

func (l *locks) free(held []lock) {
	for _, n := range held {
		<-l[n]
	}
}
