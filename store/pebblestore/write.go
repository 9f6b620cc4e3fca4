package pebblestore

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mayflyhq/mayfly"
)

// writing is one Pebble batch on its way to the disk, with the locks that it
// was composed under.
type writing struct {
	batch *pebble.Batch
	held  []lock
	marks []mark // how far the log has come with it
	late  bool   // the locks are kept until it is durable

	visible atomic.Bool
}

// write applies w and waits until it is durable. It takes over the locks and
// the stay (enter) of its caller, whatever happens. A goroutine of its own does
// the work, because Pebble's calls do not end when the disk has failed: the
// caller is answered by the fuse, or while nothing is visible yet by its context.
// An error says that the outcome is not known.
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
	// It can be read already: saying "not known" would let the caller read it
	// back and take it for durable.
	select {
	case err := <-done:
		return err
	case <-s.fuse.Blown():
		return inDoubt(s.fuse.Err())
	}
}

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

// inDoubt says of a write that was under way that its outcome is not known; the
// reason's kind holds too.
func inDoubt(reason error) error {
	return mayfly.Wrap(mayfly.Unknown, fmt.Errorf("the write may or may not have happened: %w", reason), "")
}

// barrier makes the batch wait for whatever is visible now, when it has nothing
// to write itself.
func barrier(b *pebble.Batch) error {
	if b.Empty() {
		return b.LogData(nil, nil)
	}
	return nil
}
