// Package gate is in charge of the one door that every read goes through. What
// a viewer gets is decided by Judge, a pure function of values and now; for an
// id past its deadline the answer is arithmetic and needs no lookup (L2).
//
// It caches rows only under the lease of Signals and for store.CacheAge at most,
// and answers the same without any cache (I19). It never writes, and never asks whether a sweep has run.
package gate

import (
	"context"
	"fmt"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/loop"
)

// Relations says how owner stands to viewer. It is asked only where that decides.
type Relations func(ctx context.Context, owner, viewer mayfly.UserID) (mayfly.Relation, error)

// Options are the gate's settings.
type Options struct {
	// Relations answers who follows, who is a close friend, who is blocked. Nil:
	// nobody is anything, so that only the audience everyone is served.
	Relations Relations
	// CacheRows is how many rows with their bodies are cached; default 65,536,
	// negative for none. A body counts once more for every KiB that it has.
	CacheRows int
	// Elapsed is time that only runs forward, by which what is cached gets old. In
	// a cluster it counts the time in which the machine is suspended: boot time.
	// Nil: the process's, which does not.
	Elapsed func() time.Duration
}

func (o Options) withDefaults() Options {
	if o.Relations == nil {
		o.Relations = func(context.Context, mayfly.UserID, mayfly.UserID) (mayfly.Relation, error) { return 0, nil }
	}
	if o.CacheRows == 0 {
		o.CacheRows = mayfly.DefaultCacheRows
	}
	if o.Elapsed == nil {
		o.Elapsed = loop.Stopwatch()
	}
	return o
}

// Gate opens items for viewers. Safe for concurrent use.
type Gate struct {
	ledger    store.Ledger
	relations Relations
	rows      *rowCache
	restored  *restoredSet
	signals   store.Subscription
	elapsed   func() time.Duration
}

// Opened is an item that a viewer may see.
type Opened struct {
	Item    mayfly.Item
	Body    mayfly.Body
	Verdict Verdict // Serve or Archived
}

// New is a gate in front of set. Close it to end its subscription.
func New(ctx context.Context, set store.Set, o Options) (*Gate, error) {
	o = o.withDefaults()
	g := &Gate{ledger: set.Ledger, relations: o.Relations, rows: newRowCache(o.CacheRows), restored: newRestoredSet(set.Rows), elapsed: o.Elapsed}
	sub, err := set.Signals.Subscribe(ctx, g.handle)
	if err != nil {
		return nil, fmt.Errorf("gate: subscribe to signals: %w", err)
	}
	g.signals = sub
	return g, nil
}

// Close ends the gate's subscription.
func (g *Gate) Close() error { return g.signals.Close() }

func (g *Gate) handle(s store.Signal) {
	switch s.Topic {
	case store.RowChanged:
		g.rows.forget(s.ID)
	case store.RestoredSet:
		g.restored.forget()
	}
}

// Open is the item for viewer at now, or an error that tells no more than ST2
// allows: Gone once the id's deadline has passed, NotFound before it, with the
// same text whatever the reason.
func (g *Gate) Open(ctx context.Context, id mayfly.ID, viewer mayfly.Viewer, now mayfly.Instant) (Opened, error) {
	if g.goneByArithmetic(id, viewer, now) {
		restored, err := g.isRestored(ctx, id)
		if err != nil {
			return Opened{}, err
		}
		if !restored {
			return Opened{}, mayfly.Gone
		}
	}
	entry, found, err := g.read(ctx, id, now)
	if err != nil {
		return Opened{}, fmt.Errorf("open %s: %w", id, err)
	}
	if !found {
		return Opened{}, refusal(refused(id, now))
	}
	verdict, err := judge(ctx, g.relations, entry.item, viewer, now)
	if err != nil {
		return Opened{}, fmt.Errorf("open %s: relations: %w", id, err)
	}
	if !verdict.shows() {
		return Opened{}, refusal(verdict)
	}
	assertServable(entry.item, viewer, verdict, now)
	return Opened{Item: entry.item, Body: entry.body, Verdict: verdict}, nil
}

// goneByArithmetic says that, but for the restored set, the id alone decides:
// its deadline has passed and the viewer can be neither author nor moderator.
func (g *Gate) goneByArithmetic(id mayfly.ID, viewer mayfly.Viewer, now mayfly.Instant) bool {
	return id.ExpiredAt(now) && !viewer.Moderator() && !viewer.MayHaveWritten(id)
}

// refusal is the error for a verdict that shows nothing: the bare kind, so that
// denial and absence are the same bytes.
func refusal(v Verdict) error {
	if v == Gone {
		return mayfly.Gone
	}
	return mayfly.NotFound
}

// judge asks how the owner stands to the viewer only where that decides: not of
// what is refused to the closest friend, nor for whom no relation is needed.
func judge(ctx context.Context, relations Relations, item mayfly.Item, viewer mayfly.Viewer, now mayfly.Instant) (Verdict, error) {
	best := Judge(item, viewer, mayfly.Follower|mayfly.CloseFriend, now)
	if !best.shows() || viewer.User().IsZero() || viewer.Moderator() || viewer.Wrote(item) {
		return Judge(item, viewer, 0, now), nil
	}
	relation, err := relations(ctx, item.Owner, viewer.User())
	if err != nil {
		return 0, err
	}
	return Judge(item, viewer, relation, now), nil
}

// assertServable states I4 where it would be broken.
func assertServable(item mayfly.Item, viewer mayfly.Viewer, verdict Verdict, now mayfly.Instant) {
	if item.EndedAt(now) && !viewer.Moderator() && !viewer.Wrote(item) || item.EndedAt(now) == (verdict == Serve) {
		panic(fmt.Sprintf("gate: %s would be served as %s past its end (I4)", item.ID, verdict))
	}
}

// lease is what may be cached from now on, and whether anything may be used that
// was cached before.
func (g *Gate) lease() (from since, held bool) {
	epoch, held := g.signals.Lease()
	return since{epoch: epoch, at: g.elapsed()}, held
}

// in says whether what is known since s may still be used at now: it is of the
// same lease and not too old.
func (s since) in(now since, age time.Duration) bool {
	return s.epoch == now.epoch && now.at-s.at < age
}

// inDate says whether e can be relied on. What has ended is moved on by walks
// that tell nobody: no verdict depends on that, but its author is shown state and
// tier (ST6), so that it is read again until it has come to rest.
func (e *entry) inDate(from since, now mayfly.Instant) bool {
	return e != nil && e.since.in(from, store.CacheAge) && (!e.item.EndedAt(now) || e.item.State == mayfly.Cold)
}

// read is the row and body of id, from the cache while its lease is held.
func (g *Gate) read(ctx context.Context, id mayfly.ID, now mayfly.Instant) (*entry, bool, error) {
	from, held := g.lease()
	known := g.rows.get(id)
	if held && known.inDate(from, now) {
		return known, true, nil
	}
	ticket := g.rows.ticket(id)
	row, err := g.ledger.Get(ctx, id)
	if err != nil {
		return nil, false, err
	}
	if !row[0].Found {
		return nil, false, nil
	}
	e := &entry{item: row[0].Item, since: from}
	if e.item.State != mayfly.Deleted {
		if e, err = g.withBody(ctx, e, known); e == nil {
			return nil, false, err
		}
	}
	if held {
		g.rows.fill(id, e, ticket)
	}
	return e, true, nil
}

// withBody is e with its body, from what is known of it or from the ledger; nil
// if the row has gone meanwhile.
func (g *Gate) withBody(ctx context.Context, e, known *entry) (*entry, error) {
	if body, ok := known.knownBody(); ok {
		e.body = body
		return e, nil
	}
	body, err := g.ledger.Body(ctx, e.item.ID)
	if err != nil {
		return nil, err
	}
	if !body[0].Found {
		return g.bodiless(ctx, e)
	}
	e.body = body[0].Body
	return e, nil
}

// bodiless is the entry of a row that was read, and then had no body: whoever
// erased that in between had deleted the row before, so that it is read once more.
// It is nil if the row has gone as well. Errors: Corrupt (it is not deleted).
func (g *Gate) bodiless(ctx context.Context, e *entry) (*entry, error) {
	row, err := g.ledger.Get(ctx, e.item.ID)
	switch {
	case err != nil || !row[0].Found:
		return nil, err
	case row[0].Item.State != mayfly.Deleted:
		return nil, mayfly.Errorf(mayfly.Corrupt, "the row of %s has no body", e.item.ID)
	}
	return &entry{item: row[0].Item, since: e.since}, nil
}
