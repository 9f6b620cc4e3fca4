package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

func walkCases() []testCase {
	return []testCase{
		{"a walk returns rows in order of deadline and id", walkInOrder},
		{"a walk returns rows up to its end and none after it", walkNotEarly},
		{"a walk begins after its position", walkAfter},
		{"pages of a walk add up to one large read", walkPages},
		{"a walk returns rows in every state", walkEveryState},
		{"a walk stays in its pigeonhole", walkStays},
		{"a walk of an empty pigeonhole returns nothing", walkEmpty},
		{"no walk returns an item that never expires", walkNoEternal},
		{"items that never expire are read in order of birth", eternalInOrder},
		{"pages of items that never expire add up", eternalPages},
		{"items that never expire are read by shard", eternalShard},
		{"a walk sees every row that was acknowledged before it", walkSeesAcknowledged},
		{"the next minute with rows is found however far away it is", nextMinuteFar},
		{"the next minute ignores other shards and items that never expire", nextMinuteStays},
		{"the next minute counts rows in every state", nextMinuteEveryState},
		{"the next minute sees every row that was acknowledged before it", nextMinuteSeesAcknowledged},
	}
}

// minuteOf inserts n items into a pigeonhole: with deadlines at its first and last
// millisecond and in between, several at the same millisecond, and of different
// lifetimes, so that the order of births is not the order of deadlines. It returns
// them in the order of a walk.
func (c *trial) minuteOf(h hole, n int) []mayfly.Item {
	c.Helper()
	lifetimes := []string{"1s", "90s", "24h", "48h", "6h", "30d"}
	var births []store.Birth
	for i := range n {
		lifetime, err := mayfly.ParseLifetime(lifetimes[i%len(lifetimes)])
		c.must(err)
		offset := time.Duration(i/3) * time.Minute / time.Duration((n+2)/3)
		if i == n-1 {
			offset = time.Minute - time.Millisecond
		}
		owner := freshUser()
		births = append(births, birthOf(h.dueID(offset.Truncate(time.Millisecond), lifetime, owner), owner, uint8(i%3)))
	}
	c.insert(births...)
	items := make([]mayfly.Item, n)
	for i, b := range births {
		items[i] = b.Item
	}
	slices.SortFunc(items, walkingOrder)
	return items
}

func walkingOrder(a, b mayfly.Item) int {
	if d := a.ID.Deadline() - b.ID.Deadline(); d != 0 {
		return int(d)
	}
	return a.ID.Compare(b.ID)
}

func (c *trial) wantItems(what string, got, want []mayfly.Item) {
	c.Helper()
	if !slices.Equal(got, want) {
		c.Errorf("%s: %d rows, want %d\n got %s\nwant %s", what, len(got), len(want), brief(got), brief(want))
	}
}

func brief(items []mayfly.Item) string {
	var s string
	for _, i := range items {
		s += fmt.Sprintf(" %s(%d,%s,%d)", i.ID.Short()[16:], i.ID.Deadline(), i.State, i.Generation)
	}
	return s
}

func (h hole) end() mayfly.Instant { return h.minute.Start() + 59_999 }

func walkInOrder(c *trial) {
	h := freshHole()
	want := c.minuteOf(h, 30)
	c.wantItems("whole minute", c.walk(h, store.Position{}, h.end(), 100), want)
	c.wantItems("to far after it", c.walk(h, store.Position{}, h.end().Add(24*time.Hour), 100), want)
}

func walkNotEarly(c *trial) {
	h := freshHole()
	all := c.minuteOf(h, 30)
	for _, item := range all {
		for _, to := range []mayfly.Instant{item.ID.Deadline() - 1, item.ID.Deadline(), item.ID.Deadline() + 1} {
			n := 0
			for n < len(all) && all[n].ID.Deadline() <= to {
				n++
			}
			c.wantItems(fmt.Sprintf("to %d", to), c.walk(h, store.Position{}, to, 100), all[:n])
		}
	}
	if got := c.walk(h, store.Position{}, h.minute.Start()-1, 100); len(got) != 0 {
		c.Errorf("before the minute the walk returns %d rows", len(got))
	}
}

func walkAfter(c *trial) {
	h := freshHole()
	all := c.minuteOf(h, 20)
	for i, item := range all {
		c.wantItems("after a row", c.walk(h, store.PositionOf(item), h.end(), 100), all[i+1:])
	}
	// A position need not be the position of a row.
	between := store.Position{Deadline: all[9].ID.Deadline(), ID: all[9].ID}
	between.ID[15] ^= 0xf0
	n := 0
	for n < len(all) && (all[n].ID.Deadline() < between.Deadline ||
		all[n].ID.Deadline() == between.Deadline && all[n].ID.Compare(between.ID) <= 0) {
		n++
	}
	c.wantItems("after a position between rows", c.walk(h, between, h.end(), 100), all[n:])
}

func walkPages(c *trial) {
	h := freshHole()
	all := c.minuteOf(h, 23)
	to := all[18].ID.Deadline()
	big := c.walk(h, store.Position{}, to, 100)
	for _, limit := range []int{1, 2, 5, 22, 23, 24} {
		var paged []mayfly.Item
		var at store.Position
		for {
			page := c.walk(h, at, to, limit)
			if len(page) > limit {
				c.Fatalf("a page of %d has %d rows", limit, len(page))
			}
			if len(page) == 0 {
				break
			}
			paged = append(paged, page...)
			if len(paged) > len(all) {
				c.Fatalf("pages of %d do not end", limit)
			}
			at = store.PositionOf(page[len(page)-1])
		}
		c.wantItems(fmt.Sprintf("pages of %d", limit), paged, big)
	}
}

func walkEveryState(c *trial) {
	h := freshHole()
	all := c.minuteOf(h, 10)
	for i := range all {
		for _, to := range pathTo(mayfly.Active + mayfly.State(i%5)) {
			all[i] = c.move(all[i], to)
		}
	}
	c.wantItems("whole minute", c.walk(h, store.Position{}, h.end(), 100), all)
}

func walkStays(c *trial) {
	h := freshHole()
	want := c.minuteOf(h, 5)
	c.minuteOf(hole{h.minute, (h.shard + 1) % mayfly.Shards}, 3)
	c.minuteOf(hole{h.minute + 1, h.shard}, 3)
	c.minuteOf(hole{h.minute - 1, h.shard}, 3)
	c.wantItems("to far after it", c.walk(h, store.Position{}, h.end().Add(time.Hour), 100), want)
}

func walkEmpty(c *trial) {
	h := freshHole()
	if got := c.walk(h, store.Position{}, h.end(), 10); len(got) != 0 {
		c.Errorf("%d rows in an empty pigeonhole", len(got))
	}
}

func (c *trial) eternals(n int) []mayfly.Item {
	c.Helper()
	first := freshID(mayfly.Never, freshUser()).Birth()
	var births []store.Birth
	for i := range n {
		owner := freshUser()
		id := makeID(first+mayfly.Instant(i/2), mayfly.Never, owner, uint64(freshNonce())&^0xf|5)
		births = append(births, birthOf(id, owner, 1))
	}
	c.insert(births...)
	items := make([]mayfly.Item, n)
	for i, b := range births {
		items[i] = b.Item
	}
	slices.SortFunc(items, func(a, b mayfly.Item) int { return a.ID.Compare(b.ID) })
	return items
}

// before returns an id just below the first of items.
func before(items []mayfly.Item) mayfly.ID {
	return makeID(items[0].ID.Birth()-1, mayfly.Never, mayfly.UserID{}, 1<<52-1)
}

func walkNoEternal(c *trial) {
	mine := c.eternals(3)
	for _, h := range []hole{{0, 5}, {mine[0].ID.Birth().Minute(), 5}} {
		for _, item := range c.walk(h, store.Position{}, h.end(), 100) {
			if !item.ID.Expires() {
				c.Errorf("the walk of minute %d returns %s, which never expires", h.minute, item.ID)
			}
		}
	}
}

func (c *trial) eternal(shard mayfly.Shard, after mayfly.ID, limit int) []mayfly.Item {
	c.Helper()
	items, err := c.set.Ledger.Eternal(c.ctx, shard, after, limit)
	c.must(err)
	if len(items) > limit {
		c.Fatalf("a page of %d has %d rows", limit, len(items))
	}
	return items
}

func eternalInOrder(c *trial) {
	want := c.eternals(8)
	want[3] = c.move(want[3], mayfly.Deleted) // also a deleted one
	c.wantItems("in order of birth", c.eternal(5, before(want), len(want)), want)
	c.wantItems("after a row", c.eternal(5, want[2].ID, 3), want[3:6])
}

func eternalPages(c *trial) {
	want := c.eternals(7)
	for _, limit := range []int{1, 3, 7} {
		var paged []mayfly.Item
		for at := before(want); len(paged) < len(want); {
			page := c.eternal(5, at, limit)
			if len(page) == 0 {
				break
			}
			paged = append(paged, page...)
			at = page[len(page)-1].ID
		}
		c.wantItems(fmt.Sprintf("pages of %d", limit), paged[:min(len(paged), len(want))], want)
	}
}

func eternalShard(c *trial) {
	mine := c.eternals(4)
	for _, shard := range []mayfly.Shard{4, 6} {
		for _, item := range c.eternal(shard, before(mine), 20) {
			if item.ID.Shard() != shard || item.ID.Expires() {
				c.Errorf("shard %d returns %s of shard %d", shard, item.ID, item.ID.Shard())
			}
		}
	}
}

func walkSeesAcknowledged(c *trial) {
	h := freshHole()
	together(16, func(w int) {
		for i := range 4 {
			owner := freshUser()
			birth := birthOf(h.dueID(time.Duration(w)*time.Second, day, owner), owner, 0)
			var b store.Batch
			b.Insert(birth)
			if err := c.set.Writer.Commit(c.ctx, &b); err != nil {
				c.Errorf("writer %d: %v", w, err)
				return
			}
			items, err := c.set.Ledger.Walk(c.ctx, store.Stretch{Minute: h.minute, Shard: h.shard, To: h.end()}, 100)
			if err != nil || !slices.Contains(items, birth.Item) {
				c.Errorf("writer %d: its birth %d is not in the walk: %v", w, i, err)
			}
			if !slices.IsSortedFunc(items, walkingOrder) {
				c.Errorf("writer %d: the walk is out of order", w)
			}
		}
	})
}

func (c *trial) nextMinute(shard mayfly.Shard, from mayfly.Minute) (mayfly.Minute, bool) {
	c.Helper()
	minute, found, err := c.set.Ledger.NextMinute(c.ctx, shard, from)
	c.must(err)
	if found && minute < from {
		c.Fatalf("the next minute of shard %d from %d on is %d", shard, from, minute)
	}
	return minute, found
}

// nextMinuteFar follows the minutes of a shard over rows with lifetimes from one
// minute to the longest one. Rows of other cases and earlier runs may lie between.
func nextMinuteFar(c *trial) {
	h := freshHole()
	const dayOf = 24 * 60
	var births []store.Birth
	minutes := []mayfly.Minute{h.minute, h.minute + 1, h.minute + dayOf, h.minute + 3*dayOf - 1, h.minute + 7*dayOf, h.minute + 365*dayOf, h.minute + 1023*dayOf}
	for i, minute := range minutes {
		owner := freshUser()
		lifetime, err := mayfly.ParseLifetime([]string{"1m", "24h", "7d", "365d", "1023d"}[i%5])
		c.must(err)
		births = append(births, birthOf(hole{minute, h.shard}.dueID(time.Duration(i)*time.Second, lifetime, owner), owner, 0))
	}
	c.insert(births...)
	i, from := 0, h.minute
	for i < len(minutes) {
		minute, found := c.nextMinute(h.shard, from)
		if !found || minute > minutes[i] {
			c.Fatalf("from minute %d on the next one is %d (%v), want %d at the latest", from, minute, found, minutes[i])
		}
		if minute == minutes[i] {
			i++
		}
		from = minute + 1
	}
}

func nextMinuteStays(c *trial) {
	h := freshHole()
	c.minuteOf(hole{h.minute, (h.shard + 1) % mayfly.Shards}, 1)
	c.minuteOf(hole{h.minute, (h.shard + mayfly.Shards - 1) % mayfly.Shards}, 1)
	c.minuteOf(hole{h.minute + 1, h.shard}, 1)
	if minute, found := c.nextMinute(h.shard, h.minute); !found || minute != h.minute+1 {
		c.Errorf("from minute %d on the next one is %d (%v), want %d", h.minute, minute, found, h.minute+1)
	}
	never := c.eternals(1)[0].ID
	if minute, found := c.nextMinute(never.Shard(), never.Birth().Minute()); found && minute == never.Birth().Minute() {
		c.Errorf("minute %d is returned for an item that never expires", minute)
	}
}

func nextMinuteEveryState(c *trial) {
	for state := mayfly.Active; state <= mayfly.Deleted; state++ {
		h := freshHole()
		item := c.minuteOf(h, 1)[0]
		for _, to := range pathTo(state) {
			item = c.move(item, to)
		}
		if minute, found := c.nextMinute(h.shard, h.minute); !found || minute != h.minute {
			c.Errorf("the next minute for a row that is %s is %d (%v), not its own", state, minute, found)
		}
	}
}

func nextMinuteSeesAcknowledged(c *trial) {
	h := freshHole()
	together(16, func(w int) {
		for i := range 4 {
			owner, minute := freshUser(), h.minute+mayfly.Minute(100*w+10*i)
			var b store.Batch
			b.Insert(birthOf(hole{minute, h.shard}.dueID(time.Duration(w)*time.Second, day, owner), owner, 0))
			if err := c.set.Writer.Commit(c.ctx, &b); err != nil {
				c.Errorf("writer %d: %v", w, err)
				return
			}
			if next, found, err := c.set.Ledger.NextMinute(c.ctx, h.shard, minute-1); err != nil || !found || next != minute {
				c.Errorf("writer %d: the next minute is not its own, %d, but %d (%v): %v", w, minute, next, found, err)
			}
		}
	})
}
