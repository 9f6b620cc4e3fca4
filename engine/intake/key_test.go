package intake_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
)

func TestARetryWithTheSameKeyAnswersWithTheSameItem(t *testing.T) {
	h := open(t)
	in := h.intake(intake.Options{})
	d := h.draft()
	d.Key, d.Upload = "k", h.upload(in, ana, start, "sea")
	first := h.publish(in, d, start)
	again := d
	again.Upload = h.upload(in, ana, start+500, "sea")
	second := h.publish(in, again, start+500)
	if second.Item != first.Item || !second.Again || first.Again {
		t.Errorf("first %+v\nagain %+v", first, second)
	}
	events := h.events()
	if len(events) != 2 || events[0] != events[1] {
		t.Errorf("events %+v, want the same one twice: the first may never have been appended", events)
	}
	if got, want := h.objects(), []mayfly.BlobKey{mayfly.UploadKey(d.Upload.ID, 0)}; !slices.Equal(got, want) {
		t.Errorf("objects %v, want the second upload dropped: %v", got, want)
	}
	third := h.publish(in, d, start+900) // with the upload that it was born with
	if third.Item != first.Item || len(h.objects()) != 1 {
		t.Errorf("%+v, objects %v", third, h.objects())
	}
}

// Whether the first answer was given is not known: the event is repeated with
// its key, whatever has become of the item.
func TestARetryRepeatsTheEventWhateverHasBecomeOfTheItem(t *testing.T) {
	h := open(t)
	in := h.intake(intake.Options{})
	d := h.draft()
	d.Key = "k"
	first := h.publish(in, d, start)
	outcomes, err := h.real.Ledger.Transition(t.Context(), []mayfly.Change{{
		ID: first.Item.ID, From: mayfly.Active, Generation: 1, To: mayfly.Deleted, Nonce: 9, Cause: mayfly.ByUser, At: start + 1,
	}})
	if err != nil {
		t.Fatal(err)
	}
	if second := h.publish(in, d, start+2); second.Item != outcomes[0].Current || !second.Again {
		t.Errorf("answered with %+v, want the row as it is", second)
	}
	if events := h.events(); len(events) != 2 || events[0] != events[1] {
		t.Errorf("events %+v", events)
	}
}

// A row that landed late may lie behind the sweep: before the retry is
// acknowledged a reminder sees to its end.
func TestARetryAfterTheDeadlineRemindsToExpireWhatNobodyExpired(t *testing.T) {
	h := open(t)
	in := h.intake(intake.Options{})
	d := h.draft()
	d.Key, d.Lifetime = "k", lifetime(t, 5*time.Second)
	first := h.publish(in, d, start)
	for _, tc := range []struct {
		after time.Duration
		want  int
	}{{5*time.Second - 1e6, 0}, {5 * time.Second, 1}} {
		now := start.Add(tc.after)
		if p := h.publish(in, d, now); p.Item != first.Item || !p.Again {
			t.Errorf("%+v", p)
		}
		r := h.reminders(first.Item.ID, now.Add(2*time.Minute))
		if len(r) != tc.want || len(r) > 0 && r[0].Step != remind.Expire {
			t.Errorf("after %s: reminders %+v, want %d", tc.after, r, tc.want)
		}
	}
}

func TestARetryWhoseEventFailsLeavesAReminder(t *testing.T) {
	h := open(t)
	set, _ := storetest.Prefix(h.real, storetest.FailNth(4, storetest.Fault{Stage: 0})) // swap, commit, swap, commit
	in, err := intake.New(set, intake.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := h.draft()
	d.Key = "k"
	first := h.publish(in, d, start)
	second := h.publish(in, d, start+1)
	if !second.Remind || !second.Again || second.Item != first.Item {
		t.Errorf("%+v", second)
	}
	if r := h.reminders(first.Item.ID, (start + 1).Add(2*time.Minute)); len(r) != 1 || r[0].Step != remind.Announce {
		t.Errorf("reminders %+v", r)
	}
}

func TestTheSameKeyWithOtherContentIsAConflict(t *testing.T) {
	h := open(t)
	in := h.intake(intake.Options{})
	d := h.draft()
	d.Key, d.Data, d.Upload = "k", []byte("x"), h.upload(in, ana, start, "sea", "sky")
	first := h.publish(in, d, start)
	for name, change := range map[string]func(*intake.Draft){
		"text":                 func(d *intake.Draft) { d.Text = "see" },
		"data":                 func(d *intake.Draft) { d.Data = []byte("y") },
		"text moved into data": func(d *intake.Draft) { d.Text, d.Data = "se", []byte("ax") },
		"sort":                 func(d *intake.Draft) { d.Product = mayfly.Post },
		"fate":                 func(d *intake.Draft) { d.Fate = mayfly.Purge },
		"audience":             func(d *intake.Draft) { d.Audience = mayfly.Followers },
		"lifetime":             func(d *intake.Draft) { d.Lifetime = lifetime(t, 25*time.Hour) },
		"no media":             func(d *intake.Draft) { d.Upload = nil },
		"one medium less":      func(d *intake.Draft) { d.Upload = h.upload(in, ana, start, "sea") },
		"another medium":       func(d *intake.Draft) { d.Upload = h.upload(in, ana, start, "sea", "skz") },
		"media in other order": func(d *intake.Draft) { d.Upload = h.upload(in, ana, start, "sky", "sea") },
	} {
		other := d
		change(&other)
		if _, err := in.Publish(t.Context(), other, start+1); !errors.Is(err, mayfly.Conflict) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if owned := h.owned(); !slices.Equal(owned, []mayfly.ID{first.Item.ID}) {
		t.Errorf("born: %v", owned)
	}
	d.Owner, d.Upload = ben, nil // somebody else's key of the same name is another key
	if p := h.publish(in, d, start+1); p.Again {
		t.Error("ben was answered with ana's item")
	}
}

func TestAKeyIsRememberedForItsTimeAndThenUsedAnew(t *testing.T) {
	h := open(t)
	in := h.intake(intake.Options{KeepKeys: time.Hour})
	d := h.draft()
	d.Key = "k"
	first := h.publish(in, d, start)
	if p := h.publish(in, d, start.Add(time.Hour)-1); p.Item.ID != first.Item.ID {
		t.Error("forgotten a millisecond early")
	}
	d.Text = "other"
	second := h.publish(in, d, start.Add(time.Hour))
	if second.Item.ID == first.Item.ID || second.Again {
		t.Errorf("%+v: want a new item", second)
	}
	if p := h.publish(in, d, start.Add(time.Hour)+1); p.Item.ID != second.Item.ID {
		t.Error("the key does not stand for its new item")
	}
}

func TestOfRacingDuplicatesOneIsBorn(t *testing.T) {
	h := open(t)
	in := h.intake(intake.Options{})
	ids := make([]mayfly.ID, 16)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			d := h.draft()
			d.Key, d.Upload = "k", h.upload(in, ana, start, "sea")
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
	born := h.born(ids[0].Minute())
	if owned := h.owned(); len(born) != 1 || len(owned) != 1 {
		t.Fatalf("%d born, %d owned", len(born), len(owned))
	}
	if got, want := h.objects(), []mayfly.BlobKey{mayfly.UploadKey(born[0].Upload, 0)}; !slices.Equal(got, want) {
		t.Errorf("objects %v, want only those of the birth: %v", got, want)
	}
	for _, e := range h.events() {
		if e != mayfly.EventOf(born[0], mayfly.WasCreated) {
			t.Errorf("event %+v", e)
		}
	}
}

func TestAClaimWhoseAnswerWasLostIsReadBack(t *testing.T) {
	h := open(t)
	in := h.intake(intake.Options{})
	d := h.draft()
	d.Key = "k"
	lost, lands := true, false
	h.swap = func() (bool, bool) { return lost, lands }
	if _, err := in.Publish(t.Context(), d, start); !errors.Is(err, mayfly.Unavailable) {
		t.Fatalf("the claim did not land: %v", err)
	}
	if len(h.owned()) > 0 {
		t.Fatal("born without its key")
	}
	lands = true
	first := h.publish(in, d, start)
	if first.Again {
		t.Error("its own claim was taken for somebody else's")
	}
	lost = false
	if second := h.publish(in, d, start+1); second.Item != first.Item || !second.Again {
		t.Errorf("%+v", second)
	}
	lost, lands = true, true // lost, and the row is somebody else's
	if third := h.publish(in, d, start+2); third.Item != first.Item || !third.Again {
		t.Errorf("%+v", third)
	}
}

// Wherever the first try stopped, and whatever of it lands later, the retry
// makes the same birth in every byte (decision 1).
func TestAResumedBirthIsTheSameInEveryByte(t *testing.T) {
	faults := storetest.Faults(storetest.Call{Op: storetest.Commit, Stages: []int{2, 1, 1}})
	tried := 0
	for _, f := range faults {
		h := open(t)
		failing := true
		set, landing := storetest.Prefix(h.real, func(c storetest.Call) storetest.Fault {
			if c.Op == storetest.Commit && failing {
				return f
			}
			return storetest.Fault{}
		})
		in, err := intake.New(set, intake.Options{})
		if err != nil {
			t.Fatal(err)
		}
		d := h.draft()
		d.Key, d.Upload = "k", h.upload(in, ana, start, "sea")
		first, err := in.Publish(t.Context(), d, start)
		if err == nil && !first.Remind { // the reminder's commit fails too, as f says, but may be written
			t.Fatalf("%+v: acknowledged as %+v", f, first)
		}
		failing = false
		retry := d
		retry.Upload = h.upload(in, ana, start+700, "sea")
		second := h.publish(in, retry, start+700)
		if second.Item.Upload != d.Upload.ID || second.Item.Changed != start || second.Item.ID.Birth() != start || !second.Again {
			t.Errorf("%+v: resumed as %+v", f, second.Item)
		}
		if _, err := landing.LandAll(t.Context(), rand.New(rand.NewPCG(1, 1))); err != nil {
			t.Fatal(err)
		}
		third := h.publish(in, d, start+800)
		if row, found := h.row(second.Item.ID); !found || row != second.Item || third.Item != row {
			t.Errorf("%+v: row %+v\n answered %+v\n and then %+v", f, row, second.Item, third.Item)
		}
		if born, owned := h.born(second.Item.ID.Minute()), h.owned(); len(born) != 1 || len(owned) != 1 {
			t.Errorf("%+v: %d born, %d owned", f, len(born), len(owned))
		}
		if got, want := h.objects(), []mayfly.BlobKey{mayfly.UploadKey(d.Upload.ID, 0)}; !slices.Equal(got, want) {
			t.Errorf("%+v: objects %v, want %v", f, got, want)
		}
		owner, err := h.real.Rows.Get(t.Context(), store.Uploads, store.UploadKey(d.Upload.ID))
		if err != nil || string(owner[0]) != string(second.Item.ID[:]) {
			t.Errorf("%+v: the upload belongs to %x, %v", f, owner[0], err)
		}
		for _, e := range h.events() {
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
				h := open(t)
				set, _ := storetest.Prefix(h.real, storetest.FailNth(2, storetest.Fault{Stage: 0}))
				in, err := intake.New(set, intake.Options{UploadLife: lifetime(t, time.Hour)})
				if err != nil {
					t.Fatal(err)
				}
				begun := start
				if tc.want != nil {
					begun = start.Add(2*time.Second - time.Hour)
				}
				d := h.draft()
				d.Key, d.Lifetime, d.Upload = "k", lifetime(t, 5*time.Second), h.upload(in, ana, begun, tc.media...)
				if _, err := in.Publish(t.Context(), d, start); !errors.Is(err, mayfly.Unavailable) {
					t.Fatal(err)
				}
				d.Upload = h.upload(in, ana, start.Add(tc.after), tc.media...)
				p, err := in.Publish(t.Context(), d, start.Add(tc.after))
				if !errors.Is(err, tc.want) || err == nil && (!p.Again || p.Item.ID.Birth() != start) {
					t.Errorf("%+v, %v", p, err)
				}
				if tc.want != nil && len(h.born(start.Add(5*time.Second).Minute())) > 0 {
					t.Error("born too late")
				}
			})
		})
	}
}

func TestAKeyThatCannotBeReadIsCorrupt(t *testing.T) {
	for _, value := range []string{"?", strings.Repeat("\x02", 73)} {
		h := open(t)
		key := store.Key{Partition: string(ana[:]), Clustering: "k"}
		if _, _, err := h.real.Rows.Swap(t.Context(), store.Idempotency, key, nil, []byte(value), 0); err != nil {
			t.Fatal(err)
		}
		d := h.draft()
		d.Key = "k"
		if _, err := h.intake(intake.Options{}).Publish(t.Context(), d, start); !errors.Is(err, mayfly.Corrupt) {
			t.Errorf("%q: %v", value, err)
		}
	}
}

func TestAKeyThatKeepsChangingIsGivenUp(t *testing.T) {
	h := open(t)
	in := h.intake(intake.Options{KeepKeys: time.Hour})
	d := h.draft()
	d.Key = "k"
	h.publish(in, d, start)
	swaps := 0
	h.swap = func() (bool, bool) { swaps++; return false, false } // says "not swapped, and nothing is there"
	if _, err := in.Publish(t.Context(), d, start+1); !errors.Is(err, mayfly.Unavailable) || swaps > 5 {
		t.Errorf("%v after %d swaps", err, swaps)
	}
}
