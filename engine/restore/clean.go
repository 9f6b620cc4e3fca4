package restore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// Clean is the second part of the step Expire, after the sweep's own act. It writes
// archive reminders for items that the walks have passed. It announces restores,
// holds and releases again, in case their own signals and events were lost, and
// repairs what an item that serves needs. When a restore has ended, it removes the
// item from the restored set and deletes what a failed restore left in the hot
// tier. An entry that has not ended belongs to a later restore.
func (r *Restore) Clean(ctx context.Context, b walk.Batch) ([]walk.Failure, error) {
	c := cleaning{Restore: r, now: b.Now, over: map[mayfly.ID]mayfly.Instant{}}
	if err := c.read(ctx, b.Items); err != nil {
		return nil, fmt.Errorf("restore: clean: %w", err)
	}
	var changed []store.Signal
	for i := range c.items {
		c.sort(c.items[i], c.until[i])
		changed = append(changed, of(c.items[i].ID, store.RowChanged)...)
	}
	c.notify(ctx, changed...)
	for _, step := range []func(context.Context) error{c.sendOn, c.erase, c.forget, c.repair, c.news} {
		if err := step(ctx); err != nil {
			return nil, fmt.Errorf("restore: clean: %w", err)
		}
	}
	return c.failures, nil
}

// cleaning is the state of one batch.
type cleaning struct {
	*Restore
	now       mayfly.Instant
	items     []mayfly.Item    // their current rows (I12)
	until     []mayfly.Instant // their entries in the restored set; 0 is none
	reminders store.Batch
	dead      []mayfly.BlobKey
	over      map[mayfly.ID]mayfly.Instant // ended entries of the restored set
	back      []mayfly.Item                // restored and serving
	events    []mayfly.Event
	failures  []walk.Failure
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
		engine.LeaveRings(&c.reminders, item)
		return
	}
	if item.State != mayfly.Deleted && !item.ID.ExpiredAt(c.now) {
		engine.AddToRings(&c.reminders, item) // a hold that was given up may have removed it late
	}
	switch item.State {
	case mayfly.Active:
		if serves(item, c.now) {
			c.events, c.back = append(c.events, mayfly.EventOf(item, mayfly.WasRestored)), append(c.back, item)
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
	c.over[item.ID] = until
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

// forgetting is how many entries are removed at once.
const forgetting = 8

// forget removes ended restores from the restored set, unless a later restore has
// changed the entry since it was read. It runs after the deletes: while the entry
// exists, another try finds what is left to do.
func (c *cleaning) forget(ctx context.Context) error {
	g, inner := errgroup.WithContext(ctx)
	g.SetLimit(forgetting)
	var removed []mayfly.ID
	for id, until := range c.over {
		removed = append(removed, id)
		g.Go(func() error {
			err := store.Replace(inner, c.set.Rows, engine.Restored, engine.RestoredKey(id), restoredEntry(until), nil, 0)
			if errors.Is(err, mayfly.Conflict) {
				return nil
			}
			return err
		})
	}
	err := g.Wait()
	c.notifyRestoredSet(ctx, removed)
	return err
}

// repair replaces what restored items that serve are missing: a clean-up that was
// slower than a restore may have removed the entry or the hot copies that the
// restore had just written.
func (c *cleaning) repair(ctx context.Context) error {
	ids := make([]mayfly.ID, len(c.back))
	for i, item := range c.back {
		ids[i] = item.ID
		if err := c.keepRestored(ctx, item.ID, item.ServesUntil); err != nil {
			return err
		}
	}
	c.notifyRestoredSet(ctx, ids)
	for _, item := range c.back {
		if item.Media == 0 || item.Keys.Cold == 0 { // only copies of a cold item are ever cleaned up
			continue
		}
		if err := c.repairMedia(ctx, item); err != nil {
			c.failures = append(c.failures, walk.Failure{Item: item, Err: err})
		}
	}
	return nil
}

// repairMedia replaces missing hot copies of an item from its cold ones, and takes
// them back if the row has stopped naming them meanwhile.
func (c *cleaning) repairMedia(ctx context.Context, item mayfly.Item) error {
	body, err := c.set.Ledger.Body(ctx, item.ID)
	if err != nil || !body[0].Found {
		return err
	}
	before := item
	before.Keys.Hot = 0
	written, err := c.recopy(ctx, before, body[0].Body, item)
	if len(written) == 0 {
		return err
	}
	row, readErr := c.row(ctx, item.ID)
	if readErr == nil && (row.State == mayfly.Deleted || row.Keys.Hot != item.Keys.Hot) {
		return c.set.Hot.Delete(ctx, written...)
	}
	return errors.Join(err, readErr)
}

func (c *cleaning) news(ctx context.Context) error {
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
