package restore

import (
	"context"
	"fmt"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// Hold hides an item from all users except moderators and stops every erasing step
// on it until it is released (L16). Holding a held item changes its row again, so
// that a failed release that lands late no longer matches the row.
// Errors: Invalid, NotFound, Gone (it is deleted), Unavailable, Unknown.
func (r *Restore) Hold(ctx context.Context, id mayfly.ID, by audit.Actor, reason string, now mayfly.Instant) error {
	return r.holding(ctx, id, audit.Entry{Actor: by, Verb: audit.Hold, Reason: reason}, mayfly.SetHold, now)
}

// Release ends a hold. The walks may have passed the item meanwhile, so reminders
// run the steps that it missed. Releasing an item that is not held does nothing.
// Errors: Invalid, NotFound, Unavailable, Unknown.
func (r *Restore) Release(ctx context.Context, id mayfly.ID, by audit.Actor, reason string, now mayfly.Instant) error {
	return r.holding(ctx, id, audit.Entry{Actor: by, Verb: audit.Release, Reason: reason}, mayfly.ReleaseHold, now)
}

func (r *Restore) holding(ctx context.Context, id mayfly.ID, intent audit.Entry, hold mayfly.Holding, now mayfly.Instant) error {
	intent.Subject.Item = id
	return r.audited(ctx, intent, now, func(ctx context.Context) (string, error) {
		detached, cancel := r.detached(ctx)
		defer cancel()
		return "", r.setHold(detached, id, hold, now)
	})
}

// setHold changes the hold of an item: it writes the reminders, then the row, then
// sends signals and events (L15).
func (r *Restore) setHold(ctx context.Context, id mayfly.ID, hold mayfly.Holding, now mayfly.Instant) error {
	nonce, doubt := walk.NewNonce(), false
	for range rounds {
		item, err := r.row(ctx, id)
		if err != nil {
			return err
		}
		if !item.Held && hold == mayfly.ReleaseHold {
			return r.announceHold(ctx, item)
		}
		if hold == mayfly.SetHold && item.State == mayfly.Deleted && !item.Held {
			return mayfly.Errorf(mayfly.Gone, "%s is deleted", id).WithHint("deleted items cannot be held: their media may be erased already")
		}
		if err := r.remindOfHold(ctx, item, hold, now); err != nil {
			return fmt.Errorf("write its reminders: %w", err)
		}
		current, mine, err := r.transition(ctx, walk.Compose(item, mayfly.Change{
			To: item.State, Nonce: nonce, Cause: mayfly.BySupport, At: now, Hold: hold,
		}))
		if err != nil {
			r.notify(ctx, of(id, store.RowChanged)...) // it may have been changed nevertheless
			return err
		}
		if mine && hold == mayfly.ReleaseHold {
			r.leaveHeld(ctx, item)
		}
		if mine {
			return r.announceHold(ctx, current)
		}
		doubt = doubt || current.Generation == item.Generation
	}
	r.notify(ctx, of(id, store.RowChanged)...)
	return gaveUp(id, doubt)
}

// announceHold announces the current row to caches and log. When it returns without
// an error, no cache shows a held item any more.
func (r *Restore) announceHold(ctx context.Context, item mayfly.Item) error {
	if !item.Held {
		r.notify(ctx, of(item.ID, store.RowChanged)...)
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.o.Timeout+store.CacheWait)
	defer cancel()
	if err := store.Invalidate(ctx, r.set.Signals, of(item.ID, store.RowChanged)...); err != nil { // ST5
		return err
	}
	// A failed write undoes nothing: the reminder does both again.
	var b store.Batch
	engine.LeaveRings(&b, item)
	_ = r.set.Writer.Commit(ctx, &b)
	_ = r.set.Log.Append(ctx, mayfly.EventOf(item, mayfly.WasHeld))
	return nil
}

// leaveHeld takes an item whose hold has ended out of the list, and tells the product. A
// failure undoes nothing: TidyHeld removes the entry later, and the product looks again.
func (r *Restore) leaveHeld(ctx context.Context, held mayfly.Item) {
	var b store.Batch
	b.Delete(engine.Held, engine.HeldKey(held))
	_ = r.set.Writer.Commit(ctx, &b)
	if r.o.Released != nil {
		r.o.Released(ctx, held)
	}
}

// remindOfHold writes the reminders that announce a hold, or that run each step a
// released item missed while it was held. They are due when the change of the row
// has certainly ended, and once more for a change that lands late.
func (r *Restore) remindOfHold(ctx context.Context, item mayfly.Item, hold mayfly.Holding, now mayfly.Instant) error {
	soon := r.soon(now)
	var b store.Batch
	write := func(step remind.Step, due mayfly.Instant, reason string) {
		for _, earliest := range []mayfly.Instant{soon, soon.Add(lateLook)} {
			remind.Write(&b, remind.Reminder{Due: max(due, earliest), ID: item.ID, Step: step, Reason: reason})
		}
	}
	if hold == mayfly.SetHold {
		held := item
		held.Hold = mayfly.Stamp{Generation: item.Generation + 1, At: max(item.Changed, now)}
		engine.AddToHeld(&b, held)
		write(remind.Expire, soon, "held")
		return r.set.Writer.Commit(ctx, &b)
	}
	if !item.ID.ExpiredAt(now) && item.State != mayfly.Deleted {
		engine.AddToRings(&b, item) // before it serves, which its row decides
	}
	const why = "released"
	write(remind.Expire, soon, why) // for leftovers of a restore, and for an item that has ended by then
	switch item.State {
	case mayfly.Active:
		write(remind.Expire, item.End(), why)
	case mayfly.ExpiredHot, mayfly.Archiving:
		write(remind.Archive, item.End().Add(r.o.Window), why)
	case mayfly.Deleted:
		write(remind.Erase, soon, why)
		write(remind.Tidy, r.o.Tombstones.Due(max(item.ID.Deadline(), now)), why)
	}
	if item.State != mayfly.Deleted && r.o.Retention > 0 { // after the archive, if that is still to come
		write(remind.Retire, max(item.End().Add(r.o.Retention), soon.Add(r.o.Window)), why)
	}
	return r.set.Writer.Commit(ctx, &b)
}
