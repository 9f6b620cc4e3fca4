package storetest

import (
	"strings"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

func ledgerCases() []testCase {
	return append([]testCase{
		{"a birth is read back completely", birthIsReadBack},
		{"every field of a row survives", everyFieldSurvives},
		{"get returns rows in the order of the ids, with absent and repeated ones", getKeepsOrder},
		{"get of no ids returns nothing", getNothing},
		{"a birth inserted again stays as it is", insertAgain},
		{"a birth inserted again does not undo a transition", insertDoesNotUndo},
		{"a deleted row stays deleted when its birth is inserted again", insertDoesNotResurrect},
		{"the same birth twice in one batch is one row", insertTwiceInBatch},
		{"bodies are read back, also empty and large ones", bodiesReadBack},
		{"body returns bodies in the order of the ids, with absent ones", bodyKeepsOrder},
		{"a body survives every transition", bodyOutlivesTransitions},
		{"only the body of a deleted row can be erased", eraseBodyOnlyDeleted},
		{"erasing a body keeps the tombstone, and no birth brings the item back", erasedBodyLeavesTombstone},
		{"a held row keeps its body and cannot be removed", heldIsNotErased},
		{"only a deleted row can be removed", removeOnlyDeleted},
		{"a refused removal removes none of its rows", refusedRemovalIsWhole},
		{"a removed row and its body are absent from every read", removedIsGone},
		{"removal is idempotent and an absent row is no error", removeAgain},
		{"an item that never expires is removed like any other", removeEternal},
	}, append(transitionCases(), walkCases()...)...)
}

func birthIsReadBack(c *trial) {
	for media := range uint8(4) {
		owner := freshUser()
		b := birthOf(freshID(day, owner), owner, media)
		c.insert(b)
		c.wantRow(b.Item)
		c.wantBody(b.Item.ID, b.Body)
	}
	var none mayfly.UserID
	paste := birthOf(freshID(day, none), none, 0)
	paste.Item.Product, paste.Item.Fate, paste.Item.Audience = mayfly.Paste, mayfly.Purge, mayfly.Everyone
	c.insert(paste)
	c.wantRow(paste.Item)
}

func everyFieldSurvives(c *trial) {
	b := freshBirth()
	b.Item.Product, b.Item.Fate, b.Item.Audience = mayfly.Post, mayfly.Purge, mayfly.OnlyAuthor
	b.Item.Nonce, b.Item.Run, b.Item.Changed = ^mayfly.Nonce(0), ^mayfly.Run(0), b.Item.ID.Birth()+12345
	b.Item.Held, b.Item.Cause = true, mayfly.BySupport
	c.insert(b)
	c.wantRow(b.Item)

	release := step(b.Item, mayfly.Active)
	release.ServesUntil, release.Keys, release.Hold = 0, nil, mayfly.ReleaseHold
	want, err := mayfly.Advance(b.Item, release)
	c.must(err)
	if out := c.transition(release)[0]; out.Result != store.Applied || out.Current != want {
		c.Fatalf("release: %s (%v)\n got %+v\nwant %+v", out.Result, out.Err, out.Current, want)
	}
	item := want
	for _, to := range []mayfly.State{mayfly.ExpiredHot, mayfly.Archiving, mayfly.Archiving, mayfly.Cold, mayfly.Active} {
		item = c.move(item, to)
		c.wantRow(item)
	}
	if item.ServesUntil == 0 || item.Keys.Cold == 0 || item.Keys.Hot == 0 {
		c.Fatalf("the case does not reach every field: %+v", item)
	}
}

func getKeepsOrder(c *trial) {
	a, b, absent := freshBirth(), freshBirth(), freshBirth().Item.ID
	c.insert(a, b)
	found := c.rows(b.Item.ID, absent, a.Item.ID, b.Item.ID)
	want := []store.Found{{Item: b.Item, Found: true}, {}, {Item: a.Item, Found: true}, {Item: b.Item, Found: true}}
	for i := range want {
		if found[i] != want[i] {
			c.Errorf("row %d\n got %+v\nwant %+v", i, found[i], want[i])
		}
	}
}

func getNothing(c *trial) {
	c.rows()
	if out := c.transition(); len(out) != 0 {
		c.Errorf("a transition of no changes returns %+v", out)
	}
}

func insertAgain(c *trial) {
	b := freshBirth()
	for range 3 {
		c.insert(b)
	}
	c.wantRow(b.Item)
	c.wantBody(b.Item.ID, b.Body)
}

func insertDoesNotUndo(c *trial) {
	b := freshBirth()
	c.insert(b)
	item := b.Item
	for _, to := range []mayfly.State{mayfly.ExpiredHot, mayfly.Archiving, mayfly.Cold} {
		item = c.move(item, to)
		c.insert(b)
		c.wantRow(item)
	}
	c.wantBody(b.Item.ID, b.Body)
}

func insertDoesNotResurrect(c *trial) {
	owner := freshUser()
	for _, b := range []store.Birth{freshBirth(), birthOf(freshID(mayfly.Never, owner), owner, 1)} {
		c.insert(b)
		deleted := c.move(b.Item, mayfly.Deleted)
		for range 2 {
			c.insert(b, b)
			c.wantRow(deleted)
		}
		if !b.Item.ID.Expires() {
			continue
		}
		h := hole{b.Item.ID.Minute(), b.Item.ID.Shard()}
		if got := c.walk(h, store.Position{}, h.minute.Start()+60_000, 10); len(got) != 1 || got[0] != deleted {
			c.Errorf("the pigeonhole holds %+v, want the one deleted row", got)
		}
	}
}

func insertTwiceInBatch(c *trial) {
	b := freshBirth()
	c.commit(func(batch *store.Batch) {
		batch.Insert(b, b)
		batch.Then()
		batch.Insert(b)
	})
	c.wantRow(b.Item)
	h := hole{b.Item.ID.Minute(), b.Item.ID.Shard()}
	if got := c.walk(h, store.Position{}, h.minute.Start()+60_000, 10); len(got) != 1 {
		c.Errorf("the pigeonhole holds %d rows, want 1", len(got))
	}
}

func bodiesReadBack(c *trial) {
	empty, big := freshBirth(), freshBirth()
	empty.Body = mayfly.Body{}
	big.Body.Text = strings.Repeat("ß\x00", 20_000)
	big.Body.Data = []byte(strings.Repeat("\x00\xff", 30_000))
	c.insert(empty, big)
	c.wantBody(empty.Item.ID, empty.Body)
	c.wantBody(big.Item.ID, big.Body)
}

func bodyKeepsOrder(c *trial) {
	a, b := freshBirth(), freshBirth()
	c.insert(a, b)
	found, err := c.set.Ledger.Body(c.ctx, b.Item.ID, freshBirth().Item.ID, a.Item.ID)
	c.must(err)
	if len(found) != 3 || found[1].Found || !found[0].Found || !found[2].Found ||
		!sameBody(found[0].Body, b.Body) || !sameBody(found[2].Body, a.Body) {
		c.Errorf("bodies: %+v", found)
	}
}

func bodyOutlivesTransitions(c *trial) {
	b := freshBirth()
	c.insert(b)
	item := b.Item
	for _, to := range []mayfly.State{mayfly.ExpiredHot, mayfly.Archiving, mayfly.Cold, mayfly.Deleted} {
		item = c.move(item, to)
		c.wantBody(item.ID, b.Body)
	}
}

func eraseBodyOnlyDeleted(c *trial) {
	b, dead := freshBirth(), freshBirth()
	c.insert(b, dead)
	tombstone := c.move(dead.Item, mayfly.Deleted)
	item := b.Item
	for _, to := range []mayfly.State{mayfly.ExpiredHot, mayfly.Archiving, mayfly.Cold, mayfly.Deleted} {
		c.wantKind(mayfly.Conflict, c.set.Ledger.EraseBody(c.ctx, tombstone.ID, item.ID))
		c.wantRow(item)
		c.wantBody(item.ID, b.Body)
		c.wantBody(tombstone.ID, dead.Body) // a refused call erases nothing
		item = c.move(item, to)
	}
	c.must(c.set.Ledger.EraseBody(c.ctx, item.ID))
	c.wantNoBody(item.ID)
}

func erasedBodyLeavesTombstone(c *trial) {
	owner := freshUser()
	for _, b := range []store.Birth{freshBirth(), birthOf(freshID(mayfly.Never, owner), owner, 1)} {
		c.insert(b)
		tombstone := c.move(b.Item, mayfly.Deleted)
		for range 2 {
			c.must(c.set.Ledger.EraseBody(c.ctx, tombstone.ID, freshBirth().Item.ID))
		}
		c.insert(b)
		c.wantRow(tombstone)
		c.wantNoBody(tombstone.ID)
		c.must(c.set.Ledger.Remove(c.ctx, tombstone.ID))
		c.wantNoRow(tombstone.ID)
	}
	c.must(c.set.Ledger.EraseBody(c.ctx))
}

func heldIsNotErased(c *trial) {
	b := freshBirth()
	c.insert(b)
	hold := step(b.Item, b.Item.State)
	hold.Hold, hold.ServesUntil, hold.Keys = mayfly.SetHold, 0, nil
	held := c.transition(hold)[0].Current
	byUser := step(held, mayfly.Deleted)
	byUser.Cause = mayfly.ByUser
	held = c.transition(byUser)[0].Current
	if held.State != mayfly.Deleted || !held.Held {
		c.Fatalf("after a hold and a delete by its author the row is %+v", held)
	}
	c.wantKind(mayfly.Conflict, c.set.Ledger.EraseBody(c.ctx, held.ID))
	c.wantKind(mayfly.Conflict, c.set.Ledger.Remove(c.ctx, held.ID))
	c.wantRow(held)
	c.wantBody(held.ID, b.Body)
	release := step(held, mayfly.Deleted)
	release.Hold, release.Cause = mayfly.ReleaseHold, mayfly.BySupport
	free := c.transition(release)[0].Current
	if free.Held || free.Cause != mayfly.ByUser {
		c.Fatalf("after the release the row is %+v", free)
	}
	c.must(c.set.Ledger.EraseBody(c.ctx, free.ID))
	c.wantNoBody(free.ID)
	c.must(c.set.Ledger.Remove(c.ctx, free.ID))
	c.wantNoRow(free.ID)
}

func removeOnlyDeleted(c *trial) {
	b := freshBirth()
	c.insert(b)
	item := b.Item
	for _, to := range []mayfly.State{mayfly.ExpiredHot, mayfly.Archiving, mayfly.Cold, mayfly.Deleted} {
		c.wantKind(mayfly.Conflict, c.set.Ledger.Remove(c.ctx, item.ID))
		c.wantRow(item)
		c.wantBody(item.ID, b.Body)
		item = c.move(item, to)
	}
	c.must(c.set.Ledger.Remove(c.ctx, item.ID))
	c.wantNoRow(item.ID)
}

func refusedRemovalIsWhole(c *trial) {
	a, live, z := freshBirth(), freshBirth(), freshBirth()
	c.insert(a, live, z)
	deletedA, deletedZ := c.move(a.Item, mayfly.Deleted), c.move(z.Item, mayfly.Deleted)
	c.wantKind(mayfly.Conflict, c.set.Ledger.Remove(c.ctx, a.Item.ID, live.Item.ID, z.Item.ID))
	c.wantRow(deletedA)
	c.wantRow(live.Item)
	c.wantRow(deletedZ)
	c.wantBody(a.Item.ID, a.Body)
}

func removedIsGone(c *trial) {
	b := freshBirth()
	c.insert(b)
	c.move(b.Item, mayfly.Deleted)
	c.must(c.set.Ledger.Remove(c.ctx, b.Item.ID))
	c.wantNoRow(b.Item.ID)
	body, err := c.set.Ledger.Body(c.ctx, b.Item.ID)
	c.must(err)
	if body[0].Found {
		c.Errorf("the body of a removed row still exists")
	}
	h := hole{b.Item.ID.Minute(), b.Item.ID.Shard()}
	if got := c.walk(h, store.Position{}, h.minute.Start()+60_000, 10); len(got) != 0 {
		c.Errorf("the walk still returns %+v", got)
	}
	if out := c.transition(step(b.Item, mayfly.Deleted))[0]; out.Result != store.Missing {
		c.Errorf("a transition of a removed row is %s", out.Result)
	}
}

func removeAgain(c *trial) {
	b := freshBirth()
	c.insert(b)
	c.move(b.Item, mayfly.Deleted)
	for range 2 {
		c.must(c.set.Ledger.Remove(c.ctx, b.Item.ID, freshBirth().Item.ID))
	}
	c.must(c.set.Ledger.Remove(c.ctx))
	c.wantNoRow(b.Item.ID)
}

func removeEternal(c *trial) {
	owner := freshUser()
	b := birthOf(freshID(mayfly.Never, owner), owner, 1)
	c.insert(b)
	c.wantKind(mayfly.Conflict, c.set.Ledger.Remove(c.ctx, b.Item.ID))
	c.move(b.Item, mayfly.Deleted)
	c.must(c.set.Ledger.Remove(c.ctx, b.Item.ID))
	c.wantNoRow(b.Item.ID)
}
