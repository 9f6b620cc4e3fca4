package restore

import (
	"context"
	"fmt"
	"slices"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// Clean is the second part of the step Expire, after the sweep's own act. It writes
// archive reminders for items that the walks have passed. It announces restores,
// holds and releases again, in case their own signals and events were lost. When a
// restore has ended, it removes the item from the restored set and deletes what a
// failed restore left in the hot tier. An entry that has not ended belongs to a
// later restore.
func (r *Restore) Clean(ctx context.Context, b walk.Batch) ([]walk.Failure, error) {
	c := cleaning{Restore: r, now: b.Now}
	if err := c.read(ctx, b.Items); err != nil {
		return nil, fmt.Errorf("restore: clean: %w", err)
	}
	var changed []store.Signal
	for i := range c.items {
		c.sort(c.items[i], c.until[i])
		changed = append(changed, of(c.items[i].ID, store.RowChanged)...)
	}
	c.notify(ctx, changed...)
	for _, step := range []func(context.Context) error{c.sendOn, c.erase, c.forget, c.news} {
		if err := step(ctx); err != nil {
			return nil, fmt.Errorf("restore: clean: %w", err)
		}
	}
	return nil, nil
}

// cleaning is the state of one batch.
type cleaning struct {
	*Restore
	now       mayfly.Instant
	items     []mayfly.Item    // their current rows (I12)
	until     []mayfly.Instant // their entries in the restored set; 0 is none
	reminders store.Batch
	dead      []mayfly.BlobKey
	over      []mayfly.ID
	back      []mayfly.ID // restored and serving
	events    []mayfly.Event
}

func (c *cleaning) read(ctx context.Context, items []mayfly.Item) error {
	ids := make([]mayfly.ID, len(items))
	for i, item := range items {
		ids[i] = item.ID
	}
	found, err := c.set.Ledger.Get(ctx, ids...)
	if err != nil {
		return err
	}
	ids = ids[:0]
	for _, f := range found {
		if f.Found {
			c.items, ids = append(c.items, f.Item), append(ids, f.Item.ID)
		}
	}
	// After the rows: a restore writes its entry before it copies any medium.
	c.until, err = c.restoredUntil(ctx, ids...)
	return err
}

// sort decides what to do for one row.
func (c *cleaning) sort(item mayfly.Item, until mayfly.Instant) {
	if item.Held { // its release writes new reminders (I21)
		c.events = append(c.events, mayfly.EventOf(item, mayfly.WasHeld))
		return
	}
	switch item.State {
	case mayfly.Active:
		if serves(item, c.now) {
			c.events, c.back = append(c.events, restoredEvent(item)), append(c.back, item.ID)
		}
		return // the sweep handles one that has ended
	case mayfly.ExpiredHot, mayfly.Archiving:
		c.remind(item, remind.Archive, max(item.End().Add(c.o.Window), c.now.Add(c.o.RemindAfter)))
	case mayfly.Cold, mayfly.Deleted:
		if until <= c.now {
			c.dead = append(c.dead, leftovers(item)...)
		}
	}
	if until == 0 || until > c.now {
		return
	}
	c.over = append(c.over, item.ID)
	if until != item.ServesUntil && item.State != mayfly.Deleted {
		c.remind(item, remind.Expire, c.now.Add(lateLook))
	}
}

// serves reports whether the row is restored and serves at now.
func serves(item mayfly.Item, now mayfly.Instant) bool {
	return item.State == mayfly.Active && item.Cause == mayfly.BySupport && item.ServesUntil > 0 && !item.EndedAt(now)
}

// leftovers returns the hot keys that only a restore can have written and that the
// row does not name. It is not for rows that are still to be archived: a late change
// could still name these keys and no others, so the archive deletes them after it
// has claimed the row. A cold row has its cold copy in any case.
func leftovers(item mayfly.Item) (keys []mayfly.BlobKey) {
	for g := mayfly.Born + 1; g <= item.Generation+1; g++ {
		if g != item.Keys.Hot {
			keys = append(keys, keysOf(item, g)...)
		}
	}
	return keys
}

func (c *cleaning) remind(item mayfly.Item, step remind.Step, due mayfly.Instant) {
	remind.Write(&c.reminders, remind.Reminder{Due: due, ID: item.ID, Step: step, Reason: "the walks have passed it"})
}

func (c *cleaning) sendOn(ctx context.Context) error {
	if len(c.reminders.Stages()) == 0 {
		return nil
	}
	return c.set.Writer.Commit(ctx, &c.reminders)
}

// bulk is the maximum number of keys in one delete.
const bulk = 1_000

func (c *cleaning) erase(ctx context.Context) error {
	if len(c.dead) == 0 {
		return nil
	}
	for keys := range slices.Chunk(c.dead, bulk) {
		if err := c.set.Hot.Delete(ctx, keys...); err != nil {
			return fmt.Errorf("delete %d objects: %w", len(keys), err)
		}
	}
	return nil
}

// forget removes ended restores from the restored set. It runs after the deletes:
// while the entry exists, another try finds what is left to do.
func (c *cleaning) forget(ctx context.Context) error {
	if len(c.over) == 0 {
		return nil
	}
	var b store.Batch
	for _, id := range c.over {
		b.Delete(engine.Restored, engine.RestoredKey(id))
	}
	if err := c.set.Writer.Commit(ctx, &b); err != nil {
		return err
	}
	c.notifyRestoredSet(ctx, c.over)
	return nil
}

func (c *cleaning) news(ctx context.Context) error {
	c.notifyRestoredSet(ctx, c.back)
	if len(c.events) == 0 {
		return nil
	}
	return walk.Away(c.set.Log.Append(ctx, c.events...))
}

// notifyRestoredSet sends signals for ids that were added to the restored set or
// removed from it.
func (c *cleaning) notifyRestoredSet(ctx context.Context, ids []mayfly.ID) {
	var signals []store.Signal
	for _, id := range ids {
		signals = append(signals, of(id, store.RestoredSet)...)
	}
	c.notify(ctx, signals...)
}
