package storetest

import (
	"bytes"
	"errors"
	"reflect"
	"sync"
	"sync/atomic"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// The methods of trial call the driver and end the case when the driver returns an
// error.

func (c *trial) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

func (c *trial) wantKind(kind mayfly.Kind, err error) {
	c.Helper()
	if !errors.Is(err, kind) {
		c.Errorf("error is %v, want kind %s", err, kind)
	}
}

func (c *trial) commit(fill func(*store.Batch)) {
	c.Helper()
	var b store.Batch
	fill(&b)
	c.must(c.set.Writer.Commit(c.ctx, &b))
}

func (c *trial) insert(births ...store.Birth) {
	c.Helper()
	c.commit(func(b *store.Batch) { b.Insert(births...) })
}

func (c *trial) put(t store.Table, key store.Key, value string) {
	c.Helper()
	c.commit(func(b *store.Batch) { b.Put(t, key, []byte(value), 0) })
}

func (c *trial) rows(ids ...mayfly.ID) []store.Found {
	c.Helper()
	found, err := c.set.Ledger.Get(c.ctx, ids...)
	c.must(err)
	if len(found) != len(ids) {
		c.Fatalf("Get of %d ids returns %d rows", len(ids), len(found))
	}
	return found
}

func (c *trial) wantRow(want mayfly.Item) {
	c.Helper()
	if got := c.rows(want.ID)[0]; !got.Found || got.Item != want {
		c.Errorf("row (found: %t)\n got %+v\nwant %+v", got.Found, got.Item, want)
	}
}

func (c *trial) wantNoRow(ids ...mayfly.ID) {
	c.Helper()
	for i, got := range c.rows(ids...) {
		if got.Found {
			c.Errorf("%s exists: %+v", ids[i], got.Item)
		}
	}
}

func (c *trial) wantNoBody(ids ...mayfly.ID) {
	c.Helper()
	found, err := c.set.Ledger.Body(c.ctx, ids...)
	c.must(err)
	for i, got := range found {
		if got.Found {
			c.Errorf("the body of %s exists: %+v", ids[i], got.Body)
		}
	}
}

func (c *trial) wantBody(id mayfly.ID, want mayfly.Body) {
	c.Helper()
	found, err := c.set.Ledger.Body(c.ctx, id)
	c.must(err)
	if len(found) != 1 || !found[0].Found || !sameBody(found[0].Body, want) {
		c.Errorf("body of %s\n got %+v\nwant %+v", id, found, want)
	}
}

func sameBody(a, b mayfly.Body) bool {
	return a.Text == b.Text && bytes.Equal(a.Data, b.Data) &&
		(len(a.Media) == 0 && len(b.Media) == 0 || reflect.DeepEqual(a.Media, b.Media))
}

func (c *trial) transition(changes ...mayfly.Change) []store.Outcome {
	c.Helper()
	out, err := c.set.Ledger.Transition(c.ctx, changes)
	c.must(err)
	if len(out) != len(changes) {
		c.Fatalf("Transition of %d changes returns %d outcomes", len(changes), len(out))
	}
	return out
}

// move makes a change that the contract allows, and returns the row after it.
func (c *trial) move(item mayfly.Item, to mayfly.State) mayfly.Item {
	c.Helper()
	change := step(item, to)
	want, err := mayfly.Advance(item, change)
	c.must(err)
	out := c.transition(change)[0]
	if out.Result != store.Applied || out.Current != want {
		c.Fatalf("%s → %s: %s (%v)\n got %+v\nwant %+v", item.State, to, out.Result, out.Err, out.Current, want)
	}
	return want
}

func (c *trial) walk(h hole, after store.Position, to mayfly.Instant, limit int) []mayfly.Item {
	c.Helper()
	items, err := c.set.Ledger.Walk(c.ctx, store.Stretch{Minute: h.minute, Shard: h.shard, After: after, To: to}, limit)
	c.must(err)
	return items
}

func (c *trial) get(t store.Table, keys ...store.Key) [][]byte {
	c.Helper()
	values, err := c.set.Rows.Get(c.ctx, t, keys...)
	c.must(err)
	if len(values) != len(keys) {
		c.Fatalf("Get of %d keys returns %d values", len(keys), len(values))
	}
	return values
}

func (c *trial) wantValue(t store.Table, key store.Key, want string) {
	c.Helper()
	if got := c.get(t, key)[0]; got == nil || string(got) != want {
		c.Errorf("%s %q = %q (absent: %t), want %q", t, key, got, got == nil, want)
	}
}

func (c *trial) wantAbsent(t store.Table, key store.Key) {
	c.Helper()
	if got := c.get(t, key)[0]; got != nil {
		c.Errorf("%s %q = %q, want absence", t, key, got)
	}
}

func (c *trial) swap(t store.Table, key store.Key, old, next []byte) (bool, []byte) {
	c.Helper()
	swapped, current, err := c.set.Rows.Swap(c.ctx, t, key, old, next, 0)
	c.must(err)
	return swapped, current
}

// together runs f in n goroutines at once. They must report by Error, not Fatal.
func together(n int, f func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	wg.Wait()
}

// barrier returns a function in which n goroutines wait for each other, so that they
// really race afterwards.
func (c *trial) barrier(n int) func() {
	var here atomic.Int64
	all := make(chan struct{})
	return func() {
		if here.Add(1) == int64(n) {
			close(all)
		}
		select {
		case <-all:
		case <-c.ctx.Done():
		}
	}
}

func batchOf(events ...mayfly.Event) *store.Batch {
	var b store.Batch
	b.Append(events...)
	return &b
}

// await returns the value of done, or an error when the case times out.
func (c *trial) await(done <-chan error) error {
	select {
	case err := <-done:
		return err
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
}
