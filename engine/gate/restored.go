package gate

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/store"
)

// restoredPage is how many restored ids are read at once.
const restoredPage = 1_000

// restoredAge is how long a loaded set is used. An id that should no longer be in
// the set does no harm, because its row decides. A restore is served after this
// time at the latest, even if its node could not publish the signal.
const restoredAge = 10 * store.CacheAge

// restoredSet is the set of restored ids, the only ids that may be served after
// their deadline. It is small, so it is read whole and cached under the lease of
// Signals. Without a lease ids are looked up in the store (L2).
type restoredSet struct {
	rows store.Rows
	held atomic.Pointer[restoredIDs]

	loading chan struct{} // allows one load at a time; a channel, so that ctx can end the wait
	mu      sync.Mutex    // guards writes of held, and changed
	changed uint64        // number of signals received
}

type restoredIDs struct {
	ids     map[mayfly.ID]struct{}
	byTrace map[mayfly.Trace][]mayfly.ID
	since   since
}

func newRestoredIDs(from since) *restoredIDs {
	return &restoredIDs{ids: make(map[mayfly.ID]struct{}), byTrace: make(map[mayfly.Trace][]mayfly.ID), since: from}
}

func (r *restoredIDs) add(id mayfly.ID) {
	r.ids[id] = struct{}{}
	r.byTrace[id.Trace()] = append(r.byTrace[id.Trace()], id)
}

func newRestoredSet(rows store.Rows) *restoredSet {
	return &restoredSet{rows: rows, loading: make(chan struct{}, 1)}
}

func (r *restoredSet) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changed++
	r.held.Store(nil)
}

func (r *restoredSet) signals() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}

// keep caches set unless a signal came after before was read: then the set may be
// outdated, and the next read loads it again.
func (r *restoredSet) keep(set *restoredIDs, before uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changed == before {
		r.held.Store(set)
	}
}

func (g *Gate) isRestored(ctx context.Context, id mayfly.ID) (bool, error) {
	from, held := g.lease()
	if !held {
		return g.restored.lookUp(ctx, id)
	}
	set, err := g.restored.at(ctx, from)
	if err != nil {
		return false, err
	}
	_, restored := set.ids[id]
	return restored, nil
}

// restoredNow returns the whole set, from the cache while the lease is held.
func (g *Gate) restoredNow(ctx context.Context) (*restoredIDs, error) {
	from, held := g.lease()
	if held {
		return g.restored.at(ctx, from)
	}
	return g.restored.read(ctx, from)
}

// at returns the cached set, and loads it if it is missing or too old.
func (r *restoredSet) at(ctx context.Context, now since) (*restoredIDs, error) {
	if set := r.held.Load(); set != nil && set.since.in(now, restoredAge) {
		return set, nil
	}
	return r.load(ctx, now)
}

func (r *restoredSet) lookUp(ctx context.Context, id mayfly.ID) (bool, error) {
	found, err := r.rows.Get(ctx, engine.Restored, engine.RestoredKey(id))
	if err != nil {
		return false, fmt.Errorf("look up %s in the restored set: %w", id, err)
	}
	return found[0] != nil, nil
}

// load reads the whole set and caches it if no signal came during the read.
func (r *restoredSet) load(ctx context.Context, now since) (*restoredIDs, error) {
	select {
	case r.loading <- struct{}{}:
		defer func() { <-r.loading }()
	case <-ctx.Done():
		return nil, mayfly.Wrap(mayfly.Unavailable, fmt.Errorf("wait for the load of the restored set: %w", ctx.Err()), "")
	}
	if set := r.held.Load(); set != nil && set.since.in(now, restoredAge) {
		return set, nil
	}
	before := r.signals()
	set, err := r.read(ctx, now)
	if err != nil {
		return nil, err
	}
	r.keep(set, before)
	return set, nil
}

func (r *restoredSet) read(ctx context.Context, from since) (*restoredIDs, error) {
	set := newRestoredIDs(from)
	for shard := range mayfly.Shards {
		if err := r.readShard(ctx, set, string([]byte{byte(shard)})); err != nil {
			return nil, fmt.Errorf("load the restored set: %w", err)
		}
	}
	return set, nil
}

func (r *restoredSet) readShard(ctx context.Context, set *restoredIDs, partition string) error {
	from := ""
	for {
		page, err := r.rows.Range(ctx, engine.Restored, store.Range{Partition: partition, From: from, Limit: restoredPage})
		if err != nil {
			return err
		}
		for _, row := range page {
			if len(row.Clustering) != len(mayfly.ID{}) {
				return mayfly.Errorf(mayfly.Corrupt, "restored set: key has %d bytes", len(row.Clustering))
			}
			set.add(mayfly.ID([]byte(row.Clustering)))
		}
		if len(page) < restoredPage {
			return nil
		}
		from = page[len(page)-1].Clustering + "\x00"
	}
}
