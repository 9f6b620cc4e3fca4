package sim

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/store"
)

// audit compares an engine with its record. settled says that every walk has passed
// all deadlines before now for good.
type audit struct {
	*tally
	record  *record
	inv     *inventory
	now     mayfly.Instant
	settled bool
}

// inspect audits the engine at now.
func inspect(ctx context.Context, h *engine, b *record, now mayfly.Instant, settled bool) (*tally, *inventory, error) {
	inv, err := takeInventory(ctx, h.raw, b, now)
	if err != nil {
		return nil, nil, err
	}
	a := &audit{tally: newTally(), record: b, inv: inv, now: now, settled: settled}
	a.rows()
	a.acknowledged()
	a.announced()
	a.media()
	return a.tally, inv, a.served(ctx, h)
}

// rows looks at every row for itself.
func (a *audit) rows() {
	granting := map[int][]mayfly.ID{}
	owner := map[mayfly.ID]mayfly.ID{} // by upload
	for id, item := range a.inv.rows {
		a.checked++
		body, ok := a.inv.bodies[id]
		w, known := a.record.ofText(body.Text)
		if !ok && item.State == mayfly.Deleted {
			continue
		}
		if !known {
			a.add(ORPHAN, "%s: a row that no wish asked for: %.60q", id, body.Text)
			continue
		}
		granting[w.number] = append(granting[w.number], id)
		if !slices.Contains(a.record.tries[w.number], id.Birth()) {
			a.add(ORPHAN, "%s: born at %s, when no try was made", id, id.Birth())
		}
		if end := deadlineOf(w, id); item.Cause == mayfly.ByExpiry && (w.lifetime == 0 || item.Changed < end) {
			a.add(EARLY, "%s: expired at %s, before its deadline %s", id, item.Changed, end)
		}
		if !w.owner.IsZero() && !a.inv.owned[store.Key{Partition: string(w.owner[:]), Clustering: string(id[:])}] {
			a.add(ORPHAN, "%s: not in the index of its owner", id)
		}
		if len(w.media) > 0 {
			if other, taken := owner[item.Upload]; taken {
				a.add(DOUBLE, "upload %s belongs to %s and %s", item.Upload, other, id)
			}
			owner[item.Upload] = id
			if a.inv.uploads[item.Upload] != id {
				a.add(ORPHAN, "%s: its upload does not know it", id)
			}
		}
		a.payload(w, item)
	}
	for n, ids := range granting {
		if w := a.record.wishes[n]; w.key != "" && len(ids) > 1 || len(ids) > len(a.record.tries[n]) {
			a.add(DOUBLE, "wish %d with key %q was granted %d times: %v", n, w.key, len(ids), ids)
		}
	}
}

// deadlineOf is the deadline in plain numbers: the birth that the id tells, which
// was checked against the tries, and the lifetime that was wished for.
func deadlineOf(w *wish, id mayfly.ID) mayfly.Instant {
	return id.Birth() + mayfly.Instant(w.lifetime)
}

// payload asks for the bytes of a row's media: content comes first (L12, I2).
func (a *audit) payload(w *wish, item mayfly.Item) {
	if item.State == mayfly.Deleted {
		return
	}
	for n, medium := range w.media {
		sum, there := a.inv.blobs[item.MediaKey(item.Keys.Hot, n)]
		if !there || sum != sha256.Sum256(medium) {
			a.add(LOST, "%s: medium %d is not what was uploaded (there: %t)", item.ID, n, there)
		}
	}
}

// acknowledged holds the rows against what was acknowledged.
func (a *audit) acknowledged() {
	rows, events := map[mayfly.ID]mayfly.Item{}, map[mayfly.EventKey]bool{}
	for _, e := range a.inv.events {
		events[e.Key()] = true
	}
	for _, k := range a.record.acks {
		switch {
		case k.row != nil:
			if k.row.Generation > rows[k.row.ID].Generation {
				rows[k.row.ID] = *k.row
			}
		case k.event != nil:
			if !events[k.event.Key()] {
				a.add(LOST, "%s: the event %s was acknowledged and is gone", k.event.ID, k.event.Type())
			}
		default:
			a.born(a.record.wishes[k.wish], k.id, events)
		}
	}
	for id, was := range rows {
		is, found := a.inv.rows[id]
		switch {
		case !found:
			a.add(LOST, "%s: the row stood at %s and is gone", id, was.State)
		case is.Generation < was.Generation && was.State != mayfly.Active:
			a.add(RESURRECTED, "%s: was %s, generation %d, and is %s again", id, was.State, was.Generation, is.State)
		case is.Generation < was.Generation, is.Generation == was.Generation && is != was:
			a.add(LOST, "%s: was acknowledged as %+v and is %+v", id, was, is)
		}
	}
}

// born holds one acknowledged birth to its promises.
func (a *audit) born(w *wish, id mayfly.ID, events map[mayfly.EventKey]bool) {
	item, found := a.inv.rows[id]
	body, readable := a.inv.bodies[id]
	if !found || !readable && item.State != mayfly.Deleted {
		a.add(LOST, "%s: wish %d was acknowledged and its row is there: %t, its body: %t", id, w.number, found, readable)
		return
	}
	if readable && body.Text != w.text {
		a.add(LOST, "%s: wish %d was acknowledged and its body is %.60q", id, w.number, body.Text)
	}
	created := mayfly.EventKey{ID: id, Generation: mayfly.Born, Product: mayfly.Story, Verb: mayfly.WasCreated}
	if !events[created] && !a.reminded(id, remind.Announce) {
		a.add(LOST, "%s: neither a created event nor a reminder to announce", id)
	}
	if !a.settled || w.lifetime == 0 || a.now < deadlineOf(w, id)+mayfly.Instant(settle.Milliseconds()) || item.Held {
		return
	}
	want := mayfly.ExpiredHot
	if w.fate == mayfly.Purge {
		want = mayfly.Deleted
	}
	expired := mayfly.EventKey{ID: id, Generation: item.Generation, Product: mayfly.Story, Verb: mayfly.WasExpired}
	switch reminded := a.reminded(id, remind.Expire); {
	case item.State != want && !reminded:
		a.add(LOST, "%s: its deadline has passed for good and it is %s (birth %s, wish %d)", id, item.State, id.Birth(), w.number)
	case item.Cause == mayfly.ByExpiry && !events[expired] && !reminded:
		a.add(LOST, "%s: expired, and neither an event nor a reminder says so", id)
	}
}

func (a *audit) reminded(id mayfly.ID, step remind.Step) bool {
	return slices.ContainsFunc(a.inv.reminders, func(r remind.Reminder) bool { return r.ID == id && r.Step == step })
}

// announced compares the events with the rows.
func (a *audit) announced() {
	same := map[mayfly.EventKey]mayfly.Event{}
	ends := map[mayfly.ID]mayfly.Generation{}
	for _, e := range a.inv.events {
		item, found := a.inv.rows[e.ID]
		switch other, again := same[e.Key()]; {
		case again && other != e:
			a.add(DOUBLE, "%s: two different events %s of generation %d: %+v and %+v", e.ID, e.Type(), e.Generation, other, e)
		case !found:
			a.add(ORPHAN, "%s: %s of an item that is not there", e.ID, e.Type())
		case item.Generation < e.Generation:
			a.add(RESURRECTED, "%s: %s of generation %d, and the row has %d", e.ID, e.Type(), e.Generation, item.Generation)
		}
		same[e.Key()] = e
		if e.Verb != mayfly.WasExpired {
			continue
		}
		if g, twice := ends[e.ID]; twice && g != e.Generation {
			a.add(DOUBLE, "%s: expired as generation %d and as %d", e.ID, g, e.Generation)
		}
		ends[e.ID] = e.Generation
		if e.At < e.ID.Birth()+mayfly.Instant(e.ID.Lifetime().Duration().Milliseconds()) {
			a.add(EARLY, "%s: its event says that it expired at %s", e.ID, e.At)
		}
	}
}

// media looks for objects that belong to no upload: a collector that goes by
// upload time could never find them.
func (a *audit) media() {
	known := map[mayfly.BlobKey]bool{}
	for upload, n := range a.record.uploads {
		for m := range a.record.wishes[n].media {
			known[mayfly.UploadKey(upload, m)] = true
		}
	}
	for key := range a.inv.blobs {
		if !known[key] {
			a.add(ORPHAN, "object %s belongs to no upload", key)
		}
	}
}

// served asks the gate for every row, for the author and for a stranger.
func (a *audit) served(ctx context.Context, h *engine) error {
	for id := range a.inv.rows {
		w, known := a.record.ofText(a.inv.bodies[id].Text)
		if !known {
			continue
		}
		ended := w.lifetime != 0 && a.now >= deadlineOf(w, id)
		_, err := h.gate.Open(ctx, id, mayfly.Viewer{}, a.now)
		switch {
		case err == nil && ended:
			a.add(LATE, "%s: a stranger was served at %s", id, a.now)
		case err == nil && w.audience != mayfly.Everyone:
			a.add(LEAK, "%s: a stranger was served what is for %s", id, w.audience)
		case errors.Is(err, mayfly.NotFound) && !ended && w.audience == mayfly.Everyone:
			a.add(EARLY, "%s: a stranger was refused at %s", id, a.now)
		case err != nil && !errors.Is(err, mayfly.NotFound) && !errors.Is(err, mayfly.Gone):
			return err
		}
		if a.inv.rows[id].State == mayfly.Deleted || w.owner.IsZero() {
			continue
		}
		_, err = h.gate.Open(ctx, id, mayfly.ViewerOf(w.owner), a.now)
		switch purged := ended && w.fate == mayfly.Purge; {
		case err == nil && purged:
			a.add(LATE, "%s: its author was served at %s what is purged", id, a.now)
		case err != nil && !purged:
			a.add(LOST, "%s: its author is refused at %s: %v", id, a.now, err)
		case purged && !errors.Is(err, mayfly.Gone):
			return err
		}
	}
	return nil
}
