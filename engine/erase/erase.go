// Package erase ends single items in both tiers: it deletes them, erases what a
// deleted item leaves behind, and removes its tombstone in the end.
//
// Deleted wins every race and is final (I7, I8). Bytes are erased only when the
// row was just read, is deleted and is not held (I12, I21). The body goes last:
// while it exists, something may be left to erase.
package erase

import (
	"cmp"
	"fmt"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/store"
)

// Options are the settings of an Erase.
type Options struct {
	RemindAfter time.Duration // how far ahead a reminder is written; default mayfly.DefaultRemindAfter
	Tombstones  remind.Tombstones
	Timeout     time.Duration // of one deletion, shorter than RemindAfter; default half of RemindAfter
}

func (o Options) withDefaults() (Options, error) {
	o.RemindAfter = cmp.Or(o.RemindAfter, mayfly.DefaultRemindAfter)
	o.Timeout = cmp.Or(o.Timeout, o.RemindAfter/2)
	var err error
	if o.Tombstones, err = o.Tombstones.WithDefaults(); err != nil {
		return o, fmt.Errorf("erase: %w", err)
	}
	if o.RemindAfter < 0 || o.Timeout < 0 {
		return o, mayfly.Errorf(mayfly.Invalid, "erase: a setting is negative: %+v", o)
	}
	return o, nil
}

// Erase ends items. Safe for concurrent use.
type Erase struct {
	set store.Set
	o   Options
}

// New returns an Erase over set.
func New(set store.Set, o Options) (*Erase, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Erase{set: set, o: o}, nil
}

// Remind adds to a batch the reminders that bring a deletion to its end after a
// crash: one to erase the item and, if the tidy walk will have passed by the time
// the tombstone may be removed, one to tidy (L13). The batch must be durable
// before the item is deleted, or released when it is deleted already (L15).
func (e *Erase) Remind(b *store.Batch, id mayfly.ID, reason string, now mayfly.Instant) {
	remind.Write(b, remind.Reminder{Due: now.Add(e.o.RemindAfter), ID: id, Step: remind.Erase, Reason: reason})
	if !id.Expires() || now > id.Deadline().Add(e.o.Tombstones.Slack) {
		remind.Write(b, e.tidyReminder(id, now))
	}
}

// tidyReminder returns the reminder for the tombstone of an item that was last
// changed at changed. The same arguments give the same row.
func (e *Erase) tidyReminder(id mayfly.ID, changed mayfly.Instant) remind.Reminder {
	return remind.Reminder{Due: e.o.Tombstones.Due(changed), ID: id, Step: remind.Tidy, Reason: "deleted after the tidy walk passed"}
}
