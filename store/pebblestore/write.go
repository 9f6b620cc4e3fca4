package pebblestore

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mayflyhq/mayfly"
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
// and leaves the store for its caller. The work is done in a goroutine, because
// Pebble's calls do not return after the disk has failed: then write returns when
// the fuse blows or, as long as nothing is visible yet, when the context ends. After
// an error the outcome is unknown.
func (s *Store) write(ctx context.Context, w *writing) error {
	done := make(chan error, 1)
	go func() { done <- s.apply(w) }()
	select {
	case err := <-done:
		return err
	case <-s.fuse.Blown():
		return inDoubt(s.fuse.Err())
	case <-ctx.Done():
	}
	if !w.visible.Load() {
		select {
		case err := <-done:
			return err
		default:
			return inDoubt(ctx.Err())
		}
	}
	// The batch is visible already: a caller that was answered "unknown" now would
	// read it back and take it for durable.
	select {
	case err := <-done:
		return err
	case <-s.fuse.Blown():
		return inDoubt(s.fuse.Err())
	}
}

// apply does the work of write.
func (s *Store) apply(w *writing) (err error) {
	defer s.leave()
	defer func() {
		if r := recover(); r != nil {
			s.fuse.Blow(fmt.Errorf("pebble: commit: %v", r))
			err = inDoubt(s.fuse.Err())
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
		return inDoubt(err)
	}
	s.log.durable(w.marks)
	s.count(w)
	return w.batch.Close()
}

// inDoubt wraps the reason why the outcome of a write is unknown. The error has the
// kind Unknown and the kind of the reason.
func inDoubt(reason error) error {
	return mayfly.Wrap(mayfly.Unknown, fmt.Errorf("the write may or may not have happened: %w", reason), "")
}

// barrier gives an empty batch something to write, so that the caller waits until
// everything that is visible now is durable.
func barrier(b *pebble.Batch) error {
	if b.Empty() {
		return b.LogData(nil, nil)
	}
	return nil
}
