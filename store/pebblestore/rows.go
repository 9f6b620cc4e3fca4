package pebblestore

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"golang.org/x/sync/errgroup"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// A stored value is the row's ReclaimAt followed by the value itself.
const rowValueHead = 6

// setRow writes a row of a table and, if it has a ReclaimAt, an entry in the reclaim
// index. An older entry of the row stays, because Reclaim reads the row anyway.
func setRow(b *pebble.Batch, t store.Table, key store.Key, value []byte, reclaimAt mayfly.Instant, scratch []byte) []byte {
	reclaimAt = min(max(reclaimAt, 0), maxInstant)
	scratch = appendTableKey(scratch[:0], t, key)
	n := len(scratch)
	op := b.SetDeferred(n, rowValueHead+len(value))
	copy(op.Key, scratch)
	putInstant(op.Value, reclaimAt)
	copy(op.Value[rowValueHead:], value)
	_ = op.Finish() // fails for indexed batches only
	if reclaimAt != 0 {
		scratch = appendReclaimKey(scratch, reclaimAt, scratch[:n])
		_ = b.Set(scratch[n:], nil, nil)
	}
	return scratch
}

func rowValue(value []byte) ([]byte, error) {
	if len(value) < rowValueHead {
		return nil, mayfly.Errorf(mayfly.Corrupt, "a row of a table has only %d bytes", len(value))
	}
	return append([]byte{}, value[rowValueHead:]...), nil
}

// Tables implements store.Rows.
func (s rows) Tables() []store.Table { return s.tables.List() }

// Get implements store.Rows.
func (s rows) Get(ctx context.Context, t store.Table, keys ...store.Key) ([][]byte, error) {
	for _, key := range keys {
		if err := s.tables.CheckRead(t, key); err != nil {
			return nil, err
		}
	}
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	values := make([][]byte, len(keys))
	err := inParts(len(keys), func(from, to int) error {
		var buf []byte
		for i := from; i < to; i++ {
			buf = appendTableKey(buf[:0], t, keys[i])
			_, err := s.get(buf, func(value []byte) (err error) {
				values[i], err = rowValue(value)
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, readError("row of "+t.String(), err)
	}
	return values, nil
}

// Range implements store.Rows.
func (s rows) Range(ctx context.Context, t store.Table, r store.Range) ([]store.Row, error) {
	found, err := s.Ranges(ctx, t, r)
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

// Ranges implements store.Rows.
func (s rows) Ranges(ctx context.Context, t store.Table, all ...store.Range) ([][]store.Row, error) {
	for _, r := range all {
		if err := s.tables.CheckRead(t, store.Key{Partition: r.Partition}); err != nil {
			return nil, err
		}
	}
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	found := make([][]store.Row, len(all))
	err := inParts(len(all), func(from, to int) error { return s.ranges(t, all[from:to], found[from:to]) })
	if err != nil {
		return nil, readError("range of "+t.String(), err)
	}
	return found, nil
}

// ranges reads ranges with one iterator for all.
func (s rows) ranges(t store.Table, all []store.Range, found [][]store.Row) (err error) {
	var iter *pebble.Iterator
	var prefix, lower, upper []byte
	for i, r := range all {
		prefix = appendPartition(prefix[:0], t, r.Partition)
		lower = append(append(lower[:0], prefix...), r.From...)
		if r.To != "" {
			upper = append(append(upper[:0], prefix...), r.To...)
		} else {
			upper = after(prefix)
		}
		if r.Limit <= 0 || bytes.Compare(lower, upper) >= 0 {
			continue
		}
		if iter == nil {
			if iter, err = s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper}); err != nil {
				return err
			}
		} else {
			iter.SetBounds(lower, upper) // which copies them
		}
		if found[i], err = readRange(iter, len(prefix), r); err != nil {
			break
		}
	}
	if iter != nil {
		err = errors.Join(err, iter.Close())
	}
	return err
}

// partLeast is how many reads are worth a goroutine: tens of microseconds of them.
const partLeast = 64

// inParts calls do for parts of n reads, at the same time on all processors if there are
// so many that it pays.
func inParts(n int, do func(from, to int) error) error {
	parts := min(n/partLeast, runtime.GOMAXPROCS(0))
	if parts < 2 {
		return do(0, n)
	}
	var g errgroup.Group
	for part := range parts {
		g.Go(func() error { return do(part*n/parts, (part+1)*n/parts) })
	}
	return g.Wait()
}

// readRange reads the rows between the bounds of an iterator.
func readRange(iter *pebble.Iterator, prefix int, r store.Range) (found []store.Row, err error) {
	first, next := iter.First, iter.Next
	if r.Reverse {
		first, next = iter.Last, iter.Prev
	}
	for ok := first(); ok && err == nil; ok = len(found) < r.Limit && next() {
		var value []byte
		if value, err = iter.ValueAndErr(); err == nil {
			value, err = rowValue(value)
		}
		found = append(found, store.Row{Clustering: string(iter.Key()[prefix:]), Value: value})
	}
	return found, errors.Join(err, iter.Error())
}

// Partitions implements store.Rows. A cursor is the prefix of the last partition.
func (s rows) Partitions(ctx context.Context, t store.Table, cursor string, limit int) (partitions []string, next string, err error) {
	table := []byte{tablePrefix, t.Number()}
	if err := s.tables.CheckRead(t, store.Key{Partition: "any"}); err != nil {
		return nil, "", err
	}
	lower := table
	if cursor != "" {
		if !strings.HasPrefix(cursor, string(table)) {
			return nil, "", mayfly.Errorf(mayfly.Invalid, "the cursor is not one of table %s", t).WithHint("begin without a cursor")
		}
		lower = after([]byte(cursor))
	}
	if err := s.begin(ctx); err != nil {
		return nil, "", err
	}
	defer s.leave()
	iter, err := s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: after(table)})
	if err != nil {
		return nil, "", readError("partitions of "+t.String(), err)
	}
	for ok := iter.First(); ok; ok = iter.SeekGE(after([]byte(next))) {
		name, found := partitionIn(iter.Key())
		if !found {
			err = mayfly.Errorf(mayfly.Corrupt, "a row of table %s has the key %x", t, iter.Key())
			break
		}
		partitions, next = append(partitions, name), string(appendPartition(nil, t, name))
		if len(partitions) == max(limit, 1) {
			break
		}
	}
	if err = errors.Join(err, iter.Error(), iter.Close()); err != nil {
		return nil, "", readError("partitions of "+t.String(), err)
	}
	if len(partitions) < max(limit, 1) {
		next = ""
	}
	return partitions, next, nil
}

// Swap implements store.Rows. It keeps the row's lock until the swap is durable, so
// that no other call returns a value that a power loss could undo.
func (s rows) Swap(ctx context.Context, t store.Table, key store.Key, old, new []byte, reclaimAt mayfly.Instant) (bool, []byte, error) {
	if err := s.tables.CheckSwap(t, key); err != nil {
		return false, nil, err
	}
	if old == nil && new != nil && t.ByUsers() {
		if err := s.checkFree(s.opts.Floor / 2); err != nil {
			return false, nil, err
		}
	}
	if err := s.begin(ctx); err != nil {
		return false, nil, err
	}
	held := []lock{rowLock(t.Number(), key)}
	if err := s.locks.take(ctx, s.fuse, held); err != nil {
		s.leave()
		return false, nil, err
	}
	k := appendTableKey(nil, t, key)
	var current []byte
	_, err := s.get(k, func(value []byte) (err error) {
		current, err = rowValue(value)
		return err
	})
	matches := (current == nil) == (old == nil) && bytes.Equal(current, old)
	if err != nil || !matches || new == nil && current == nil {
		s.locks.free(held)
		s.leave()
		if err != nil {
			return false, nil, readError("swap in "+t.String(), err)
		}
		return matches, current, nil
	}
	w := &writing{batch: s.db.NewBatch(), held: held, late: true}
	if new == nil {
		err = w.batch.Delete(k, nil)
	} else {
		setRow(w.batch, t, key, new, reclaimAt, k)
		w.reclaimedAt(reclaimAt)
	}
	if err = errors.Join(err, s.write(ctx, w)); err != nil {
		return false, nil, readError("swap in "+t.String(), err)
	}
	return true, new, nil
}

// dropChunk is how many rows of dropped partitions are deleted in one batch.
const dropChunk = 4096

// drop deletes the rows of partitions one by one, because many small range deletions
// would slow down every later read (trap 22), and in as few batches as it can, because
// each costs an fsync.
func (s *Store) drop(ctx context.Context, drops []store.Drop) error {
	var from []byte // where to go on in the first partition
	for len(drops) > 0 {
		if err := s.begin(ctx); err != nil {
			return err
		}
		w := &writing{batch: s.db.NewBatch()}
		var err error
		for room := dropChunk; room > 0 && len(drops) > 0 && err == nil; {
			prefix := appendPartition(nil, drops[0].Table, drops[0].Partition)
			if from == nil {
				from = prefix
			}
			var n int
			if n, from, err = s.dropFrom(w.batch, from, after(prefix), room); from == nil {
				drops = drops[1:]
			}
			room -= n
		}
		if err == nil {
			err = barrier(w.batch)
		}
		if err != nil {
			s.leave()
			return errors.Join(err, w.batch.Close())
		}
		if err := s.write(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// dropFrom deletes at most limit keys of [from, to) and returns how many. If there are
// more, next is the first of them.
func (s *Store) dropFrom(b *pebble.Batch, from, to []byte, limit int) (n int, next []byte, err error) {
	iter, err := s.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		return 0, nil, readError("drop", err)
	}
	for ok := iter.First(); ok && err == nil; ok = iter.Next() {
		if n == limit {
			next = bytes.Clone(iter.Key())
			break
		}
		n++
		err = b.Delete(iter.Key(), nil)
	}
	if err = errors.Join(err, iter.Close()); err != nil {
		return n, nil, readError("drop", err)
	}
	return n, next, nil
}
