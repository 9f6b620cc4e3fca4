package pebblestore

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Commit implements store.Writer. All stages are written in one Pebble batch. Only
// a stage that drops partitions ends the batch, because a partition may be large:
// its rows are deleted in chunks, and the stages after it are written after them.
func (s writer) Commit(ctx context.Context, b *store.Batch) error {
	if err := s.tables.CheckBatch(b); err != nil {
		return err
	}
	stages := b.Stages()
	if err := s.checkRoom(stages); err != nil {
		return err
	}
	for len(stages) > 0 {
		n := 1
		for n < len(stages) && len(stages[n-1].Drops) == 0 {
			n++
		}
		if err := s.commit(ctx, stages[:n]); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
		if err := s.drop(ctx, stages[n-1].Drops); err != nil {
			return fmt.Errorf("commit: drop %d partitions: %w", len(stages[n-1].Drops), err)
		}
		stages = stages[n:]
	}
	return nil
}

// checkRoom refuses births while less space is free than the floor, and new rows that
// users write while it is less than half of that, because the write-ahead log must
// never meet a full disk (trap 21). All other writes go on, because ending items is
// what frees space. It also refuses deadlines that do not fit into a key.
func (s *Store) checkRoom(stages []store.Stage) error {
	births, rows := false, false
	for _, stage := range stages {
		for _, p := range stage.Puts {
			rows = rows || p.Table.ByUsers()
		}
		for i := range stage.Inserts {
			item := &stage.Inserts[i].Item
			if births = true; item.ID.Deadline() > maxInstant {
				return mayfly.Errorf(mayfly.Invalid, "item %s: its deadline is after the year 10889; choose a shorter lifetime", item.ID)
			}
		}
	}
	switch {
	case births:
		return s.checkFree(s.opts.Floor)
	case rows:
		return s.checkFree(s.opts.Floor / 2)
	}
	return nil
}

// checkFree refuses a write while less than floor is free.
func (s *Store) checkFree(floor int64) error {
	return s.base.CheckFree(floor, "free some space or enlarge the disk; existing items are still served and still expire")
}

// commit writes the stages, except their drops, in one batch.
func (s *Store) commit(ctx context.Context, stages []store.Stage) error {
	if err := ctx.Err(); err != nil {
		return mayfly.Wrap(mayfly.Unavailable, err, "")
	}
	if err := s.enter(); err != nil {
		return err
	}
	held := sorted(locksOf(stages))
	if len(held) == 0 { // only drops
		s.leave()
		return nil
	}
	if err := s.locks.take(ctx, s.fuse, held); err != nil {
		s.leave()
		return err
	}
	w := &writing{batch: s.db.NewBatch(), held: held}
	if err := s.compose(w, stages); err != nil {
		s.locks.free(held)
		s.leave()
		return errors.Join(err, w.batch.Close())
	}
	return s.write(ctx, w)
}

// locksOf returns the locks of all rows and log partitions that the stages write.
func locksOf(stages []store.Stage) []lock {
	var w []lock
	for _, stage := range stages {
		for i := range stage.Inserts {
			w = append(w, ledgerLock(stage.Inserts[i].Item.ID))
		}
		for _, p := range stage.Puts {
			w = append(w, rowLock(p.Table.Number(), p.Key))
		}
		for _, d := range stage.Deletes {
			w = append(w, rowLock(d.Table.Number(), d.Key))
		}
		w = appendLogLocks(w, stage.Events)
	}
	return w
}

// compose writes the stages into the batch. Every read that can fail comes
// before the first event is numbered.
func (s *Store) compose(w *writing, stages []store.Stage) error {
	var scratch []byte
	for _, stage := range stages {
		var err error
		if scratch, err = s.insert(w.batch, stage.Inserts, scratch); err != nil {
			return err
		}
		for _, p := range stage.Puts {
			scratch = setRow(w.batch, p.Table, p.Key, p.Value, p.ReclaimAt, scratch)
			w.reclaimedAt(p.ReclaimAt)
		}
		for _, d := range stage.Deletes {
			scratch = appendTableKey(scratch[:0], d.Table, d.Key)
			if err := w.batch.Delete(scratch, nil); err != nil {
				return err
			}
		}
	}
	for _, stage := range stages {
		s.log.add(w, stage.Events)
	}
	return barrier(w.batch)
}

// insert adds births whose rows do not exist yet. An existing row may have changed
// since its birth: writing it again could bring a deleted item back (I7).
// It looks for the body instead of the row: both are written and removed in one
// batch, and bodies are ordered by birth, so that the key of a new one lies after
// all existing keys and the look-up usually stays in memory.
func (s *Store) insert(b *pebble.Batch, births []store.Birth, scratch []byte) ([]byte, error) {
	var seen map[mayfly.ID]bool
	if len(births) > 1 {
		seen = make(map[mayfly.ID]bool, len(births))
	}
	for i := range births {
		item := &births[i].Item
		if seen[item.ID] {
			continue
		}
		if seen != nil {
			seen[item.ID] = true
		}
		scratch = appendBodyKey(scratch[:0], item.ID)
		_, closer, err := s.db.Get(scratch)
		if err == nil {
			if err := closer.Close(); err != nil {
				return scratch, readError("birth", err)
			}
			continue
		}
		if !errors.Is(err, pebble.ErrNotFound) {
			return scratch, readError("birth", err)
		}
		scratch = store.AppendBody(scratch, births[i].Body)
		key := keyOf(item.ID)
		if err := errors.Join(setItem(b, &key, item), b.Set(scratch[:bodyKeySize], scratch[bodyKeySize:], nil)); err != nil {
			return scratch, err
		}
	}
	return scratch, nil
}

// setItem writes the row of an item into the batch without an intermediate copy.
func setItem(b *pebble.Batch, key *rowKey, item *mayfly.Item) error {
	flags, size := rowFlags(item)
	k := key.bytes()
	op := b.SetDeferred(len(k), size)
	copy(op.Key, k)
	putRow(op.Value, item, flags)
	return op.Finish()
}
