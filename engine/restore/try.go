package restore

import (
	"context"
	"errors"
	"fmt"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// try is one restore on its way.
type try struct {
	*Restore
	until, now mayfly.Instant
	nonce      mayfly.Nonce // the same in every round: whichever of them lands, it is this restore
	reminded   bool
	moving     bool        // a change was tried
	doubt      bool        // one may still land
	before     mayfly.Item // the row that the last round went from, and its body
	body       mayfly.Body
}

// all goes from the row to one that serves, as often as somebody moves it meanwhile.
func (t *try) all(ctx context.Context, id mayfly.ID) (mayfly.Item, error) {
	for range rounds {
		item, err := t.row(ctx, id)
		if err != nil {
			return item, err
		}
		if item.Nonce == t.nonce { // an earlier round, whose answer was lost
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

// once goes from a row just read to a row that serves: reminder, deed, news
// (L15). done is false when somebody moved the row meanwhile, or nothing is
// known: it has to be read again.
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

// accountLives says whether the owner's account was erased: what of it is still
// there is on its way out (ST14).
func (t *try) accountLives(ctx context.Context, owner mayfly.UserID) error {
	if owner.IsZero() {
		return nil
	}
	found, err := t.set.Rows.Get(ctx, engine.Erased, engine.ErasedKey(owner))
	if err != nil {
		return fmt.Errorf("look for the owner's tombstone: %w", err)
	}
	if found[0] != nil {
		return mayfly.Errorf(mayfly.Gone, "the account of its owner was erased").WithHint("what is erased does not come back")
	}
	return nil
}

// remind makes durable, before anything else, what ends the restore again, what
// tells of it should this process not come so far, and the restored set's entry:
// an entry for a row that does not serve changes no answer.
func (t *try) remind(ctx context.Context, id mayfly.ID) error {
	if t.reminded {
		return nil
	}
	var b store.Batch
	for _, due := range []mayfly.Instant{t.soon(t.now), max(t.until, t.soon(t.now))} {
		remind.Write(&b, remind.Reminder{Due: due, ID: id, Step: remind.Expire, Reason: "restored until " + t.until.String()})
	}
	b.Then() // an entry without a reminder would stay
	putRestored(&b, id, t.until)
	if err := t.set.Writer.Commit(ctx, &b); err != nil {
		return fmt.Errorf("write its reminder: %w", err)
	}
	t.reminded = true
	return nil
}

// expire does what the sweep has not come to yet, as the sweep does it: should
// the event be lost here, the sweep tells it again.
func (t *try) expire(ctx context.Context, item mayfly.Item) (mayfly.Item, bool, error) {
	current, mine, err := t.transition(ctx, walk.Compose(item, mayfly.Change{To: mayfly.ExpiredHot, Cause: mayfly.ByExpiry, At: t.now}))
	if err != nil || !mine {
		return current, false, err
	}
	if err := t.set.Log.Append(ctx, mayfly.EventOf(current, mayfly.WasExpired)); err != nil {
		return current, false, fmt.Errorf("tell that it expired: %w", err)
	}
	return current, true, nil
}

func (t *try) change(item mayfly.Item, next mayfly.Generation) mayfly.Change {
	c := mayfly.Change{To: mayfly.Active, Nonce: t.nonce, Cause: mayfly.BySupport, At: t.now, ServesUntil: t.until}
	if item.Media > 0 {
		c.Keys = &mayfly.Keys{Hot: next, Cold: item.Keys.Cold}
	}
	return walk.Compose(item, c)
}

// unlessMoved is nil if the row has moved since: then err is no wonder, and the
// row has to be read again.
func (t *try) unlessMoved(ctx context.Context, item mayfly.Item, err error) error {
	current, readErr := t.row(ctx, item.ID)
	if readErr == nil && current.Generation != item.Generation {
		return nil
	}
	return err
}

// copyAll copies every medium to hot, under keys that only this generation has,
// and reads each copy back.
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

// copyMedium takes the hot copy, or the cold one where hot is not named, is
// being erased right now, or is not what was uploaded.
func (t *try) copyMedium(ctx context.Context, item mayfly.Item, medium mayfly.Medium, n int, next mayfly.Generation) error {
	err := error(mayfly.Errorf(mayfly.Corrupt, "the row of %s names no copy of its media", item.ID))
	to := item.MediaKey(next, n)
	for _, from := range []struct {
		tier store.Blobs
		as   mayfly.Generation
	}{{t.set.Hot, item.Keys.Hot}, {t.set.Cold, item.Keys.Cold}} {
		if from.as == 0 {
			continue
		}
		if _, err = from.tier.CopyTo(ctx, t.set.Hot, item.MediaKey(from.as, n), to); err == nil {
			_, err = store.ReadBack(ctx, t.set.Hot, to, medium)
		}
		if err == nil {
			return nil
		}
	}
	return err
}

// dropCopies deletes the copies of a round that came too late: the row has
// passed their generation and does not name them, so that nothing ever will. As
// long as the row has not passed it they stay: the change may still land, or be
// somebody else's who copies to the same keys.
func (t *try) dropCopies(ctx context.Context, current mayfly.Item, g mayfly.Generation) error {
	if current.Generation < g || current.Keys.Hot == g || current.Held {
		return nil
	}
	if err := t.set.Hot.Delete(ctx, keysOf(current, g)...); err != nil {
		return fmt.Errorf("delete the copies of a generation that is not the row's: %w", err)
	}
	return nil
}

// recopy looks for the copies once more: a cleaner that was slow may have taken
// them for those of a restore that had failed.
func (t *try) recopy(ctx context.Context, item mayfly.Item) error {
	for n, medium := range t.body.Media {
		_, err := t.set.Hot.Stat(ctx, item.MediaKey(item.Keys.Hot, n))
		if errors.Is(err, mayfly.NotFound) {
			err = t.copyMedium(ctx, t.before, medium, n, item.Keys.Hot)
		}
		if err != nil {
			return fmt.Errorf("look for medium %d once more: %w", n, err)
		}
	}
	return nil
}

// conclude makes a row that serves again known: to the restored set, in case a
// cleaner has just taken the entry out, to the caches, to the log.
func (t *try) conclude(ctx context.Context, item mayfly.Item) error {
	if err := t.recopy(ctx, item); err != nil {
		return err
	}
	until, err := t.restoredUntil(ctx, item.ID)
	if err != nil {
		return err
	}
	if until[0] == 0 {
		var b store.Batch
		putRestored(&b, item.ID, t.until)
		if err := t.set.Writer.Commit(ctx, &b); err != nil {
			return fmt.Errorf("write the restored set: %w", err)
		}
	}
	t.tell(ctx, of(item.ID, store.RestoredSet, store.RowChanged)...)
	// An append that fails takes nothing back: the reminder tells it again.
	_ = t.set.Log.Append(ctx, restoredEvent(item))
	return nil
}

// restoredEvent is the same event however often the row was held and released
// since: the restore's generation is in the name of its media.
func restoredEvent(item mayfly.Item) mayfly.Event {
	e := mayfly.EventOf(item, mayfly.WasRestored)
	if item.Keys.Hot > mayfly.Born {
		e.Generation = item.Keys.Hot
	}
	return e
}

// keysOf are the object keys of an item's media at a generation.
func keysOf(item mayfly.Item, g mayfly.Generation) []mayfly.BlobKey {
	keys := make([]mayfly.BlobKey, item.Media)
	for n := range keys {
		keys[n] = item.MediaKey(g, n)
	}
	return keys
}
