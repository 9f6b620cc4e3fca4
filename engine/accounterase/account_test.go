package erase_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/erase"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
)

func (h *house) scan(user mayfly.UserID) erase.References {
	h.Helper()
	r, err := h.eraser().Scan(context.Background(), user)
	h.must(err)
	return r
}

// belongings gives a user something in every state and every table.
func (h *house) belongings(user mayfly.UserID) []mayfly.Item {
	h.Helper()
	draft := intake.Draft{Owner: user, Fate: mayfly.Archive}
	keyed := draft
	keyed.Key = "a key of the user's"
	forever := draft
	forever.Lifetime = eternal
	cold, expired, purged := h.publish(draft, 2), h.publish(keyed, 1), h.publish(intake.Draft{Owner: user, Fate: mayfly.Purge}, 1)
	h.archive(cold)
	h.sweep(expired, purged)
	deleted, active := h.publish(draft, 1), h.publish(draft, 3)
	_, err := h.eraser().Delete(context.Background(), deleted.ID, mayfly.ByUser, h.now)
	h.must(err)
	all := []mayfly.Item{cold, expired, purged, deleted, active, h.publish(forever, 1)}
	h.acquaint(user, all)
	return all
}

func TestAnErasedAccountLeavesNothingAndOthersEverything(t *testing.T) {
	h := open(t)
	mine, others := h.belongings(ana()), h.belongings(ben())
	before, bens := h.scan(ana()), h.scan(ben())
	if before.Count < 6+6+9+1 || bens.Count != before.Count {
		t.Fatalf("there are too few references to erase: %+v", before)
	}
	e := h.accounted()
	r, err := e.Account(t.Context(), ana(), "support", "asked to", h.now)
	h.must(err)
	if r.Items != 6 || r.Objects != 9 || r.Rows["owners"] != 6 || r.Rows["uploads"] != 6 || r.Rows["idempotency"] != 1 || len(r.Held) != 0 || r.Finished != 0 {
		t.Fatalf("%+v", r)
	}
	for _, item := range mine {
		if left := h.traces(item); len(left) > 0 || h.row(item.ID).State != mayfly.Deleted {
			t.Fatalf("left: %v", left)
		}
	}
	if after := h.scan(ana()); after.Count != 0 || after.Unowned != 0 {
		t.Fatalf("%+v", after)
	}
	h.now = h.now.Add(time.Minute)
	for _, want := range []int{1, 0} { // the second pass, once
		if n, err := e.Accounts(t.Context(), h.now); err != nil || n != want {
			t.Fatalf("%d passes, %v", n, err)
		}
	}
	r, err = erase.ReceiptOf(t.Context(), h.real.Rows, ana())
	if err != nil || r.Finished != h.now || r.Passes != 2 || r.Items != 6 {
		t.Fatalf("%+v, %v", r, err)
	}
	if after := h.scan(ben()); after.Count != bens.Count {
		t.Fatalf("of the other's %d references %d are left", bens.Count, after.Count)
	}
	for _, item := range others {
		if len(h.traces(item)) != 3+int(item.Media)-1 && len(h.traces(item)) != 3+int(item.Media) {
			t.Fatalf("of the other's %s only %v is left", item.ID, h.traces(item))
		}
	}
	if erased, err := erase.Tombstones(t.Context(), h.real.Rows, ana(), ben()); err != nil || !erased[0] || erased[1] {
		t.Fatalf("%v, %v", erased, err)
	}
	if _, err := erase.ReceiptOf(t.Context(), h.real.Rows, ben()); !errors.Is(err, mayfly.NotFound) {
		t.Fatalf("the other is erased: %v", err)
	}
	h.audited(t, 2)
}

func TestTheScanFindsItemsHoweverLongTheyLive(t *testing.T) {
	h := open(t)
	var items []mayfly.Item
	for _, lifetime := range []string{"1h", "49h", "7d", "365d", "1023d"} {
		l, err := mayfly.ParseLifetime(lifetime)
		h.must(err)
		items = append(items, h.publish(intake.Draft{Owner: ana(), Fate: mayfly.Archive, Lifetime: l}, 0))
	}
	var b store.Batch // so that only the ledger names them
	for _, item := range items {
		b.Delete(store.Owners, store.OwnerKey(ana(), item.ID))
	}
	h.must(h.real.Writer.Commit(t.Context(), &b))
	found := h.scan(ana())
	for _, item := range items {
		if !slices.Contains(found.Examples, item.ID.String()+" is active") {
			t.Errorf("the scan does not find %s of a lifetime of %s: %+v", item.ID, item.ID.Lifetime(), found)
		}
	}
}

// audited wants a sound audit log of so many records.
func (h *house) audited(t *testing.T, want int) {
	t.Helper()
	report, err := audit.Verify(t.Context(), h.real.Rows, func(r audit.Record) error {
		if r.Entry.Verb != audit.EraseAccount || r.Entry.Subject.User != ana() {
			t.Errorf("%+v", r.Entry)
		}
		return nil
	})
	if err != nil || len(report.Findings) > 0 || report.Records != want {
		t.Fatalf("%+v, %v", report, err)
	}
}

func TestWhatIsHeldOutlivesTheAccountUntilItIsReleased(t *testing.T) {
	h := open(t)
	held, hidden, other := h.story(1), h.story(2), h.story(1)
	h.hold(held.ID)
	h.hold(hidden.ID)
	_, err := h.eraser().Delete(t.Context(), hidden.ID, mayfly.ByUser, h.now) // and deleted by its author
	h.must(err)
	e := h.accounted()
	r, err := e.Account(t.Context(), ana(), "support", "asked to", h.now)
	h.must(err)
	want := []mayfly.ID{held.ID, hidden.ID}
	slices.SortFunc(want, mayfly.ID.Compare)
	if !slices.Equal(r.Held, want) || r.Items != 1 || len(h.traces(other)) > 0 {
		t.Fatalf("%+v", r)
	}
	h.now = h.now.Add(time.Minute)
	if n, err := e.Accounts(t.Context(), h.now); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	if len(h.traces(held)) != 4 || len(h.traces(hidden)) != 5 || h.scan(ana()).Count != 0 || h.scan(ana()).Held != 2 {
		t.Fatalf("of what is held only %v and %v is left", h.traces(held), h.traces(hidden))
	}
	h.release(held.ID)
	h.release(hidden.ID)
	for after, want := range map[time.Duration]int{day - time.Millisecond: 0, day: 1} {
		if n, err := e.Accounts(t.Context(), h.now.Add(after)); err != nil || n > want {
			t.Fatalf("%s later %d passes, %v", after, n, err)
		}
	}
	r, err = erase.ReceiptOf(t.Context(), h.real.Rows, ana())
	if err != nil || r.Finished == 0 || r.Items != 3 || len(r.Held) != 0 || len(h.traces(held))+len(h.traces(hidden)) > 0 {
		t.Fatalf("%+v, %v", r, err)
	}
}

func TestABirthInFlightIsCaughtByTheSecondPass(t *testing.T) {
	h := open(t)
	// A birth writes the index first and the row later: here, after the pass.
	var late store.Batch
	real := h.real.Writer
	h.real.Writer = writerFunc(func(ctx context.Context, b *store.Batch) error {
		var first store.Batch
		for _, p := range b.Stages()[0].Puts {
			first.Put(p.Table, p.Key, p.Value, p.ReclaimAt)
		}
		late.Insert(b.Stages()[1].Inserts...)
		return real.Commit(ctx, &first)
	})
	item := h.story(2)
	h.real.Writer = real
	e := h.accounted()
	r, err := e.Account(t.Context(), ana(), "support", "asked to", h.now)
	if err != nil || r.Items != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	h.must(real.Commit(t.Context(), &late))
	if h.scan(ana()).Count == 0 {
		t.Fatal("the birth did not land")
	}
	if n, err := e.Accounts(t.Context(), h.now.Add(time.Minute)-1); err != nil || n != 0 {
		t.Fatalf("%d early passes, %v", n, err)
	}
	if n, err := e.Accounts(t.Context(), h.now.Add(time.Minute)); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	if left := h.traces(item); len(left) > 0 || h.scan(ana()).Count != 0 {
		t.Fatalf("left: %v", left)
	}
}

type writerFunc func(context.Context, *store.Batch) error

func (f writerFunc) Commit(ctx context.Context, b *store.Batch) error { return f(ctx, b) }

func TestTheIndexEntryOfAnAbandonedBirthGoes(t *testing.T) {
	h := open(t)
	item := h.story(0)
	h.change(item.ID, mayfly.Change{To: mayfly.Deleted, Cause: mayfly.ByUser})
	h.must(h.real.Ledger.Remove(t.Context(), item.ID)) // as if it had never landed
	h.now = h.now.Add(time.Minute)
	if _, err := h.accounted().Account(t.Context(), ana(), "support", "asked to", h.now); err != nil || h.scan(ana()).Count != 0 {
		t.Fatalf("%+v, %v", h.scan(ana()), err)
	}
}

func TestABackupPutBackIsErasedAgainBeforeTheFirstRead(t *testing.T) {
	old := open(t)
	old.story(1)
	_, err := old.accounted().Account(t.Context(), ana(), "support", "asked to", old.now)
	old.must(err)

	h := open(t) // the store as it was before, beside the deletion ledger as it is
	h.deletions = old.deletions
	mine := h.belongings(ana())
	others := h.belongings(ben())
	h.now = h.now.Add(time.Hour)
	e := h.accounted()
	for _, want := range []int{1, 1, 0} { // again while it is not finished
		if n, err := e.Replay(t.Context(), h.now); err != nil || n != want {
			t.Fatalf("%d accounts, %v", n, err)
		}
		h.now = h.now.Add(time.Hour)
	}
	for _, item := range mine {
		if len(h.traces(item)) > 0 {
			t.Fatalf("left: %v", h.traces(item))
		}
	}
	if h.scan(ana()).Count != 0 || len(h.traces(others[0])) == 0 {
		t.Fatal("the wrong account was erased")
	}
	// A backup from after a first erasure knows nothing of a second one, which
	// caught a birth that had landed late.
	again := mayfly.Item{
		ID: h.newID(ana()), Owner: ana(), Product: mayfly.Story, Fate: mayfly.Archive, Audience: mayfly.Everyone,
		State: mayfly.Active, Generation: mayfly.Born, Nonce: 1, Changed: h.now,
	}
	var late store.Batch
	late.Put(store.Owners, store.OwnerKey(again.Owner, again.ID), []byte{byte(mayfly.Story)}, 0)
	late.Then()
	late.Insert(store.Birth{Item: again, Body: mayfly.Body{Text: "late"}})
	h.must(h.real.Writer.Commit(t.Context(), &late))
	text, err := h.now.MarshalText()
	h.must(err)
	h.must(h.deletions.Delete(t.Context(), h.keys(h.deletions)[0]))
	_, err = h.deletions.Put(t.Context(), mayfly.BlobKey("erased/"+ana().String()), reader(text))
	h.must(err)
	if n, err := e.Replay(t.Context(), h.now); err != nil || n != 1 || len(h.traces(again)) > 0 {
		t.Fatalf("%d accounts, %v, left %v", n, err, h.traces(again))
	}
}

// A log that is away holds up neither the erasure, whatever it has to erase, nor the
// start of a node that finds it unfinished (L8, ST14).
func TestAnAccountIsErasedWhileTheLogIsAway(t *testing.T) {
	h := open(t)
	var mine []mayfly.Item
	for range 120 { // more than a page
		mine = append(mine, h.story(1))
	}
	h.set.Log = mute{h.real.Log}
	if _, err := h.accounted().Account(t.Context(), ana(), "support", "asked to", h.now); !errors.Is(err, mayfly.Unavailable) {
		t.Fatalf("%v, want Unavailable: another pass is due", err)
	}
	if n, err := h.accounted().Replay(t.Context(), h.now); err != nil || n != 0 {
		t.Fatalf("a start: %d accounts, %v", n, err)
	}
	for i, item := range mine {
		if row := h.row(item.ID); row.State != mayfly.Deleted {
			t.Fatalf("story %d of %d is %s", i, len(mine), row.State)
		}
	}
	if keys := h.keys(h.real.Hot); len(keys) > 0 {
		t.Fatalf("the bytes wait for the log: %v", keys)
	}
	h.set.Log = h.real.Log
	h.now = h.now.Add(time.Hour)
	if n, err := h.accounted().Accounts(t.Context(), h.now); err != nil || n != 1 {
		t.Fatalf("%d accounts, %v", n, err)
	}
	told := h.told(mayfly.WasDeleted)
	for _, item := range mine {
		if told[item.ID] == 0 || len(h.traces(item)) > 0 {
			t.Fatalf("%s: told %d times, left %v", item.ID, told[item.ID], h.traces(item))
		}
	}
	if n := told[mayfly.ID{}]; n != 1 {
		t.Fatalf("user.deleted was appended %d times", n)
	}
}

// The event about the user comes once, with the first pass that went through.
func TestAccountErasureAppendsUserDeletedOnce(t *testing.T) {
	h := open(t)
	h.story(1)
	_, err := h.accounted().Account(t.Context(), ana(), "support", "asked to", h.now)
	h.must(err)
	r, err := h.real.Log.Reader(t.Context(), mayfly.Ends, "users")
	h.must(err)
	defer func() { h.must(r.Close()) }()
	records, err := r.Next(t.Context(), 100)
	h.must(err)
	records = slices.DeleteFunc(records, func(r store.Record) bool { return !r.Event.AboutUser() })
	if len(records) != 1 || records[0].Event != mayfly.UserDeleted(ana(), h.now) || records[0].Event.Type() != "user.deleted" {
		t.Fatalf("of the user the log has %+v", records)
	}
	h.now = h.now.Add(time.Hour)
	if n, err := h.accounted().Accounts(t.Context(), h.now); err != nil || n != 1 {
		t.Fatalf("%d accounts, %v", n, err)
	}
	if lag, err := r.Lag(t.Context()); err != nil || lag != 0 {
		t.Fatalf("the last pass appended %d events, %v", lag, err)
	}
}

func TestAnAccountErasureStoppedAnywhereIsFinishedLater(t *testing.T) {
	random := seeded(t)
	var calls []storetest.Call
	account := func(h *house) error {
		_, err := h.accounted().Account(context.Background(), ana(), "support", "asked to", h.now)
		return err
	}
	onHouse(t, func(h *house) {
		h.belongings(ana())
		set, landing := storetest.Prefix(h.real, storetest.Pass)
		h.set = set
		h.must(account(h))
		calls = landing.Calls()
	})
	stops := 0
	stop := func(call storetest.Call, fault storetest.Fault) {
		fault.Halts = true
		stops++
		onHouse(t, func(h *house) {
			mine, other := h.belongings(ana()), h.publish(intake.Draft{Owner: ben(), Fate: mayfly.Archive}, 2)
			set, landing := storetest.Prefix(h.real, storetest.FailNth(call.N, fault))
			h.set = set
			acked := account(h) == nil
			h.set = h.real
			_, err := landing.LandAll(t.Context(), random)
			h.must(err)
			h.now = h.now.Add(time.Minute)
			e := h.accounted()
			_, err = e.Accounts(t.Context(), h.now)
			h.must(err)
			r, err := erase.ReceiptOf(t.Context(), h.real.Rows, ana())
			if errors.Is(err, mayfly.NotFound) { // it never began, and whoever asked was told so
				if got := h.scan(ana()).Count; got < 22 || acked {
					t.Fatalf("call %d: no tombstone, and %d references are left", call.N, got)
				}
				h.must(account(h))
				h.now = h.now.Add(time.Minute)
				_, err = e.Accounts(t.Context(), h.now)
				h.must(err)
				r, err = erase.ReceiptOf(t.Context(), h.real.Rows, ana())
			}
			if err != nil || r.Finished == 0 {
				t.Fatalf("call %d (%s): %+v, %v", call.N, call.Op, r, err)
			}
			h.must(h.reminders(e, h.now.Add(soon)))
			for _, item := range mine {
				if left := h.traces(item); len(left) > 0 {
					t.Fatalf("call %d (%s): left %v", call.N, call.Op, left)
				}
			}
			if after := h.scan(ana()); after.Count != 0 || len(h.traces(other)) != 5 {
				t.Fatalf("call %d (%s): %+v", call.N, call.Op, after)
			}
		})
	}
	for _, call := range calls {
		for _, fault := range some(storetest.Faults(call), random) {
			stop(call, fault)
		}
	}
	storetest.Proof(t, "account erasure stopped at every call", "stops", stops)
	if stops < 40 {
		t.Fatalf("%d stops prove little", stops)
	}
}

func TestNobodyErasesAnAccountUnnamedOrWithoutTheLedgers(t *testing.T) {
	h := open(t)
	item := h.story(1)
	e := h.accounted()
	for _, ask := range []func() error{
		func() error { _, err := e.Account(t.Context(), mayfly.UserID{}, "support", "x", h.now); return err },
		func() error { _, err := e.Account(t.Context(), ana(), "", "x", h.now); return err },
		func() error { _, err := e.Account(t.Context(), ana(), "support", "", h.now); return err },
		func() error { _, err := h.eraser().Account(t.Context(), ana(), "support", "x", h.now); return err },
	} {
		if err := ask(); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("%v", err)
		}
	}
	if len(h.traces(item)) != 4 {
		t.Fatal("it was erased all the same")
	}
}

func TestAnAccountErasureStoppedAtAnyErasingCallIsFinishedLater(t *testing.T) {
	stops := 0
	for at, reached := 1, true; reached; at++ {
		for _, how := range []storetest.BlobFault{storetest.Before, storetest.After, storetest.Short} {
			onHouse(t, func(h *house) {
				mine, s := h.belongings(ana()), &stopper{at: at, how: how}
				h.set = s.wrap(h.real)
				_, err := h.accounted().Account(t.Context(), ana(), "support", "asked to", h.now)
				if reached = s.dead; !reached {
					h.must(err)
					return
				}
				stops++
				if err == nil {
					t.Fatalf("call %d: acknowledged, and it was stopped", at)
				}
				h.set = h.real
				h.now = h.now.Add(time.Minute)
				if n, err := h.accounted().Accounts(t.Context(), h.now); err != nil || n != 1 {
					t.Fatalf("call %d: %d passes, %v", at, n, err)
				}
				h.must(h.reminders(h.eraser(), h.now.Add(soon)))
				for _, item := range mine {
					if left := h.traces(item); len(left) > 0 {
						t.Fatalf("call %d: left %v", at, left)
					}
				}
				if after := h.scan(ana()); after.Count != 0 {
					t.Fatalf("call %d: %+v", at, after)
				}
			})
		}
	}
	storetest.Proof(t, "account erasure stopped at every erasing call", "stops", stops)
	if stops < 9 {
		t.Fatalf("%d stops prove little", stops)
	}
}

// newID is an id of the owner's, born now, for a day.
func (h *house) newID(owner mayfly.UserID) mayfly.ID {
	h.Helper()
	lifetime, err := mayfly.LifetimeOf(24 * time.Hour)
	h.must(err)
	id, err := mayfly.NewID(h.now, lifetime, owner.Trace(), uint64(h.now))
	h.must(err)
	return id
}
