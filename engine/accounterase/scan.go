package erase

import (
	"context"
	"fmt"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// References is what is still there of a user.
type References struct {
	Count    int
	Examples []string
	Held     int // items, left because they are held: not counted
	Unowned  int // objects under the user's trace that no row explains: an upload that was never published, of this user or of another of the same ten bits; not counted, the collector's
}

func (r *References) add(format string, args ...any) {
	r.Count++
	if len(r.Examples) < maxExamples {
		r.Examples = append(r.Examples, fmt.Sprintf(format, args...))
	}
}

// Scan counts what is still there of a user: rows under the user's name in every
// declared table, what all items and their owners say of the user, rows of the
// ledger whose body is there, and objects of such rows in both tiers. Tombstones,
// the audit log and the log of events keep the user's number for their time.
func (e *Erase) Scan(ctx context.Context, user mayfly.UserID) (References, error) {
	var r References
	for _, t := range store.Tables() {
		if err := e.scanTable(ctx, &r, t, user); err != nil {
			return r, fmt.Errorf("scan: table %s: %w", t, err)
		}
	}
	if err := e.each(ctx, everything(), func(page []mayfly.Item) error { return e.scanRows(ctx, &r, page, user) }); err != nil {
		return r, fmt.Errorf("scan: ledger: %w", err)
	}
	for _, t := range []tier{hot, cold} {
		if err := e.scanTier(ctx, &r, t, user); err != nil {
			return r, fmt.Errorf("scan: %s: %w", t, err)
		}
	}
	return r, nil
}

func (e *Erase) scanTable(ctx context.Context, r *References, t store.Table, user mayfly.UserID) error {
	if err := covered(t, t.Declared()); err != nil {
		return err
	}
	if t.Declared().Erasure != store.PartitionIsUser {
		return nil
	}
	return e.partition(ctx, t, string(user[:]), func(page []store.Row) error {
		for _, row := range page {
			if t == store.Owners && len(row.Clustering) == len(mayfly.ID{}) {
				if held, err := e.isHeld(ctx, mayfly.ID([]byte(row.Clustering))); err != nil {
					return err
				} else if held {
					r.Held++
					continue
				}
			}
			r.add("%s: a row %x", t, row.Clustering)
		}
		return nil
	})
}

func (e *Erase) isHeld(ctx context.Context, id mayfly.ID) (bool, error) {
	found, err := e.set.Ledger.Get(ctx, id)
	return err == nil && found[0].Found && found[0].Item.Held, err
}

func (e *Erase) scanRows(ctx context.Context, r *References, page []mayfly.Item, user mayfly.UserID) error {
	if len(page) == 0 {
		return nil
	}
	bodies, err := e.set.Ledger.Body(ctx, ids(page)...)
	if err != nil {
		return err
	}
	for i, item := range page {
		if item.Owner != user || item.Held {
			continue
		}
		if bodies[i].Found || item.State != mayfly.Deleted {
			r.add("%s is %s", item.ID, item.State)
		}
		if err := e.scanItem(ctx, r, item.ID); err != nil {
			return err
		}
	}
	return e.scanOthers(ctx, r, page, user)
}

// scanTier looks at every object under the user's prefix whose id has the user's
// trace: an object's key says no more of its owner than that.
func (e *Erase) scanTier(ctx context.Context, r *References, t tier, user mayfly.UserID) error {
	c := collector{Erase: e}
	prefix := mayfly.BlobKey(fmt.Sprintf("%02d", user.Trace()%mayfly.Prefixes))
	from := prefix + "/"
	for {
		page, err := c.tier(t).List(ctx, from, prefix+"0", listPage)
		if err != nil || len(page) == 0 {
			return err
		}
		var objects []object
		for _, listed := range page {
			if o, ours := readKey(listed.Key); ours && o.id.Trace() == user.Trace() {
				objects = append(objects, o)
			}
		}
		owners, err := e.owners(ctx, objects)
		if err != nil {
			return err
		}
		for i, o := range objects {
			switch by := owners[i]; {
			case !by.found:
				r.Unowned++
			case by.item.Owner == user && !by.item.Held:
				r.add("%s: %s", t, o.key)
			}
		}
		from = page[len(page)-1].Key + "\x00"
	}
}
