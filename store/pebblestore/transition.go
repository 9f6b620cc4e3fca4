package pebblestore

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// page is the scratch memory of a Transition, reused by later ones.
type page struct {
	keys  []rowKey
	order []int32 // indexes of the changes, sorted by key; changes of one row stay in order
}

// seekFrom is the number of changes from which one iterator is faster than a look-up
// for each change.
const seekFrom = 8

// Transition implements store.Ledger.
func (s ledger) Transition(ctx context.Context, changes []mayfly.Change) ([]store.Outcome, error) {
	if len(changes) == 0 {
		return nil, nil
	}
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	p := s.scratch.Get().(*page)
	defer s.scratch.Put(p)
	held := p.arrange(changes)
	if err := s.locks.take(ctx, s.fuse, held); err != nil {
		s.leave()
		return nil, err
	}
	outcomes := make([]store.Outcome, len(changes))
	w := &writing{batch: s.db.NewBatch(), held: held}
	err := s.advance(w.batch, p, changes, outcomes)
	if err != nil || w.batch.Empty() {
		s.locks.free(held)
		err = errors.Join(err, w.batch.Close())
		s.leave()
	} else {
		err = s.write(ctx, w)
	}
	if err != nil {
		return nil, readError("transition", err)
	}
	return outcomes, nil
}

// arrange sorts the changes by key and returns the locks that they need.
func (p *page) arrange(changes []mayfly.Change) []lock {
	p.keys, p.order = p.keys[:0], p.order[:0]
	var held []lock
	inOrder := true
	for i := range changes {
		id := changes[i].ID
		p.keys = append(p.keys, keyOf(id))
		p.order = append(p.order, int32(i))
		if i > 0 && bytes.Compare(p.keys[i-1][:], p.keys[i][:]) > 0 {
			inOrder = false
		}
		if n := ledgerLock(id); len(held) == 0 || held[len(held)-1] != n {
			held = append(held, n)
		}
	}
	if !inOrder {
		slices.SortStableFunc(p.order, func(a, b int32) int { return bytes.Compare(p.keys[a][:], p.keys[b][:]) })
	}
	return sorted(held)
}

// advance decides every change against the current row, and writes the rows that
// changed into the batch.
func (s *Store) advance(b *pebble.Batch, p *page, changes []mayfly.Change, outcomes []store.Outcome) (err error) {
	read, done, err := s.rowReader(p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	var row store.Found
	moved := false
	for n, i := range p.order {
		key := &p.keys[i]
		if n == 0 || *key != p.keys[p.order[n-1]] {
			row = store.Found{}
			if err := read(&row, key, changes[i].ID); err != nil {
				return err
			}
		}
		if decide(&row, &changes[i], &outcomes[i]) {
			moved = true
		}
		if last := n+1 == len(p.order) || *key != p.keys[p.order[n+1]]; last && moved {
			moved = false
			if err := setItem(b, key, &row.Item); err != nil {
				return err
			}
		}
	}
	return nil
}

// decide applies one change to the row in memory, and reports whether it changed.
func decide(row *store.Found, c *mayfly.Change, out *store.Outcome) (moved bool) {
	if !row.Found {
		out.Result = store.Missing
		return false
	}
	out.Current = row.Item
	if !c.Matches(row.Item) {
		out.Result = store.Stale
		return false
	}
	next, err := mayfly.Advance(row.Item, *c)
	if err != nil {
		out.Result, out.Err = store.Refused, err
		return false
	}
	row.Item, out.Current, out.Result = next, next, store.Applied
	return true
}

type rowRead func(row *store.Found, key *rowKey, id mayfly.ID) error

// rowReader returns a function that reads rows in ascending order of their keys. Few
// rows are looked up one by one; many are read by one iterator that steps from each
// to the next, because the changes of a walk are neighbours.
func (s *Store) rowReader(p *page) (read rowRead, done func() error, err error) {
	if len(p.order) < seekFrom {
		return func(row *store.Found, _ *rowKey, id mayfly.ID) error { return s.row(row, id) }, func() error { return nil }, nil
	}
	last := p.keys[p.order[len(p.order)-1]]
	iter, err := s.db.NewIter(&pebble.IterOptions{
		LowerBound: p.keys[p.order[0]].bytes(),
		UpperBound: append(bytes.Clone(last.bytes()), 0),
	})
	if err != nil {
		return nil, nil, err
	}
	valid := iter.First()
	read = func(row *store.Found, key *rowKey, id mayfly.ID) error {
		k := key.bytes()
		if valid && bytes.Compare(iter.Key(), k) < 0 {
			if valid = iter.Next(); valid && bytes.Compare(iter.Key(), k) < 0 {
				valid = iter.SeekGE(k)
			}
		}
		if !valid || !bytes.Equal(iter.Key(), k) {
			return iter.Error()
		}
		value, err := iter.ValueAndErr()
		if err != nil {
			return err
		}
		row.Found = true
		return readRow(&row.Item, id, value)
	}
	return read, iter.Close, nil
}
