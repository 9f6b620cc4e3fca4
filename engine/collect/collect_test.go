package collect_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/archive"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/collect"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/erasure"
	"github.com/mayflyhq/mayfly/test/fixture"
)

func TestOrphansAreCollectedAndNothingThatARowNames(t *testing.T) {
	fx := erasure.Open(t)
	hot, cold := fx.Real.Hot, fx.Real.Cold
	unpublished := fx.Uploaded(2)
	active := fx.Forever(fixture.Ben(), 2)
	archived, claimed, held, deleted, erased, removed := fx.Story(2), fx.Story(1), fx.Story(1), fx.Story(1), fx.Story(1), fx.Story(1)
	fx.MoveToCold(archived)
	fx.Expire(claimed, held)
	fx.Hold(held.ID)
	fx.Change(claimed.ID, mayfly.Change{To: mayfly.Archiving, Cause: mayfly.ByArchive})
	for _, item := range []mayfly.Item{deleted, erased, removed} {
		_, err := fx.Eraser().Delete(t.Context(), item.ID, mayfly.ByUser, fx.Now)
		fx.Must(err)
	}
	fx.Act(erased, removed)
	fx.Must(fx.Real.Ledger.Remove(t.Context(), removed.ID))

	row := fx.Row(archived.ID)
	stay := []mayfly.BlobKey{ // planted in cold
		fx.Row(claimed.ID).MediaKey(fx.Row(claimed.ID).Generation, 0), // a copy on its way
		row.MediaKey(row.Generation, 0), row.MediaKey(row.Generation+1, 1),
		fx.Row(held.ID).MediaKey(2, 0), "strange/key", "07/notanid/0-1",
	}
	for _, key := range stay {
		fx.Put(cold, key)
	}
	fx.Put(hot, row.MediaKey(row.Generation+1, 1)) // a restore on its way
	before := map[string][]mayfly.BlobKey{"hot": fx.Objects(hot), "cold": fx.Objects(cold)}
	fx.Put(hot, row.MediaKey(2, 0))      // a claim or a restore that crashed
	fx.Put(hot, archived.MediaKey(1, 0)) // a born object behind its archiving
	fx.Put(hot, mayfly.UploadKey(active.Upload, 2))
	fx.Put(hot, mayfly.UploadKey(active.Upload, 0)[:26]+"raw-0")
	fx.Put(cold, mayfly.UploadKey(active.Upload, 0)) // nothing is born cold
	fx.Put(cold, row.MediaKey(2, 1))
	fx.Put(cold, erased.MediaKey(3, 0)) // by a zombie
	fx.Put(hot, removed.MediaKey(2, 0))
	const planted = 8

	fx.Now = fx.Now.Add(2 * erasure.Day)
	young := fx.Uploaded(1)
	for range 2 {
		dry := fx.Collect(true)
		if dry.Orphans != planted+2 || dry.Deleted != 0 || dry.Capped || !dry.Whole || dry.Strange != 2 {
			t.Fatalf("dry: %+v", dry)
		}
	}
	wet := fx.Collect(false)
	if wet.Orphans != planted+2 || wet.Deleted != planted+2 {
		t.Fatalf("%+v", wet)
	}
	if r := fx.Missing(0); r.Missing != 0 || r.Rows != 6 {
		t.Fatalf("%+v", r)
	}
	want := slices.DeleteFunc(before["hot"], func(k mayfly.BlobKey) bool { return strings.Contains(string(k), unpublished.ID.Short()) })
	want = append(want, mayfly.UploadKey(young.ID, 0))
	slices.Sort(want)
	if got := fx.Objects(hot); !slices.Equal(got, want) {
		t.Fatalf("hot has\n%v, want\n%v", got, want)
	}
	if got := fx.Objects(cold); !slices.Equal(got, before["cold"]) {
		t.Fatalf("cold has\n%v, want\n%v", got, before["cold"])
	}
	if again := fx.Collect(false); again.Orphans != 0 || again.Deleted != 0 {
		t.Fatalf("again: %+v", again)
	}
	fx.Put(cold, erased.MediaKey(3, 0)) // something recent, under a key that a run has passed
	if again := fx.Collect(false); again.Deleted != 1 {
		t.Fatalf("behind the watermark: %+v", again)
	}
}

func TestAnUploadIsCollectedWhenItCanNoLongerBePublishedAndNotBefore(t *testing.T) {
	fx := erasure.Open(t)
	u := fx.Uploaded(1)
	for _, c := range []struct {
		at   time.Duration
		want int
	}{{erasure.Day - time.Millisecond, 0}, {erasure.Day, 0}, {erasure.Day + time.Minute - time.Millisecond, 0}, {erasure.Day + time.Minute, 1}} {
		fx.Now = u.ID.Birth().Add(c.at)
		if r := fx.Collect(true); r.Orphans != c.want {
			t.Errorf("%s after its birth: %+v", c.at, r)
		}
	}
	if _, err := fx.Collector().Orphans(t.Context(), collect.Run{Now: fx.Now, Floor: erasure.Day - 1}); !errors.Is(err, mayfly.Invalid) {
		t.Errorf("a floor below 24 fx: %v", err)
	}
}

func TestARunErasesNoMoreThanItsCapAndTheNextGoesOn(t *testing.T) {
	fx := erasure.Open(t)
	for n := range 25 {
		fx.Orphan(n)
	}
	fx.Uploaded(5) // abandoned: they go with the first run
	fx.Now = fx.Now.Add(3 * erasure.Day)
	for i, want := range []int{15, 10, 5, 0} {
		r := fx.Collect(false)
		if r.Deleted != want || r.Capped != (i < 2) || len(fx.Objects(fx.Real.Hot)) != max(0, 25-10*(i+1)) {
			t.Fatalf("run %d: %+v", i, r)
		}
	}
	for n := range 3 {
		fx.Orphan(n)
	}
	fx.Now = fx.Now.Add(3 * erasure.Day)
	r, err := fx.Collector().Orphans(t.Context(), collect.Run{Erase: true, Now: fx.Now, Cap: 2, By: audit.Actor{Subject: "ops"}, Reason: "test"})
	if err != nil || r.Deleted != 2 || !r.Capped {
		t.Fatalf("%+v, %v", r, err)
	}
}

func TestARunErasesTheOldestFirst(t *testing.T) {
	fx := erasure.Open(t)
	var left []mayfly.BlobKey
	for n := range 15 {
		if key := fx.Orphan(0); n >= 10 {
			left = append(left, key)
		}
		fx.Now = fx.Now.Add(time.Minute)
	}
	fx.Now = fx.Now.Add(3 * erasure.Day)
	if r := fx.Collect(false); r.Deleted != 10 || r.Abandoned != 0 || !r.Over() {
		t.Fatalf("%+v", r)
	}
	slices.Sort(left)
	if got := fx.Objects(fx.Real.Hot); !slices.Equal(got, left) {
		t.Fatalf("left %v, want %v", got, left)
	}
	if r := fx.Collect(false); r.Deleted != 5 {
		t.Fatalf("the next run: %+v", r)
	}
}

func TestWhatAnItemHadIsNotTakenForAnAbandonedUpload(t *testing.T) {
	fx := erasure.Open(t)
	fx.Uploaded(6)
	fx.Uploaded(6)
	item := fx.Story(1)
	for n := range 11 {
		fx.Orphan(n)
	}
	fx.Put(fx.Real.Hot, mayfly.RawKey(item.Upload, 0)) // put again when it was published: no item ever had it
	var b store.Batch                                  // an upload that was published as what never came to be
	lost, never := fx.Uploaded(1), fx.NewID(fixture.Ana())
	b.Put(engine.Uploads, engine.UploadKey(lost.ID), never[:], 0)
	fx.Must(fx.Real.Writer.Commit(t.Context(), &b))
	fx.Now = fx.Now.Add(3 * erasure.Day)
	run := collect.Run{Now: fx.Now, By: audit.Actor{Subject: "ops"}, Reason: "test", Abandoned: true}
	dry, err := fx.Collector().Orphans(t.Context(), run)
	if err != nil || dry.Orphans != 25 || dry.Abandoned != 13 || !dry.Over() {
		t.Fatalf("%+v, %v", dry, err)
	}
	run.Erase = true
	for i, want := range []int{13, 0} {
		r, err := fx.Collector().Orphans(t.Context(), run)
		if err != nil || r.Deleted != want || r.Capped {
			t.Fatalf("run %d: %+v, %v", i, r, err)
		}
	}
	if left := fx.Objects(fx.Real.Hot); len(left) != 11+1+int(item.Media) {
		t.Fatalf("left %v", left)
	}
}

func TestARunThatLooksAtFewGoesOnWhereItStopped(t *testing.T) {
	fx := erasure.Open(t)
	fx.Story(7)
	fx.Uploaded(3)
	fx.Now = fx.Now.Add(3 * erasure.Day)
	deleted := 0
	for range 12 { // of one object each, in each tier
		r, err := fx.Collector().Orphans(t.Context(), collect.Run{Erase: true, Now: fx.Now, Most: 1, By: audit.Actor{Subject: "ops"}, Reason: "test"})
		fx.Must(err)
		deleted += r.Deleted
	}
	if deleted != 3 || len(fx.Objects(fx.Real.Hot)) != 7 {
		t.Fatalf("%d were deleted, %d are left", deleted, len(fx.Objects(fx.Real.Hot)))
	}
}

func TestACollectionNeedsAnActorAndAReason(t *testing.T) {
	fx := erasure.Open(t)
	fx.Uploaded(1)
	fx.Now = fx.Now.Add(3 * erasure.Day)
	for _, run := range []collect.Run{{By: audit.Actor{Subject: "ops"}}, {Reason: "tidy up"}, {}} {
		run.Erase, run.Now = true, fx.Now
		if _, err := fx.Collector().Orphans(t.Context(), run); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("%v", err)
		}
	}
	unaudited, err := collect.New(fx.Set, fx.Eraser(), collect.Options{})
	fx.Must(err)
	if _, err := unaudited.Orphans(t.Context(), collect.Run{Erase: true, Now: fx.Now, By: audit.Actor{Subject: "ops"}, Reason: "x"}); !errors.Is(err, mayfly.Invalid) {
		t.Errorf("without an audit log: %v", err)
	}
	if len(fx.Objects(fx.Real.Hot)) != 1 {
		t.Fatal("it was erased all the same")
	}
}

func TestObjectsThatARowNamesAndThatAreNotThereAreReported(t *testing.T) {
	fx := erasure.Open(t)
	whole, hotGone, coldGone, deleted := fx.Story(1), fx.Story(2), fx.Story(3), fx.Story(1)
	forever := fx.Forever(fixture.Ben(), 1)
	fx.MoveToCold(coldGone, whole)
	_, err := fx.Eraser().Delete(t.Context(), deleted.ID, mayfly.ByUser, fx.Now)
	fx.Must(err)
	fx.Act(deleted)
	row := fx.Row(coldGone.ID)
	lost := []mayfly.BlobKey{hotGone.MediaKey(1, 1), forever.MediaKey(1, 0), row.MediaKey(row.Keys.Cold, 0), row.MediaKey(row.Keys.Cold, 2)}
	for _, key := range lost {
		fx.Must(errors.Join(fx.Real.Hot.Delete(t.Context(), key), fx.Real.Cold.Delete(t.Context(), key)))
	}
	r := fx.Missing(0)
	slices.Sort(lost)
	slices.Sort(r.Lost)
	if r.Missing != len(lost) || !slices.Equal(r.Lost, lost) {
		t.Fatalf("%+v, want %v", r, lost)
	}
}

func TestACollectorBesideAnArchiveTakesNothingThatItNeeds(t *testing.T) {
	fx := erasure.Open(t)
	item := fx.Story(3)
	fx.Expire(item)
	fx.Change(item.ID, mayfly.Change{To: mayfly.Archiving, Cause: mayfly.ByArchive})
	crashed := fx.Row(item.ID)
	fx.Put(fx.Real.Cold, crashed.MediaKey(crashed.Generation, 0)) // by a claim that crashed: dead with the next one
	fx.Now = fx.Now.Add(3 * erasure.Day)
	runs, deleted := 0, 0
	after := func() {
		runs++
		deleted += fx.Collect(false).Deleted
	}
	set := fixture.Hook(fx.Real, &fixture.Hooks{
		Transition: func(ctx context.Context, changes []mayfly.Change, do fixture.Transition) ([]store.Outcome, error) {
			defer after()
			return do(ctx, changes)
		},
		Hot: fixture.BlobHooks{CopyTo: func(_ context.Context, _, _ mayfly.BlobKey, do func() (store.Object, error)) (store.Object, error) {
			defer after()
			return do()
		}},
	})
	a, err := archive.New(set, archive.Options{Workers: 1})
	fx.Must(err)
	fx.WantActed(a.Act(t.Context(), walk.Batch{Items: []mayfly.Item{crashed}, Now: fx.Now, Run: 2}))
	row := fx.Row(item.ID)
	for n := range int(row.Media) {
		if _, err := fx.Real.Cold.Stat(t.Context(), row.MediaKey(row.Keys.Cold, n)); err != nil {
			t.Errorf("medium %d: %v", n, err)
		}
	}
	if runs < 6 || deleted != 1 || row.State != mayfly.Cold {
		t.Fatalf("%d runs deleted %d, and it is %s", runs, deleted, row.State)
	}
}

func TestTheCollectorTakesARenditionWithoutItsMediumAndNoOther(t *testing.T) {
	fx := erasure.Open(t)
	live, cold, gone := fx.Picture(2), fx.Picture(2), fx.Picture(2)
	kept := fx.Renditions(live, fx.Real.Hot, mayfly.Born)
	fx.Hold(live.ID)
	fx.MoveToCold(cold)
	left := fx.Renditions(cold, fx.Real.Hot, mayfly.Born) // written late, by a process that then crashed
	row := fx.Row(cold.ID)
	coldKept := fx.Renditions(row, fx.Real.Cold, row.Keys.Cold)
	_, err := fx.Eraser().Delete(t.Context(), gone.ID, mayfly.ByUser, fx.Now)
	fx.Must(err)
	fx.Act(gone)
	left = append(left, fx.Renditions(gone, fx.Real.Hot, mayfly.Born)...)
	fx.Now = fixture.Start.Add(3 * erasure.Day)
	if report := fx.Collect(false); report.Orphans != len(left) || report.Deleted != len(left) {
		t.Errorf("%+v", report)
	}
	for _, key := range left {
		if slices.Contains(fx.Objects(fx.Real.Hot), key) {
			t.Errorf("%s is left", key)
		}
	}
	for _, key := range kept {
		if !slices.Contains(fx.Objects(fx.Real.Hot), key) {
			t.Errorf("%s is gone", key)
		}
	}
	for _, key := range coldKept {
		if !slices.Contains(fx.Objects(fx.Real.Cold), key) {
			t.Errorf("%s is gone", key)
		}
	}
}

// I15, I16: nothing that is named, held or young goes; what went stays away; the
// rest goes with the next runs.
func TestPowerLossWhileOrphansAreCollectedTakesNothingThatARowNames(t *testing.T) {
	var stay []mayfly.Item
	var held mayfly.Item
	var young mayfly.BlobKey
	const orphans = 12 + 2
	erasure.PowerLoss(t, "power loss, orphan collector", fixture.Seeded(t), erasure.Operation{
		Prepare: func(fx *erasure.Fixture) {
			stay = []mayfly.Item{fx.Story(2), fx.Story(1), fx.Story(3)}
			fx.MoveToCold(stay[:2]...)
			held = fx.Story(1)
			fx.Hold(held.ID)
			for n := range 12 {
				fx.Orphan(n)
			}
			fx.Put(fx.Real.Hot, stay[0].MediaKey(1, 1)) // a born object behind its archiving
			fx.Put(fx.Real.Cold, fx.Row(stay[1].ID).MediaKey(2, 0))
			fx.Put(fx.Real.Cold, fx.Row(held.ID).MediaKey(2, 0)) // of a held item, named by no row
			fx.Now = fx.Now.Add(2 * erasure.Day)
			young = mayfly.UploadKey(fx.Uploaded(1).ID, 0)
		},
		Do: func(fx *erasure.Fixture, ack func()) {
			for range 2 { // ten, and the rest
				fx.Collect(false)
				ack()
			}
		},
		After: func(fx *erasure.Fixture, acked int) string {
			left := fx.Collect(true).Orphans
			if left > orphans-min(10*acked, orphans) {
				fx.Fatalf("RESURRECTED: %d orphans are there after %d runs", left, acked)
			}
			for range 3 {
				if r := fx.Collect(false); r.Deleted > 10 {
					fx.Fatalf("%+v", r)
				}
			}
			if r := fx.Missing(0); r.Missing > 0 {
				fx.Fatalf("%+v", r)
			}
			if r := fx.Collect(true); r.Orphans > 0 {
				fx.Fatalf("ORPHAN: %+v", r)
			}
			for _, item := range append(stay, held) {
				fx.WantIntact(item)
			}
			hot, cold := fx.Objects(fx.Real.Hot), fx.Objects(fx.Real.Cold)
			if !slices.Contains(hot, young) || len(hot) != 3+1+1 || len(cold) != 3+1 {
				fx.Fatalf("hot has %v, cold has %v", hot, cold)
			}
			return fmt.Sprint(left, acked)
		},
	})
}

func TestTheBodyOfAnAbandonedBirthGoesWithItsMedia(t *testing.T) {
	fx := erasure.Open(t)
	item, l := fx.HalfBorn(1)
	l.Named = func(mayfly.ID) bool {
		_, err := fx.Real.Hot.Stat(t.Context(), item.MediaKey(mayfly.Born, 0))
		return err == nil
	}
	if !l.Named(item.ID) {
		t.Fatal("nothing leads to it")
	}
	fx.Now = item.ID.Deadline().Add(2 * erasure.Day)
	if r := fx.Collect(false); r.Deleted != 1 {
		t.Fatalf("%+v", r)
	}
	if len(l.Bodies) > 0 || l.Lost || l.Named(item.ID) {
		t.Errorf("left are %v; erased when nothing led there: %t", l.Bodies, l.Lost)
	}
}
