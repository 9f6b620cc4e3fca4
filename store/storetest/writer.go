package storetest

import (
	"fmt"
	"slices"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

func writerCases() []testCase {
	return []testCase{
		{"an empty batch is written", emptyBatch},
		{"a committed batch is visible on return", commitIsVisible},
		{"stages are written in order", stagesInOrder},
		{"a stage after a drop writes to the empty partition", dropThenPut},
		{"a whole batch can be committed again", commitAgain},
		{"an invalid birth in any stage leaves nothing written", badBirthWritesNothing},
		{"a put to a swapped table leaves nothing written", swappedPutWritesNothing},
		{"an incomplete event leaves nothing written", badEventWritesNothing},
		{"a key that is too long leaves nothing written", longKeyWritesNothing},
		{"a batch of a thousand writes is complete", bigBatch},
		{"sixteen committers lose nothing", committersTogether},
		{"a committed batch does not share the caller's bytes", commitCopies},
	}
}

func emptyBatch(c *trial) {
	c.commit(func(*store.Batch) {})
	c.commit(func(b *store.Batch) { b.Then(); b.Then() })
}

func commitIsVisible(c *trial) {
	birth, key, upload := freshBirth(), freshKey("s"), freshKey("")
	r := c.reader(mayfly.Births, freshName("visible"))
	event := news(birth.Item, mayfly.WasCreated)
	c.commit(func(b *store.Batch) {
		b.Put(PlainTable, key, []byte("v"), 0)
		b.Put(OtherTable, upload, []byte("w"), 0)
		b.Then()
		b.Insert(birth)
		b.Then()
		b.Append(event)
	})
	c.wantRow(birth.Item)
	c.wantBody(birth.Item.ID, birth.Body)
	c.wantValue(PlainTable, key, "v")
	c.wantValue(OtherTable, upload, "w")
	r.wantInOrder(event)
}

func stagesInOrder(c *trial) {
	put, gone := freshKey("put"), freshKey("gone")
	c.commit(func(b *store.Batch) {
		b.Put(PlainTable, put, []byte("first"), 0)
		b.Put(PlainTable, gone, []byte("first"), 0)
		b.Then()
		b.Delete(PlainTable, put)
		b.Then()
		b.Put(PlainTable, put, []byte("second"), 0)
		b.Delete(PlainTable, gone)
		b.Then()
		b.Put(PlainTable, put, []byte("third"), 0)
	})
	c.wantValue(PlainTable, put, "third")
	c.wantAbsent(PlainTable, gone)
}

func dropThenPut(c *trial) {
	key := freshKey("b")
	early := store.Key{Partition: key.Partition, Clustering: "a"}
	c.put(PlainTable, early, "old")
	c.commit(func(b *store.Batch) {
		b.Put(PlainTable, store.Key{Partition: key.Partition, Clustering: "c"}, []byte("also old"), 0)
		b.Then()
		b.DeletePartition(PlainTable, key.Partition)
		b.Then()
		b.Put(PlainTable, key, []byte("new"), 0)
	})
	rows, err := c.set.Rows.Range(c.ctx, PlainTable, store.Range{Partition: key.Partition, Limit: 10})
	c.must(err)
	if len(rows) != 1 || rows[0].Clustering != "b" || string(rows[0].Value) != "new" {
		c.Errorf("partition holds %q, want only the row put after the drop", rows)
	}
}

func commitAgain(c *trial) {
	birth, put, gone := freshBirth(), freshKey("put"), freshKey("gone")
	dropped := freshKey("x")
	c.put(PlainTable, gone, "here")
	c.put(PlainTable, dropped, "here")
	r := c.reader(mayfly.Births, freshName("again"))
	event := news(birth.Item, mayfly.WasCreated)
	for range 3 {
		c.commit(func(b *store.Batch) {
			b.Put(PlainTable, put, []byte("v"), 0)
			b.Delete(PlainTable, gone)
			b.DeletePartition(PlainTable, dropped.Partition)
			b.Then()
			b.Insert(birth)
			b.Then()
			b.Append(event)
		})
	}
	c.wantRow(birth.Item)
	c.wantValue(PlainTable, put, "v")
	c.wantAbsent(PlainTable, gone)
	c.wantAbsent(PlainTable, dropped)
	r.wantInOrder(event, event, event)
}

// writesNothing commits a batch that is valid except for what spoil adds to its last
// stage.
func (c *trial) writesNothing(spoil func(*store.Batch)) {
	c.Helper()
	birth, key, kept := freshBirth(), freshKey("s"), freshKey("kept")
	c.put(PlainTable, kept, "here")
	r := c.reader(mayfly.Births, freshName("nothing"))
	event := news(birth.Item, mayfly.WasCreated)
	var b store.Batch
	b.Insert(birth)
	b.Put(PlainTable, key, []byte("v"), 0)
	b.Append(event)
	b.Delete(PlainTable, kept)
	b.Then()
	b.Put(OtherTable, key, []byte("v"), 0)
	spoil(&b)
	c.wantKind(mayfly.Invalid, c.set.Writer.Commit(c.ctx, &b))
	c.wantNoRow(birth.Item.ID)
	c.wantAbsent(PlainTable, key)
	c.wantAbsent(OtherTable, key)
	c.wantValue(PlainTable, kept, "here")

	after := news(freshBirth().Item, mayfly.WasCreated) // after the place where the event would be
	c.must(c.set.Log.Append(c.ctx, after))
	r.wantInOrder(after)
	if r.saw(event) {
		c.Errorf("the event of a refused batch is in the log")
	}
}

func badBirthWritesNothing(c *trial) {
	for name, spoil := range map[string]func(*mayfly.Item){
		"generation":  func(i *mayfly.Item) { i.Generation = 2 },
		"state":       func(i *mayfly.Item) { i.State = mayfly.ExpiredHot },
		"nonce":       func(i *mayfly.Item) { i.Nonce = 0 },
		"other owner": func(i *mayfly.Item) { i.Owner = otherTrace(i.Owner) },
	} {
		birth := freshBirth()
		spoil(&birth.Item)
		c.writesNothing(func(b *store.Batch) { b.Insert(birth) })
		c.wantNoRow(birth.Item.ID)
		if c.Failed() {
			c.Fatalf("with an invalid %s", name)
		}
	}
}

func otherTrace(u mayfly.UserID) mayfly.UserID {
	for {
		if other := freshUser(); other.Trace() != u.Trace() {
			return other
		}
	}
}

func swappedPutWritesNothing(c *trial) {
	key := freshKey("s")
	c.writesNothing(func(b *store.Batch) { b.Put(SwappedTable, key, []byte("v"), 0) })
	c.wantAbsent(SwappedTable, key)
	c.writesNothing(func(b *store.Batch) { b.Delete(SwappedTable, key) })
	c.writesNothing(func(b *store.Batch) { b.DeletePartition(SwappedTable, key.Partition) })
	c.writesNothing(func(b *store.Batch) { b.Put(undeclared(), key, []byte("v"), 0) })
}

func badEventWritesNothing(c *trial) {
	c.writesNothing(func(b *store.Batch) { b.Append(mayfly.Event{ID: freshBirth().Item.ID}) })
	c.writesNothing(func(b *store.Batch) { b.Append(mayfly.Event{Product: mayfly.Story, Verb: mayfly.WasCreated}) })
}

func longKeyWritesNothing(c *trial) {
	long := func(n int) string { return string(slices.Repeat([]byte{'k'}, n)) }
	c.writesNothing(func(b *store.Batch) {
		b.Put(PlainTable, store.Key{Partition: long(store.MaxPartition + 1)}, nil, 0)
	})
	c.writesNothing(func(b *store.Batch) {
		b.Put(PlainTable, store.Key{Partition: "p", Clustering: long(store.MaxClustering + 1)}, nil, 0)
	})
	c.writesNothing(func(b *store.Batch) { b.Put(PlainTable, store.Key{Clustering: "s"}, []byte("v"), 0) })
	c.writesNothing(func(b *store.Batch) { b.DeletePartition(PlainTable, "") })
}

func bigBatch(c *trial) {
	const n = 500
	h, owner := freshHole(), freshUser()
	births := make([]store.Birth, n)
	partition := freshKey("").Partition
	c.commit(func(b *store.Batch) {
		for i := range births {
			births[i] = birthOf(h.dueID(0, day, owner), owner, 0)
			b.Put(PlainTable, store.Key{Partition: partition, Clustering: fmt.Sprintf("%03d", i)}, births[i].Item.ID[:], 0)
		}
		b.Then()
		b.Insert(births...)
	})
	for i, found := range c.rows(idsOf(births)...) {
		if !found.Found || found.Item != births[i].Item {
			c.Fatalf("birth %d of %d: %+v", i, n, found)
		}
	}
	rows, err := c.set.Rows.Range(c.ctx, PlainTable, store.Range{Partition: partition, Limit: n + 1})
	c.must(err)
	if len(rows) != n {
		c.Errorf("%d index entries of %d", len(rows), n)
	}
}

func idsOf(births []store.Birth) []mayfly.ID {
	ids := make([]mayfly.ID, len(births))
	for i, b := range births {
		ids[i] = b.Item.ID
	}
	return ids
}

func committersTogether(c *trial) {
	const writers, each = 16, 8
	births := make([]store.Birth, writers*each)
	for i := range births {
		births[i] = freshBirth()
	}
	partition := freshKey("").Partition
	together(writers, func(w int) {
		for i := w * each; i < (w+1)*each; i++ {
			var b store.Batch
			b.Put(PlainTable, store.Key{Partition: partition, Clustering: births[i].Item.ID.Short()}, []byte("v"), 0)
			b.Then()
			b.Insert(births[i])
			if err := c.set.Writer.Commit(c.ctx, &b); err != nil {
				c.Errorf("writer %d: %v", w, err)
				return
			}
		}
	})
	for i, found := range c.rows(idsOf(births)...) {
		if !found.Found || found.Item != births[i].Item {
			c.Errorf("an acknowledged birth is missing: %s", births[i].Item.ID)
		}
	}
	rows, err := c.set.Rows.Range(c.ctx, PlainTable, store.Range{Partition: partition, Limit: len(births) + 1})
	c.must(err)
	if len(rows) != len(births) {
		c.Errorf("%d index entries of %d", len(rows), len(births))
	}
}

func commitCopies(c *trial) {
	key, value, birth := freshKey("s"), []byte("value"), freshBirth()
	data := slices.Clone(birth.Body.Data)
	c.commit(func(b *store.Batch) {
		b.Put(PlainTable, key, value, 0)
		b.Insert(birth)
	})
	copy(value, "VALUE")
	birth.Body.Data[0]++
	c.wantValue(PlainTable, key, "value")
	birth.Body.Data = data
	c.wantBody(birth.Item.ID, birth.Body)
}
