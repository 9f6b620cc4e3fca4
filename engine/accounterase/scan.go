package accounterase

import (
	"context"
	"fmt"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/erase"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// References is what is left of a user.
type References struct {
	Count    int
	Examples []string
	Held     int // items that stay because they are held; not in Count
	Unowned  int // objects under the user's trace that no row names: unpublished uploads of any user with the same trace; not in Count, the collector erases them
}

// maxExamples is how many examples References has.
const maxExamples = 20

func (r *References) add(format string, args ...any) {
	r.Count++
	if len(r.Examples) < maxExamples {
		r.Examples = append(r.Examples, fmt.Sprintf(format, args...))
	}
}

// Scan counts what is left of a user: rows under the user's id in every declared
// table, rows of others that name the user, items whose body exists,
// and objects of such items in both tiers. Tombstones, the audit log and the event
// log keep the user's id for their time.
func (e *Eraser) Scan(ctx context.Context, user mayfly.UserID) (References, error) {
	var r References
	for _, t := range e.set.Rows.Tables() {
		if err := e.scanTable(ctx, &r, t, user); err != nil {
			return r, fmt.Errorf("scan: table %s: %w", t, err)
		}
	}
	for _, p := range e.parts {
		left, err := p.Left(ctx, user)
		if err != nil {
			return r, fmt.Errorf("scan: %s: %w", p.Name, err)
		}
		for range left {
			r.add("%s: something of the user", p.Name)
		}
	}
	if err := walk.Everything().Each(ctx, e.set.Ledger, func(page []mayfly.Item) error { return e.scanRows(ctx, &r, page, user) }); err != nil {
		return r, fmt.Errorf("scan: ledger: %w", err)
	}
	for name, tier := range map[string]store.Blobs{"hot": e.set.Hot, "cold": e.set.Cold} {
		if err := e.scanTier(ctx, &r, name, tier, user); err != nil {
			return r, fmt.Errorf("scan: %s: %w", name, err)
		}
	}
	return r, nil
}

// scanTable looks for rows under the user's id in every table but those that outlive
// accounts. It does not believe the rule of the others: one that is wrong leaves rows.
func (e *Eraser) scanTable(ctx context.Context, r *References, t store.Table, user mayfly.UserID) error {
	if t.Declared().Erasure == store.Kept {
		return nil
	}
	return e.partition(ctx, t, string(user[:]), func(page []store.Row) error {
		for _, row := range page {
			if t == engine.Owners && len(row.Clustering) == len(mayfly.ID{}) {
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

func (e *Eraser) isHeld(ctx context.Context, id mayfly.ID) (bool, error) {
	found, err := e.set.Ledger.Get(ctx, id)
	return err == nil && found[0].Found && found[0].Item.Held, err
}

func (e *Eraser) scanRows(ctx context.Context, r *References, page []mayfly.Item, user mayfly.UserID) error {
	if len(page) == 0 {
		return nil
	}
	bodies, err := e.set.Ledger.Body(ctx, store.IDs(page)...)
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
// trace: an object's key says no more about its owner.
func (e *Eraser) scanTier(ctx context.Context, r *References, name string, tier store.Blobs, user mayfly.UserID) error {
	prefix := mayfly.BlobKey(fmt.Sprintf("%02d", user.Trace()%mayfly.Prefixes))
	from := prefix + "/"
	for {
		page, err := tier.List(ctx, from, prefix+"0", listPage)
		if err != nil || len(page) == 0 {
			return err
		}
		var objects []erase.Object
		for _, listed := range page {
			if o, ours := erase.ReadKey(listed.Key); ours && o.ID.Trace() == user.Trace() {
				objects = append(objects, o)
			}
		}
		owners, err := e.items.Owners(ctx, objects)
		if err != nil {
			return err
		}
		for i, o := range objects {
			switch by := owners[i]; {
			case !by.Found:
				r.Unowned++
			case by.Item.Owner == user && !by.Item.Held:
				r.add("%s: %s", name, o.Key)
			}
		}
		from = page[len(page)-1].Key + "\x00"
	}
}

// scanItem looks for rows of the tables whose rows go with their item.
func (e *Eraser) scanItem(ctx context.Context, r *References, id mayfly.ID) error {
	for _, t := range e.set.Rows.Tables() {
		if t.Declared().Erasure != store.PartitionIsItem {
			continue
		}
		for _, partition := range t.ItemPartitions(id) {
			left, err := e.set.Rows.Range(ctx, t, store.Range{Partition: partition, Limit: 1})
			if err != nil {
				return err
			}
			if len(left) > 0 {
				r.add("%s: a row of %s", t, id)
			}
		}
	}
	return nil
}

// scanOthers looks for rows of others that name the user, also where the user's
// own mirror row is gone: in every table that mirrors a table of users, under the
// items of the page or under their owners.
func (e *Eraser) scanOthers(ctx context.Context, r *References, page []mayfly.Item, user mayfly.UserID) error {
	var items, owners []string // clustering keys that the user's own rows could have
	asked := map[mayfly.UserID]bool{user: true}
	for _, item := range page {
		items = append(items, string(item.ID[:]))
		if !asked[item.Owner] {
			asked[item.Owner] = true
			owners = append(owners, string(item.Owner[:]))
		}
	}
	tables := e.set.Rows.Tables()
	for _, t := range tables {
		d := t.Declared()
		mirror, mirrored := store.TableNamed(tables, d.Mirror)
		if d.Erasure != store.PartitionIsUser || !mirrored {
			continue
		}
		names := owners
		if mirror.Declared().Erasure == store.PartitionIsItem {
			names = items
		}
		if err := e.scanMirror(ctx, r, t, mirror, names, user); err != nil {
			return err
		}
	}
	return nil
}

// scanMirror looks for the mirrors that rows of the user with these clustering keys
// would have.
func (e *Eraser) scanMirror(ctx context.Context, r *References, t, mirror store.Table, names []string, user mayfly.UserID) error {
	if len(names) == 0 {
		return nil
	}
	keys := make([]store.Key, len(names))
	for i, name := range names {
		var err error
		if keys[i], err = t.Declared().MirrorKey(store.Key{Partition: string(user[:]), Clustering: name}); err != nil {
			return err
		}
	}
	found, err := e.set.Rows.Get(ctx, mirror, keys...)
	if err != nil {
		return err
	}
	for i, value := range found {
		if value != nil {
			r.add("%s: a row of %x names the user", mirror, keys[i].Partition)
		}
	}
	return nil
}
