package node_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/store"
)

// lease is the time of a lease in these tests: the default.
const lease = 5 * time.Second

// nodeCluster is several nodes on one store, in a bubble of testing/synctest. The
// store's servers have the bubble's time.
type nodeCluster struct {
	t   *testing.T
	set store.Set
}

// member is one node of a cluster, with a machine and a connection of its own.
type member struct {
	*node.Node
	machine *machine
	wire    *cable
}

func inCluster(t *testing.T, test func(t *testing.T, w *nodeCluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		set, closed := open(t)
		defer closed()
		set.Time = servers{}
		test(t, &nodeCluster{t: t, set: set})
	})
}

// servers is three servers, one of which is an hour behind.
type servers struct{}

func (servers) Time(ctx context.Context) ([]mayfly.Instant, error) {
	now := mayfly.InstantOf(time.Now())
	return []mayfly.Instant{now.Add(-time.Hour), now, now}, ctx.Err()
}

// join starts a node of the cluster.
func (w *nodeCluster) join(name string, o node.Options) *member {
	w.t.Helper()
	c := &member{machine: newMachine(), wire: &cable{}}
	o.Name = name
	if o.Source.Read == nil {
		o.Source = c.machine.source()
	}
	c.Node = start(w.t, c.wire.through(w.set), o)
	return c
}

// shares returns how many shards each node walks. No shard is walked by two.
func (w *nodeCluster) shares(all ...*member) (counts []int) {
	w.t.Helper()
	by := map[mayfly.Shard]int{}
	for i, c := range all {
		held := c.Shards()
		counts = append(counts, len(held))
		for _, s := range held {
			if other, twice := by[s]; twice {
				w.t.Errorf("shard %d is walked by %d and %d", s, other, i)
			}
			by[s] = i
		}
	}
	return counts
}

func (w *nodeCluster) wantShares(want []int, all ...*member) {
	w.t.Helper()
	if got := w.shares(all...); !slices.Equal(got, want) {
		w.t.Errorf("shares %v, want %v", got, want)
	}
}

// settle waits until every node has looked at the roll a few times.
func (w *nodeCluster) settle() { time.Sleep(lease) }

// cable is a node's connection to the store. It can be cut, or hold up every request,
// as when the process is stopped by a signal.
type cable struct {
	mu     sync.Mutex
	cut    error
	trap   bool // the next transition freezes the connection
	frozen chan struct{}
	stale  int           // transitions that arrived late
	slow   time.Duration // of a transition; set before the node has any
}

func (x *cable) cutOff()    { x.set(mayfly.Errorf(mayfly.Unavailable, "the connection is cut")) }
func (x *cable) reconnect() { x.set(nil) }

func (x *cable) set(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.cut = err
}

// freeze holds up everything until thaw.
func (x *cable) freeze() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.frozen = make(chan struct{})
}

// freezeInABatch is freeze when the next transition is on its way.
func (x *cable) freezeInABatch() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.trap = true
}

func (x *cable) thaw() {
	x.mu.Lock()
	defer x.mu.Unlock()
	close(x.frozen)
	x.frozen = nil
}

// send waits while the connection is frozen. A request that was sent before arrives
// then, whether or not its caller still waits.
func (x *cable) send(ctx context.Context) (context.Context, error) {
	x.mu.Lock()
	frozen, err := x.frozen, x.cut
	x.mu.Unlock()
	if frozen != nil {
		<-frozen
		return context.WithoutCancel(ctx), nil
	}
	return ctx, err
}

func (x *cable) sendTransitions(ctx context.Context, n int) (context.Context, error) {
	x.mu.Lock()
	if x.trap {
		x.trap, x.frozen = false, make(chan struct{})
	}
	if x.frozen != nil {
		x.stale += n
	}
	x.mu.Unlock()
	return x.send(ctx)
}

func (x *cable) through(set store.Set) store.Set {
	set.Rows, set.Ledger, set.Writer = wiredRows{set.Rows, x}, wiredLedger{set.Ledger, x}, wiredWriter{set.Writer, x}
	return set
}

type wiredRows struct {
	store.Rows
	x *cable
}

func (r wiredRows) Get(ctx context.Context, t store.Table, keys ...store.Key) ([][]byte, error) {
	ctx, err := r.x.send(ctx)
	if err != nil {
		return nil, err
	}
	return r.Rows.Get(ctx, t, keys...)
}

func (r wiredRows) Range(ctx context.Context, t store.Table, a store.Range) ([]store.Row, error) {
	ctx, err := r.x.send(ctx)
	if err != nil {
		return nil, err
	}
	return r.Rows.Range(ctx, t, a)
}

func (r wiredRows) Ranges(ctx context.Context, t store.Table, all ...store.Range) ([][]store.Row, error) {
	return store.EachRange(ctx, r.Range, t, all)
}

func (r wiredRows) Swap(ctx context.Context, t store.Table, key store.Key, old, next []byte, at mayfly.Instant) (bool, []byte, error) {
	ctx, err := r.x.send(ctx)
	if err != nil {
		return false, nil, err
	}
	return r.Rows.Swap(ctx, t, key, old, next, at)
}

type wiredLedger struct {
	store.Ledger
	x *cable
}

func (l wiredLedger) Walk(ctx context.Context, s store.Stretch, limit int) ([]mayfly.Item, error) {
	ctx, err := l.x.send(ctx)
	if err != nil {
		return nil, err
	}
	return l.Ledger.Walk(ctx, s, limit)
}

func (l wiredLedger) Transition(ctx context.Context, changes []mayfly.Change) ([]store.Outcome, error) {
	if l.x.slow > 0 {
		time.Sleep(l.x.slow)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	ctx, err := l.x.sendTransitions(ctx, len(changes))
	if err != nil {
		return nil, err
	}
	return l.Ledger.Transition(ctx, changes)
}

type wiredWriter struct {
	store.Writer
	x *cable
}

func (w wiredWriter) Commit(ctx context.Context, b *store.Batch) error {
	ctx, err := w.x.send(ctx)
	if err != nil {
		return err
	}
	return w.Writer.Commit(ctx, b)
}

// expired returns an error unless each item has expired exactly once and the log has
// its event under one key.
func (w *nodeCluster) expired(items []mayfly.Item) error {
	keys := map[mayfly.ID]map[mayfly.EventKey]bool{}
	for _, e := range w.events() {
		if keys[e.ID] == nil {
			keys[e.ID] = map[mayfly.EventKey]bool{}
		}
		keys[e.ID][e.Key()] = true
	}
	for _, row := range w.rows(items) {
		switch {
		case row.State != mayfly.ExpiredHot:
			return fmt.Errorf("LOST: %s is %s", row.ID, row.State)
		case row.Generation != mayfly.Born+1:
			return fmt.Errorf("DOUBLE: %s was moved to generation %d", row.ID, row.Generation)
		case len(keys[row.ID]) != 1:
			return fmt.Errorf("events of %s: %v", row.ID, keys[row.ID])
		}
	}
	return nil
}

// rows returns items as they are stored.
func (w *nodeCluster) rows(items []mayfly.Item) (rows []mayfly.Item) {
	w.t.Helper()
	for _, item := range items {
		found, err := w.set.Ledger.Get(context.Background(), item.ID)
		if err != nil || !found[0].Found {
			w.t.Fatalf("%s: %v", item.ID, err)
		}
		rows = append(rows, found[0].Item)
	}
	return rows
}

// events returns every event of the stream of ends.
func (w *nodeCluster) events() (all []mayfly.Event) {
	w.t.Helper()
	ctx := context.Background()
	r, err := w.set.Log.Reader(ctx, mayfly.Ends, "test")
	if err != nil {
		w.t.Fatal(err)
	}
	defer r.Close()
	for {
		if lag, err := r.Lag(ctx); err != nil {
			w.t.Fatal(err)
		} else if lag == 0 {
			return all
		}
		records, err := r.Next(ctx, 1000)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, record := range records {
			all = append(all, record.Event)
		}
	}
}

func newKey(t *testing.T) *account.Key {
	t.Helper()
	key, err := account.LoadKey(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// handlers returns the handlers of the node's listeners.
func (c *member) handlers(t *testing.T) (admin, public http.Handler) {
	t.Helper()
	api, err := c.API(node.ServeOptions{Version: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	return api.Admin(), api.Public()
}
