package gate

import (
	"context"
	"fmt"
	"slices"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/store"
)

// ringPage is how many entries of the rings are read at once.
const ringPage = 500

// ringOfMany is how many entries are read of each ring where many are read together.
const ringOfMany = 32

// Ring returns the items of owner that serve for viewer at now, oldest first: those
// born since an instant, and the restored ones. The relation is judged first, and
// entries of an audience that the viewer does not belong to are not read. So the ring
// of an owner of whom the viewer may see nothing costs what that of a user costs who
// never was, also for a blocked viewer (I18). It is not for the owner and moderators:
// held items are in no ring.
func (g *Gate) Ring(ctx context.Context, owner mayfly.UserID, since mayfly.Instant, viewer mayfly.Viewer, now mayfly.Instant) ([]Opened, error) {
	ask := g.asking(viewer)
	if err := ask.learn(ctx, false, owner); err != nil {
		return nil, fmt.Errorf("ring of %s: %w", owner, err)
	}
	ids, err := g.listed(ctx, ringRange(owner, since, viewer, ask.known[owner]), now)
	if err != nil {
		return nil, fmt.Errorf("ring of %s: %w", owner, err)
	}
	restored, err := g.RestoredOf(ctx, owner, now)
	if err != nil {
		return nil, err
	}
	return g.openAll(ctx, ask, withRestored(ids, restored, now), viewer, now)
}

// withRestored returns listed ids with the restored ones, oldest first.
func withRestored(ids, restored []mayfly.ID, now mayfly.Instant) []mayfly.ID {
	for _, id := range restored { // with a deadline ahead it is listed
		if id.ExpiredAt(now) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, mayfly.ID.Compare)
	return ids
}

// Rings are the rings of many owners for one viewer, as lists of ids.
type Rings struct {
	// IDs are of each owner the ids that Ring would open, oldest first.
	IDs [][]mayfly.ID

	g      *Gate
	ask    *asker
	viewer mayfly.Viewer
	now    mayfly.Instant
}

// Rings lists what Ring opens, of many owners: with one call for their relations and
// one for the beginnings of all rings. Of an owner whom the viewer blocks it lists nothing.
func (g *Gate) Rings(ctx context.Context, owners []mayfly.UserID, since mayfly.Instant, viewer mayfly.Viewer, now mayfly.Instant) (*Rings, error) {
	r := &Rings{IDs: make([][]mayfly.ID, len(owners)), g: g, ask: g.asking(viewer), viewer: viewer, now: now}
	if err := r.ask.learn(ctx, false, owners...); err != nil {
		return nil, fmt.Errorf("rings of %d users: %w", len(owners), err)
	}
	set, err := g.restoredNow(ctx, now)
	if err != nil {
		return nil, err
	}
	var of []int
	var ranges []store.Range
	for i, owner := range owners {
		relation := r.ask.known[owner]
		if relation.Has(mayfly.Blocks) {
			continue
		}
		of, ranges = append(of, i), append(ranges, ringRange(owner, since, viewer, relation))
		ranges[len(ranges)-1].Limit = ringOfMany
	}
	pages, err := g.tables.Ranges(ctx, engine.Rings, ranges...)
	if err != nil {
		return nil, fmt.Errorf("rings of %d users: %w", len(owners), err)
	}
	for n, page := range pages {
		i := of[n]
		ids, err := g.goOn(ctx, ranges[n], page, now)
		if err != nil {
			return nil, fmt.Errorf("ring of %s: %w", owners[i], err)
		}
		restored, err := g.restored.among(ctx, set, owners[i])
		if err != nil {
			return nil, fmt.Errorf("ring of %s: %w", owners[i], err)
		}
		r.IDs[i] = withRestored(ids, restored, now)
	}
	return r, nil
}

// Serving returns the items of ids that are in the rings and serve, in the order of
// ids; the zero Item for each other. It reads their rows with one call, and no bodies.
func (r *Rings) Serving(ctx context.Context, ids []mayfly.ID) ([]mayfly.Item, error) {
	all, cached, err := r.g.judgeRows(ctx, r.ask, ids, r.viewer, r.now)
	if err != nil {
		return nil, err
	}
	items := make([]mayfly.Item, len(ids))
	for i, j := range all {
		if !cached[i] {
			r.g.keep(j.entry)
		}
		if j.verdict == Serve {
			assertServable(j.item, r.viewer, j.verdict, r.now)
			items[i] = shown(j.item, j.relation)
		}
	}
	return items, nil
}

// Permits reports whether viewer may see what owner has for an audience, by the relation
// of the two alone: a list that asks before it reads tells by its time nothing of an
// owner of whom viewer may see nothing (I18). Each item is judged nevertheless. Errors:
// Unavailable.
func (g *Gate) Permits(ctx context.Context, owner mayfly.UserID, audience mayfly.Audience, viewer mayfly.Viewer) (bool, error) {
	if viewer.Moderator() || !viewer.User().IsZero() && viewer.User() == owner {
		return true, nil
	}
	ask := g.asking(viewer)
	if err := ask.learn(ctx, false, owner); err != nil {
		return false, fmt.Errorf("relation to %s: %w", owner, err)
	}
	return permitted(audience, viewer, ask.known[owner]), nil
}

// ringRange returns the one range of the rings that has what viewer may see of owner.
// Of what a blocked viewer may see it is the range of no user.
func ringRange(owner mayfly.UserID, since mayfly.Instant, viewer mayfly.Viewer, relation mayfly.Relation) store.Range {
	first, last := engine.RingClass(mayfly.Everyone), engine.RingClass(mayfly.Everyone)
	everyone := permitted(mayfly.Everyone, viewer, relation)
	if permitted(mayfly.Followers, viewer, relation) {
		first = engine.RingClass(mayfly.Followers)
	}
	if permitted(mayfly.CloseFriends, viewer, relation) {
		last = engine.RingClass(mayfly.CloseFriends)
	}
	r := store.Range{Partition: string(owner[:]), From: string([]byte{first}) + engine.BornFrom(since), To: string([]byte{last + 1}), Limit: ringPage}
	if !everyone && !permitted(mayfly.CloseFriends, viewer, relation) { // who follows sees what is for everyone
		r.Partition += "\x00"
	}
	return r
}

// listed returns the ids in a range of the rings whose deadline is ahead.
func (g *Gate) listed(ctx context.Context, r store.Range, now mayfly.Instant) ([]mayfly.ID, error) {
	page, err := g.tables.Range(ctx, engine.Rings, r)
	if err != nil {
		return nil, err
	}
	return g.goOn(ctx, r, page, now)
}

// goOn returns the ids in a range of which the first page is read.
func (g *Gate) goOn(ctx context.Context, r store.Range, page []store.Row, now mayfly.Instant) (ids []mayfly.ID, err error) {
	ids = make([]mayfly.ID, 0, len(page))
	for {
		for _, row := range page {
			if len(row.Clustering) != 1+len(mayfly.ID{}) {
				return nil, mayfly.Errorf(mayfly.Corrupt, "an entry of the rings cannot be read: %x", row.Clustering)
			}
			if id := mayfly.ID([]byte(row.Clustering[1:])); !id.ExpiredAt(now) {
				ids = append(ids, id)
			}
		}
		if len(page) < r.Limit {
			return ids, nil
		}
		r.From, r.Limit = page[len(page)-1].Clustering+"\x00", ringPage
		if page, err = g.tables.Range(ctx, engine.Rings, r); err != nil {
			return nil, err
		}
	}
}
