package storetest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

func logCases() []testCase {
	return []testCase{
		{"an event is read back completely", eventReadBack},
		{"an event about a user is read back completely and in order", userEventReadBack},
		{"events of an item in one call keep their order", orderInOneCall},
		{"events of an item in successive calls keep their order", orderAcrossCalls},
		{"events of an item through batches and calls keep their order", orderThroughBatches},
		{"appending nothing is no error", appendNothing},
		{"an incomplete event is refused", badEventRefused},
		{"births and ends are separate streams", streamsApart},
		{"a new group starts at the oldest event", newGroupAtOldest},
		{"groups are independent", groupsIndependent},
		{"records that were not committed are read again", uncommittedAgain},
		{"a reader opened again starts after the commit", committedResumes},
		{"next returns at most its limit and skips nothing", nextLimit},
		{"next waits for an event", nextWakes},
		{"next waits for an event of a batch", nextWakesForBatch},
		{"next ends with its context", nextEndsWithContext},
		{"seek moves to the first event at or after the instant", seekByTime},
		{"seek works when instants are out of order", seekOutOfOrder},
		{"seek to zero moves to the oldest event", seekToOldest},
		{"a seek is durable only when committed", seekCommitted},
		{"lag counts the records that are waiting", lagCounts},
		{"trim never deletes a younger event", trimKeepsYounger},
		{"no event is skipped under sixteen appenders", appendersTogether},
	}
}

func eventReadBack(c *trial) {
	r := c.reader(mayfly.Ends, freshName("whole"))
	var want []mayfly.Event
	for verb := mayfly.WasExpired; verb <= mayfly.WasHeld; verb++ {
		for product := mayfly.Story; product <= mayfly.Post; product++ {
			item := freshBirth().Item
			item.Product = product
			e := news(item, verb)
			e.Generation = mayfly.Generation(1<<31 + uint32(verb))
			want = append(want, e)
		}
	}
	anonymous := freshBirth().Item
	anonymous.Owner = mayfly.UserID{}
	want = append(want, news(anonymous, mayfly.WasDeleted))
	c.append(want...)
	r.wantInOrder(want...)
}

// Events about users are mixed with those about items, through calls and batches. An
// event about neither a user nor an item is refused.
func userEventReadBack(c *trial) {
	r := c.reader(mayfly.Ends, freshName("users"))
	var want []mayfly.Event
	for n := range 2 * mayfly.Shards {
		item := freshBirth().Item
		user := item.Owner
		user[15] = byte(n)
		deleted := mayfly.UserDeleted(user, wall())
		expired := news(item, mayfly.WasExpired)
		c.append(expired, deleted)
		c.commit(func(b *store.Batch) { b.Append(deleted) })
		want = append(want, expired, deleted, deleted)
	}
	r.wantInOrder(want...)
	about := want[1]
	for _, bad := range []mayfly.Event{
		{Verb: mayfly.WasDeleted, At: about.At},
		{Verb: mayfly.WasCreated, At: about.At, Owner: about.Owner},
		{Verb: mayfly.WasDeleted, At: about.At, Owner: about.Owner, Product: mayfly.Story},
	} {
		c.wantKind(mayfly.Invalid, c.set.Log.Append(c.ctx, bad))
	}
}

func orderInOneCall(c *trial) {
	r := c.reader(mayfly.Ends, freshName("order"))
	a, b := life(20), life(20)
	var mixed []mayfly.Event
	for i := range a {
		mixed = append(mixed, a[i], b[i])
	}
	c.append(mixed...)
	r.wantInOrder(mixed...)
}

func orderAcrossCalls(c *trial) {
	r := c.reader(mayfly.Ends, freshName("order"))
	events := life(20)
	for _, e := range events {
		c.append(e)
	}
	r.wantInOrder(events...)
}

func orderThroughBatches(c *trial) {
	r := c.reader(mayfly.Ends, freshName("order"))
	events := life(12)
	for i := 0; i < len(events); i += 4 {
		c.commit(func(b *store.Batch) {
			b.Append(events[i], events[i+1])
			b.Then()
			b.Append(events[i+2])
		})
		c.append(events[i+3])
	}
	r.wantInOrder(events...)
}

func appendNothing(c *trial) { c.append() }

func badEventRefused(c *trial) {
	r := c.reader(mayfly.Ends, freshName("bad"))
	good := life(1)[0]
	bad := mayfly.Event{ID: good.ID, Generation: 7}
	c.wantKind(mayfly.Invalid, c.set.Log.Append(c.ctx, good, bad))
	after := life(1)[0]
	c.append(after)
	r.wantInOrder(after)
	if r.saw(good) || r.saw(bad) {
		c.Errorf("a refused call appended an event")
	}
}

func streamsApart(c *trial) {
	births, ends := c.reader(mayfly.Births, freshName("apart")), c.reader(mayfly.Ends, freshName("apart"))
	item := freshBirth().Item
	created, expired := news(item, mayfly.WasCreated), news(item, mayfly.WasExpired)
	expired.Generation = 2
	c.append(created, expired)
	c.append(news(freshBirth().Item, mayfly.WasCreated), life(1)[0])
	births.wantInOrder(created)
	ends.wantInOrder(expired)
	births.drain()
	ends.drain()
	for _, e := range births.events {
		if e.Stream() != mayfly.Births {
			c.Errorf("the stream of births has %s", e.Type())
		}
	}
	for _, e := range ends.events {
		if e.Stream() != mayfly.Ends {
			c.Errorf("the stream of ends has %s", e.Type())
		}
	}
}

func newGroupAtOldest(c *trial) {
	events := life(3)
	c.append(events...)
	c.oldest(mayfly.Ends, freshName("new")).wantInOrder(events...)
}

func groupsIndependent(c *trial) {
	a, b := c.reader(mayfly.Ends, freshName("a")), c.reader(mayfly.Ends, freshName("b"))
	events := life(5)
	c.append(events...)
	a.wantInOrder(events...)
	a.commit()
	b.wantInOrder(events...)
}

func uncommittedAgain(c *trial) {
	group := freshName("again")
	r := c.reader(mayfly.Ends, group)
	r.drain()
	r.commit()
	events := life(4)
	c.append(events...)
	r.wantInOrder(events...)
	r.close()
	c.oldest(mayfly.Ends, group).wantInOrder(events...)
}

func committedResumes(c *trial) {
	group := freshName("resume")
	r := c.reader(mayfly.Ends, group)
	first, second := life(4), life(4)
	c.append(first...)
	r.wantInOrder(first...)
	r.drain()
	r.commit()
	r.close()
	c.append(second...)
	r = c.oldest(mayfly.Ends, group)
	r.wantInOrder(second...)
	for _, e := range first {
		if r.saw(e) {
			c.Errorf("generation %d was committed but is read again", e.Generation)
		}
	}
}

func nextLimit(c *trial) {
	r := c.reader(mayfly.Ends, freshName("limit"))
	r.drain()
	events := life(10)
	c.append(events...)
	for !r.saw(events[9]) {
		_, err := r.next(c.ctx, 3)
		c.must(err)
	}
	r.wantInOrder(events...)
}

func nextWakes(c *trial) {
	r := c.reader(mayfly.Ends, freshName("wake"))
	r.drain()
	r.nothingWaits()
	e := life(1)[0]
	done := make(chan error, 1)
	go func() { // Next usually waits already; it must return in any case
		_, err := r.r.Next(c.ctx, 1)
		done <- err
	}()
	c.append(e)
	if err := c.await(done); err != nil {
		c.Fatalf("Next did not return: %v", err)
	}
}

func nextWakesForBatch(c *trial) {
	r := c.reader(mayfly.Births, freshName("wake"))
	r.drain()
	birth := freshBirth()
	e := news(birth.Item, mayfly.WasCreated)
	done := make(chan error, 1)
	go func() {
		_, err := r.r.Next(c.ctx, 1)
		done <- err
	}()
	c.commit(func(b *store.Batch) {
		b.Insert(birth)
		b.Then()
		b.Append(e)
	})
	if err := c.await(done); err != nil {
		c.Fatalf("Next did not return: %v", err)
	}
}

func nextEndsWithContext(c *trial) {
	r := c.reader(mayfly.Ends, freshName("cancel"))
	r.drain()
	ctx, cancel := context.WithCancel(c.ctx)
	done := make(chan error, 1)
	go func() {
		_, err := r.r.Next(ctx, 1)
		done <- err
	}()
	cancel()
	if err := c.await(done); !errors.Is(err, context.Canceled) {
		c.Fatalf("a cancelled Next returns %v", err)
	}
	events := life(2) // nothing is lost
	c.append(events...)
	r.wantInOrder(events...)
}

func trimKeepsYounger(c *trial) {
	now := wall()
	old, young := life(4), life(8)
	for i := range old {
		old[i].At = now.Add(-40 * 24 * time.Hour)
	}
	for i := range young {
		young[i].At = now.Add(-30*24*time.Hour + time.Duration(i)*time.Hour) // the first is just old enough to stay
	}
	c.append(old...)
	c.append(young...)
	c.must(c.set.Log.Trim(c.ctx, now, 30*24*time.Hour))
	c.must(c.set.Log.Trim(c.ctx, now, 30*24*time.Hour))
	c.oldest(mayfly.Ends, freshName("trim")).wantInOrder(young...)
	after := life(1)
	c.append(after...)
	c.oldest(mayfly.Ends, freshName("trim")).wantInOrder(after...)
}

func seekByTime(c *trial) {
	r := c.oldest(mayfly.Ends, freshName("seek"))
	base := wall().Add(time.Hour) // after all events of other cases
	events := life(10)
	for i := range events {
		events[i].At = base.Add(time.Duration(i/2) * time.Second) // two at each instant
		c.append(events[i])
	}
	for i := range 5 {
		at := base.Add(time.Duration(i) * time.Second)
		for _, instant := range []mayfly.Instant{at, at - 999} {
			r.events, r.last = nil, map[uint32]uint64{}
			c.must(r.r.Seek(c.ctx, instant))
			r.wantInOrder(events[2*i:]...)
			for _, e := range events[:2*i] {
				if r.saw(e) {
					c.Errorf("after a seek to %s an event of %s is read", instant, e.At)
				}
			}
		}
	}
	c.must(r.r.Seek(c.ctx, base.Add(24*time.Hour)))
	if n := r.lag(); n != 0 {
		c.Errorf("after a seek to the end %d records are waiting", n)
	}
}

// An event has the instant of its row, so that an event that is appended late comes
// after younger ones.
func seekOutOfOrder(c *trial) {
	r := c.oldest(mayfly.Ends, freshName("seek"))
	for n, seconds := range [][]int{{0, 5, 2, 7, 1, 9}, {0, 9, 1, 2, 3, 4}} { // the second misleads a binary search
		base := wall().Add(2*time.Hour + time.Duration(n)*time.Minute)
		events := life(len(seconds))
		for i, at := range seconds {
			events[i].At = base.Add(time.Duration(at) * time.Second)
		}
		c.append(events...)
		for at := 1; at <= 9; at++ {
			first := slices.IndexFunc(seconds, func(s int) bool { return s >= at })
			r.events, r.last = nil, map[uint32]uint64{}
			c.must(r.r.Seek(c.ctx, base.Add(time.Duration(at)*time.Second)))
			r.wantInOrder(events[first:]...)
			if r.saw(events[first-1]) {
				c.Errorf("a seek to second %d begins before the first event at or after it", at)
			}
		}
	}
}

func seekToOldest(c *trial) {
	r := c.oldest(mayfly.Ends, freshName("seek"))
	events := life(5)
	c.append(events...)
	r.wantInOrder(events...)
	r.events, r.last = nil, map[uint32]uint64{}
	c.must(r.r.Seek(c.ctx, 0))
	r.wantInOrder(events...)
}

func seekCommitted(c *trial) {
	group := freshName("seek")
	events := life(3)
	c.append(events...)
	r := c.reader(mayfly.Ends, group)
	r.wantInOrder(events...)
	r.drain()
	r.commit()
	c.must(r.r.Seek(c.ctx, 0)) // not committed
	r.close()
	r = c.oldest(mayfly.Ends, group)
	if n := r.lag(); n != 0 {
		c.Errorf("a seek that was not committed moved the group: %d records are waiting", n)
	}
	c.must(r.r.Seek(c.ctx, 0))
	r.commit()
	r.close()
	c.oldest(mayfly.Ends, group).wantInOrder(events...)
}

func lagCounts(c *trial) {
	r := c.reader(mayfly.Ends, freshName("lag"))
	r.drain()
	c.append(life(5)...)
	if n := r.lag(); n != 5 {
		c.Errorf("5 events are waiting, the lag is %d", n)
	}
	records, err := r.next(c.ctx, 2)
	c.must(err)
	if n := r.lag(); n != int64(5-len(records)) {
		c.Errorf("5 events less %d are waiting, the lag is %d", len(records), n)
	}
	r.drain()
	if n := r.lag(); n != 0 {
		c.Errorf("nothing is waiting, the lag is %d", n)
	}
}

func appendersTogether(c *trial) {
	const appenders, each = 16, 40
	r := c.reader(mayfly.Ends, freshName("together"))
	lives := make([][]mayfly.Event, appenders)
	var all []mayfly.Event
	waiting := map[mayfly.Event]bool{}
	for i := range lives {
		lives[i] = life(each)
		all = append(all, lives[i]...)
		for _, e := range lives[i] {
			waiting[e] = true
		}
	}
	ctx, stop := context.WithCancel(c.ctx)
	defer stop()
	read := make(chan error, 1)
	go func() {
		read <- func() error {
			for len(waiting) > 0 {
				records, err := r.r.Next(ctx, 50)
				if err != nil {
					return err
				}
				for _, rec := range records {
					r.events = append(r.events, rec.Event)
					delete(waiting, rec.Event)
				}
				if err := r.r.Commit(ctx); err != nil {
					return err
				}
			}
			return nil
		}()
	}()
	together(appenders, func(i int) {
		for n, e := range lives[i] {
			if n%3 == 0 {
				if err := c.set.Log.Append(c.ctx, e); err != nil {
					c.Errorf("appender %d: %v", i, err)
				}
			} else if err := c.set.Writer.Commit(c.ctx, batchOf(e)); err != nil {
				c.Errorf("appender %d: %v", i, err)
			}
		}
	})
	if c.Failed() {
		stop()
	}
	if err := c.await(read); err != nil {
		c.Fatalf("%d of %d events were skipped: %v", len(waiting), len(all), err)
	}
	r.wantItemOrder(all)
}
