package cassandrastore

import (
	"context"

	"github.com/mayflyhq/mayfly"
)

// EraseBody implements store.Ledger. A body is written before its row, so a body
// without a row is left over from a failed birth and is removed.
func (s ledger) EraseBody(ctx context.Context, ids ...mayfly.ID) error {
	rows, strays, err := s.erasable(ctx, ids)
	if err != nil {
		return err
	}
	if err := s.eachBody(ctx, strays, removeBody()); err != nil {
		return err
	}
	return s.eachBody(ctx, idsOf(rows), emptyBody())
}

// Remove implements store.Ledger. Bodies are removed first: as long as the row exists,
// its removal is retried, whereas a body without a row would never be found.
func (s ledger) Remove(ctx context.Context, ids ...mayfly.ID) error {
	rows, _, err := s.erasable(ctx, ids)
	if err != nil {
		return err
	}
	if err := s.eachBody(ctx, idsOf(rows), removeBody()); err != nil {
		return err
	}
	parts := partition(rows, func(item mayfly.Item) place { return placeOf(item.ID) })
	return each(ctx, len(parts), func(ctx context.Context, i int) error {
		for left := parts[i].places; len(left) > 0; {
			n := min(len(left), largestBatch)
			if err := s.removeRows(ctx, parts[i].hole, left[:n]); err != nil {
				return err
			}
			left = left[n:]
		}
		return nil
	})
}

// erasable returns the existing rows of ids, each once, and the ids without a row. If
// one row may not be erased, it returns an error. A row that is deleted and not held
// never changes again (mayfly.Advance), so that the result stays true.
func (s ledger) erasable(ctx context.Context, ids []mayfly.ID) (items []mayfly.Item, strays []mayfly.ID, err error) {
	found, err := s.Get(ctx, ids...)
	if err != nil {
		return nil, nil, err
	}
	seen := map[mayfly.ID]bool{}
	for i, f := range found {
		if seen[ids[i]] {
			continue
		}
		seen[ids[i]] = true
		if !f.Found {
			strays = append(strays, ids[i])
			continue
		}
		if err := f.Item.Erasable(); err != nil {
			return nil, nil, err
		}
		items = append(items, f.Item)
	}
	return items, strays, nil
}

func idsOf(items []mayfly.Item) []mayfly.ID {
	ids := make([]mayfly.ID, len(items))
	for i, item := range items {
		ids[i] = item.ID
	}
	return ids
}

func (s *Store) eachBody(ctx context.Context, ids []mayfly.ID, statement string) error {
	return each(ctx, len(ids), func(ctx context.Context, i int) error {
		id := ids[i] // a copy: a speculative request may outlive the call
		if err := s.query(eraseContent, statement, id[:]).ExecContext(ctx); err != nil {
			return writeError(eraseContent, "erase the body of "+id.String(), err)
		}
		return nil
	})
}

// removeRows removes rows of one partition by conditional batches until they are
// gone.
func (s *Store) removeRows(ctx context.Context, h hole, places []place) error {
	leave, err := s.lanes.enter(ctx, h.String())
	if err != nil {
		return err
	}
	defer leave()
	for range attempts {
		items, err := s.readPlaces(ctx, settleDoubt, h, places)
		if err != nil {
			return readError("remove rows of "+h.String(), err)
		}
		if len(items) == 0 {
			return nil
		}
		var writes []write
		for _, item := range items {
			writes = append(writes, write{before: item, removes: true})
		}
		if applied, _, err := s.condition(ctx, h, writes); err != nil && unsent(change, err) {
			return writeError(change, "remove rows of "+h.String(), err)
		} else if err == nil && applied {
			return nil
		}
	}
	return mayfly.Errorf(mayfly.Unknown, "cassandra: remove rows of %s: not settled after %d tries", h, attempts)
}
