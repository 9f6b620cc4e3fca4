package erase

import (
	"context"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// scanItem looks for what tables that go with their item still say of one of the
// user's.
func (e *Erase) scanItem(ctx context.Context, r *References, id mayfly.ID) error {
	look := func(t store.Table, partition string) error {
		left, err := e.set.Rows.Range(ctx, t, store.Range{Partition: partition, Limit: 1})
		if err == nil && len(left) > 0 {
			r.add("%s: a row of %s", t, id)
		}
		return err
	}
	for n := range store.ViewSlices {
		if err := look(store.Views, store.ViewPartition(id, n)); err != nil {
			return err
		}
	}
	return look(store.Renditions, string(id[:]))
}

// scanOthers looks whether others' rows name the user: views of their items, and
// their relations, also where the user's own partition does not tell of it.
func (e *Erase) scanOthers(ctx context.Context, r *References, page []mayfly.Item, user mayfly.UserID) error {
	named := func(t store.Table, keys []store.Key) error {
		if len(keys) == 0 {
			return nil
		}
		found, err := e.set.Rows.Get(ctx, t, keys...)
		if err != nil {
			return err
		}
		for i, value := range found {
			if value != nil {
				r.add("%s: a row of %x names the user", t, keys[i].Partition)
			}
		}
		return nil
	}
	var views, relations, related []store.Key
	asked := map[mayfly.UserID]bool{user: true}
	for _, item := range page {
		views = append(views, store.ViewKey(item.ID, user))
		if !asked[item.Owner] {
			asked[item.Owner] = true
			relations = append(relations, store.RelationKey(item.Owner, user))
			related = append(related, store.RelatedKey(item.Owner, user))
		}
	}
	if err := named(store.Views, views); err != nil {
		return err
	}
	if err := named(store.Relations, relations); err != nil {
		return err
	}
	return named(store.Related, related)
}
