package sim

import (
	"math/rand/v2"
	"time"

	"github.com/mayflyhq/mayfly"
	rowtables "github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/archive"
	auditlog "github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/restore"
	"github.com/mayflyhq/mayfly/engine/sweep"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// something publishes, or does something to what is there.
func (e *estate) something(d *diary, rng *rand.Rand) error {
	if len(d.items) < 4 || rng.IntN(3) == 0 {
		return e.publish(d, rng)
	}
	switch d.turns++; { // in their turn, so that no seed leaves them out
	case d.turns%20 == 0:
		return e.undo(d, []string{sweep.Name, archive.Name}[d.turns/20%2], rng)
	case d.turns%10 == 0:
		return e.landLate(d, rng)
	}
	item := d.items[rng.IntN(len(d.items))]
	if item.birth.acked == 0 {
		return nil
	}
	ctx, now := e.t.Context(), e.now()
	verb := []string{"delete", "hold", "release", "restore", "restore", "release", "forget"}[rng.IntN(7)]
	if verb == "forget" {
		return e.forget(d, item)
	}
	var err error
	a := d.begin(item, verb)
	switch verb {
	case "delete":
		_, err = e.node.Erase().Delete(ctx, item.id, mayfly.ByUser, now)
	case "hold":
		err = e.node.Restore().Hold(ctx, item.id, auditlog.Actor{Subject: "ben"}, "a test", now)
	case "release":
		err = e.node.Restore().Release(ctx, item.id, auditlog.Actor{Subject: "ben"}, "a test", now)
	case "restore":
		_, err = e.node.Restore().Item(ctx, restore.Request{ID: item.id, Until: restoredUntil(now, rng), By: auditlog.Actor{Subject: "ben"}, Reason: "a test"}, now)
	}
	if refused(err) { // it may not be done in this state: nothing was done
		a.begun = 1 << 60
		return nil
	}
	if err == nil {
		d.ack(a)
	}
	return err
}

func restoredUntil(now mayfly.Instant, rng *rand.Rand) mayfly.Instant {
	return now.Add(12*time.Second + time.Duration(rng.Int64N(int64(wholeRestore-12*time.Second))))
}

// undo brings back what a walk has done so far, as one run (L14).
func (e *estate) undo(d *diary, name string, rng *rand.Rand) error {
	ctx, now := e.t.Context(), e.now()
	runs, err := walk.RunsIn(ctx, e.set.Rows, now, 1_000)
	if err != nil {
		return err
	}
	for _, run := range runs {
		if run.Walk != name {
			continue
		}
		a := d.begin(nil, "undo")
		done, err := e.node.Restore().Undo(ctx, run.Number, restore.UndoRequest{Until: restoredUntil(now, rng), By: auditlog.Actor{Subject: "ben"}, Reason: "a test"}, now)
		if err == nil {
			d.ack(a)
			d.undone += done.Restored
		}
		return err
	}
	return nil
}

// landLate plants a birth that landed behind the sweep, as a write does that was
// under way for too long: only reconcile can find it.
func (e *estate) landLate(d *diary, rng *rand.Rand) error {
	const behind, lifetime = 10 * time.Second, 5 * time.Second
	if e.now() < genesis.Add(behind+lifetime) {
		return nil
	}
	l, err := mayfly.LifetimeOf(lifetime)
	if err != nil {
		return err
	}
	owner := randomUser(rng)
	id, err := mayfly.NewID(e.now().Add(-behind-lifetime), l, owner.Trace(), rng.Uint64N(1<<mayfly.RandomBits))
	if err != nil {
		return err
	}
	item := &wholeItem{id: id, owner: owner, wish: &wish{owner: owner, lifetime: lifetime.Milliseconds(), fate: mayfly.Archive, audience: mayfly.Everyone, text: "whole"}}
	d.items = append(d.items, item)
	item.birth = d.begin(item, "publish")
	var b store.Batch
	b.Put(rowtables.Owners, rowtables.OwnerKey(owner, id), nil, 0)
	b.Then()
	row := mayfly.Item{
		ID: id, Owner: owner, Product: mayfly.Story, Fate: mayfly.Archive, Audience: mayfly.Everyone,
		State: mayfly.Active, Generation: mayfly.Born, Nonce: mayfly.Nonce(rng.Uint64() | 1), Changed: id.Birth(),
	}
	b.Insert(store.Birth{Body: mayfly.Body{Text: item.wish.text}, Item: row})
	b.Then()
	b.Append(mayfly.EventOf(row, mayfly.WasCreated))
	if err := e.set.Writer.Commit(e.t.Context(), &b); err != nil {
		return err
	}
	d.ack(item.birth)
	d.planted++
	return nil
}

// forget plants a deletion whose reminders were lost: nothing but reconcile comes
// back to it. Its second look must still be ahead, and the row at rest by then.
func (e *estate) forget(d *diary, item *wholeItem) error {
	ctx, now := e.t.Context(), e.now()
	found, err := e.set.Ledger.Get(ctx, item.id)
	if err != nil || !found[0].Found {
		return err
	}
	row := found[0].Item
	if row.State != mayfly.Active || row.Held || row.ServesUntil != 0 || row.ID.Deadline() < now.Add(5*time.Second) {
		return nil
	}
	a := d.begin(item, "delete")
	outcomes, err := e.set.Ledger.Transition(ctx, []mayfly.Change{{
		ID: row.ID, From: row.State, Generation: row.Generation, To: mayfly.Deleted, Nonce: 77, Cause: mayfly.ByUser, At: now,
	}})
	if err != nil {
		return err
	}
	if outcomes[0].Result == store.Applied {
		d.ack(a)
		d.planted++
	}
	return nil
}
