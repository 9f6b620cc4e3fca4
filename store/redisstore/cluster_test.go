//go:build servers

package redisstore

import (
	"cmp"
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/loop"
	"github.com/mayflyhq/mayfly/store/storetest"
)

// cluster is a set of nodes with caches like the gate's, over rows that every node
// reads and changes. It counts violations: an old row read after its change was
// acknowledged.
type cluster struct {
	testing.TB
	options     Options
	rows, acked [clusterRows]atomic.Uint64
	nodes       []*clusterNode
	stop        context.CancelFunc
	ctx         context.Context
	wg          sync.WaitGroup

	changes, published, hits, reads, wrong atomic.Uint64
}

const clusterRows = 16

type clusterNode struct {
	*Store
	cluster *cluster
	sub     store.Subscription

	mu    sync.Mutex
	cache map[byte]cached
	count uint64 // of signals
}

type cached struct {
	version, epoch uint64
}

// newCluster starts a node for each address; an address may be several, with commas.
func newCluster(t testing.TB, o Options, addresses ...string) *cluster {
	t.Helper()
	o.Prefix = cmp.Or(o.Prefix, freshPrefix())
	w := &cluster{TB: t, options: o}
	w.ctx, w.stop = context.WithCancel(context.Background())
	for _, address := range addresses {
		w.add(address)
	}
	t.Cleanup(w.end)
	w.allHold()
	return w
}

func (w *cluster) add(address string) {
	w.Helper()
	o := w.options
	o.Addresses = strings.Split(address, ",")
	n := &clusterNode{Store: open(w, o), cluster: w, cache: map[byte]cached{}}
	sub, err := n.Signals().Subscribe(w.ctx, n.handle)
	if err != nil {
		w.Fatal(err)
	}
	n.sub = sub
	w.nodes = append(w.nodes, n)
}

func (w *cluster) allHold() {
	w.Helper()
	for _, n := range w.nodes {
		until(w, "every node holds a lease", n.holds)
	}
}

func (n *clusterNode) holds() bool {
	_, held := n.sub.Lease()
	return held
}

func (n *clusterNode) handle(s store.Signal) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.count++
	delete(n.cache, s.ID[0])
}

func (n *clusterNode) read(row byte) (version uint64, hit bool) {
	epoch, held := n.sub.Lease()
	if !held {
		return n.cluster.rows[row].Load(), false
	}
	n.mu.Lock()
	found, ok := n.cache[row]
	ticket := n.count
	n.mu.Unlock()
	if ok && found.epoch == epoch {
		return found.version, true
	}
	version = n.cluster.rows[row].Load()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.count == ticket {
		n.cache[row] = cached{version, epoch}
	}
	return version, false
}

// change does what a delete does: it changes the row, publishes the change, waits a
// lease if that failed, and acknowledges.
func (n *clusterNode) change(row byte) {
	w := n.cluster
	version := w.rows[row].Add(1)
	s := freshSignal()
	s.ID[0] = row
	if err := n.Signals().Publish(w.ctx, s); err == nil {
		w.published.Add(1)
	} else if loop.Rest(w.ctx, n.Signals().o.Lease) != nil {
		return
	}
	for {
		old := w.acked[row].Load()
		if old >= version || w.acked[row].CompareAndSwap(old, version) {
			break
		}
	}
	w.changes.Add(1)
}

// run lets every node read, and the changers change rows, until end.
func (w *cluster) run(changers ...int) {
	for _, n := range w.nodes {
		w.wg.Go(func() {
			for w.ctx.Err() == nil {
				row := byte(rand.IntN(clusterRows))
				acked := w.acked[row].Load()
				version, hit := n.read(row)
				w.reads.Add(1)
				if hit {
					w.hits.Add(1)
				}
				if version < acked {
					w.wrong.Add(1)
				}
				if w.reads.Load()%64 == 0 {
					_ = loop.Rest(w.ctx, 200*time.Microsecond) // two cores are shared
				}
			}
		})
	}
	for _, i := range changers {
		for range 2 {
			w.wg.Go(func() {
				for w.ctx.Err() == nil {
					w.nodes[i].change(byte(rand.IntN(clusterRows)))
					_ = loop.Rest(w.ctx, time.Millisecond)
				}
			})
		}
	}
}

func (w *cluster) end() {
	w.stop()
	w.wg.Wait()
}

// pause lets the nodes run for a while.
func (w *cluster) pause(d time.Duration) { _ = loop.Rest(w.ctx, d) }

// recovered waits until every node holds a lease and changes are published again.
func (w *cluster) recovered() {
	w.Helper()
	w.allHold()
	before := w.published.Load()
	until(w, "changes are published again", func() bool { return w.published.Load() > before+5 })
}

// verdict stops the nodes and fails the test if an old row was read.
func (w *cluster) verdict(name string) {
	w.Helper()
	before := w.published.Load()
	until(w, "twenty more changes are published", func() bool { return w.published.Load() > before+20 })
	w.end()
	storetest.Proof(w, "redis "+name, "changes", w.changes.Load())
	storetest.Proof(w, "redis "+name, "changes published", w.published.Load())
	storetest.Proof(w, "redis "+name, "reads", w.reads.Load())
	storetest.Proof(w, "redis "+name, "reads from caches", w.hits.Load())
	storetest.Proof(w, "redis "+name, "old rows after the acknowledgement", w.wrong.Load())
	if w.wrong.Load() > 0 {
		w.Errorf("%d old rows were read after their change was acknowledged", w.wrong.Load())
	}
	if w.hits.Load() < 1000 {
		w.Errorf("%d reads from caches prove little", w.hits.Load())
	}
}
