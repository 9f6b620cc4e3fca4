// Package gate decides what a viewer may see of an item. Every read of an item
// goes through it. The decision is Judge, a pure function of values and now; for
// an id past its deadline it is arithmetic on the id and needs no lookup.
//
// Rows are cached only while the lease of Signals is held, and for store.CacheAge
// at most; the answers are the same without a cache. The package never writes, and
// its answers never depend on whether a sweep has run (L2, I19).
package gate

import (
	"context"
	"fmt"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/loop"
)

// Options are the gate's settings.
type Options struct {
	// Relations says who is a follower, a close friend or blocked, and whose account is
	// private. If it is nil, no user has a relation, and only items for everyone are
	// served.
	Relations Relations
	// CacheRows is how many rows with their bodies are cached, and how many relations;
	// default 65,536, negative for none. Each KiB of a body counts as one more row.
	CacheRows int
	// MaxRestored is how many restored ids are kept in memory, 16 bytes each; default
	// 262,144. While there are more, they are looked up in the store.
	MaxRestored int
	// Elapsed is a clock that only runs forward; it measures the age of cached rows.
	// In a cluster it must also count the time in which the machine is suspended
	// (boot time). Nil uses the monotonic clock of the process, which does not.
	Elapsed func() time.Duration
}

func (o Options) withDefaults() Options {
	if o.Relations == nil {
		o.Relations = func(_ context.Context, _ mayfly.UserID, owners ...mayfly.UserID) ([]mayfly.Relation, error) {
			return make([]mayfly.Relation, len(owners)), nil
		}
	}
	if o.CacheRows == 0 {
		o.CacheRows = mayfly.DefaultCacheRows
	}
	if o.MaxRestored == 0 {
		o.MaxRestored = restoredMost
	}
	if o.Elapsed == nil {
		o.Elapsed = loop.Stopwatch()
	}
	return o
}

// Gate opens items for viewers. Safe for concurrent use.
type Gate struct {
	ledger   store.Ledger
	tables   store.Rows
	related  *relationCache
	rows     *rowCache
	reads    flights[mayfly.ID, *entry]
	restored *restoredSet
	signals  store.Subscription
	elapsed  func() time.Duration
}

// Opened is an item that a viewer may see.
type Opened struct {
	Item    mayfly.Item
	Body    mayfly.Body
	Verdict Verdict // Serve or Archived
	// Relation is how the owner stands to the viewer; zero of the viewer's own items, and
	// for moderators. Lists leave out by it what the viewer mutes or blocks.
	Relation mayfly.Relation
}

// New returns a gate in front of set. Close it to end its subscription.
func New(ctx context.Context, set store.Set, o Options) (*Gate, error) {
	o = o.withDefaults()
	g := &Gate{ledger: set.Ledger, tables: set.Rows, related: newRelationCache(o.Relations, o.CacheRows), rows: newRowCache(o.CacheRows), restored: newRestoredSet(ctx, set.Rows, o.MaxRestored), elapsed: o.Elapsed}
	sub, err := set.Signals.Subscribe(ctx, g.handle)
	if err != nil {
		return nil, fmt.Errorf("gate: subscribe to signals: %w", err)
	}
	g.signals = sub
	return g, nil
}

// Close ends the gate's subscription.
func (g *Gate) Close() error {
	defer g.restored.close()
	return g.signals.Close()
}

func (g *Gate) handle(s store.Signal) {
	switch s.Topic {
	case store.RowChanged:
		g.rows.forget(s.ID)
	case store.RestoredSet:
		g.restored.signalled(s.ID)
	case store.RelationsChanged:
		g.related.forget(pair{s.Owner, mayfly.UserID(s.ID)})
	}
}

// Open returns the item if viewer may see it at now. Otherwise the error is Gone
// once the id's deadline has passed and NotFound before it, with the same text for
// every reason, so that a refusal does not reveal whether the item exists (ST2).
func (g *Gate) Open(ctx context.Context, id mayfly.ID, viewer mayfly.Viewer, now mayfly.Instant) (Opened, error) {
	if g.goneByArithmetic(id, viewer, now) {
		restored, err := g.restoredAmong(ctx, now, id)
		if err != nil {
			return Opened{}, err
		}
		if !restored.has(id) {
			return Opened{}, mayfly.Gone
		}
	}
	ask := g.asking(viewer)
	e, cached, err := g.read(ctx, id, now, true)
	if err != nil {
		return Opened{}, fmt.Errorf("open %s: %w", id, err)
	}
	verdict, relation, err := e.judge(ctx, ask, viewer, now)
	if err == nil && cached && !verdict.shows() && readAgain(id, now) {
		if e, cached, err = g.read(ctx, id, now, false); err == nil {
			verdict, relation, err = e.judge(ctx, ask, viewer, now)
		}
	}
	if err == nil && !cached && (e.hasBody || !verdict.shows()) {
		g.keep(e)
	}
	if err == nil && verdict.shows() && !e.hasBody {
		if e, err = g.loadBody(ctx, e); err == nil {
			verdict, relation, err = e.judge(ctx, ask, viewer, now)
		}
	}
	if err != nil {
		return Opened{}, fmt.Errorf("open %s: %w", id, err)
	}
	if !verdict.shows() {
		return Opened{}, refusal(verdict)
	}
	assertServable(e.item, viewer, verdict, now)
	return Opened{Item: shown(e.item, relation), Body: e.body, Verdict: verdict, Relation: relation}, nil
}

// goneByArithmetic reports whether the id alone decides, unless the item was
// restored: its deadline has passed and the viewer can be neither its author nor a
// moderator.
func (g *Gate) goneByArithmetic(id mayfly.ID, viewer mayfly.Viewer, now mayfly.Instant) bool {
	return id.ExpiredAt(now) && !viewer.Moderator() && !viewer.MayHaveWritten(id)
}

// refusal returns the error for a verdict that shows nothing. It is the bare kind,
// so that the answers for a denied and for an absent item are the same bytes.
func refusal(v Verdict) error {
	if v == Gone {
		return mayfly.Gone
	}
	return mayfly.NotFound
}

// assertServable panics if an item would be served to a viewer after its end (I4).
func assertServable(item mayfly.Item, viewer mayfly.Viewer, verdict Verdict, now mayfly.Instant) {
	if item.EndedAt(now) && !viewer.Moderator() && !viewer.Wrote(item) || item.EndedAt(now) == (verdict == Serve) {
		panic(fmt.Sprintf("gate: %s would be served as %s past its end (I4)", item.ID, verdict))
	}
}

// lease returns the epoch and time to note on rows that are read from now on, and
// whether the lease is held: without it no cached row may be used.
func (g *Gate) lease() (from since, held bool) {
	epoch, held := g.signals.Lease()
	return since{epoch: epoch, at: g.elapsed()}, held
}

// in reports whether a value that was read at s may still be used at now: the
// lease is the same one, and the value is younger than age.
func (s since) in(now since, age time.Duration) bool {
	return s.epoch == now.epoch && now.at-s.at < age
}

// inDate reports whether e may be used. Background walks change the row of an
// ended item without a signal. No verdict depends on that, but the author is shown
// the state and the tier, so such a row is read again until it is cold (ST6).
func (e *entry) inDate(from since, now mayfly.Instant) bool {
	return e != nil && e.since.in(from, store.CacheAge) && (!e.item.EndedAt(now) || e.item.State == mayfly.Cold)
}

// read returns the entry of id, without its body unless that is cached: from the
// cache if it may be used and the lease is held, which it reports, else from the
// ledger. An id without a row has an entry like any other.
func (g *Gate) read(ctx context.Context, id mayfly.ID, now mayfly.Instant, useCache bool) (e *entry, cached bool, err error) {
	from, held := g.lease()
	known := g.rows.get(id)
	if useCache && held && known.inDate(from, now) {
		return known, true, nil
	}
	ticket := g.rows.ticket(id)
	if !useCache || !held || g.rows.entries == nil {
		e, err = g.readRow(ctx, id, known, from, ticket, held)
		return e, false, err
	}
	run, first := g.reads.join(id, from, ticket)
	if first {
		e, err = g.readRow(ctx, id, known, from, ticket, held)
		g.reads.end(id, run, e, err)
		return e, false, err
	}
	if e, err = run.wait(ctx); err != nil && ctx.Err() == nil { // the caller who read may have left
		e, err = g.readRow(ctx, id, known, from, ticket, held)
	}
	return e, false, err
}

func (g *Gate) readRow(ctx context.Context, id mayfly.ID, known *entry, from since, ticket uint64, held bool) (*entry, error) {
	row, err := g.ledger.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	e := newEntry(id, row[0], known, from)
	e.ticket, e.leased = ticket, held
	return e, nil
}

// keep caches e if the lease was held when it was read.
func (g *Gate) keep(e *entry) {
	if e.leased {
		g.rows.fill(e.item.ID, e, e.ticket)
	}
}

// loadBody returns e with its body.
func (g *Gate) loadBody(ctx context.Context, e *entry) (*entry, error) {
	body, err := g.ledger.Body(ctx, e.item.ID)
	if err != nil {
		return nil, err
	}
	if !body[0].Found {
		return g.bodiless(ctx, e)
	}
	e = e.with(body[0].Body)
	g.keep(e)
	return e, nil
}

// bodiless returns the entry of a row whose body was not found. An erasure deletes
// the row before it removes the body, so the row is read again. Errors: Corrupt
// (the row is not deleted).
func (g *Gate) bodiless(ctx context.Context, e *entry) (*entry, error) {
	row, err := g.ledger.Get(ctx, e.item.ID)
	switch {
	case err != nil:
		return nil, err
	case row[0].Found && row[0].Item.State != mayfly.Deleted:
		return nil, mayfly.Errorf(mayfly.Corrupt, "row of %s has no body", e.item.ID)
	}
	again := newEntry(e.item.ID, row[0], nil, e.since)
	again.ticket, again.leased = e.ticket, e.leased
	g.keep(again)
	return again, nil
}
