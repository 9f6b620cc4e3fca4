package accounterase_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/accounterase"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/erasure"
	"github.com/mayflyhq/mayfly/test/fixture"
)

func TestAnErasedAccountLeavesNothingAndOthersEverything(t *testing.T) {
	fx := erasure.Open(t)
	mine, others := fx.Belongings(fixture.Ana()), fx.Belongings(fixture.Ben())
	before, bens := fx.Scan(fixture.Ana()), fx.Scan(fixture.Ben())
	if before.Count < 6+6+9+1 || bens.Count != before.Count {
		t.Fatalf("there are too few references to erase: %+v", before)
	}
	e := fx.Accounts()
	r, err := e.Account(t.Context(), fixture.Ana(), audit.Actor{Subject: "support"}, "asked to", fx.Now)
	fx.Must(err)
	if r.Items != 6 || r.Objects != 9 || r.Rows["owners"] != 6 || r.Rows["uploads"] != 6 || r.Rows["idempotency"] != 1 || len(r.Held) != 0 || r.Finished != 0 {
		t.Fatalf("%+v", r)
	}
	for _, item := range mine {
		if left := fx.Traces(item); len(left) > 0 || fx.Row(item.ID).State != mayfly.Deleted {
			t.Fatalf("left: %v", left)
		}
	}
	if after := fx.Scan(fixture.Ana()); after.Count != 0 || after.Unowned != 0 {
		t.Fatalf("%+v", after)
	}
	fx.Now = fx.Now.Add(time.Minute)
	for _, want := range []int{1, 0} { // the second pass, once
		if n, err := e.RunDue(t.Context(), fx.Now); err != nil || n != want {
			t.Fatalf("%d passes, %v", n, err)
		}
	}
	r, err = accounterase.ReceiptOf(t.Context(), fx.Real.Rows, fixture.Ana())
	if err != nil || r.Finished != fx.Now || r.Passes != 2 || r.Items != 6 {
		t.Fatalf("%+v, %v", r, err)
	}
	if after := fx.Scan(fixture.Ben()); after.Count != bens.Count {
		t.Fatalf("of the other's %d references %d are left", bens.Count, after.Count)
	}
	for _, item := range others {
		if len(fx.Traces(item)) != 3+int(item.Media)-1 && len(fx.Traces(item)) != 3+int(item.Media) {
			t.Fatalf("of the other's %s only %v is left", item.ID, fx.Traces(item))
		}
	}
	if erased, err := accounterase.Tombstones(t.Context(), fx.Real.Rows, fixture.Ana(), fixture.Ben()); err != nil || !erased[0] || erased[1] {
		t.Fatalf("%v, %v", erased, err)
	}
	if _, err := accounterase.ReceiptOf(t.Context(), fx.Real.Rows, fixture.Ben()); !errors.Is(err, mayfly.NotFound) {
		t.Fatalf("the other is erased: %v", err)
	}
	report, err := audit.Verify(t.Context(), fx.Real.Rows, func(r audit.Record) error {
		if r.Entry.Verb != audit.EraseAccount || r.Entry.Subject.User != fixture.Ana() {
			t.Errorf("%+v", r.Entry)
		}
		return nil
	})
	if err != nil || len(report.Findings) > 0 || report.Records != 2 {
		t.Fatalf("%+v, %v", report, err)
	}
}

func TestTheScanFindsItemsHoweverLongTheyLive(t *testing.T) {
	fx := erasure.Open(t)
	var items []mayfly.Item
	for _, lifetime := range []string{"1h", "49h", "7d", "365d", "1023d"} {
		l, err := mayfly.ParseLifetime(lifetime)
		fx.Must(err)
		d := fx.Draft()
		d.Lifetime = l
		items = append(items, fx.Publish(d, fx.Now))
	}
	var b store.Batch // so that only the ledger names them
	for _, item := range items {
		b.Delete(engine.Owners, engine.OwnerKey(fixture.Ana(), item.ID))
	}
	fx.Must(fx.Real.Writer.Commit(t.Context(), &b))
	found := fx.Scan(fixture.Ana())
	for _, item := range items {
		if !slices.Contains(found.Examples, item.ID.String()+" is active") {
			t.Errorf("the scan does not find %s of a lifetime of %s: %+v", item.ID, item.ID.Lifetime(), found)
		}
	}
}

func TestWhatIsHeldOutlivesTheAccountUntilItIsReleased(t *testing.T) {
	fx := erasure.Open(t)
	held, hidden, other := fx.Story(1), fx.Story(2), fx.Story(1)
	fx.Hold(held.ID)
	fx.Hold(hidden.ID)
	_, err := fx.Eraser().Delete(t.Context(), hidden.ID, mayfly.ByUser, fx.Now) // and deleted by its author
	fx.Must(err)
	e := fx.Accounts()
	r, err := e.Account(t.Context(), fixture.Ana(), audit.Actor{Subject: "support"}, "asked to", fx.Now)
	fx.Must(err)
	want := []mayfly.ID{held.ID, hidden.ID}
	slices.SortFunc(want, mayfly.ID.Compare)
	if !slices.Equal(r.Held, want) || r.Items != 1 || len(fx.Traces(other)) > 0 {
		t.Fatalf("%+v", r)
	}
	fx.Now = fx.Now.Add(time.Minute)
	if n, err := e.RunDue(t.Context(), fx.Now); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	if len(fx.Traces(held)) != 4 || len(fx.Traces(hidden)) != 5 || fx.Scan(fixture.Ana()).Count != 0 || fx.Scan(fixture.Ana()).Held != 2 {
		t.Fatalf("of what is held only %v and %v is left", fx.Traces(held), fx.Traces(hidden))
	}
	fx.Release(held.ID)
	fx.Release(hidden.ID)
	for after, want := range map[time.Duration]int{erasure.Day - time.Millisecond: 0, erasure.Day: 1} {
		if n, err := e.RunDue(t.Context(), fx.Now.Add(after)); err != nil || n > want {
			t.Fatalf("%s later %d passes, %v", after, n, err)
		}
	}
	r, err = accounterase.ReceiptOf(t.Context(), fx.Real.Rows, fixture.Ana())
	if err != nil || r.Finished == 0 || r.Items != 3 || len(r.Held) != 0 || len(fx.Traces(held))+len(fx.Traces(hidden)) > 0 {
		t.Fatalf("%+v, %v", r, err)
	}
}

func TestABirthInFlightIsCaughtByTheSecondPass(t *testing.T) {
	fx := erasure.Open(t)
	// A birth writes the index first and the row later: here, after the pass.
	var late store.Batch
	real := fx.Real.Writer
	fx.Real.Writer = writerFunc(func(ctx context.Context, b *store.Batch) error {
		var first store.Batch
		for _, p := range b.Stages()[0].Puts {
			first.Put(p.Table, p.Key, p.Value, p.ReclaimAt)
		}
		late.Insert(b.Stages()[1].Inserts...)
		return real.Commit(ctx, &first)
	})
	item := fx.Story(2)
	fx.Real.Writer = real
	e := fx.Accounts()
	r, err := e.Account(t.Context(), fixture.Ana(), audit.Actor{Subject: "support"}, "asked to", fx.Now)
	if err != nil || r.Items != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	fx.Must(real.Commit(t.Context(), &late))
	if fx.Scan(fixture.Ana()).Count == 0 {
		t.Fatal("the birth did not land")
	}
	if n, err := e.RunDue(t.Context(), fx.Now.Add(time.Minute)-1); err != nil || n != 0 {
		t.Fatalf("%d early passes, %v", n, err)
	}
	if n, err := e.RunDue(t.Context(), fx.Now.Add(time.Minute)); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	if left := fx.Traces(item); len(left) > 0 || fx.Scan(fixture.Ana()).Count != 0 {
		t.Fatalf("left: %v", left)
	}
}

type writerFunc func(context.Context, *store.Batch) error

func (f writerFunc) Commit(ctx context.Context, b *store.Batch) error { return f(ctx, b) }

func TestTheIndexEntryOfAnAbandonedBirthGoes(t *testing.T) {
	fx := erasure.Open(t)
	item := fx.Story(0)
	fx.Change(item.ID, mayfly.Change{To: mayfly.Deleted, Cause: mayfly.ByUser})
	fx.Must(fx.Real.Ledger.Remove(t.Context(), item.ID)) // as if it had never landed
	fx.Now = fx.Now.Add(time.Minute)
	if _, err := fx.Accounts().Account(t.Context(), fixture.Ana(), audit.Actor{Subject: "support"}, "asked to", fx.Now); err != nil || fx.Scan(fixture.Ana()).Count != 0 {
		t.Fatalf("%+v, %v", fx.Scan(fixture.Ana()), err)
	}
}

func TestABackupPutBackIsErasedAgainBeforeTheFirstRead(t *testing.T) {
	old := erasure.Open(t)
	old.Story(1)
	_, err := old.Accounts().Account(t.Context(), fixture.Ana(), audit.Actor{Subject: "support"}, "asked to", old.Now)
	old.Must(err)

	fx := erasure.Open(t) // the store as it was before, beside the deletion ledger as it is
	fx.Real.Deletions = old.Real.Deletions
	mine := fx.Belongings(fixture.Ana())
	others := fx.Belongings(fixture.Ben())
	fx.Now = fx.Now.Add(time.Hour)
	e := fx.Accounts()
	for _, want := range []int{1, 1, 0} { // again while it is not finished
		if n, err := e.Replay(t.Context(), fx.Now); err != nil || n != want {
			t.Fatalf("%d accounts, %v", n, err)
		}
		fx.Now = fx.Now.Add(time.Hour)
	}
	for _, item := range mine {
		if len(fx.Traces(item)) > 0 {
			t.Fatalf("left: %v", fx.Traces(item))
		}
	}
	if fx.Scan(fixture.Ana()).Count != 0 || len(fx.Traces(others[0])) == 0 {
		t.Fatal("the wrong account was erased")
	}
	// A backup from after a first erasure knows nothing of a second one, which
	// caught a birth that had landed late.
	again := mayfly.Item{
		ID: fx.NewID(fixture.Ana()), Owner: fixture.Ana(), Product: mayfly.Story, Fate: mayfly.Archive, Audience: mayfly.Everyone,
		State: mayfly.Active, Generation: mayfly.Born, Nonce: 1, Changed: fx.Now,
	}
	var late store.Batch
	late.Put(engine.Owners, engine.OwnerKey(again.Owner, again.ID), []byte{byte(mayfly.Story)}, 0)
	late.Then()
	late.Insert(store.Birth{Item: again, Body: mayfly.Body{Text: "late"}})
	fx.Must(fx.Real.Writer.Commit(t.Context(), &late))
	text, err := fx.Now.MarshalText()
	fx.Must(err)
	fx.Must(fx.Real.Deletions.Delete(t.Context(), fx.Objects(fx.Real.Deletions)[0]))
	_, err = fx.Real.Deletions.Put(t.Context(), mayfly.BlobKey("erased/"+fixture.Ana().String()), bytes.NewReader(text))
	fx.Must(err)
	if n, err := e.Replay(t.Context(), fx.Now); err != nil || n != 1 || len(fx.Traces(again)) > 0 {
		t.Fatalf("%d accounts, %v, left %v", n, err, fx.Traces(again))
	}
}

// A log that is away holds up neither the erasure, whatever it has to erase, nor the
// start of a node that finds it unfinished (L8, ST14).
func TestAnAccountIsErasedWhileTheLogIsAway(t *testing.T) {
	fx := erasure.Open(t)
	var mine []mayfly.Item
	for range 120 { // more than a page
		mine = append(mine, fx.Story(1))
	}
	fx.Hooks.Append = fixture.FailAppend(mayfly.Unavailable)
	if _, err := fx.Accounts().Account(t.Context(), fixture.Ana(), audit.Actor{Subject: "support"}, "asked to", fx.Now); !errors.Is(err, mayfly.Unavailable) {
		t.Fatalf("%v, want Unavailable: another pass is due", err)
	}
	if n, err := fx.Accounts().Replay(t.Context(), fx.Now); err != nil || n != 0 {
		t.Fatalf("a start: %d accounts, %v", n, err)
	}
	for i, item := range mine {
		if row := fx.Row(item.ID); row.State != mayfly.Deleted {
			t.Fatalf("story %d of %d is %s", i, len(mine), row.State)
		}
	}
	if keys := fx.Objects(fx.Real.Hot); len(keys) > 0 {
		t.Fatalf("the bytes wait for the log: %v", keys)
	}
	fx.Hooks.Append = nil
	fx.Now = fx.Now.Add(time.Hour)
	if n, err := fx.Accounts().RunDue(t.Context(), fx.Now); err != nil || n != 1 {
		t.Fatalf("%d accounts, %v", n, err)
	}
	appended := fx.Appended(mayfly.WasDeleted)
	for _, item := range mine {
		if appended[item.ID] == 0 || len(fx.Traces(item)) > 0 {
			t.Fatalf("%s: appended %d times, left %v", item.ID, appended[item.ID], fx.Traces(item))
		}
	}
	if n := appended[mayfly.ID{}]; n != 1 {
		t.Fatalf("user.deleted was appended %d times", n)
	}
}

// The first pass that succeeds appends the event about the user.
func TestAccountErasureAppendsUserDeletedOnce(t *testing.T) {
	fx := erasure.Open(t)
	fx.Story(1)
	_, err := fx.Accounts().Account(t.Context(), fixture.Ana(), audit.Actor{Subject: "support"}, "asked to", fx.Now)
	fx.Must(err)
	r, err := fx.Real.Log.Reader(t.Context(), mayfly.Ends, "users")
	fx.Must(err)
	defer func() { fx.Must(r.Close()) }()
	records, err := r.Next(t.Context(), 100)
	fx.Must(err)
	records = slices.DeleteFunc(records, func(r store.Record) bool { return !r.Event.AboutUser() })
	if len(records) != 1 || records[0].Event != mayfly.UserDeleted(fixture.Ana(), fx.Now) || records[0].Event.Type() != "user.deleted" {
		t.Fatalf("of the user the log has %+v", records)
	}
	fx.Now = fx.Now.Add(time.Hour)
	if n, err := fx.Accounts().RunDue(t.Context(), fx.Now); err != nil || n != 1 {
		t.Fatalf("%d accounts, %v", n, err)
	}
	if lag, err := r.Lag(t.Context()); err != nil || lag != 0 {
		t.Fatalf("the last pass appended %d events, %v", lag, err)
	}
}

func TestAnAccountErasureNeedsAnActorAReasonAndTheLedgers(t *testing.T) {
	fx := erasure.Open(t)
	item := fx.Story(1)
	e := fx.Accounts()
	for _, ask := range []func() error{
		func() error {
			_, err := e.Account(t.Context(), mayfly.UserID{}, audit.Actor{Subject: "support"}, "x", fx.Now)
			return err
		},
		func() error {
			_, err := e.Account(t.Context(), fixture.Ana(), audit.Actor{Subject: ""}, "x", fx.Now)
			return err
		},
		func() error {
			_, err := e.Account(t.Context(), fixture.Ana(), audit.Actor{Subject: "support"}, "", fx.Now)
			return err
		},
		func() error {
			_, err := fx.AccountsWith(accounterase.Options{Audit: fx.AuditLog()}).Account(t.Context(), fixture.Ana(), audit.Actor{Subject: "support"}, "x", fx.Now)
			return err
		},
		func() error {
			_, err := fx.AccountsWith(accounterase.Options{Deletions: fx.Real.Deletions}).Account(t.Context(), fixture.Ana(), audit.Actor{Subject: "support"}, "x", fx.Now)
			return err
		},
	} {
		if err := ask(); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("%v", err)
		}
	}
	if len(fx.Traces(item)) != 4 {
		t.Fatal("it was erased all the same")
	}
}

// Calls of an account's page do not grow with what is on it.
func TestThePageOfAnAccountIsDeletedInAFewCalls(t *testing.T) {
	fx := erasure.Open(t)
	for range 60 {
		fx.Story(0)
	}
	if _, err := fx.Accounts().Account(t.Context(), fixture.Ana(), audit.Actor{Subject: "support"}, "asked to", fx.Now); err != nil {
		t.Fatal(err)
	}
	if n := fx.Hooks.Count("ledger get", "transition"); n == 0 || n > 6 {
		t.Errorf("%d calls for 60 items", n)
	}
}

// Who cannot tell the caches waits for the page, not for each of its items.
func TestAnAccountWhoseCachesCannotBeNotifiedIsErasedInOneWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := erasure.Open(t)
		for range 60 {
			fx.Story(0)
		}
		fx.Set.Signals = fixture.Deaf{Signals: fx.Real.Signals}
		begun := time.Now()
		if _, err := fx.Accounts().Account(t.Context(), fixture.Ana(), audit.Actor{Subject: "support"}, "asked to", fx.Now); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took < store.CacheWait || took >= 2*store.CacheWait {
			t.Errorf("it took %s", took)
		}
	})
}

func TestTheBodyOfAnAbandonedBirthGoesWithTheAccount(t *testing.T) {
	fx := erasure.Open(t)
	item, l := fx.HalfBorn(0)
	l.Named = func(id mayfly.ID) bool {
		found, err := fx.Real.Rows.Get(t.Context(), engine.Owners, engine.OwnerKey(fixture.Ana(), id))
		fx.Must(err)
		return len(found[0]) > 0
	}
	if !l.Named(item.ID) {
		t.Fatal("nothing leads to it")
	}
	fx.Now = fx.Now.Add(time.Minute)
	if _, err := fx.Accounts().Account(t.Context(), fixture.Ana(), audit.Actor{Subject: "support"}, "asked to", fx.Now); err != nil {
		t.Fatal(err)
	}
	if len(l.Bodies) > 0 || l.Lost || l.Named(item.ID) {
		t.Errorf("left are %v; erased when nothing led there: %t", l.Bodies, l.Lost)
	}
}
