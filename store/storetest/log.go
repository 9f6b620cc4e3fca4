package storetest

import (
	"context"
	"errors"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

func logCases() []testCase {
	return []testCase{
		{"an event is read back whole", eventReadBack},
		{"an event about a user is read back whole and in order", userEventReadBack},
		{"events of an item in one call keep their order", orderInOneCall},
		{"events of an item in calls that follow each other keep their order", orderAcrossCalls},
		{"events of an item through batches and calls keep their order", orderThroughBatches},
		{"appending nothing is no error", appendNothing},
		{"an event that is not whole is refused", badEventRefused},
		{"births and ends are streams apart", streamsApart},
		{"a new group starts at the oldest event", newGroupAtOldest},
		{"groups are independent", groupsIndependent},
		{"what was not committed is read again", uncommittedAgain},
		{"a reader opened again starts behind what was committed", committedResumes},
		{"next returns at most its limit and skips nothing", nextLimit},
		{"next waits and wakes when an event comes", nextWakes},
		{"next wakes for an event of a batch", nextWakesForBatch},
		{"next ends with its context", nextEndsWithContext},
		{"seek moves to the first event at or after the instant", seekByTime},
		{"seek finds its place among instants that are out of order", seekOutOfOrder},
		{"seek to zero moves to the oldest event", seekToOldest},
		{"a seek is durable only when committed", seekCommitted},
		{"lag counts what is waiting", lagCounts},
		{"trim never forgets a younger event", trimKeepsYounger},
		{"no event is skipped under sixteen appenders", appendersTogether},
	}
}

func eventReadBack(c *trial) {
	r := c.reader(mayfly.Ends, freshName("whole"))
	var want []mayfly.Event
	for verb := mayfly.WasExpired; verb <= mayfly.WasHeld; verb++ {
		for sort := mayfly.Story; sort <= mayfly.Post; sort++ {
			item := freshBirth().Item
			item.Product, item.Generation = sort, mayfly.Generation(1<<31+uint32(verb))
			want = append(want, news(item, verb))
		}
	}
	nobody := freshBirth().Item
	nobody.Owner = mayfly.UserID{}
	want = append(want, news(nobody, mayfly.WasDeleted))
	c.append(want...)
	r.wantInOrder(want...)
}

// Events about users go among those about items, through calls and batches; what
// is neither about a user nor about an item is refused.
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
		c.Errorf("a refused call appended something")
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
			c.Errorf("the births carry %s", e.Type())
		}
	}
	for _, e := range ends.events {
		if e.Stream() != mayfly.Ends {
			c.Errorf("the ends carry %s", e.Type())
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
			c.Errorf("generation %d was committed and is read again", e.Generation)
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
	go func() { // most often Next is waiting already; either way it must return
		_, err := r.r.Next(c.ctx, 1)
		done <- err
	}()
	c.append(e)
	if err := c.await(done); err != nil {
		c.Fatalf("Next did not wake: %v", err)
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
		c.Fatalf("Next did not wake: %v", err)
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
		c.Fatalf("a cancelled Next answers %v", err)
	}
	events := life(2) // and loses nothing
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
