package gate

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/maypok86/otter/v2"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Relations returns the relation of each owner to viewer, in their order. An anonymous
// viewer is the zero user: only whether the owner's account is private matters then.
type Relations func(ctx context.Context, viewer mayfly.UserID, owners ...mayfly.UserID) ([]mayfly.Relation, error)

// pair is an owner and a viewer.
type pair struct{ owner, viewer mayfly.UserID }

// relation is a cached relation.
type relation struct {
	flags  mayfly.Relation
	since  since
	ticket uint64
}

// relationCache caches relations as rowCache caches rows: under the lease of Signals,
// for store.CacheAge at most. A relation is dropped by a signal about its pair, or about
// its owner and every user, which counts up one of the counters that its ticket is the
// sum of. Concurrent misses of one pair are one read.
type relationCache struct {
	ask     Relations
	entries *otter.Cache[pair, relation] // nil when nothing is cached
	reads   flights[pair, mayfly.Relation]
	pairs   [4096]atomic.Uint64
	owners  [4096]atomic.Uint64
}

func newRelationCache(ask Relations, most int) *relationCache {
	c := &relationCache{ask: ask}
	if most > 0 {
		c.entries = otter.Must(&otter.Options[pair, relation]{MaximumSize: most})
	}
	return c
}

func (c *relationCache) counters(p pair) (ofPair, ofOwner *atomic.Uint64) {
	owner, viewer := binary.BigEndian.Uint64(p.owner[8:]), binary.BigEndian.Uint64(p.viewer[8:])
	return &c.pairs[(owner^viewer>>13)%uint64(len(c.pairs))], &c.owners[owner%uint64(len(c.owners))]
}

// ticket changes with every signal about the pair.
func (c *relationCache) ticket(p pair) uint64 {
	ofPair, ofOwner := c.counters(p)
	return ofPair.Load() + ofOwner.Load()
}

func (c *relationCache) forget(p pair) {
	ofPair, ofOwner := c.counters(p)
	if p.viewer.IsZero() {
		ofOwner.Add(1)
		return
	}
	ofPair.Add(1)
}

// asker knows the relations of owners to one viewer for one request, so that each
// owner is looked up once.
type asker struct {
	g      *Gate
	viewer mayfly.UserID
	known  map[mayfly.UserID]mayfly.Relation
	showed bool
}

func (g *Gate) asking(viewer mayfly.Viewer) *asker {
	return &asker{g: g, viewer: viewer.User()}
}

// learn looks up the relations of owners that are not known yet, with one call for
// those that are not cached. With fresh the cache is not used.
func (a *asker) learn(ctx context.Context, fresh bool, owners ...mayfly.UserID) error {
	if a.known == nil {
		a.known = make(map[mayfly.UserID]mayfly.Relation, len(owners))
	}
	missing := make([]mayfly.UserID, 0, len(owners))
	for _, owner := range owners {
		if _, ok := a.known[owner]; !ok {
			missing = append(missing, owner)
			a.known[owner] = 0 // once each
		}
	}
	found, err := a.g.relate(ctx, a.viewer, missing, fresh)
	for i, owner := range missing {
		if err != nil {
			delete(a.known, owner)
			continue
		}
		a.known[owner] = found[i]
	}
	return err
}

// forShow reads the relation to an owner whom no user is, once.
func (a *asker) forShow(ctx context.Context, owner mayfly.UserID) error {
	if a.showed {
		return nil
	}
	_, err := a.g.related.read(ctx, a.viewer, []mayfly.UserID{owner})
	a.showed = err == nil
	return err
}

// cached returns the relation of an owner if it is known or cached.
func (a *asker) cached(owner mayfly.UserID) (mayfly.Relation, bool) {
	if r, ok := a.known[owner]; ok {
		return r, true
	}
	return a.g.cachedRelation(pair{owner, a.viewer})
}

func (g *Gate) cachedRelation(p pair) (mayfly.Relation, bool) {
	from, held := g.lease()
	if !held || g.related.entries == nil {
		return 0, false
	}
	r, ok := g.related.entries.GetIfPresent(p)
	if !ok || r.ticket != g.related.ticket(p) || !r.since.in(from, store.CacheAge) {
		return 0, false
	}
	return r.flags, true
}

// manyOwners is from how many owners on a caller does not share its reads: few others
// read the same list at the same time.
const manyOwners = 64

// relate returns the relations of owners to viewer.
func (g *Gate) relate(ctx context.Context, viewer mayfly.UserID, owners []mayfly.UserID, fresh bool) ([]mayfly.Relation, error) {
	c, all := g.related, make([]mayfly.Relation, len(owners))
	from, held := g.lease()
	if len(owners) > 0 && (!held || c.entries == nil) {
		return c.read(ctx, viewer, owners)
	}
	mine, others := make([]int, 0, len(owners)), []int(nil)
	runs := make([]*flight[mayfly.Relation], len(owners))
	var alone []flight[mayfly.Relation]
	if len(owners) > manyOwners {
		alone = make([]flight[mayfly.Relation], len(owners))
	}
	for i, owner := range owners {
		p := pair{owner, viewer}
		if r, ok := g.cachedRelation(p); ok && !fresh {
			all[i] = r
			continue
		}
		if alone != nil {
			runs[i], mine = &alone[i], append(mine, i)
			runs[i].since, runs[i].ticket = from, c.ticket(p)
			continue
		}
		var first bool
		if runs[i], first = c.reads.join(p, from, c.ticket(p)); first {
			mine = append(mine, i)
		} else {
			others = append(others, i)
		}
	}
	if err := c.readMine(ctx, viewer, owners, mine, runs, all); err != nil {
		return nil, err
	}
	for _, i := range others {
		r, err := runs[i].wait(ctx)
		if err != nil && ctx.Err() == nil { // the caller who read may have left
			var again []mayfly.Relation
			if again, err = c.read(ctx, viewer, owners[i:i+1]); err == nil {
				r = again[0]
			}
		}
		if err != nil {
			return nil, err
		}
		all[i] = r
	}
	return all, nil
}

// readMine reads the relations whose reads are this caller's, and caches them.
func (c *relationCache) readMine(ctx context.Context, viewer mayfly.UserID, owners []mayfly.UserID, mine []int, runs []*flight[mayfly.Relation], all []mayfly.Relation) error {
	if len(mine) == 0 {
		return nil
	}
	asked := make([]mayfly.UserID, len(mine))
	for n, i := range mine {
		asked[n] = owners[i]
	}
	found, err := c.read(ctx, viewer, asked)
	for n, i := range mine {
		p, run := pair{owners[i], viewer}, runs[i]
		if err == nil {
			all[i] = found[n]
			if c.ticket(p) == run.ticket { // get compares it again
				c.entries.Set(p, relation{flags: found[n], since: run.since, ticket: run.ticket})
			}
		}
		if run.done != nil {
			c.reads.end(p, run, all[i], err)
		}
	}
	return err
}

func (c *relationCache) read(ctx context.Context, viewer mayfly.UserID, owners []mayfly.UserID) ([]mayfly.Relation, error) {
	found, err := c.ask(ctx, viewer, owners...)
	if err == nil && len(found) != len(owners) {
		err = mayfly.Errorf(mayfly.Corrupt, "%d relations for %d owners", len(found), len(owners))
	}
	if err != nil {
		return nil, fmt.Errorf("relations: %w", err)
	}
	return found, nil
}

// flights are the reads that run, so that concurrent misses of one key are one read.
type flights[K comparable, V any] struct {
	mu      sync.Mutex
	running map[K]*flight[V]
}

// flight is one read, which its callers share.
type flight[V any] struct {
	since  since
	ticket uint64
	done   chan struct{}
	value  V
	err    error
}

// join returns the read of a key that runs, if what it reads may be used by a caller
// who came just now: it began in the same lease, not long ago, and no signal has come
// since. Otherwise it begins one, which the caller must end.
func (f *flights[K, V]) join(key K, now since, ticket uint64) (run *flight[V], first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if run := f.running[key]; run != nil && run.ticket == ticket && run.since.in(now, store.CacheAge) {
		return run, false
	}
	if f.running == nil {
		f.running = map[K]*flight[V]{}
	}
	run = &flight[V]{since: now, ticket: ticket, done: make(chan struct{})}
	f.running[key] = run
	return run, true
}

func (f *flights[K, V]) end(key K, run *flight[V], value V, err error) {
	f.mu.Lock()
	if f.running[key] == run {
		delete(f.running, key)
	}
	f.mu.Unlock()
	run.value, run.err = value, err
	close(run.done)
}

func (f *flight[V]) wait(ctx context.Context) (V, error) {
	select {
	case <-f.done:
		return f.value, f.err
	case <-ctx.Done():
		var none V
		return none, mayfly.Wrap(mayfly.Unavailable, fmt.Errorf("wait for a read: %w", ctx.Err()), "")
	}
}
