package storetest

import (
	"errors"
	"slices"
	"sync/atomic"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

func transitionCases() []testCase {
	return []testCase{
		{"a transition is applied and read back", transitionApplied},
		{"only allowed changes of state are applied", onlyEdges},
		{"a stale change returns the current row and writes nothing", staleChange},
		{"the same state with an older generation is stale", staleGeneration},
		{"a refused change returns the reason and writes nothing", refusedChange},
		{"nothing expires before its deadline", noEarlyExpiry},
		{"no scheduled change deletes a held row", heldIsNotDeleted},
		{"a change without a nonce is refused", nonceNeeded},
		{"a change of an absent row is missing", missingRow},
		{"a row named twice in one call is changed in order", rowTwiceInCall},
		{"the second of two equal changes in one call is stale", equalChangesInCall},
		{"outcomes are in the order of the changes, over many pigeonholes", outcomesInOrder},
		{"five hundred changes of one pigeonhole are applied in one call", bigTransition},
		{"of sixteen racing changes of one row exactly one is applied", racingChanges},
		{"racing batches that overlap apply each row once", racingBatches},
		{"an item that never expires is changed and deleted", eternalTransition},
	}
}

func transitionApplied(c *trial) {
	b := freshBirth()
	c.insert(b)
	item := b.Item
	for _, to := range []mayfly.State{mayfly.ExpiredHot, mayfly.Archiving, mayfly.Cold, mayfly.Deleted} {
		item = c.move(item, to)
		c.wantRow(item)
	}
}

// pathTo returns the changes that lead from active to a state.
func pathTo(s mayfly.State) []mayfly.State {
	switch s {
	case mayfly.ExpiredHot:
		return []mayfly.State{mayfly.ExpiredHot}
	case mayfly.Archiving:
		return []mayfly.State{mayfly.ExpiredHot, mayfly.Archiving}
	case mayfly.Cold:
		return []mayfly.State{mayfly.ExpiredHot, mayfly.Archiving, mayfly.Cold}
	case mayfly.Deleted:
		return []mayfly.State{mayfly.Deleted}
	default:
		return nil
	}
}

func onlyEdges(c *trial) {
	for from := mayfly.Active; from <= mayfly.Deleted; from++ {
		for to := mayfly.Active; to <= mayfly.Deleted+1; to++ {
			b := freshBirth()
			c.insert(b)
			item := b.Item
			for _, s := range pathTo(from) {
				item = c.move(item, s)
			}
			if from.MayBecome(to) {
				item = c.move(item, to)
			} else if out := c.transition(step(item, to))[0]; out.Result != store.Refused || out.Current != item {
				c.Errorf("%s → %s is %s\n got %+v\nwant %+v", from, to, out.Result, out.Current, item)
			}
			c.wantRow(item)
		}
	}
}

func staleChange(c *trial) {
	b := freshBirth()
	c.insert(b)
	mine := step(b.Item, mayfly.ExpiredHot)
	current := c.move(b.Item, mayfly.Deleted)
	if out := c.transition(mine)[0]; out.Result != store.Stale || out.Current != current {
		c.Errorf("outcome %s\n got %+v\nwant %+v", out.Result, out.Current, current)
	}
	c.wantRow(current)
}

func staleGeneration(c *trial) {
	b := freshBirth()
	c.insert(b)
	first := c.move(c.move(b.Item, mayfly.ExpiredHot), mayfly.Archiving)
	late := step(first, mayfly.Cold)
	taken := c.move(first, mayfly.Archiving) // another worker takes it over
	if out := c.transition(late)[0]; out.Result != store.Stale || out.Current != taken {
		c.Errorf("outcome %s\n got %+v\nwant %+v", out.Result, out.Current, taken)
	}
	ahead := step(taken, mayfly.Cold)
	ahead.Generation++
	if out := c.transition(ahead)[0]; out.Result != store.Stale {
		c.Errorf("a change from a generation that does not exist yet is %s", out.Result)
	}
	c.wantRow(taken)
}

func (c *trial) wantRefused(item mayfly.Item, change mayfly.Change) {
	c.Helper()
	out := c.transition(change)[0]
	if out.Result != store.Refused || out.Current != item || !errors.Is(out.Err, mayfly.Conflict) {
		c.Errorf("outcome %s, error %v\n got %+v\nwant %+v", out.Result, out.Err, out.Current, item)
	}
	c.wantRow(item)
}

func refusedChange(c *trial) {
	b := freshBirth()
	c.insert(b)
	c.wantRefused(b.Item, step(b.Item, mayfly.Cold))
	expired := c.move(b.Item, mayfly.ExpiredHot)
	restore := step(expired, mayfly.Active)
	restore.ServesUntil = 0
	c.wantRefused(expired, restore)
}

func noEarlyExpiry(c *trial) {
	b := freshBirth()
	c.insert(b)
	early := step(b.Item, mayfly.ExpiredHot)
	early.At = b.Item.ID.Deadline() - 1
	c.wantRefused(b.Item, early)
	early.At++
	if out := c.transition(early)[0]; out.Result != store.Applied {
		c.Errorf("at the deadline itself the outcome is %s: %v", out.Result, out.Err)
	}
}

func heldIsNotDeleted(c *trial) {
	b := freshBirth()
	b.Item.Held, b.Item.Cause = true, mayfly.BySupport
	c.insert(b)
	for _, cause := range []mayfly.Cause{mayfly.ByExpiry, mayfly.ByAccount, mayfly.ByRetention} {
		change := step(b.Item, mayfly.Deleted)
		change.Cause = cause
		c.wantRefused(b.Item, change)
	}
}

func nonceNeeded(c *trial) {
	b := freshBirth()
	c.insert(b)
	change := step(b.Item, mayfly.Deleted)
	change.Nonce = 0
	c.wantRefused(b.Item, change)
}

func missingRow(c *trial) {
	b, other := freshBirth(), freshBirth()
	c.insert(other)
	out := c.transition(step(b.Item, mayfly.Deleted), step(other.Item, mayfly.Deleted))
	if out[0].Result != store.Missing || out[0].Current != (mayfly.Item{}) {
		c.Errorf("outcome %+v, want missing", out[0])
	}
	if out[1].Result != store.Applied {
		c.Errorf("the change next to a missing row is %s", out[1].Result)
	}
	c.wantNoRow(b.Item.ID)
}

func rowTwiceInCall(c *trial) {
	b, other := freshBirth(), freshBirth()
	c.insert(b, other)
	first := step(b.Item, mayfly.ExpiredHot)
	middle, err := mayfly.Advance(b.Item, first)
	c.must(err)
	second := step(middle, mayfly.Deleted)
	last, err := mayfly.Advance(middle, second)
	c.must(err)
	out := c.transition(first, step(other.Item, mayfly.Deleted), second)
	for i, o := range out {
		if o.Result != store.Applied {
			c.Fatalf("change %d is %s: %v", i, o.Result, o.Err)
		}
	}
	if out[0].Current != middle || out[2].Current != last {
		c.Errorf("rows after each change\n got %+v\n and %+v\nwant %+v\n and %+v", out[0].Current, out[2].Current, middle, last)
	}
	c.wantRow(last)
}

func equalChangesInCall(c *trial) {
	b := freshBirth()
	c.insert(b)
	first, second := step(b.Item, mayfly.ExpiredHot), step(b.Item, mayfly.ExpiredHot)
	want, err := mayfly.Advance(b.Item, first)
	c.must(err)
	out := c.transition(first, second)
	if out[0].Result != store.Applied || out[1].Result != store.Stale || out[1].Current != want {
		c.Errorf("outcomes %+v", out)
	}
	c.wantRow(want)
}

func outcomesInOrder(c *trial) {
	var births []store.Birth
	for range 40 {
		births = append(births, freshBirth())
	}
	c.insert(births...)
	stale := births[7].Item
	current := c.move(stale, mayfly.Deleted)
	var changes []mayfly.Change
	for i, b := range births {
		to := mayfly.ExpiredHot
		if i%5 == 3 {
			to = mayfly.Cold // refused
		}
		changes = append(changes, step(b.Item, to))
	}
	changes = slices.Insert(changes, 20, step(freshBirth().Item, mayfly.Deleted))
	for i, o := range c.transition(changes...) {
		want := store.Applied
		switch {
		case i == 20:
			want = store.Missing
		case i == 7:
			want = store.Stale
		case changes[i].To == mayfly.Cold:
			want = store.Refused
		}
		if o.Result != want || want != store.Missing && o.Current.ID != changes[i].ID {
			c.Errorf("outcome %d is %s of %s, want %s of %s", i, o.Result, o.Current.ID, want, changes[i].ID)
		}
		if i == 7 && o.Current != current {
			c.Errorf("stale row\n got %+v\nwant %+v", o.Current, current)
		}
	}
}

func bigTransition(c *trial) {
	const n = 500
	h, owner := freshHole(), freshUser()
	births := make([]store.Birth, n)
	changes := make([]mayfly.Change, n)
	for i := range births {
		births[i] = birthOf(h.dueID(0, day, owner), owner, 1)
		changes[i] = step(births[i].Item, mayfly.ExpiredHot)
	}
	c.insert(births...)
	for i, o := range c.transition(changes...) {
		if o.Result != store.Applied || o.Current.Nonce != changes[i].Nonce {
			c.Fatalf("change %d: %s %v", i, o.Result, o.Err)
		}
	}
	for i, f := range c.rows(idsOf(births)...) {
		if f.Item.State != mayfly.ExpiredHot || f.Item.Generation != 2 || f.Item.Nonce != changes[i].Nonce {
			c.Fatalf("row %d: %+v", i, f.Item)
		}
	}
}

func racingChanges(c *trial) {
	b := freshBirth()
	c.insert(b)
	item := b.Item
	for _, to := range []mayfly.State{mayfly.ExpiredHot, mayfly.Archiving, mayfly.Deleted} {
		var applied atomic.Int64
		var winner atomic.Uint64
		together(16, func(int) {
			change := step(item, to)
			out, err := c.set.Ledger.Transition(c.ctx, []mayfly.Change{change})
			switch {
			case errors.Is(err, mayfly.Unknown) || err == nil && out[0].Result == store.InDoubt:
				found, err := c.set.Ledger.Get(c.ctx, item.ID) // applied only if the row has this nonce
				if err != nil || found[0].Item.Nonce != change.Nonce {
					return
				}
			case err != nil:
				c.Errorf("a racing change: %v", err)
				return
			case out[0].Result == store.Stale:
				if out[0].Current.Generation != item.Generation+1 {
					c.Errorf("a stale change returns generation %d, want %d", out[0].Current.Generation, item.Generation+1)
				}
				return
			case out[0].Result != store.Applied:
				c.Errorf("a racing change is %s", out[0].Result)
				return
			}
			applied.Add(1)
			winner.Store(uint64(change.Nonce))
		})
		row := c.rows(item.ID)[0].Item
		if applied.Load() != 1 || row.Generation != item.Generation+1 || uint64(row.Nonce) != winner.Load() {
			c.Fatalf("%d of 16 were applied; the row is %+v", applied.Load(), row)
		}
		item = row
	}
}

func racingBatches(c *trial) {
	const n = 64
	h, owner := freshHole(), freshUser()
	births := make([]store.Birth, n)
	for i := range births {
		births[i] = birthOf(h.dueID(0, day, owner), owner, 1)
	}
	c.insert(births...)
	var applied [n]atomic.Int64
	together(8, func(w int) {
		var changes []mayfly.Change
		for i := range births {
			changes = append(changes, step(births[(i+w*7)%n].Item, mayfly.ExpiredHot))
		}
		out, err := c.set.Ledger.Transition(c.ctx, changes)
		if err != nil {
			c.Errorf("batch %d: %v", w, err)
			return
		}
		for i, o := range out {
			if o.Result == store.Applied {
				applied[(i+w*7)%n].Add(1)
			}
		}
	})
	for i, f := range c.rows(idsOf(births)...) {
		if applied[i].Load() != 1 || f.Item.Generation != 2 {
			c.Errorf("row %d: applied %d times, generation %d", i, applied[i].Load(), f.Item.Generation)
		}
	}
}

func eternalTransition(c *trial) {
	owner := freshUser()
	b := birthOf(freshID(mayfly.Never, owner), owner, 1)
	c.insert(b)
	c.wantRow(b.Item)
	c.wantRefused(b.Item, step(b.Item, mayfly.ExpiredHot)) // it has no deadline
	c.wantRow(c.move(b.Item, mayfly.Deleted))
	c.insert(b)
	if c.rows(b.Item.ID)[0].Item.State != mayfly.Deleted {
		c.Errorf("a birth inserted again brings back a deleted item that never expires")
	}
}
