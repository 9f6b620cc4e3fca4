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

// town is nodes with caches as the gate has them, around rows that everybody can
// read and change. It counts what must not be: an old row read after its change
// was acknowledged.
type town struct {
	testing.TB
	options     Options
	rows, acked [townRows]atomic.Uint64
	nodes       []*townNode
	stop        context.CancelFunc
	ctx         context.Context
	wg          sync.WaitGroup

	changes, told, hits, reads, wrong atomic.Uint64
}

const townRows = 16

type townNode struct {
	*Store
	town *town
	sub  store.Subscription

	mu    sync.Mutex
	cache map[byte]cached
	count uint64 // of signals
}

type cached struct {
	version, epoch uint64
}

// newTown has a node for each address of a server, or of servers by commas.
func newTown(t testing.TB, o Options, addresses ...string) *town {
	t.Helper()
	o.Prefix = cmp.Or(o.Prefix, freshPrefix())
	w := &town{TB: t, options: o}
	w.ctx, w.stop = context.WithCancel(context.Background())
	for _, address := range addresses {
		w.add(address)
	}
	t.Cleanup(w.end)
	w.allHold()
	return w
}

func (w *town) add(address string) {
	w.Helper()
	o := w.options
	o.Addresses = strings.Split(address, ",")
	n := &townNode{Store: open(w, o), town: w, cache: map[byte]cached{}}
	sub, err := n.Signals().Subscribe(w.ctx, n.handle)
	if err != nil {
		w.Fatal(err)
	}
	n.sub = sub
	w.nodes = append(w.nodes, n)
}

func (w *town) allHold() {
	w.Helper()
	for _, n := range w.nodes {
		until(w, "every node holds a lease", n.holds)
	}
}

func (n *townNode) holds() bool {
	_, held := n.sub.Lease()
	return held
}

func (n *townNode) handle(s store.Signal) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.count++
	delete(n.cache, s.ID[0])
}

func (n *townNode) read(row byte) (version uint64, hit bool) {
	epoch, held := n.sub.Lease()
	if !held {
		return n.town.rows[row].Load(), false
	}
	n.mu.Lock()
	found, ok := n.cache[row]
	ticket := n.count
	n.mu.Unlock()
	if ok && found.epoch == epoch {
		return found.version, true
	}
	version = n.town.rows[row].Load()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.count == ticket {
		n.cache[row] = cached{version, epoch}
	}
	return version, false
}

// change is what a delete does: change the row, tell, wait a lease if nobody
// could be told, answer.
func (n *townNode) change(row byte) {
	w := n.town
	version := w.rows[row].Add(1)
	s := freshSignal()
	s.ID[0] = row
	if err := n.Signals().Publish(w.ctx, s); err == nil {
		w.told.Add(1)
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

// live lets every node read, and those of changers change, until end.
func (w *town) live(changers ...int) {
	for _, n := range w.nodes {
		w.wg.Go(func() {
			for w.ctx.Err() == nil {
				row := byte(rand.IntN(townRows))
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
					w.nodes[i].change(byte(rand.IntN(townRows)))
					_ = loop.Rest(w.ctx, time.Millisecond)
				}
			})
		}
	}
}

func (w *town) end() {
	w.stop()
	w.wg.Wait()
}

// rest lets the town live on for a while.
func (w *town) rest(d time.Duration) { _ = loop.Rest(w.ctx, d) }

// healed waits until every node holds a lease and changes are told again.
func (w *town) healed() {
	w.Helper()
	w.allHold()
	before := w.told.Load()
	until(w, "changes are told again", func() bool { return w.told.Load() > before+5 })
}

// verdict ends the town and says what was seen.
func (w *town) verdict(name string) {
	w.Helper()
	before := w.told.Load()
	until(w, "twenty more changes are told", func() bool { return w.told.Load() > before+20 })
	w.end()
	storetest.Proof(w, "redis "+name, "changes", w.changes.Load())
	storetest.Proof(w, "redis "+name, "changes told", w.told.Load())
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
