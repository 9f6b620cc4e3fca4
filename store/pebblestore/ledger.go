package pebblestore

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// begin is enter for a call with a context. After the fuse has blown even reads are
// refused: memory may hold what the disk never got, and a caller that reads its own
// write back would take it for durable.
func (s *Store) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return mayfly.Wrap(mayfly.Unavailable, err, "")
	}
	return s.enter()
}

// get passes the value of a key to use, and reports whether the key exists.
func (s *Store) get(key []byte, use func(value []byte) error) (bool, error) {
	value, closer, err := s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, errors.Join(use(value), closer.Close())
}

// Get implements store.Ledger.
func (s ledger) Get(ctx context.Context, ids ...mayfly.ID) ([]store.Found, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	found := make([]store.Found, len(ids))
	err := inParts(len(ids), func(from, to int) error {
		for i := from; i < to; i++ {
			if err := s.row(&found[i], ids[i]); err != nil {
				return readError("row of "+ids[i].String(), err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// row reads the row of one item.
func (s *Store) row(found *store.Found, id mayfly.ID) (err error) {
	key := keyOf(id)
	found.Found, err = s.get(key.bytes(), func(value []byte) error { return readRow(&found.Item, id, value) })
	return err
}

// Body implements store.Ledger.
func (s ledger) Body(ctx context.Context, ids ...mayfly.ID) ([]store.FoundBody, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	found := make([]store.FoundBody, len(ids))
	var key []byte
	for i, id := range ids {
		key = appendBodyKey(key[:0], id)
		there := false
		_, err := s.get(key, func(value []byte) (err error) {
			if len(value) == 0 { // erased
				return nil
			}
			found[i].Body, err = store.ReadBody(value)
			there = true
			return err
		})
		found[i].Found = there
		if err != nil {
			return nil, readError("body of "+id.String(), err)
		}
	}
	return found, nil
}

// Walk implements store.Ledger.
func (s ledger) Walk(ctx context.Context, stretch store.Stretch, limit int) ([]mayfly.Item, error) {
	var from, to rowKey
	from.at(stretch.Minute, stretch.Shard, stretch.After.Deadline)
	copy(from[12:], stretch.After.ID[:])
	lower := from[:]
	if stretch.After != (store.Position{}) {
		lower = append(lower, 0) // the next key
	}
	// A pigeonhole ends with its minute, also when To is later.
	end := min(stretch.To, (stretch.Minute+1).Start()-1)
	to.at(stretch.Minute, stretch.Shard, max(end+1, 0))
	return s.page(ctx, lower, to[:12], limit)
}

// Eternal implements store.Ledger.
func (s ledger) Eternal(ctx context.Context, shard mayfly.Shard, after mayfly.ID, limit int) ([]mayfly.Item, error) {
	lower := append([]byte{eternalPrefix, byte(shard)}, after[:]...)
	if !after.IsZero() {
		lower = append(lower, 0)
	}
	return s.page(ctx, lower, []byte{eternalPrefix, byte(shard) + 1}, limit)
}

// page reads rows in key order.
func (s *Store) page(ctx context.Context, lower, upper []byte, limit int) (items []mayfly.Item, err error) {
	if limit <= 0 || string(lower) >= string(upper) {
		return nil, nil
	}
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	iter, err := s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return nil, readError("walk", err)
	}
	for ok := iter.First(); ok && len(items) < limit; ok = iter.Next() {
		if items == nil {
			items = make([]mayfly.Item, 0, min(limit, 512))
		}
		var id mayfly.ID
		var value []byte
		if id, err = idAt(iter.Key()); err == nil {
			value, err = iter.ValueAndErr()
		}
		if err == nil {
			items = append(items, mayfly.Item{})
			err = readRow(&items[len(items)-1], id, value)
		}
		if err != nil {
			break
		}
	}
	if err = errors.Join(err, iter.Close()); err != nil {
		return nil, readError("walk", err)
	}
	return items, nil
}

// NextMinute implements store.Ledger. Keys are ordered by minute before shard, so
// a key of another shard shows where to seek next: empty minutes cost nothing.
func (s ledger) NextMinute(ctx context.Context, shard mayfly.Shard, from mayfly.Minute) (minute mayfly.Minute, found bool, err error) {
	if err := s.begin(ctx); err != nil {
		return 0, false, err
	}
	defer s.leave()
	iter, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{ledgerPrefix}, UpperBound: []byte{ledgerPrefix + 1}})
	if err != nil {
		return 0, false, readError("next minute", err)
	}
	for {
		var at rowKey
		at.at(from, shard, 0)
		if !iter.SeekGE(at[:ledgerHoleSize]) {
			break
		}
		key := iter.Key()
		if len(key) != ledgerKeySize {
			err = mayfly.Errorf(mayfly.Corrupt, "ledger key %x has %d bytes", key, len(key))
			break
		}
		minute = mayfly.Minute(binary.BigEndian.Uint32(key[1:]))
		if found = mayfly.Shard(key[5]) == shard; found {
			break
		}
		if from = minute; mayfly.Shard(key[5]) > shard {
			if from++; from == 0 { // that was the last minute
				break
			}
		}
	}
	if err = errors.Join(err, iter.Error(), iter.Close()); err != nil {
		return 0, false, readError("next minute", err)
	}
	return minute, found, nil
}

// EraseBody implements store.Ledger. An empty body stays, so that insert finds it
// when the birth is inserted again.
func (s ledger) EraseBody(ctx context.Context, ids ...mayfly.ID) error {
	return s.erase(ctx, ids, func(b *pebble.Batch, id mayfly.ID) error { return b.Set(appendBodyKey(nil, id), nil, nil) })
}

// Remove implements store.Ledger.
func (s ledger) Remove(ctx context.Context, ids ...mayfly.ID) error {
	return s.erase(ctx, ids, func(b *pebble.Batch, id mayfly.ID) error {
		key := keyOf(id)
		return errors.Join(b.Delete(key.bytes(), nil), b.Delete(appendBodyKey(nil, id), nil))
	})
}

// erase calls do for every row that exists, or for none if one may not be erased.
func (s ledger) erase(ctx context.Context, ids []mayfly.ID, do func(*pebble.Batch, mayfly.ID) error) error {
	if len(ids) == 0 {
		return nil
	}
	if err := s.begin(ctx); err != nil {
		return err
	}
	held := make([]lock, len(ids))
	for i, id := range ids {
		held[i] = ledgerLock(id)
	}
	held = sorted(held)
	if err := s.locks.take(ctx, s.fuse, held); err != nil {
		s.leave()
		return err
	}
	w := &writing{batch: s.db.NewBatch(), held: held}
	if err := s.eraseRows(w.batch, ids, do); err != nil {
		s.locks.free(held)
		s.leave()
		return errors.Join(err, w.batch.Close())
	}
	return s.write(ctx, w)
}

func (s *Store) eraseRows(b *pebble.Batch, ids []mayfly.ID, do func(*pebble.Batch, mayfly.ID) error) error {
	for _, id := range ids {
		var found store.Found
		if err := s.row(&found, id); err != nil {
			return readError("erase "+id.String(), err)
		}
		if !found.Found {
			continue
		}
		if err := found.Item.Erasable(); err != nil {
			return err
		}
		if err := do(b, id); err != nil {
			return err
		}
	}
	return barrier(b)
}
