package pebblestore

import (
	"context"
	"slices"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// locks are held over read and apply, so that compare-and-set and the order of
// the log hold; the fsync is waited for outside of them and shared by all
// (except by Swap). They are numbered, and taken in ascending order only.
// A lock is a channel, so that waiting for one ends with the context or the fuse.
type locks [lastLock]chan struct{}

// lock is the number of one lock.
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

// ledgerLock is the lock of a row: one of its pigeonhole. The minute is mixed,
// so that births of a day's lifetime do not meet the sweep of today's minute.
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

// sorted puts what is wanted in the one order, each once.
func sorted(wanted []lock) []lock {
	slices.Sort(wanted)
	return slices.Compact(wanted)
}

// take takes the locks, which are sorted, or none of them.
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
	// Whoever let the last lock go may have been stopped by the fuse.
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
