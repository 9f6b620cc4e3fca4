package kv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/loop"
)

// lateWrites is after what time nothing is written to a removed namespace any more, also
// by another node: more than Options.Recheck and longestWrite together.
const lateWrites = time.Minute

// Remove removes a namespace of an owner with everything in it. Errors: NotFound, those
// of Rows and of the store. It may be repeated after an error.
func (k *KV) Remove(ctx context.Context, owner mayfly.UserID, name string) error {
	r, err := k.owned(ctx, owner, name)
	if err != nil {
		return err
	}
	if err := k.end(ctx, owner, name, r.Space); err != nil {
		return err
	}
	if owner.IsZero() {
		return nil
	}
	return k.forget(ctx, owner, name, r.Space)
}

// end removes the entries and the row of a namespace. The row says first that it ends,
// so that Tidy finds it after a crash; then a row of Removed says that the entries have
// to be removed again. Errors: NotFound (the name is not that of the space), those of Rows
// and of the store.
func (k *KV) end(ctx context.Context, owner mayfly.UserID, name, space string) error {
	var had record
	err := k.change(ctx, name, func(r record, found bool) (record, error) {
		if !found || r.Space != space {
			return r, absent(name)
		}
		r.Ending = true
		had = r
		return r, nil
	})
	if err != nil {
		return err
	}
	if err := k.noteRemoved(ctx, owner, had.space()); err != nil {
		return err
	}
	if err := k.drop(ctx, name, had); err != nil {
		return err
	}
	_, err = store.Update(ctx, k.o.Rows, Namespaces, namespaceKey(name), 0, func(old []byte) ([]byte, error) {
		if old == nil {
			return nil, nil
		}
		r, err := readRecord(old)
		if err != nil || r.Space != space {
			return old, err
		}
		return nil, nil
	})
	if err == nil {
		k.mu.Lock()
		delete(k.spaces, space)
		k.mu.Unlock()
	}
	return err
}

// drop removes the entries of a namespace, after the writes of this process that are
// under way; none follows.
func (k *KV) drop(ctx context.Context, name string, r record) error {
	s := k.spaceOf(name, r, loop.Stopwatch())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = true
	if err := k.o.Store.Drop(ctx, r.space()); err != nil {
		return fmt.Errorf("drop namespace %s: %w", name, err)
	}
	return nil
}

// removed is a row of Removed.
type removed struct {
	Format        int           `json:"format"`
	Owner         mayfly.UserID `json:"owner"` // zero: none, or not known after a crash
	LastWriteWins bool          `json:"last_write_wins,omitempty"`
	Events        bool          `json:"events,omitempty"`
}

const removedFormat = 1

func readRemoved(b []byte) (removed, error) {
	var r removed
	if err := json.Unmarshal(b, &r); err != nil || r.Format != removedFormat {
		return removed{}, mayfly.Errorf(mayfly.Corrupt, "the row of a removed namespace cannot be read (%d bytes)", len(b))
	}
	return r, nil
}

func (r removed) space(name string) store.KVSpace {
	return store.KVSpace{Name: name, Events: r.Events, LastWriteWins: r.LastWriteWins}
}

// noteRemoved writes the row of Removed of a namespace.
func (k *KV) noteRemoved(ctx context.Context, owner mayfly.UserID, space store.KVSpace) error {
	b, err := json.Marshal(removed{Format: removedFormat, Owner: owner, LastWriteWins: space.LastWriteWins, Events: space.Events})
	if err != nil {
		return err
	}
	_, err = store.Update(ctx, k.o.Rows, Removed, removedKey(space.Name), 0, func(old []byte) ([]byte, error) {
		if old != nil && owner.IsZero() {
			return old, nil
		}
		return b, nil
	})
	return err
}

// eachRemoved calls do with the rows of Removed.
func (k *KV) eachRemoved(ctx context.Context, do func(row store.Row, r removed) error) error {
	const page = 100
	for at := (store.Range{Partition: removedPartition, Limit: page}); ; {
		rows, err := k.o.Rows.Range(ctx, Removed, at)
		if err != nil {
			return err
		}
		for _, row := range rows {
			r, err := readRemoved(row.Value)
			if err != nil {
				return fmt.Errorf("removed namespace %s: %w", row.Clustering, err)
			}
			if err := do(row, r); err != nil {
				return err
			}
		}
		if len(rows) < page {
			return nil
		}
		at.From = rows[len(rows)-1].Clustering + "\x00"
	}
}

// EraseUser removes every namespace of a user, also one that is being made, and returns
// how many there were. It removes again what was written to namespaces that were removed
// a short time ago (ST14).
func (k *KV) EraseUser(ctx context.Context, owner mayfly.UserID, _ mayfly.Instant) (int, error) {
	ended := map[string]bool{} // by store name
	for {
		rows, err := k.o.Rows.Range(ctx, Owned, store.Range{Partition: string(owner[:]), Limit: 100})
		if err != nil {
			return len(ended), err
		}
		if len(rows) == 0 {
			break
		}
		for _, row := range rows {
			space, found, err := k.eraseOwned(ctx, owner, row)
			if err != nil {
				return len(ended), err
			}
			if found {
				ended[space] = true
			}
		}
	}
	return len(ended), k.eachRemoved(ctx, func(row store.Row, r removed) error {
		if r.Owner != owner || ended[row.Clustering] {
			return nil
		}
		return k.o.Store.Drop(ctx, r.space(row.Clustering))
	})
}

// eraseOwned removes what a row of Owned names, and the row. found reports whether there
// was a namespace. A row that has changed is left to the next look.
func (k *KV) eraseOwned(ctx context.Context, owner mayfly.UserID, row store.Row) (space string, found bool, err error) {
	space, begun := readOwned(row.Value)
	if begun != 0 { // from now on it cannot be completed
		if err := store.Replace(ctx, k.o.Rows, Owned, ownedKey(owner, row.Clustering), row.Value, nil, 0); err != nil {
			if errors.Is(err, mayfly.Conflict) {
				err = nil
			}
			return space, false, err
		}
	}
	err = k.end(ctx, owner, row.Clustering, space)
	if err != nil && !errors.Is(err, mayfly.NotFound) {
		return space, false, err
	}
	return space, err == nil, k.forget(ctx, owner, row.Clustering, space)
}

// LeftOf returns how many namespaces a user has, and how many removed ones in which
// there is an entry again.
func (k *KV) LeftOf(ctx context.Context, owner mayfly.UserID) (int, error) {
	rows, err := k.o.Rows.Range(ctx, Owned, store.Range{Partition: string(owner[:]), Limit: 100})
	if err != nil {
		return 0, err
	}
	left := len(rows)
	return left, k.eachRemoved(ctx, func(row store.Row, r removed) error {
		if r.Owner != owner {
			return nil
		}
		for after := ""; ; {
			page, next, err := k.o.Store.Scan(ctx, r.space(row.Clustering), 0, "", after, 1)
			if err != nil {
				return err
			}
			if len(page) > 0 {
				left++
				return nil
			}
			if after = next; next == "" {
				return nil
			}
		}
	})
}

// Tidy makes the second pass over namespaces that were removed: after lateWrites no node
// writes to them any more. Once an hour it resumes what a crash interrupted. It is called about once a minute, by one node, with the confirmed time.
func (k *KV) Tidy(ctx context.Context, now mayfly.Instant) error {
	k.mu.Lock()
	resume := now.Sub(k.resumed).Abs() >= madePart
	k.mu.Unlock()
	if resume { // it reads every namespace
		if err := k.Resume(ctx, now); err != nil {
			return err
		}
		k.mu.Lock()
		k.resumed = now
		k.mu.Unlock()
	}
	seen := map[string]mayfly.Instant{}
	err := k.eachRemoved(ctx, func(row store.Row, r removed) error {
		name := row.Clustering
		k.mu.Lock()
		since, known := k.removed[name]
		k.mu.Unlock()
		if !known {
			since = now
		}
		if now.Sub(since) < lateWrites {
			seen[name] = since
			return nil
		}
		if err := k.o.Store.Drop(ctx, r.space(name)); err != nil {
			return fmt.Errorf("drop removed namespace %s: %w", name, err)
		}
		return store.RemoveRow(ctx, k.o.Rows, Removed, removedKey(name), row.Value)
	})
	if err != nil {
		return err
	}
	k.mu.Lock()
	k.removed = seen
	k.mu.Unlock()
	return nil
}

// Resume goes on with removals that a crash interrupted, and removes namespaces whose
// creation was.
func (k *KV) Resume(ctx context.Context, now mayfly.Instant) error {
	return k.each(ctx, func(name string, r record) error {
		if !r.Ending && (!r.Making || now.Sub(r.Made) < madePart) {
			return nil
		}
		return ignoreAbsent(k.end(ctx, mayfly.UserID{}, name, r.Space)) // absent: another node was faster
	})
}
