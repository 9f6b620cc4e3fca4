// Package gate is in charge of the one door that every read goes through. What
// a viewer gets is decided by Judge, a pure function of values and now; for an
// id past its deadline the answer is arithmetic and needs no lookup (L2).
//
// It caches rows only under the lease of Signals, and answers the same without
// any cache (I19). It never writes, and never asks whether a sweep has run.
package gate

import (
	"context"
	"fmt"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
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
}

func (o Options) withDefaults() Options {
	if o.Relations == nil {
		o.Relations = func(context.Context, mayfly.UserID, mayfly.UserID) (mayfly.Relation, error) { return 0, nil }
	}
	if o.CacheRows == 0 {
		o.CacheRows = 1 << 16
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
	g := &Gate{ledger: set.Ledger, relations: o.Relations, rows: newRowCache(o.CacheRows), restored: newRestoredSet(set.Rows)}
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

// cached is the entry of id while it can be relied on. What has ended is moved on
// by walks that tell nobody: no verdict depends on that, but its author is shown
// state and tier (ST6), so that it is read again until it has come to rest.
func (g *Gate) cached(id mayfly.ID, epoch uint64, now mayfly.Instant) (*entry, bool) {
	e, ok := g.rows.get(id, epoch)
	if !ok || e.item.EndedAt(now) && e.item.State != mayfly.Cold {
		return nil, false
	}
	return e, true
}

// read is the row and body of id, from the cache while its lease is held.
func (g *Gate) read(ctx context.Context, id mayfly.ID, now mayfly.Instant) (*entry, bool, error) {
	epoch, held := g.signals.Lease()
	if held {
		if e, ok := g.cached(id, epoch, now); ok {
			return e, true, nil
		}
	}
	ticket := g.rows.ticket(id)
	row, err := g.ledger.Get(ctx, id)
	if err != nil {
		return nil, false, err
	}
	if !row[0].Found {
		return nil, false, nil
	}
	e := &entry{item: row[0].Item, epoch: epoch}
	if e.item.State != mayfly.Deleted {
		body, err := g.ledger.Body(ctx, id)
		if err != nil {
			return nil, false, err
		}
		e.body = body[0].Body
		if !body[0].Found {
			if e, err = g.bodiless(ctx, id, epoch); e == nil {
				return nil, false, err
			}
		}
	}
	if held {
		g.rows.fill(id, e, ticket)
	}
	return e, true, nil
}

// bodiless is the entry of a row that was read, and then had no body: whoever
// erased that in between had deleted the row before, so that it is read once more.
// It is nil if the row has gone as well. Errors: Corrupt (it is not deleted).
func (g *Gate) bodiless(ctx context.Context, id mayfly.ID, epoch uint64) (*entry, error) {
	row, err := g.ledger.Get(ctx, id)
	switch {
	case err != nil || !row[0].Found:
		return nil, err
	case row[0].Item.State != mayfly.Deleted:
		return nil, mayfly.Errorf(mayfly.Corrupt, "the row of %s has no body", id)
	}
	return &entry{item: row[0].Item, epoch: epoch}, nil
}
