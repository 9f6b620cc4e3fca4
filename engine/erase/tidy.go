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

// The tidy walks' names among the walks.
const (
	TidyName      = "tidy"
	TidyAfterName = "tidy-after-retire"
)

// Tidy is the walk that removes the tombstones of what was deleted up to a day
// (Slack) after its deadline (L13).
func (e *Erase) Tidy() walk.Walk {
	return walk.Walk{Name: TidyName, Offset: e.o.Tombstone + e.o.Slack, Act: e.TidyAct, Park: parkTidy}
}

// TidyAfter is Tidy once more, behind the walk that retires items so long after
// their deadline.
func (e *Erase) TidyAfter(retire time.Duration) walk.Walk {
	return walk.Walk{Name: TidyAfterName, Offset: retire + e.o.Tombstone + e.o.Slack, Act: e.TidyAct, Park: parkTidy}
}

func parkTidy(b *store.Batch, f walk.Failure, due mayfly.Instant) {
	remind.Write(b, remind.Reminder{Due: due, ID: f.Item.ID, Step: remind.Tidy, Tries: 1, Reason: fmt.Sprint(f.Err)})
}

// TidyAct removes the tombstones whose time is over. It is the walks' act and
// what a reminder does. One whose time is not over gets the reminder that its
// deletion wrote, the same row: a release, or a walk that came late, has moved
// its time. What is held waits for its release.
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

// over says whether the tombstone has been there for its time: past the deadline
// and past the deletion (L13).
func (e *Erase) over(row mayfly.Item, now mayfly.Instant) bool {
	return max(row.Changed, row.ID.Deadline()).Add(e.o.Tombstone) <= now
}
