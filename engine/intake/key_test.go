package intake_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/fixture"
)

func TestARetryWithTheSameKeyAnswersWithTheSameItem(t *testing.T) {
	e := fixture.Open(t)
	in := e.Intake(intake.Options{})
	d := e.Draft()
	d.Key, d.Upload = "k", e.Upload(ana, start, "sea")
	first := publish(t, in, d, start)
	again := d
	again.Upload = e.Upload(ana, start+500, "sea")
	second := publish(t, in, again, start+500)
	if second.Item != first.Item || !second.Again || first.Again {
		t.Errorf("first %+v\nagain %+v", first, second)
	}
	events := e.Events(mayfly.Births)
	if len(events) != 2 || events[0] != events[1] {
		t.Errorf("events %+v, want the same one twice: the first may never have been appended", events)
	}
	if got, want := e.Objects(e.Real.Hot), []mayfly.BlobKey{mayfly.UploadKey(d.Upload.ID, 0)}; !slices.Equal(got, want) {
		t.Errorf("objects %v, want the second upload dropped: %v", got, want)
	}
	third := publish(t, in, d, start+900) // with the upload that it was born with
	if third.Item != first.Item || len(e.Objects(e.Real.Hot)) != 1 {
		t.Errorf("%+v, objects %v", third, e.Objects(e.Real.Hot))
	}
}

// Whether the first answer was given is not known: the event is repeated with
// its key, whatever has become of the item.
func TestARetryRepeatsTheEventWhateverHasBecomeOfTheItem(t *testing.T) {
	e := fixture.Open(t)
	in := e.Intake(intake.Options{})
	d := e.Draft()
	d.Key = "k"
	first := publish(t, in, d, start)
	outcomes, err := e.Real.Ledger.Transition(t.Context(), []mayfly.Change{{
		ID: first.Item.ID, From: mayfly.Active, Generation: 1, To: mayfly.Deleted, Nonce: 9, Cause: mayfly.ByUser, At: start + 1,
	}})
	if err != nil {
		t.Fatal(err)
	}
	if second := publish(t, in, d, start+2); second.Item != outcomes[0].Current || !second.Again {
		t.Errorf("answered with %+v, want the row as it is", second)
	}
	if events := e.Events(mayfly.Births); len(events) != 2 || events[0] != events[1] {
		t.Errorf("events %+v", events)
	}
}

// A row that landed late may lie behind the sweep: before the retry is
// acknowledged a reminder sees to its end.
func TestARetryAfterTheDeadlineRemindsToExpireWhatWasNotExpired(t *testing.T) {
	e := fixture.Open(t)
	in := e.Intake(intake.Options{})
	d := e.Draft()
	d.Key, d.Lifetime = "k", fixture.Lifetime(t, 5*time.Second)
	first := publish(t, in, d, start)
	for _, tc := range []struct {
		after time.Duration
		want  int
	}{{5*time.Second - 1e6, 0}, {5 * time.Second, 1}} {
		now := start.Add(tc.after)
		if p := publish(t, in, d, now); p.Item != first.Item || !p.Again {
			t.Errorf("%+v", p)
		}
		r := e.RemindersOf(first.Item.ID, now.Add(2*time.Minute))
		if len(r) != tc.want || len(r) > 0 && r[0].Step != remind.Expire {
			t.Errorf("after %s: reminders %+v, want %d", tc.after, r, tc.want)
		}
	}
}

func TestARetryWhoseEventFailsLeavesAReminder(t *testing.T) {
	e := fixture.Open(t)
	set, _ := storetest.Prefix(e.Real, storetest.FailNth(4, storetest.Fault{Stage: 0})) // swap, commit, swap, commit
	in, err := intake.New(set, intake.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := e.Draft()
	d.Key = "k"
	first := publish(t, in, d, start)
	second := publish(t, in, d, start+1)
	if !second.Remind || !second.Again || second.Item != first.Item {
		t.Errorf("%+v", second)
	}
	if r := e.RemindersOf(first.Item.ID, (start + 1).Add(2*time.Minute)); len(r) != 1 || r[0].Step != remind.Announce {
		t.Errorf("reminders %+v", r)
	}
}

func TestTheSameKeyWithOtherContentIsAConflict(t *testing.T) {
	e := fixture.Open(t)
	in := e.Intake(intake.Options{})
	d := e.Draft()
	d.Key, d.Data, d.Upload = "k", []byte("x"), e.Upload(ana, start, "sea", "sky")
	first := publish(t, in, d, start)
	for name, change := range map[string]func(*intake.Draft){
		"text":                 func(d *intake.Draft) { d.Text = "see" },
		"data":                 func(d *intake.Draft) { d.Data = []byte("y") },
		"text moved into data": func(d *intake.Draft) { d.Text, d.Data = "se", []byte("ax") },
		"sort":                 func(d *intake.Draft) { d.Product = mayfly.Post },
		"fate":                 func(d *intake.Draft) { d.Fate = mayfly.Purge },
		"audience":             func(d *intake.Draft) { d.Audience = mayfly.Followers },
		"lifetime":             func(d *intake.Draft) { d.Lifetime = fixture.Lifetime(t, 25*time.Hour) },
		"no media":             func(d *intake.Draft) { d.Upload = nil },
		"one medium less":      func(d *intake.Draft) { d.Upload = e.Upload(ana, start, "sea") },
		"another medium":       func(d *intake.Draft) { d.Upload = e.Upload(ana, start, "sea", "skz") },
		"media in other order": func(d *intake.Draft) { d.Upload = e.Upload(ana, start, "sky", "sea") },
	} {
		other := d
		change(&other)
		if _, err := in.Publish(t.Context(), other, start+1); !errors.Is(err, mayfly.Conflict) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if owned := e.Owned(ana); !slices.Equal(owned, []mayfly.ID{first.Item.ID}) {
		t.Errorf("born: %v", owned)
	}
	d.Owner, d.Upload = ben, nil // another user's key of the same name is another key
	if p := publish(t, in, d, start+1); p.Again {
		t.Error("ben was answered with ana's item")
	}
}

func TestAKeyIsRememberedForItsTimeAndThenUsedAnew(t *testing.T) {
	e := fixture.Open(t)
	in := e.Intake(intake.Options{KeepKeys: time.Hour})
	d := e.Draft()
	d.Key = "k"
	first := publish(t, in, d, start)
	if p := publish(t, in, d, start.Add(time.Hour)-1); p.Item.ID != first.Item.ID {
		t.Error("forgotten a millisecond early")
	}
	d.Text = "other"
	second := publish(t, in, d, start.Add(time.Hour))
	if second.Item.ID == first.Item.ID || second.Again {
		t.Errorf("%+v: want a new item", second)
	}
	if p := publish(t, in, d, start.Add(time.Hour)+1); p.Item.ID != second.Item.ID {
		t.Error("the key does not stand for its new item")
	}
}

func TestOfRacingDuplicatesOneIsBorn(t *testing.T) {
	e := fixture.Open(t)
	in := e.Intake(intake.Options{})
	ids := make([]mayfly.ID, 16)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			d := e.Draft()
			d.Key, d.Upload = "k", e.Upload(ana, start, "sea")
			p, err := in.Publish(t.Context(), d, start+mayfly.Instant(i))
			if err != nil {
				t.Error(err)
			}
			ids[i] = p.Item.ID
		})
	}
	wg.Wait()
	if len(slices.Compact(slices.Clone(ids))) != 1 {
		t.Fatalf("answered with %v", ids)
	}
	born := e.Due(ids[0].Minute())
	if owned := e.Owned(ana); len(born) != 1 || len(owned) != 1 {
		t.Fatalf("%d born, %d owned", len(born), len(owned))
	}
	if got, want := e.Objects(e.Real.Hot), []mayfly.BlobKey{mayfly.UploadKey(born[0].Upload, 0)}; !slices.Equal(got, want) {
		t.Errorf("objects %v, want only those of the birth: %v", got, want)
	}
	for _, e := range e.Events(mayfly.Births) {
		if e != mayfly.EventOf(born[0], mayfly.WasCreated) {
			t.Errorf("event %+v", e)
		}
	}
}

func TestAClaimWhoseAnswerWasLostIsReadBack(t *testing.T) {
	e := fixture.Open(t)
	in := e.Intake(intake.Options{})
	d := e.Draft()
	d.Key = "k"
	lost, lands := true, false
	e.Hooks.Swap = func(_ context.Context, _ store.Table, _ store.Key, do fixture.Swap) (swapped bool, current []byte, err error) {
		if lands {
			swapped, current, err = do()
		}
		if lost {
			return false, nil, mayfly.Errorf(mayfly.Unknown, "the answer was lost")
		}
		return swapped, current, err
	}
	if _, err := in.Publish(t.Context(), d, start); !errors.Is(err, mayfly.Unavailable) {
		t.Fatalf("the claim did not land: %v", err)
	}
	if len(e.Owned(ana)) > 0 {
		t.Fatal("born without its key")
	}
	lands = true
	first := publish(t, in, d, start)
	if first.Again {
		t.Error("its own claim was taken for another request's")
	}
	lost = false
	if second := publish(t, in, d, start+1); second.Item != first.Item || !second.Again {
		t.Errorf("%+v", second)
	}
	lost, lands = true, true // lost, and the row is another request's
	if third := publish(t, in, d, start+2); third.Item != first.Item || !third.Again {
		t.Errorf("%+v", third)
	}
}

// Wherever the first try stopped, and whatever of it lands later, the retry
// makes the same birth in every byte (decision 1).
func TestAResumedBirthIsTheSameInEveryByte(t *testing.T) {
	faults := storetest.Faults(storetest.Call{Op: storetest.Commit, Stages: []int{2, 1, 1}})
	tried := 0
	for _, f := range faults {
		e := fixture.Open(t)
		failing := true
		set, landing := storetest.Prefix(e.Real, func(c storetest.Call) storetest.Fault {
			if c.Op == storetest.Commit && failing {
				return f
			}
			return storetest.Fault{}
		})
		in, err := intake.New(set, intake.Options{})
		if err != nil {
			t.Fatal(err)
		}
		d := e.Draft()
		d.Key, d.Upload = "k", e.Upload(ana, start, "sea")
		first, err := in.Publish(t.Context(), d, start)
		if err == nil && !first.Remind { // the reminder's commit fails too, as f says, but may be written
			t.Fatalf("%+v: acknowledged as %+v", f, first)
		}
		failing = false
		retry := d
		retry.Upload = e.Upload(ana, start+700, "sea")
		second := publish(t, in, retry, start+700)
		if second.Item.Upload != d.Upload.ID || second.Item.Changed != start || second.Item.ID.Birth() != start || !second.Again {
			t.Errorf("%+v: resumed as %+v", f, second.Item)
		}
		if _, err := landing.LandAll(t.Context(), rand.New(rand.NewPCG(1, 1))); err != nil {
			t.Fatal(err)
		}
		third := publish(t, in, d, start+800)
		if row, found := e.Find(second.Item.ID); !found || row != second.Item || third.Item != row {
			t.Errorf("%+v: row %+v\n answered %+v\n and then %+v", f, row, second.Item, third.Item)
		}
		if born, owned := e.Due(second.Item.ID.Minute()), e.Owned(ana); len(born) != 1 || len(owned) != 1 {
			t.Errorf("%+v: %d born, %d owned", f, len(born), len(owned))
		}
		if got, want := e.Objects(e.Real.Hot), []mayfly.BlobKey{mayfly.UploadKey(d.Upload.ID, 0)}; !slices.Equal(got, want) {
			t.Errorf("%+v: objects %v, want %v", f, got, want)
		}
		owner, err := e.Real.Rows.Get(t.Context(), engine.Uploads, engine.UploadKey(d.Upload.ID))
		if err != nil || string(owner[0]) != string(second.Item.ID[:]) {
			t.Errorf("%+v: the upload belongs to %x, %v", f, owner[0], err)
		}
		for _, e := range e.Events(mayfly.Births) {
			if e != mayfly.EventOf(second.Item, mayfly.WasCreated) {
				t.Errorf("%+v: event %+v", f, e)
			}
		}
		tried++
	}
	if tried < 10 {
		t.Errorf("only %d ways to stop were tried", tried)
	}
}

func TestAnAbandonedBirthIsResumedOnlyWhileItsDeadlineIsAhead(t *testing.T) {
	for name, tc := range map[string]struct {
		after time.Duration
		media []string
		want  error
	}{
		"a millisecond before":             {after: 5*time.Second - 1e6},
		"at the deadline":                  {after: 5 * time.Second, want: mayfly.Gone},
		"media":                            {after: 5*time.Second - 1e6, media: []string{"sea"}},
		"media that may be collected soon": {after: 3 * time.Second, media: []string{"sea"}, want: mayfly.Gone},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // one millisecond is left, of virtual time
				e := fixture.Open(t)
				set, _ := storetest.Prefix(e.Real, storetest.FailNth(2, storetest.Fault{Stage: 0}))
				in, err := intake.New(set, intake.Options{})
				e.Must(err)
				uploads, err := upload.New(set, upload.Options{Life: fixture.Lifetime(t, time.Hour)})
				e.Must(err)
				begun := start
				if tc.want != nil {
					begun = start.Add(2*time.Second - time.Hour)
				}
				d := e.Draft()
				d.Key, d.Lifetime, d.Upload = "k", fixture.Lifetime(t, 5*time.Second), fixture.UploadTo(t, uploads, ana, begun, tc.media...)
				if _, err := in.Publish(t.Context(), d, start); !errors.Is(err, mayfly.Unavailable) {
					t.Fatal(err)
				}
				d.Upload = fixture.UploadTo(t, uploads, ana, start.Add(tc.after), tc.media...)
				p, err := in.Publish(t.Context(), d, start.Add(tc.after))
				if !errors.Is(err, tc.want) || err == nil && (!p.Again || p.Item.ID.Birth() != start) {
					t.Errorf("%+v, %v", p, err)
				}
				if tc.want != nil && len(e.Due(start.Add(5*time.Second).Minute())) > 0 {
					t.Error("born too late")
				}
			})
		})
	}
}

func TestAKeyThatCannotBeReadIsCorrupt(t *testing.T) {
	for _, value := range []string{"?", strings.Repeat("\x02", 73)} {
		e := fixture.Open(t)
		key := store.Key{Partition: string(ana[:]), Clustering: "k"}
		if _, _, err := e.Real.Rows.Swap(t.Context(), intake.Idempotency, key, nil, []byte(value), 0); err != nil {
			t.Fatal(err)
		}
		d := e.Draft()
		d.Key = "k"
		if _, err := e.Intake(intake.Options{}).Publish(t.Context(), d, start); !errors.Is(err, mayfly.Corrupt) {
			t.Errorf("%q: %v", value, err)
		}
	}
}

func TestAKeyThatKeepsChangingIsGivenUp(t *testing.T) {
	e := fixture.Open(t)
	in := e.Intake(intake.Options{KeepKeys: time.Hour})
	d := e.Draft()
	d.Key = "k"
	publish(t, in, d, start)
	swaps := 0
	e.Hooks.Swap = func(context.Context, store.Table, store.Key, fixture.Swap) (bool, []byte, error) {
		swaps++
		return false, nil, nil // not swapped, and the row is absent
	}
	if _, err := in.Publish(t.Context(), d, start+1); !errors.Is(err, mayfly.Unavailable) || swaps > 16 { // the tries of store.Update
		t.Errorf("%v after %d swaps", err, swaps)
	}
}
