package node_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/pace"
)

// A node that has nothing to do must cost a shared store little: at most 100 reads
// and 15 conditional writes a second with all shards.
func TestAnIdleNodeCostsTheStoreLittle(t *testing.T) {
	pace.Heavy(t, "a node that lives for hours of virtual time")
	inCluster(t, func(t *testing.T, w *nodeCluster) {
		count := &counted{}
		w.set.Rows, w.set.Ledger = countedRows{w.set.Rows, count}, countedLedger{w.set.Ledger, count}
		a := w.join("a", node.Options{})
		defer func() { stop(t, a.Node) }()
		time.Sleep(2 * time.Minute)
		reads, swaps := count.reads.Load(), count.swaps.Load()
		const long = 10 * time.Minute
		time.Sleep(long)
		perSecond := func(n int64) float64 { return float64(n) / long.Seconds() }
		r, s := perSecond(count.reads.Load()-reads), perSecond(count.swaps.Load()-swaps)
		t.Logf("an idle node with %d shards: %.1f reads and %.1f conditional writes a second", len(a.Shards()), r, s)
		if r > 100 || s > 15 || r < 16 || s < 1 {
			t.Errorf("%.1f reads, %.1f conditional writes a second", r, s)
		}
	})
}

type counted struct{ reads, swaps atomic.Int64 }

type countedRows struct {
	store.Rows
	n *counted
}

func (c countedRows) Get(ctx context.Context, t store.Table, keys ...store.Key) ([][]byte, error) {
	c.n.reads.Add(int64(len(keys)))
	return c.Rows.Get(ctx, t, keys...)
}

func (c countedRows) Range(ctx context.Context, t store.Table, r store.Range) ([]store.Row, error) {
	c.n.reads.Add(1)
	return c.Rows.Range(ctx, t, r)
}

func (c countedRows) Ranges(ctx context.Context, t store.Table, all ...store.Range) ([][]store.Row, error) {
	return store.EachRange(ctx, c.Range, t, all)
}

func (c countedRows) Swap(ctx context.Context, t store.Table, key store.Key, old, next []byte, at mayfly.Instant) (bool, []byte, error) {
	c.n.swaps.Add(1)
	return c.Rows.Swap(ctx, t, key, old, next, at)
}

type countedLedger struct {
	store.Ledger
	n *counted
}

func (c countedLedger) Walk(ctx context.Context, s store.Stretch, limit int) ([]mayfly.Item, error) {
	c.n.reads.Add(1)
	return c.Ledger.Walk(ctx, s, limit)
}

func (c countedLedger) Get(ctx context.Context, ids ...mayfly.ID) ([]store.Found, error) {
	c.n.reads.Add(int64(len(ids)))
	return c.Ledger.Get(ctx, ids...)
}
