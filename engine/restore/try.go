package restore

import (
	"context"
	"errors"
	"fmt"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// try is the state of one restore.
type try struct {
	*Restore
	until, now mayfly.Instant
	nonce      mayfly.Nonce // the same in every round, so that any round that lands is recognised
	reminded   bool
	moving     bool        // a change was sent
	doubt      bool        // a change may still land
	before     mayfly.Item // the row that the last round started from, and its body
	body       mayfly.Body
}

// all restores the item, and starts again when another process changes the row.
func (t *try) all(ctx context.Context, id mayfly.ID) (mayfly.Item, error) {
	for range rounds {
		item, err := t.row(ctx, id)
		if err != nil {
			return item, err
		}
		if item.Nonce == t.nonce { // an earlier round whose response was lost
			return item, t.conclude(ctx, item)
		}
		back, done, err := t.once(ctx, item)
		if err != nil {
			return mayfly.Item{}, err
		}
		if done {
			return back, nil
		}
	}
	return mayfly.Item{}, gaveUp(id, t.doubt)
}

// once restores the item of a row that was just read: it writes the reminder,
// changes the row, then sends signals and events (L15). done is false when another
// process changed the row or the result is unknown: the row must be read again.
func (t *try) once(ctx context.Context, item mayfly.Item) (back mayfly.Item, done bool, err error) {
	if err := t.mayComeBack(item, t.now); err != nil {
		return item, false, err
	}
	if err := t.accountLives(ctx, item.Owner); err != nil {
		return item, false, err
	}
	if err := t.remind(ctx, item.ID); err != nil {
		return item, false, err
	}
	if item.State == mayfly.Active {
		var mine bool
		if item, mine, err = t.expire(ctx, item); err != nil || !mine {
			return item, false, err
		}
	}
	if err := walk.AppendLast(ctx, t.set.Log, item); err != nil {
		return item, false, err
	}
	next := item.Generation + 1
	if err := t.copyAll(ctx, item, next); err != nil {
		return item, false, t.unlessMoved(ctx, item, err)
	}
	t.moving = true
	back, mine, err := t.transition(ctx, t.change(item, next))
	if err != nil {
		return item, false, err
	}
	if !mine {
		t.doubt = t.doubt || back.Generation < next
		return item, false, t.dropCopies(ctx, back, next)
	}
	return back, true, t.conclude(ctx, back)
}

// accountLives returns an error if the owner's account was erased: its remaining
// items are being erased too (ST14).
func (t *try) accountLives(ctx context.Context, owner mayfly.UserID) error {
	if owner.IsZero() {
		return nil
	}
	found, err := t.set.Rows.Get(ctx, engine.Erased, engine.ErasedKey(owner))
	if err != nil {
		return fmt.Errorf("look for the owner's tombstone: %w", err)
	}
	if found[0] != nil {
		return mayfly.Errorf(mayfly.Gone, "the account of its owner was erased").WithHint("items of erased accounts cannot be restored")
	}
	return nil
}

// remind writes, before anything else, the reminders that end the restore and that
// announce it if this process dies, and the entry in the restored set. An entry for
// a row that does not serve has no effect.
func (t *try) remind(ctx context.Context, id mayfly.ID) error {
	if t.reminded {
		return nil
	}
	var b store.Batch
	for _, due := range []mayfly.Instant{t.soon(t.now), max(t.until, t.soon(t.now))} {
		remind.Write(&b, remind.Reminder{Due: due, ID: id, Step: remind.Expire, Reason: "restored until " + t.until.String()})
	}
	if err := t.set.Writer.Commit(ctx, &b); err != nil {
		return fmt.Errorf("write its reminder: %w", err)
	}
	if err := t.keepRestored(ctx, id, t.until); err != nil { // after the reminder: without one it would never be removed
		return err
	}
	t.reminded = true
	return nil
}

// expire expires an item that the sweep has not reached yet, in the same way.
func (t *try) expire(ctx context.Context, item mayfly.Item) (mayfly.Item, bool, error) {
	if err := walk.AppendLast(ctx, t.set.Log, item); err != nil { // it may have been restored before
		return item, false, err
	}
	return t.transition(ctx, walk.Compose(item, mayfly.Change{To: mayfly.ExpiredHot, Cause: mayfly.ByExpiry, At: t.now}))
}

func (t *try) change(item mayfly.Item, next mayfly.Generation) mayfly.Change {
	c := mayfly.Change{To: mayfly.Active, Nonce: t.nonce, Cause: mayfly.BySupport, At: t.now, ServesUntil: t.until}
	if item.Media > 0 {
		c.Keys = &mayfly.Keys{Hot: next, Cold: item.Keys.Cold}
	}
	return walk.Compose(item, c)
}

// unlessMoved returns nil if the row was changed meanwhile, which explains err: the
// row must be read again. Otherwise it returns err.
func (t *try) unlessMoved(ctx context.Context, item mayfly.Item, err error) error {
	current, readErr := t.row(ctx, item.ID)
	if readErr == nil && current.Generation != item.Generation {
		return nil
	}
	return err
}

// copyAll copies every medium to the hot tier, under keys of the next generation,
// and verifies each copy.
func (t *try) copyAll(ctx context.Context, item mayfly.Item, next mayfly.Generation) error {
	found, err := t.set.Ledger.Body(ctx, item.ID)
	if err != nil {
		return fmt.Errorf("read the body: %w", err)
	}
	if !found[0].Found || len(found[0].Body.Media) != int(item.Media) {
		return mayfly.Errorf(mayfly.Corrupt, "the body of %s does not name its media", item.ID)
	}
	t.before, t.body = item, found[0].Body
	for n, medium := range t.body.Media {
		if err := t.copyMedium(ctx, item, medium, n, next); err != nil {
			return fmt.Errorf("copy medium %d: %w", n, err)
		}
	}
	return nil
}

// copyMedium copies the hot object, or the cold one if the row names no hot object,
// or it was just erased, or it is damaged.
func (r *Restore) copyMedium(ctx context.Context, item mayfly.Item, medium mayfly.Medium, n int, next mayfly.Generation) error {
	err := error(mayfly.Errorf(mayfly.Corrupt, "the row of %s names no copy of its media", item.ID))
	to := item.MediaKey(next, n)
	for _, from := range []struct {
		tier store.Blobs
		as   mayfly.Generation
	}{{r.set.Hot, item.Keys.Hot}, {r.set.Cold, item.Keys.Cold}} {
		if from.as == 0 {
			continue
		}
		if _, err = from.tier.CopyTo(ctx, r.set.Hot, item.MediaKey(from.as, n), to); err == nil {
			_, err = upload.ReadBack(ctx, r.set.Hot, to, medium)
		}
		if err == nil {
			return nil
		}
	}
	return err
}

// dropCopies deletes the copies of a round that lost: the row has reached their
// generation without naming them, so no row ever will. Before that they stay: the
// change may still land, or another restore may have copied to the same keys.
func (t *try) dropCopies(ctx context.Context, current mayfly.Item, g mayfly.Generation) error {
	if current.Generation < g || current.Keys.Hot == g || current.Held {
		return nil
	}
	if err := t.set.Hot.Delete(ctx, keysOf(current, g)...); err != nil {
		return fmt.Errorf("delete unused copies: %w", err)
	}
	return nil
}

// recopy checks the hot copies of a restored row again and replaces missing ones
// from the row before: a slow Clean may have deleted them as those of a failed
// restore. It returns the keys that it wrote.
func (r *Restore) recopy(ctx context.Context, before mayfly.Item, body mayfly.Body, item mayfly.Item) (written []mayfly.BlobKey, err error) {
	for n, medium := range body.Media {
		key := item.MediaKey(item.Keys.Hot, n)
		_, err := r.set.Hot.Stat(ctx, key)
		if errors.Is(err, mayfly.NotFound) {
			written = append(written, key)
			err = r.copyMedium(ctx, before, medium, n, item.Keys.Hot)
		}
		if err != nil {
			return written, fmt.Errorf("check medium %d again: %w", n, err)
		}
	}
	return written, nil
}

// conclude announces a restored row to the caches and the log. It first replaces
// what Clean may just have removed.
func (t *try) conclude(ctx context.Context, item mayfly.Item) error {
	if _, err := t.recopy(ctx, t.before, t.body, item); err != nil {
		return err
	}
	if err := t.keepRestored(ctx, item.ID, t.until); err != nil {
		return err
	}
	t.notify(ctx, of(item.ID, store.RestoredSet, store.RowChanged)...)
	// A failed append undoes nothing: the reminder appends the event again.
	_ = t.set.Log.Append(ctx, mayfly.EventOf(item, mayfly.WasRestored))
	return nil
}

// keysOf returns the object keys of an item's media at a generation.
func keysOf(item mayfly.Item, g mayfly.Generation) []mayfly.BlobKey {
	keys := make([]mayfly.BlobKey, item.Media)
	for n := range keys {
		keys[n] = item.MediaKey(g, n)
	}
	return keys
}
