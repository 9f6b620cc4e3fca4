package gate

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/store"
)

const (
	// restoredPage is how many rows are read at once.
	restoredPage = 1_000
	// restoredAge is how long a loaded set is used. A restore is served after this
	// time at the latest, even if its node could not publish the signal.
	restoredAge = 10 * store.CacheAge
	// restoredMost is how many ids are kept in memory: 4 MiB, and as much again
	// while the set is loaded. Above it ids are looked up in the store (I17).
	restoredMost = 1 << 18
	// restoredWait is how long a load may take.
	restoredWait = 30 * time.Second
	// restoredEnded is how long an id is loaded after its time has ended, so that a
	// request that began earlier can use the same set.
	restoredEnded = time.Minute
)

// restoredSet is the set of restored ids, the only ids that may be served after
// their deadline. Those whose time has not ended are read and kept under the lease of Signals. A signal
// adds its id to what is kept, so that a restore costs no load, however many there
// are. An id that should no longer be in the set does no harm, because its row
// decides; it leaves with the next load. Without a lease, and above restoredMost,
// ids are looked up in the store (L2).
type restoredSet struct {
	rows store.Rows
	most int
	kept atomic.Pointer[restoredIDs]

	ctx    context.Context // of loads: callers share them, so that none of theirs may end one
	cancel context.CancelFunc
	loads  sync.WaitGroup

	mu      sync.Mutex // guards writes of kept and of what it points to, and the following
	current *load      // the load that is running; may be nil
}

// load is one read of the whole set, which its callers share.
type load struct {
	from   since
	now    mayfly.Instant
	leased bool        // the lease was held when it began: signals since then are in its result
	missed []mayfly.ID // signalled while it was running
	done   chan struct{}
	set    *restoredIDs
	err    error
}

// restoredIDs are ids by trace, sorted. Readers take no lock: a change replaces the
// slice of a trace.
type restoredIDs struct {
	since   since
	ending  mayfly.Instant // ids whose time ends before are not in it
	tooMany bool           // the ids are not in it
	count   int
	byTrace [mayfly.TraceMax + 1]atomic.Pointer[[]mayfly.ID]
}

func (r *restoredIDs) of(trace mayfly.Trace) []mayfly.ID {
	if ids := r.byTrace[trace].Load(); ids != nil {
		return *ids
	}
	return nil
}

func (r *restoredIDs) has(id mayfly.ID) bool {
	_, found := slices.BinarySearchFunc(r.of(id.Trace()), id, mayfly.ID.Compare)
	return found
}

func (r *restoredIDs) add(id mayfly.ID) {
	ids := r.of(id.Trace())
	at, found := slices.BinarySearchFunc(ids, id, mayfly.ID.Compare)
	if found {
		return
	}
	more := slices.Insert(slices.Clip(ids), at, id)
	r.byTrace[id.Trace()].Store(&more)
	r.count++
}

func newRestoredSet(ctx context.Context, rows store.Rows, most int) *restoredSet {
	r := &restoredSet{rows: rows, most: most}
	r.ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return r
}

// close ends a load that is running.
func (r *restoredSet) close() {
	r.cancel()
	r.loads.Wait()
}

// signalled notes that an id was added to the set or removed from it.
func (r *restoredSet) signalled(id mayfly.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current != nil {
		r.current.missed = append(r.current.missed, id)
	}
	if set := r.kept.Load(); set != nil {
		r.kept.Store(r.with(set, id))
	}
}

// with returns the set with ids: the same one while there are not too many.
func (r *restoredSet) with(set *restoredIDs, ids ...mayfly.ID) *restoredIDs {
	for _, id := range ids {
		if set.tooMany {
			break
		}
		if set.add(id); set.count > r.most {
			set = &restoredIDs{since: set.since, ending: set.ending, tooMany: true}
		}
	}
	return set
}

// leased returns the set as of the lease, for an answer at now, loading it if it is
// missing or too old. Callers that come while it is loaded wait for the same load. A
// set that is getting old is loaded anew while it is used.
func (r *restoredSet) leased(ctx context.Context, lease since, now mayfly.Instant) (*restoredIDs, error) {
	for {
		if set := r.kept.Load(); set != nil && set.since.in(lease, restoredAge) && set.ending <= now {
			if !set.since.in(lease, restoredAge/2) {
				r.join(lease, now, true)
			}
			return set, nil
		}
		l := r.join(lease, now, true)
		if err := l.wait(ctx); err != nil {
			return nil, err
		}
		if l.leased && l.from.epoch == lease.epoch && (l.err != nil || l.set.ending <= now) {
			return l.set, l.err
		}
	}
}

// fresh returns the set as of a load that begins after the call, for an answer at now.
func (r *restoredSet) fresh(ctx context.Context, lease since, now mayfly.Instant) (*restoredIDs, error) {
	r.mu.Lock()
	earlier := r.current
	r.mu.Unlock()
	for {
		if earlier != nil {
			if err := earlier.wait(ctx); err != nil {
				return nil, err
			}
		}
		l := r.join(lease, now, false)
		if err := l.wait(ctx); err != nil {
			return nil, err
		}
		if l.err != nil || l.set.ending <= now {
			return l.set, l.err
		}
		earlier = nil
	}
}

func (l *load) wait(ctx context.Context) error {
	select {
	case <-l.done:
		return nil
	case <-ctx.Done():
		return mayfly.Wrap(mayfly.Unavailable, fmt.Errorf("wait for the load of the restored set: %w", ctx.Err()), "")
	}
}

// join returns the load that is running, or begins one.
func (r *restoredSet) join(from since, now mayfly.Instant, leased bool) *load {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current == nil {
		l := &load{from: from, now: now, leased: leased, done: make(chan struct{})}
		r.current = l
		r.loads.Go(func() { r.run(l) })
	}
	return r.current
}

// run loads the set, adds what was signalled meanwhile, and keeps it if the lease
// was held.
func (r *restoredSet) run(l *load) {
	ctx, cancel := context.WithTimeout(r.ctx, restoredWait)
	defer cancel()
	set, err := r.read(ctx, l.from, l.now)
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.err = err; err == nil {
		l.set = r.with(set, l.missed...)
		if l.leased {
			r.kept.Store(l.set)
		}
	}
	r.current = nil
	close(l.done)
}

// read reads the ids whose time has not ended at now, or finds that there are too
// many.
func (r *restoredSet) read(ctx context.Context, from since, now mayfly.Instant) (*restoredIDs, error) {
	set := &restoredIDs{since: from, ending: now.Add(-restoredEnded)}
	var byTrace [mayfly.TraceMax + 1][]mayfly.ID
	err := r.pages(ctx, engine.RestoredDays, engine.RestoredDaysFrom(set.ending), func(days []store.Row) (bool, error) {
		for _, day := range days {
			err := r.pages(ctx, engine.RestoredDays, engine.RestoredOn(day.Clustering, set.ending), func(entries []store.Row) (bool, error) {
				for _, entry := range entries {
					id, err := engine.ReadRestored(entry)
					if err != nil {
						return false, err
					}
					byTrace[id.Trace()] = append(byTrace[id.Trace()], id)
				}
				set.count += len(entries)
				set.tooMany = set.count > r.most
				return !set.tooMany, nil
			})
			if err != nil || set.tooMany {
				return false, err
			}
		}
		return true, nil
	})
	if err != nil {
		return nil, fmt.Errorf("load the restored set: %w", err)
	}
	if set.tooMany {
		return set, nil
	}
	set.count = 0
	for trace, ids := range byTrace {
		slices.SortFunc(ids, mayfly.ID.Compare)
		ids = slices.Compact(ids) // a restore that was prolonged has two entries
		set.byTrace[trace].Store(&ids)
		set.count += len(ids)
	}
	return set, nil
}

// pages calls do with the rows of a range, page by page, until it returns false.
func (r *restoredSet) pages(ctx context.Context, t store.Table, next store.Range, do func([]store.Row) (bool, error)) error {
	next.Limit = restoredPage
	for {
		page, err := r.rows.Range(ctx, t, next)
		if err != nil {
			return err
		}
		if more, err := do(page); err != nil || !more || len(page) < restoredPage {
			return err
		}
		next.From = page[len(page)-1].Clustering + "\x00"
	}
}

// lookUp reports which ids are in the set, by one read of the store.
func (r *restoredSet) lookUp(ctx context.Context, ids ...mayfly.ID) (map[mayfly.ID]bool, error) {
	keys := make([]store.Key, len(ids))
	for i, id := range ids {
		keys[i] = engine.RestoredKey(id)
	}
	found, err := r.rows.Get(ctx, engine.Restored, keys...)
	if err != nil {
		return nil, fmt.Errorf("look up %d ids in the restored set: %w", len(ids), err)
	}
	in := make(map[mayfly.ID]bool, len(ids))
	for i, entry := range found {
		in[ids[i]] = entry != nil
	}
	return in, nil
}

// ofOwner returns the restored ids of an owner by looking up each of the owner's
// items: slow, in the memory of a page, however many restored ids there are.
func (r *restoredSet) ofOwner(ctx context.Context, owner mayfly.UserID) (restored []mayfly.ID, err error) {
	err = r.pages(ctx, engine.Owners, store.Range{Partition: string(owner[:])}, func(page []store.Row) (bool, error) {
		ids := make([]mayfly.ID, len(page))
		for i, row := range page {
			if len(row.Clustering) != len(mayfly.ID{}) {
				return false, mayfly.Errorf(mayfly.Corrupt, "table %s: a key has %d bytes", engine.Owners, len(row.Clustering))
			}
			ids[i] = mayfly.ID([]byte(row.Clustering))
		}
		in, err := r.lookUp(ctx, ids...)
		for _, id := range ids {
			if in[id] {
				restored = append(restored, id)
			}
		}
		return true, err
	})
	return restored, err
}

// restoredAmong reports which of ids are restored and may serve at now, by what is
// kept if it may be used, and by one read of the store otherwise.
func (g *Gate) restoredAmong(ctx context.Context, now mayfly.Instant, ids ...mayfly.ID) (restoredAnswer, error) {
	if lease, held := g.lease(); held {
		set, err := g.restored.leased(ctx, lease, now)
		if err != nil || !set.tooMany {
			return restoredAnswer{set: set}, err
		}
	}
	in, err := g.restored.lookUp(ctx, ids...)
	return restoredAnswer{in: in}, err
}

// restoredAnswer says which ids are restored: by the set, or by a read if set is nil.
type restoredAnswer struct {
	set *restoredIDs
	in  map[mayfly.ID]bool
}

func (a restoredAnswer) has(id mayfly.ID) bool {
	if a.set != nil {
		return a.set.has(id)
	}
	return a.in[id]
}

// RestoredOf returns the restored ids of an owner that may serve at now, in no order,
// and perhaps some that do not or are of other owners, which their rows tell. A list of an owner's items must ask
// for them too, because their deadlines have passed (ST11).
func (g *Gate) RestoredOf(ctx context.Context, owner mayfly.UserID, now mayfly.Instant) ([]mayfly.ID, error) {
	set, err := g.restoredNow(ctx, now)
	if err != nil {
		return nil, err
	}
	return g.restored.among(ctx, set, owner)
}

// restoredNow returns the set for an answer at now.
func (g *Gate) restoredNow(ctx context.Context, now mayfly.Instant) (*restoredIDs, error) {
	lease, held := g.lease()
	if held {
		return g.restored.leased(ctx, lease, now)
	}
	return g.restored.fresh(ctx, lease, now)
}

// among returns what RestoredOf says, by a set.
func (r *restoredSet) among(ctx context.Context, set *restoredIDs, owner mayfly.UserID) ([]mayfly.ID, error) {
	if set.tooMany {
		return r.ofOwner(ctx, owner)
	}
	return slices.Clone(set.of(owner.Trace())), nil
}
