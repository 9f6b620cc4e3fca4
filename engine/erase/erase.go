// Package erase is in charge of the end of an item in both tiers: deletes, the
// erasing of what is deleted, its tombstone, orphans, the scrubbing of cold
// copies, and whole accounts.
//
// Deleted wins every race and stays (I7, I8). Bytes go only of a row just read
// that is deleted and not held (I12, I21), or when no row can ever name them
// (I15). The body goes last: while it is there something may be left to erase.
package erase

import (
	"context"
	"fmt"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/store"
)

// Options are the settings of an Erase.
type Options struct {
	RemindAfter time.Duration // how far ahead a reminder is written; default 2 min
	Tombstone   time.Duration // how long a deleted row stays (L13); default 30 days
	Slack       time.Duration // how late a deletion may come for the tidy walk to find it; default 1 day
	Timeout     time.Duration // of one deletion, so that its reminder comes after it; default half of RemindAfter
	Settle      time.Duration // after so long no birth is in flight any more (L4); default 1 min
	HeldEvery   time.Duration // how often an erased account is looked at again for what was held; default 1 day

	Audit     *audit.Log  // of account erasure and orphans; those are refused without it
	Deletions store.Blobs // the deletion ledger: kept outside backups, and outlives them (ST14); accounts are refused without it
}

const day = 24 * time.Hour

func (o Options) withDefaults() (Options, error) {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&o.RemindAfter, mayfly.DefaultRemindAfter)
	def(&o.Timeout, o.RemindAfter/2)
	def(&o.Tombstone, mayfly.DefaultTombstone)
	def(&o.Slack, day)
	def(&o.Settle, time.Minute)
	def(&o.HeldEvery, day)
	if o.RemindAfter < 0 || o.Timeout < 0 || o.Tombstone < 0 || o.Slack < 0 || o.Settle < 0 || o.HeldEvery < 0 {
		return o, mayfly.Errorf(mayfly.Invalid, "erase: a setting is out of range: %+v", o)
	}
	return o, nil
}

// Erase ends items. Safe for concurrent use.
type Erase struct {
	set store.Set
	o   Options
}

// New is an eraser over set.
func New(set store.Set, o Options) (*Erase, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Erase{set: set, o: o}, nil
}

// Remind adds to a batch what brings a deletion back until it is finished,
// whoever deletes: the erasing, and, where the tidy walk will have passed before
// the tombstone may go, the tidying (L13). The batch is durable before the deed
// (L15); releasing a deleted item is such a deed too.
func (e *Erase) Remind(b *store.Batch, id mayfly.ID, reason string, now mayfly.Instant) {
	remind.Write(b, remind.Reminder{Due: now.Add(e.o.RemindAfter), ID: id, Step: remind.Erase, Reason: reason})
	if !id.Expires() || now > id.Deadline().Add(e.o.Slack) {
		remind.Write(b, e.tidyReminder(id, now))
	}
}

// tidyReminder reminds of the tombstone of what was last changed at changed. It
// is the same row whoever writes it.
func (e *Erase) tidyReminder(id mayfly.ID, changed mayfly.Instant) remind.Reminder {
	return remind.Reminder{Due: changed.Add(e.o.Tombstone + e.o.Slack), ID: id, Step: remind.Tidy, Reason: "deleted after the tidy walk's time"}
}

// read reads one row.
func (e *Erase) read(ctx context.Context, id mayfly.ID) (mayfly.Item, error) {
	found, err := e.set.Ledger.Get(ctx, id)
	if err != nil {
		return mayfly.Item{}, fmt.Errorf("read the row: %w", err)
	}
	if !found[0].Found {
		return mayfly.Item{}, mayfly.Errorf(mayfly.NotFound, "there is no item %s", id)
	}
	return found[0].Item, nil
}

func ids(items []mayfly.Item) []mayfly.ID {
	all := make([]mayfly.ID, len(items))
	for i, item := range items {
		all[i] = item.ID
	}
	return all
}
