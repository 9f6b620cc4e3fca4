package erase

import (
	"context"
	"fmt"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// The names of the tidy walks.
const (
	TidyName      = "tidy"
	TidyAfterName = "tidy-after-retire"
)

// Tidy returns the walk that removes the tombstones of items that were deleted up
// to a day (Slack) after their deadline (L13).
func (e *Erase) Tidy() walk.Walk {
	return walk.Walk{Name: TidyName, Offset: e.o.Tombstones.Kept + e.o.Tombstones.Slack, Act: e.TidyAct, Park: parkTidy}
}

// TidyAfter returns the same walk for items that are retired so long after their
// deadline.
func (e *Erase) TidyAfter(retire time.Duration) walk.Walk {
	return walk.Walk{Name: TidyAfterName, Offset: retire + e.o.Tombstones.Kept + e.o.Tombstones.Slack, Act: e.TidyAct, Park: parkTidy}
}

func parkTidy(b *store.Batch, f walk.Failure, due mayfly.Instant) {
	remind.Write(b, remind.Reminder{Due: due, ID: f.Item.ID, Step: remind.Tidy, Tries: 1, Reason: fmt.Sprint(f.Err)})
}

// TidyAct removes tombstones that are old enough. The walks and the reminders call
// it. For one that is not old enough, because it was released or a walk came late,
// it writes the reminder that its deletion wrote, which is the same row. A held
// item waits for its release.
func (e *Erase) TidyAct(ctx context.Context, b walk.Batch) ([]walk.Failure, error) {
	deleted, err := e.deleted(ctx, b.Items)
	if err != nil {
		return nil, fmt.Errorf("tidy: %w", err)
	}
	rows := erasable(deleted)
	if failures, err := e.Act(ctx, walk.Batch{Items: rows, Now: b.Now, Repeat: true}); err != nil || len(failures) > 0 {
		return failures, err
	}
	var over []mayfly.ID
	var later store.Batch
	for _, row := range rows {
		if e.over(row, b.Now) {
			over = append(over, row.ID)
		} else if r := e.tidyReminder(row.ID, row.Changed); r.Due >= b.Now.Add(e.o.RemindAfter) {
			remind.Write(&later, r)
		}
	}
	if len(later.Stages()) > 0 {
		if err := e.set.Writer.Commit(ctx, &later); err != nil {
			return nil, fmt.Errorf("tidy: write reminders: %w", err)
		}
	}
	if err := e.set.Ledger.Remove(ctx, over...); err != nil {
		return nil, fmt.Errorf("tidy: remove %d tombstones: %w", len(over), err)
	}
	return nil, nil
}

// over reports whether the tombstone is old enough, counted from the deadline and
// from the deletion (L13).
func (e *Erase) over(row mayfly.Item, now mayfly.Instant) bool {
	return max(row.Changed, row.ID.Deadline()).Add(e.o.Tombstones.Kept) <= now
}
