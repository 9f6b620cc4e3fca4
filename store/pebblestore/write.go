package pebblestore

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store/diskfs"
)

// writing is one Pebble batch being written, with the locks that its caller took.
type writing struct {
	batch *pebble.Batch
	held  []lock
	marks []mark         // new ends of log partitions
	first mayfly.Instant // the earliest new entry of the reclaim index; 0 is none
	late  bool           // release the locks only when the batch is durable

	visible atomic.Bool
}

// reclaimedAt notes that the batch writes a row with this ReclaimAt.
func (w *writing) reclaimedAt(at mayfly.Instant) {
	if at > 0 && (w.first == 0 || at < w.first) {
		w.first = at
	}
}

// write applies w and waits until it is durable. It always releases the locks of w
// and leaves the store for its caller. After an error the outcome is unknown.
func (s *Store) write(ctx context.Context, w *writing) error {
	return s.base.Write(ctx, &w.visible, func() error { return s.apply(w) })
}

// apply does the work of write.
func (s *Store) apply(w *writing) (err error) {
	defer s.leave()
	defer func() {
		if r := recover(); r != nil {
			s.fuse.Blow(fmt.Errorf("pebble: commit: %v", r))
			err = diskfs.InDoubt(s.fuse.Err())
		}
		s.locks.free(w.held)
	}()
	err = s.db.ApplyNoSyncWait(w.batch, pebble.Sync)
	w.visible.Store(true)
	s.reclaims.written(w.first)
	if err == nil && !w.late {
		s.locks.free(w.held)
		w.held = nil
	}
	if err == nil {
		err = w.batch.SyncWait()
	}
	if err != nil {
		s.fuse.Blow(fmt.Errorf("pebble: commit: %w", err))
	}
	if err := s.fuse.Err(); err != nil {
		return diskfs.InDoubt(err)
	}
	s.log.durable(w.marks)
	s.count(w)
	return w.batch.Close()
}

// barrier gives an empty batch something to write, so that the caller waits until
// everything that is visible now is durable.
func barrier(b *pebble.Batch) error {
	if b.Empty() {
		return b.LogData(nil, nil)
	}
	return nil
}
