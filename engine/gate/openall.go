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
	return g.openAll(ctx, g.asking(viewer), ids, viewer, now)
}

func (g *Gate) openAll(ctx context.Context, ask *asker, ids []mayfly.ID, viewer mayfly.Viewer, now mayfly.Instant) ([]Opened, error) {
	asked, err := g.worthReading(ctx, ids, viewer, now)
	if err != nil {
		return nil, err
	}
	entries, cached, err := g.readAll(ctx, asked, now, true)
	if err != nil {
		return nil, fmt.Errorf("open %d items: %w", len(asked), err)
	}
	judged, err := judgeAll(ctx, ask, entries, viewer, now)
	if err != nil {
		return nil, err
	}
	if judged, err = g.readRefusedAgain(ctx, ask, judged, cached, viewer, now); err != nil {
		return nil, err
	}
	if judged, err = g.loadBodies(ctx, ask, judged, viewer, now); err != nil {
		return nil, err
	}
	var all []Opened
	for i, j := range judged {
		if !cached[i] && (j.hasBody || !j.verdict.shows()) {
			g.keep(j.entry)
		}
		if !j.verdict.shows() {
			continue
		}
		assertServable(j.item, viewer, j.verdict, now)
		all = append(all, Opened{Item: shown(j.item, j.relation), Body: j.body, Verdict: j.verdict, Relation: j.relation})
	}
	return all, nil
}

// learnOwners looks up the relations to the owners of a list, with one call.
func (a *asker) learnOwners(ctx context.Context, entries []*entry, viewer mayfly.Viewer) error {
	if viewer.Moderator() {
		return nil
	}
	var owners []mayfly.UserID
	for _, e := range entries {
		if !e.absent && !e.item.Owner.IsZero() && !viewer.Wrote(e.item) {
			owners = append(owners, e.item.Owner)
		}
	}
	return a.learn(ctx, false, owners...)
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
	restored, err := g.restoredAmong(ctx, now, gone...)
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
	known  *entry // the outdated entry; may be nil
	at     int    // index of its entry in the result
	ticket uint64
}

// readAll is read for many ids: one entry for each, in their order.
func (g *Gate) readAll(ctx context.Context, ids []mayfly.ID, now mayfly.Instant, useCache bool) (entries []*entry, cached []bool, err error) {
	from, held := g.lease()
	entries, cached = make([]*entry, len(ids)), make([]bool, len(ids))
	var misses []miss
	var missed []mayfly.ID
	for i, id := range ids {
		known := g.rows.get(id)
		if useCache && held && known.inDate(from, now) {
			entries[i], cached[i] = known, true
			continue
		}
		misses, missed = append(misses, miss{known: known, at: i, ticket: g.rows.ticket(id)}), append(missed, id)
	}
	if len(misses) == 0 {
		return entries, cached, nil
	}
	rows, err := g.ledger.Get(ctx, missed...)
	if err != nil {
		return nil, nil, err
	}
	for i, m := range misses {
		e := newEntry(missed[i], rows[i], m.known, from)
		e.ticket, e.leased = m.ticket, held
		entries[m.at] = e
	}
	return entries, cached, nil
}

// judged is an entry with the verdict on it.
type judged struct {
	*entry
	verdict  Verdict
	relation mayfly.Relation
}

func judgeAll(ctx context.Context, ask *asker, entries []*entry, viewer mayfly.Viewer, now mayfly.Instant) ([]judged, error) {
	if err := ask.learnOwners(ctx, entries, viewer); err != nil {
		return nil, fmt.Errorf("open %d items: %w", len(entries), err)
	}
	all := make([]judged, len(entries))
	for i, e := range entries {
		if e.absent { // ids of a list are not chosen by the caller: they need no relation for show
			all[i] = judged{entry: e, verdict: refused(e.item.ID, now)}
			continue
		}
		verdict, relation, err := e.judge(ctx, ask, viewer, now)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", e.item.ID, err)
		}
		all[i] = judged{e, verdict, relation}
	}
	return all, nil
}

// readRefusedAgain reads the cached rows of refused items again where readAgain asks
// for it.
func (g *Gate) readRefusedAgain(ctx context.Context, ask *asker, all []judged, cached []bool, viewer mayfly.Viewer, now mayfly.Instant) ([]judged, error) {
	var ids []mayfly.ID
	var places []int
	for i, j := range all {
		if cached[i] && !j.verdict.shows() && readAgain(j.item.ID, now) {
			ids, places = append(ids, j.item.ID), append(places, i)
		}
	}
	if len(ids) == 0 {
		return all, nil
	}
	entries, _, err := g.readAll(ctx, ids, now, false)
	if err != nil {
		return nil, fmt.Errorf("open %d items: %w", len(ids), err)
	}
	again, err := judgeAll(ctx, ask, entries, viewer, now)
	for i, j := range again {
		all[places[i]] = j
	}
	return all, err
}

// loadBodies loads the bodies of what the viewer may see, with one call.
func (g *Gate) loadBodies(ctx context.Context, ask *asker, all []judged, viewer mayfly.Viewer, now mayfly.Instant) ([]judged, error) {
	var ids []mayfly.ID
	var places []int
	for i, j := range all {
		if j.verdict.shows() && !j.hasBody {
			ids, places = append(ids, j.item.ID), append(places, i)
		}
	}
	if len(ids) == 0 {
		return all, nil
	}
	bodies, err := g.ledger.Body(ctx, ids...)
	if err != nil {
		return nil, fmt.Errorf("open %d items: %w", len(ids), err)
	}
	for i, body := range bodies {
		e := all[places[i]].entry
		if body.Found {
			e = e.with(body.Body)
			g.keep(e)
		} else if e, err = g.bodiless(ctx, e); err != nil {
			return nil, fmt.Errorf("open %s: %w", ids[i], err)
		}
		verdict, relation, err := e.judge(ctx, ask, viewer, now)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", ids[i], err)
		}
		all[places[i]] = judged{e, verdict, relation}
	}
	return all, nil
}

// Refusal returns the error for a viewer who may not see id at now, for any reason:
// Gone or NotFound, by arithmetic on the id alone (ST2).
func Refusal(id mayfly.ID, now mayfly.Instant) error { return refusal(refused(id, now)) }
