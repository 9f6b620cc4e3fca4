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

// Clean is what the step Expire does behind the sweep's own act. Where the walks
// have passed an item it sends it on to the archive; it tells caches and log
// of a restore, hold or release whose own news may be lost; and when a restore is over it
// takes the item out of the restored set, and deletes what a restore that failed
// has left in hot. A Restored entry that is not over belongs to a later restore.
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
	c.tell(ctx, changed...)
	for _, step := range []func(context.Context) error{c.sendOn, c.erase, c.forget, c.news} {
		if err := step(ctx); err != nil {
			return nil, fmt.Errorf("restore: clean: %w", err)
		}
	}
	return nil, nil
}

// cleaning is one batch on its way.
type cleaning struct {
	*Restore
	now       mayfly.Instant
	items     []mayfly.Item    // as they are now (I12)
	until     []mayfly.Instant // their entries in the restored set; 0 is none
	reminders store.Batch
	dead      []mayfly.BlobKey
	over      []mayfly.ID
	back      []mayfly.ID // restored, and serving
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
	// Behind the rows: a restore makes its entry before it writes any medium.
	c.until, err = c.restoredUntil(ctx, ids...)
	return err
}

// sort decides what is to be done for one row.
func (c *cleaning) sort(item mayfly.Item, until mayfly.Instant) {
	if item.Held { // I21: its release reminds of it again
		c.events = append(c.events, mayfly.EventOf(item, mayfly.WasHeld))
		return
	}
	switch item.State {
	case mayfly.Active:
		if serves(item, c.now) {
			c.events, c.back = append(c.events, restoredEvent(item)), append(c.back, item.ID)
		}
		return // one that has ended is the sweep's
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

// serves says that the row is a restored one that serves.
func serves(item mayfly.Item, now mayfly.Instant) bool {
	return item.State == mayfly.Active && item.Cause == mayfly.BySupport && item.ServesUntil > 0 && !item.EndedAt(now)
}

// leftovers are the keys in hot that only a restore can have written and that
// the row does not name. A row that is still to be archived has them deleted by
// the archive, behind a claim: until then a late change might name them, and it
// would name nothing else. What is cold has its cold copy in any case.
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

// bulk is how many keys a tier is asked to delete at once.
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

// forget takes what is over out of the restored set, last of all that is done:
// while the entry is there, another try finds the rest.
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
	c.tellSet(ctx, c.over)
	return nil
}

func (c *cleaning) news(ctx context.Context) error {
	c.tellSet(ctx, c.back)
	if len(c.events) == 0 {
		return nil
	}
	return walk.Away(c.set.Log.Append(ctx, c.events...))
}

// tellSet tells the caches of ids that came into the restored set or left it.
func (c *cleaning) tellSet(ctx context.Context, ids []mayfly.ID) {
	var signals []store.Signal
	for _, id := range ids {
		signals = append(signals, of(id, store.RestoredSet)...)
	}
	c.tell(ctx, signals...)
}
