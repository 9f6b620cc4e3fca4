package erase_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/archive"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/erase"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// accounted is an eraser with an audit log and a deletion ledger.
func (h *house) accounted() *erase.Erase {
	h.Helper()
	l, err := audit.Open(context.Background(), h.real.Rows, "test", h.now)
	h.must(err)
	return h.eraserWith(erase.Options{Audit: l, Deletions: h.deletions})
}

// upload stores objects that nobody publishes.
func (h *house) upload(media int) *intake.Upload {
	h.Helper()
	in, err := intake.New(h.real, intake.Options{})
	h.must(err)
	u, err := in.Begin(ana(), h.now)
	h.must(err)
	for n := range media {
		_, err := u.Add(context.Background(), bytes.NewReader(content(n)))
		h.must(err)
	}
	return u
}

func (h *house) collect(dry bool) erase.OrphanReport {
	h.Helper()
	report, err := h.accounted().Orphans(context.Background(), erase.OrphanRun{
		Erase: !dry, Now: h.now, By: "ops", Reason: "test", Rows: erase.Span{From: born, To: min(h.now, born.Add(4*time.Hour)), Eternal: true},
	})
	h.must(err)
	return report
}

func TestOrphansAreCollectedAndNothingThatAnybodyNames(t *testing.T) {
	h := open(t)
	hot, cold := h.real.Hot, h.real.Cold
	unpublished := h.upload(2)
	active := h.publish(intake.Draft{Owner: ben(), Fate: mayfly.Archive, Lifetime: eternal}, 2)
	archived, claimed, held, deleted, erased, removed := h.story(2), h.story(1), h.story(1), h.story(1), h.story(1), h.story(1)
	h.archive(archived)
	h.sweep(claimed, held)
	h.hold(held.ID)
	h.change(claimed.ID, mayfly.Change{To: mayfly.Archiving, Cause: mayfly.ByArchive})
	for _, item := range []mayfly.Item{deleted, erased, removed} {
		_, err := h.eraser().Delete(t.Context(), item.ID, mayfly.ByUser, h.now)
		h.must(err)
	}
	h.act(erased, removed)
	h.must(h.real.Ledger.Remove(t.Context(), removed.ID))

	row := h.row(archived.ID)
	stay := []mayfly.BlobKey{ // planted in cold
		h.row(claimed.ID).MediaKey(h.row(claimed.ID).Generation, 0), // a copy on its way
		row.MediaKey(row.Generation, 0), row.MediaKey(row.Generation+1, 1),
		h.row(held.ID).MediaKey(2, 0), "strange/key", "07/notanid/0-1",
	}
	for _, key := range stay {
		h.put(cold, key)
	}
	h.put(hot, row.MediaKey(row.Generation+1, 1)) // a restore on its way
	before := map[string][]mayfly.BlobKey{"hot": h.keys(hot), "cold": h.keys(cold)}
	h.put(hot, row.MediaKey(2, 0))      // a claim or a restore that crashed
	h.put(hot, archived.MediaKey(1, 0)) // a born object behind its archiving
	h.put(hot, mayfly.UploadKey(active.Upload, 2))
	h.put(hot, mayfly.UploadKey(active.Upload, 0)[:26]+"raw-0")
	h.put(cold, mayfly.UploadKey(active.Upload, 0)) // nothing is born cold
	h.put(cold, row.MediaKey(2, 1))
	h.put(cold, erased.MediaKey(3, 0)) // by a zombie
	h.put(hot, removed.MediaKey(2, 0))
	const planted = 8

	h.now = h.now.Add(2 * day)
	young := h.upload(1)
	for range 2 {
		dry := h.collect(true)
		if dry.Orphans != planted+2 || dry.Deleted != 0 || dry.Capped || !dry.Whole || dry.Strange != 2 {
			t.Fatalf("dry: %+v", dry)
		}
	}
	wet := h.collect(false)
	if wet.Orphans != planted+2 || wet.Deleted != planted+2 || wet.Missing != 0 || wet.Rows != 6 {
		t.Fatalf("%+v", wet)
	}
	want := slices.DeleteFunc(before["hot"], func(k mayfly.BlobKey) bool { return strings.Contains(string(k), unpublished.ID.Short()) })
	want = append(want, mayfly.UploadKey(young.ID, 0))
	slices.Sort(want)
	if got := h.keys(hot); !slices.Equal(got, want) {
		t.Fatalf("hot has\n%v, want\n%v", got, want)
	}
	if got := h.keys(cold); !slices.Equal(got, before["cold"]) {
		t.Fatalf("cold has\n%v, want\n%v", got, before["cold"])
	}
	if again := h.collect(false); again.Orphans != 0 || again.Deleted != 0 {
		t.Fatalf("again: %+v", again)
	}
	h.put(cold, erased.MediaKey(3, 0)) // something recent, under a key that a run has passed
	if again := h.collect(false); again.Deleted != 1 {
		t.Fatalf("behind the watermark: %+v", again)
	}
}

func TestAnUploadIsCollectedWhenItCanNoLongerBePublishedAndNotBefore(t *testing.T) {
	h := open(t)
	u := h.upload(1)
	for _, c := range []struct {
		at   time.Duration
		want int
	}{{day - time.Millisecond, 0}, {day, 0}, {day + time.Minute - time.Millisecond, 0}, {day + time.Minute, 1}} {
		h.now = u.ID.Birth().Add(c.at)
		if r := h.collect(true); r.Orphans != c.want {
			t.Errorf("%s after its birth: %+v", c.at, r)
		}
	}
	if _, err := h.accounted().Orphans(t.Context(), erase.OrphanRun{Now: h.now, Floor: day - 1}); !errors.Is(err, mayfly.Invalid) {
		t.Errorf("a floor below 24 h: %v", err)
	}
}

func TestARunErasesNoMoreThanItsCapAndTheNextGoesOn(t *testing.T) {
	h := open(t)
	for range 5 {
		h.upload(5)
	}
	h.now = h.now.Add(3 * day)
	for i, want := range []int{10, 10, 5, 0} {
		r := h.collect(false)
		if r.Deleted != want || r.Capped != (i < 2) || len(h.keys(h.real.Hot)) != max(0, 25-10*(i+1)) {
			t.Fatalf("run %d: %+v", i, r)
		}
	}
	h.upload(3)
	h.now = h.now.Add(3 * day)
	r, err := h.accounted().Orphans(t.Context(), erase.OrphanRun{Erase: true, Now: h.now, Cap: 2, By: "ops", Reason: "test"})
	if err != nil || r.Deleted != 2 || !r.Capped {
		t.Fatalf("%+v, %v", r, err)
	}
}

func TestARunErasesTheOldestFirst(t *testing.T) {
	h := open(t)
	var uploads []*intake.Upload
	for range 15 {
		uploads = append(uploads, h.upload(1))
		h.now = h.now.Add(time.Minute)
	}
	h.now = h.now.Add(3 * day)
	if r := h.collect(false); r.Deleted != 10 || r.Abandoned != 15 || r.Over() {
		t.Fatalf("%+v", r)
	}
	var want []mayfly.BlobKey
	for _, u := range uploads[10:] {
		want = append(want, mayfly.UploadKey(u.ID, 0))
	}
	slices.Sort(want)
	if got := h.keys(h.real.Hot); !slices.Equal(got, want) {
		t.Fatalf("left %v, want %v", got, want)
	}
	if r := h.collect(false); r.Deleted != 5 {
		t.Fatalf("the next run: %+v", r)
	}
}

func TestWhatAnItemHadIsNotTakenForAnAbandonedUpload(t *testing.T) {
	h := open(t)
	h.upload(6)
	h.upload(6)
	item := h.story(1)
	for n := range 11 {
		h.put(h.real.Hot, mayfly.Item{ID: h.newID(ana())}.MediaKey(2, n))
	}
	h.put(h.real.Hot, mayfly.RawKey(item.Upload, 0)) // put again when it was published: no item ever had it
	var b store.Batch                                // an upload that was published as what never came to be
	lost, never := h.upload(1), h.newID(ana())
	b.Put(store.Uploads, store.UploadKey(lost.ID), never[:], 0)
	h.must(h.real.Writer.Commit(t.Context(), &b))
	h.now = h.now.Add(3 * day)
	run := erase.OrphanRun{Now: h.now, By: "ops", Reason: "test", Abandoned: true}
	dry, err := h.accounted().Orphans(t.Context(), run)
	if err != nil || dry.Orphans != 25 || dry.Abandoned != 13 || !dry.Over() {
		t.Fatalf("%+v, %v", dry, err)
	}
	run.Erase = true
	for i, want := range []int{10, 3, 0} {
		r, err := h.accounted().Orphans(t.Context(), run)
		if err != nil || r.Deleted != want || r.Capped != (i == 0) {
			t.Fatalf("run %d: %+v, %v", i, r, err)
		}
	}
	if left := h.keys(h.real.Hot); len(left) != 11+1+int(item.Media) {
		t.Fatalf("left %v", left)
	}
}

func TestARunThatLooksAtFewGoesOnWhereItStopped(t *testing.T) {
	h := open(t)
	h.story(7)
	h.upload(3)
	h.now = h.now.Add(3 * day)
	deleted := 0
	for range 12 { // of one object each, in each tier
		r, err := h.accounted().Orphans(t.Context(), erase.OrphanRun{Erase: true, Now: h.now, Most: 1, By: "ops", Reason: "test"})
		h.must(err)
		deleted += r.Deleted
	}
	if deleted != 3 || len(h.keys(h.real.Hot)) != 7 {
		t.Fatalf("%d were deleted, %d are left", deleted, len(h.keys(h.real.Hot)))
	}
}

func TestNobodyCollectsUnnamedOrWithoutAReason(t *testing.T) {
	h := open(t)
	h.upload(1)
	h.now = h.now.Add(3 * day)
	for _, run := range []erase.OrphanRun{{By: "ops"}, {Reason: "tidy up"}, {}} {
		run.Erase, run.Now = true, h.now
		if _, err := h.accounted().Orphans(t.Context(), run); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("%v", err)
		}
	}
	if _, err := h.eraser().Orphans(t.Context(), erase.OrphanRun{Erase: true, Now: h.now, By: "ops", Reason: "x"}); !errors.Is(err, mayfly.Invalid) {
		t.Errorf("without an audit log: %v", err)
	}
	if len(h.keys(h.real.Hot)) != 1 {
		t.Fatal("it was erased all the same")
	}
}

func TestObjectsThatARowNamesAndThatAreNotThereAreReported(t *testing.T) {
	h := open(t)
	whole, hotGone, coldGone, deleted := h.story(1), h.story(2), h.story(3), h.story(1)
	forever := h.publish(intake.Draft{Owner: ben(), Fate: mayfly.Archive, Lifetime: eternal}, 1)
	h.archive(coldGone, whole)
	_, err := h.eraser().Delete(t.Context(), deleted.ID, mayfly.ByUser, h.now)
	h.must(err)
	h.act(deleted)
	row := h.row(coldGone.ID)
	lost := []mayfly.BlobKey{hotGone.MediaKey(1, 1), forever.MediaKey(1, 0), row.MediaKey(row.Keys.Cold, 0), row.MediaKey(row.Keys.Cold, 2)}
	for _, key := range lost {
		h.must(errors.Join(h.real.Hot.Delete(t.Context(), key), h.real.Cold.Delete(t.Context(), key)))
	}
	r := h.collect(true)
	slices.Sort(lost)
	slices.Sort(r.Lost)
	if r.Missing != len(lost) || !slices.Equal(r.Lost, lost) {
		t.Fatalf("%+v, want %v", r, lost)
	}
}

// meddler lets a collector run behind every step of somebody else.
type meddler struct {
	store.Ledger
	after func()
}

func (m meddler) Transition(ctx context.Context, changes []mayfly.Change) ([]store.Outcome, error) {
	outcomes, err := m.Ledger.Transition(ctx, changes)
	m.after()
	return outcomes, err
}

type meddledBlobs struct {
	store.Blobs
	after func()
}

func (m meddledBlobs) Put(ctx context.Context, key mayfly.BlobKey, r io.Reader) (store.Object, error) {
	o, err := m.Blobs.Put(ctx, key, r)
	m.after()
	return o, err
}

func TestACollectorBesideAnArchiveTakesNothingThatItNeeds(t *testing.T) {
	h := open(t)
	item := h.story(3)
	h.sweep(item)
	h.change(item.ID, mayfly.Change{To: mayfly.Archiving, Cause: mayfly.ByArchive})
	crashed := h.row(item.ID)
	h.put(h.real.Cold, crashed.MediaKey(crashed.Generation, 0)) // by a claim that crashed: dead with the next one
	h.now = h.now.Add(3 * day)
	runs, deleted := 0, 0
	after := func() {
		runs++
		deleted += h.collect(false).Deleted
	}
	set := h.real
	set.Ledger, set.Cold = meddler{h.real.Ledger, after}, meddledBlobs{h.real.Cold, after}
	a, err := archive.New(set, archive.Options{Workers: 1})
	h.must(err)
	h.acted(a.Act(t.Context(), walk.Batch{Items: []mayfly.Item{crashed}, Now: h.now, Run: 2}))
	row := h.row(item.ID)
	for n := range int(row.Media) {
		if _, err := h.real.Cold.Stat(t.Context(), row.MediaKey(row.Keys.Cold, n)); err != nil {
			t.Errorf("medium %d: %v", n, err)
		}
	}
	if runs < 6 || deleted != 1 || row.State != mayfly.Cold {
		t.Fatalf("%d runs deleted %d, and it is %s", runs, deleted, row.State)
	}
}
