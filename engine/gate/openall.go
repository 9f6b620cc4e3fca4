package gate

import (
	"context"
	"fmt"

	"github.com/mayflyhq/mayfly"
)

// OpenAll is Open for many ids: it returns the items that viewer may see at now, in
// the order of ids, and leaves out the others. Rows that are not cached are read
// with one call.
func (g *Gate) OpenAll(ctx context.Context, ids []mayfly.ID, viewer mayfly.Viewer, now mayfly.Instant) ([]Opened, error) {
	asked, err := g.worthReading(ctx, ids, viewer, now)
	if err != nil {
		return nil, err
	}
	entries, err := g.readAll(ctx, asked, now)
	if err != nil {
		return nil, fmt.Errorf("open %d items: %w", len(asked), err)
	}
	relations := g.askedOnce()
	var all []Opened
	for _, e := range entries {
		if e == nil {
			continue
		}
		verdict, err := judge(ctx, relations, e.item, viewer, now)
		if err != nil {
			return nil, fmt.Errorf("open %s: relations: %w", e.item.ID, err)
		}
		if !verdict.shows() {
			continue
		}
		assertServable(e.item, viewer, verdict, now)
		all = append(all, Opened{Item: e.item, Body: e.body, Verdict: verdict})
	}
	return all, nil
}

// askedOnce returns the relations with a memory, so that each owner is looked up
// once: all items of a ring have the same owner.
func (g *Gate) askedOnce() Relations {
	known := map[mayfly.UserID]mayfly.Relation{}
	return func(ctx context.Context, owner, viewer mayfly.UserID) (mayfly.Relation, error) {
		if relation, ok := known[owner]; ok {
			return relation, nil
		}
		relation, err := g.relations(ctx, owner, viewer)
		if err == nil {
			known[owner] = relation
		}
		return relation, err
	}
}

// worthReading returns the ids whose rows must be read: those that are not gone by
// arithmetic, and those that were restored.
func (g *Gate) worthReading(ctx context.Context, ids []mayfly.ID, viewer mayfly.Viewer, now mayfly.Instant) ([]mayfly.ID, error) {
	var gone []mayfly.ID
	for _, id := range ids {
		if g.goneByArithmetic(id, viewer, now) {
			gone = append(gone, id)
		}
	}
	if len(gone) == 0 {
		return ids, nil
	}
	restored, err := g.restoredAmong(ctx, gone...)
	if err != nil {
		return nil, err
	}
	asked := make([]mayfly.ID, 0, len(ids))
	for _, id := range ids {
		if !g.goneByArithmetic(id, viewer, now) || restored.has(id) {
			asked = append(asked, id)
		}
	}
	return asked, nil
}

// miss is an id whose row must be read from the ledger.
type miss struct {
	id     mayfly.ID
	known  *entry // the outdated entry; may be nil
	at     int    // index of its entry in the result
	ticket uint64
}

// readAll is read for many ids. It returns one entry per id, nil where there is no
// row.
func (g *Gate) readAll(ctx context.Context, ids []mayfly.ID, now mayfly.Instant) ([]*entry, error) {
	from, held := g.lease()
	entries := make([]*entry, len(ids))
	var misses []miss
	for i, id := range ids {
		known := g.rows.get(id)
		if held && known.inDate(from, now) {
			entries[i] = known
			continue
		}
		misses = append(misses, miss{id: id, known: known, at: i, ticket: g.rows.ticket(id)})
	}
	if len(misses) == 0 {
		return entries, nil
	}
	found, err := g.readMisses(ctx, misses, from)
	if err != nil {
		return nil, err
	}
	for i, m := range misses {
		entries[m.at] = found[i]
		if held && found[i] != nil {
			g.rows.fill(m.id, found[i], m.ticket)
		}
	}
	return entries, nil
}

// readMisses reads the rows, and then the bodies that no outdated entry has.
func (g *Gate) readMisses(ctx context.Context, misses []miss, from since) ([]*entry, error) {
	ids := make([]mayfly.ID, len(misses))
	for i, m := range misses {
		ids[i] = m.id
	}
	rows, err := g.ledger.Get(ctx, ids...)
	if err != nil {
		return nil, err
	}
	entries := make([]*entry, len(misses))
	var whole []mayfly.ID
	var places []int
	for i, row := range rows {
		if !row.Found {
			continue
		}
		entries[i] = &entry{item: row.Item, since: from}
		if row.Item.State == mayfly.Deleted {
			continue
		}
		if body, ok := misses[i].known.knownBody(); ok {
			entries[i].body = body
			continue
		}
		whole, places = append(whole, row.Item.ID), append(places, i)
	}
	if len(whole) == 0 {
		return entries, nil
	}
	bodies, err := g.ledger.Body(ctx, whole...)
	if err != nil {
		return nil, err
	}
	for i, body := range bodies {
		entries[places[i]].body = body.Body
		if !body.Found {
			if entries[places[i]], err = g.bodiless(ctx, entries[places[i]]); err != nil {
				return nil, err
			}
		}
	}
	return entries, nil
}

// Refusal returns the error for a viewer who may not see id at now, for any reason:
// Gone or NotFound, by arithmetic on the id alone (ST2).
func Refusal(id mayfly.ID, now mayfly.Instant) error { return refusal(refused(id, now)) }
