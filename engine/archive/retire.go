package archive

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// RetireName is the name of the walk of Retire.
const RetireName = "retire"

// RetireOptions are the settings of Retire.
type RetireOptions struct {
	After  time.Duration // how long after its deadline an item is deleted; 0 is never
	Window time.Duration // of the archive: a restored item is retired so long after its end; default mayfly.DefaultArchiveAfter
	Remind time.Duration // how far ahead a reminder is at least; default mayfly.DefaultRemindAfter
	Erase  walk.Act      // as in Options

	Tombstones remind.Tombstones
}

// Retire deletes items whose time in cold storage is over (L13).
type Retire struct {
	set store.Set
	o   RetireOptions
}

// NewRetire returns a Retire over set. Errors: Invalid.
func NewRetire(set store.Set, o RetireOptions) (*Retire, error) {
	o.Window = cmp.Or(o.Window, mayfly.DefaultArchiveAfter)
	o.Remind = cmp.Or(o.Remind, mayfly.DefaultRemindAfter)
	if o.Erase == nil {
		o.Erase = noEraser
	}
	var err error
	if o.Tombstones, err = o.Tombstones.WithDefaults(); err != nil {
		return nil, fmt.Errorf("retire: %w", err)
	}
	if o.Window < 0 || o.Remind < 0 || o.After < 0 || o.After > 0 && o.After <= o.Window {
		return nil, mayfly.Errorf(mayfly.Invalid, "retire: %s after the deadline is not after the archive's window of %s, or a reminder is %s ahead", o.After, o.Window, o.Remind)
	}
	return &Retire{set: set, o: o}, nil
}

// Walk returns Retire as a walk; ok is false when items are kept forever.
func (r *Retire) Walk() (w walk.Walk, ok bool) {
	return walk.Walk{Name: RetireName, Offset: r.o.After, Behind: Name, Act: r.Act, Park: parkAs(remind.Retire)}, r.o.After > 0
}

// Act retires a batch, for the walk and for reminders.
func (r *Retire) Act(ctx context.Context, b walk.Batch) ([]walk.Failure, error) {
	var rows, before []mayfly.Item
	var later store.Batch
	for _, item := range b.Items {
		switch {
		case !r.over(item, b.Now):
			// The retention was made longer after the reminder was written: the walk will come.
		case item.State == mayfly.Active:
			remind.Write(&later, remind.Reminder{Due: r.later(item, b.Now), ID: item.ID, Step: remind.Retire, Reason: "restored, or waiting for the sweep"})
		case ended(item, mayfly.ByRetention) && again(item, b):
			before = append(before, item)
		case retirable(item, b.Now):
			rows = append(rows, item)
		}
	}
	if len(later.Stages()) > 0 {
		if err := r.set.Writer.Commit(ctx, &later); err != nil {
			return nil, fmt.Errorf("retire: write reminders for restored items: %w", err)
		}
	}
	e := ending{set: r.set, erase: r.o.Erase, by: mayfly.ByRetention, tombstones: r.o.Tombstones, walked: r.o.After}
	failures, err := e.end(ctx, b, rows, before)
	if err != nil {
		return nil, fmt.Errorf("retire: %w", err)
	}
	return failures, nil
}

// over reports by the id whether the item's retention is over (L14).
func (r *Retire) over(item mayfly.Item, now mayfly.Instant) bool {
	return r.o.After > 0 && item.ID.ExpiredAt(now) && now >= item.ID.Deadline().Add(r.o.After)
}

// later returns when a restored item may be retired: after its end and after the
// archive has handled it.
func (r *Retire) later(item mayfly.Item, now mayfly.Instant) mayfly.Instant {
	return max(item.End().Add(r.o.Window), now.Add(max(r.o.Window, r.o.Remind)))
}

// retirable reports whether the row may be deleted: it has ended and is not held (I21).
func retirable(item mayfly.Item, now mayfly.Instant) bool {
	switch item.State {
	case mayfly.Cold, mayfly.ExpiredHot, mayfly.Archiving:
		return !item.Held && item.EndedAt(now)
	default:
		return false
	}
}
