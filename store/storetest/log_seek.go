package storetest

import (
	"context"
	"time"

	"github.com/mayflyhq/mayfly"
)

func seekByTime(c *trial) {
	r := c.oldest(mayfly.Ends, freshName("seek"))
	base := wall().Add(time.Hour) // after everything that others have written
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
		c.Errorf("behind a seek to after the last event %d are waiting", n)
	}
}

// An event's instant is that of its row, so that an event which is told late
// stands behind younger ones.
func seekOutOfOrder(c *trial) {
	r := c.oldest(mayfly.Ends, freshName("seek"))
	base := wall().Add(2 * time.Hour)
	events := life(6)
	for i, after := range []time.Duration{0, 5, 2, 7, 1, 9} {
		events[i].At = base.Add(after * time.Second)
	}
	c.append(events...)
	for after, want := range map[time.Duration]int{3: 1, 5: 1, 6: 3, 8: 5} {
		r.events, r.last = nil, map[uint32]uint64{}
		c.must(r.r.Seek(c.ctx, base.Add(after*time.Second)))
		r.wantInOrder(events[want:]...)
		if r.saw(events[want-1]) {
			c.Errorf("a seek to second %d begins before the first event at or after it", after)
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
		c.Errorf("a seek that was not committed moved the group: %d are waiting", n)
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
