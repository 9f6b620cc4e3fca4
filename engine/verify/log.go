package verify

import (
	"context"
	"errors"
	"fmt"

	"github.com/mayflyhq/mayfly"
)

// log reads every event that is kept. It commits nothing: the group stays where
// it is.
func (c *check) log(ctx context.Context) error {
	if c.o.Group == "" {
		return nil
	}
	same := map[mayfly.EventKey]mayfly.Event{}
	for _, stream := range []mayfly.Stream{mayfly.Births, mayfly.Ends} {
		if err := c.stream(ctx, stream, same); err != nil {
			return fmt.Errorf("read %s: %w", stream, err)
		}
	}
	return nil
}

func (c *check) stream(ctx context.Context, stream mayfly.Stream, same map[mayfly.EventKey]mayfly.Event) (err error) {
	r, err := c.set.Log.Reader(ctx, stream, c.o.Group)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if err := r.Seek(ctx, 0); err != nil {
		return err
	}
	for {
		lag, err := r.Lag(ctx)
		if err != nil || lag == 0 {
			return err
		}
		records, err := r.Next(ctx, 10_000)
		if err != nil {
			return err
		}
		for _, record := range records {
			c.event(record.Event, same)
		}
	}
}

// event keeps one event of each key: events arrive at least once (I13).
func (c *check) event(e mayfly.Event, same map[mayfly.EventKey]mayfly.Event) {
	c.report.Events++
	if e.AboutUser() {
		return
	}
	other, again := same[e.Key()]
	switch {
	case again && other != e:
		c.find(Double, e.ID, "two different events %s of generation %d: %+v and %+v", e.Type(), e.Generation, other, e)
		return
	case again:
		return
	case e.Verb == mayfly.WasExpired && e.ID.Expires() && e.At < e.ID.Deadline():
		c.find(Early, e.ID, "the log has its expiry at %s, before its deadline %s", e.At, e.ID.Deadline())
	}
	same[e.Key()] = e
	c.logged[e.ID] = append(c.logged[e.ID], e)
}

// events compares a row with the events about it.
func (c *check) events(item mayfly.Item) {
	if c.o.Group == "" {
		return
	}
	count := map[mayfly.Verb]int{}
	for _, e := range c.logged[item.ID] {
		count[e.Verb]++
		if e.Generation > item.Generation {
			c.find(Resurrected, item.ID, "the log has %s of generation %d, and the row has %d", e.Type(), e.Generation, item.Generation)
		}
	}
	lives := 1 + count[mayfly.WasRestored]
	if count[mayfly.WasExpired] > lives || count[mayfly.WasArchived] > lives {
		c.find(Double, item.ID, "the log has %d expiries, %d archivings and %d restores of it", count[mayfly.WasExpired], count[mayfly.WasArchived], lives-1)
	}
	var e Expected
	if c.o.Record != nil {
		known := false
		if e, known = c.o.Record.Items[item.ID]; !known {
			return // its birth may have been cut off anywhere
		}
	}
	ends := max(1, e.Ends)
	switch {
	case item.State == mayfly.Cold && (count[mayfly.WasExpired] < ends || count[mayfly.WasArchived] < ends):
		c.find(Lost, item.ID, "it is cold, and the log has %d expiries and %d archivings of it", count[mayfly.WasExpired], count[mayfly.WasArchived])
	case item.State == mayfly.Deleted && e.Deleted == Yes && item.Cause == mayfly.ByUser && count[mayfly.WasDeleted] == 0:
		c.find(Lost, item.ID, "its delete was acknowledged, and the log does not have it")
	case item.Held && count[mayfly.WasHeld] == 0:
		c.find(Lost, item.ID, "it is held, and the log does not have that")
	}
}
