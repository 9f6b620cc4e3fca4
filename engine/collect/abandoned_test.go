package collect_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/collect"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/erasure"
	"github.com/mayflyhq/mayfly/test/fixture"
	"github.com/mayflyhq/mayfly/test/pace"
)

// abandon makes passes until nothing is left to do at once.
func abandon(fx *erasure.Fixture, budget time.Duration) (all collect.AbandonedReport, passes int) {
	fx.Helper()
	c := fx.Collector()
	for more := true; more; passes++ {
		r, err := c.Abandoned(context.Background(), collect.AbandonedRun{Now: fx.Now, Budget: budget})
		fx.Must(err)
		all.Looked, all.Deleted, more = all.Looked+r.Looked, all.Deleted+r.Deleted, r.More
	}
	return all, passes
}

// leave uploads one medium for each of many uploads of a hundred users.
func leave(fx *erasure.Fixture, uploads int) {
	fx.Helper()
	u := fx.Uploads(upload.Options{})
	for n := range uploads {
		fixture.UploadTo(fx, u, fixture.User(fmt.Sprint(n%100)), fx.Now.Add(time.Duration(n)*time.Millisecond), "never published")
	}
}

// In the long form it is the number that must be gone within an hour.
func TestAllAbandonedUploadsAreErasedAndNothingElse(t *testing.T) {
	size := 3_000
	if testing.Short() || pace.Race {
		size = 300
	} else if pace.Long() {
		size = 100_000
	}
	fx := erasure.Open(t)
	published := fx.Story(3)
	held := fx.Story(1)
	fx.Hold(held.ID)
	lost := fx.Orphan(0) // that an item had: subject to the cap
	half, never := fx.Uploaded(1), fx.NewID(fixture.Ana())
	var b store.Batch // published as an item that never came to be
	b.Put(engine.Uploads, engine.UploadKey(half.ID), never[:], 0)
	fx.Must(fx.Real.Writer.Commit(t.Context(), &b))
	leave(fx, size)
	reserved := fx.Uploaded(1)
	fx.Put(fx.Real.Hot, mayfly.RawKey(reserved.ID, 0))
	fx.Now = fx.Now.Add(time.Duration(size) * time.Millisecond)
	limit := fx.Now
	fx.Now++
	young := fx.Uploaded(2)

	fx.Now = limit.Add(erasure.Day + time.Minute)
	watch := time.Now()
	done, _ := abandon(fx, 0)
	took := time.Since(watch)
	t.Logf("%d objects erased in %s: %.0f/s", done.Deleted, took, float64(done.Deleted)/took.Seconds())
	if done.Deleted != size+2 {
		t.Errorf("%d objects were erased, want %d", done.Deleted, size+2)
	}
	want := []mayfly.BlobKey{lost, mayfly.UploadKey(half.ID, 0), mayfly.UploadKey(young.ID, 0), mayfly.UploadKey(young.ID, 1), held.MediaKey(mayfly.Born, 0)}
	for n := range 3 {
		want = append(want, published.MediaKey(mayfly.Born, n))
	}
	slices.Sort(want)
	if got := fx.Objects(fx.Real.Hot); !slices.Equal(got, want) {
		t.Fatalf("left are %v, want %v", got, want)
	}
	fx.Now++ // the deadline of the young upload, and the time in which a birth may be in flight
	if done, _ := abandon(fx, 0); done.Deleted != 2 || done.Looked > 3+1+2 {
		t.Errorf("a millisecond later: %+v", done)
	}
}

func TestAnUploadIsAbandonedAtItsOwnDeadlineAndNotBefore(t *testing.T) {
	fx := erasure.Open(t)
	long := fx.Uploads(upload.Options{Life: fixture.Lifetime(t, 3*erasure.Day)})
	u := fixture.UploadTo(t, long, fixture.Ana(), fx.Now, "medium")
	for _, c := range []struct {
		at   time.Duration
		want int
	}{{erasure.Day + time.Minute, 0}, {3*erasure.Day + time.Minute - time.Millisecond, 0}, {3*erasure.Day + time.Minute, 1}} {
		fx.Now = u.ID.Birth().Add(c.at)
		if done, _ := abandon(fx, 0); done.Deleted != c.want {
			t.Errorf("%s after its birth: %+v", c.at, done)
		}
	}
	if _, err := fx.Collector().Abandoned(t.Context(), collect.AbandonedRun{Now: fx.Now, Floor: erasure.Day - 1}); !errors.Is(err, mayfly.Invalid) {
		t.Errorf("a floor below 24 h: %v", err)
	}
}

func TestAPassOverAbandonedUploadsKeepsItsBudgetAndTheNextGoesOn(t *testing.T) {
	fx := erasure.Open(t)
	u := fx.Uploads(upload.Options{})
	for range 250 { // of one user, whose objects are in one prefix: more than two pages
		fixture.UploadTo(t, u, fixture.Ana(), fx.Now, fixture.Media(9)...)
	}
	fx.Now = fx.Now.Add(2 * erasure.Day)
	if done, passes := abandon(fx, time.Nanosecond); done.Deleted != 2250 || done.Looked != 2250 || passes != 3 {
		t.Errorf("%+v in %d passes", done, passes)
	}
	if done, _ := abandon(fx, 0); done.Looked != 0 {
		t.Errorf("it does not begin at its watermark: %+v", done)
	}
}

func TestAPrefixThatFailsDoesNotHoldUpTheOthers(t *testing.T) {
	fx := erasure.Open(t)
	leave(fx, 100)
	fx.Now = fx.Now.Add(2 * erasure.Day)
	var broken atomic.Bool
	broken.Store(true)
	fx.Set.Hot = storetest.FaultyBlobs(fx.Set.Hot, func(c storetest.BlobCall) storetest.BlobFault {
		if c.Op == "delete" && broken.Load() && strings.HasPrefix(string(c.Keys[0]), "07/") {
			return storetest.Before
		}
		return storetest.NoFault
	})
	if _, err := fx.Collector().Abandoned(t.Context(), collect.AbandonedRun{Now: fx.Now}); !errors.Is(err, mayfly.Unavailable) || !strings.Contains(err.Error(), "prefix 07") {
		t.Errorf("%v", err)
	}
	left := fx.Objects(fx.Real.Hot)
	if len(left) == 0 || slices.ContainsFunc(left, func(k mayfly.BlobKey) bool { return !strings.HasPrefix(string(k), "07/") }) {
		t.Errorf("left are %v", left)
	}
	broken.Store(false)
	if done, _ := abandon(fx, 0); done.Deleted != len(left) || len(fx.Objects(fx.Real.Hot)) != 0 {
		t.Errorf("%+v, of %d", done, len(left))
	}
}

// askedRows counts the rows that are asked for.
type askedRows struct {
	store.Rows
	uploads *atomic.Int64
}

func (r askedRows) Get(ctx context.Context, t store.Table, keys ...store.Key) ([][]byte, error) {
	if t == engine.Uploads {
		r.uploads.Add(int64(len(keys)))
	}
	return r.Rows.Get(ctx, t, keys...)
}

func TestAnUploadIsLookedUpOnceForAllItsObjects(t *testing.T) {
	fx := erasure.Open(t)
	for range 5 {
		fx.Uploaded(10)
	}
	fx.Now = fx.Now.Add(2 * erasure.Day)
	var asked atomic.Int64
	fx.Set.Rows = askedRows{fx.Set.Rows, &asked}
	if done, _ := abandon(fx, 0); done.Deleted != 50 || asked.Load() != 5 {
		t.Errorf("%+v, %d uploads looked up", done, asked.Load())
	}
}

func TestOfTwoCollectorsOneMovesTheWatermark(t *testing.T) {
	fx := erasure.Open(t)
	leave(fx, 50)
	fx.Now = fx.Now.Add(2 * erasure.Day)
	other := fx.Collector()
	var once atomic.Bool
	fx.Hooks.Hot.Delete = func(ctx context.Context, _ []mayfly.BlobKey, do func() error) error {
		if once.CompareAndSwap(false, true) {
			if _, err := other.Abandoned(ctx, collect.AbandonedRun{Now: fx.Now.Add(time.Second)}); err != nil {
				t.Error(err)
			}
		}
		return do()
	}
	_, err := fx.Collector().Abandoned(t.Context(), collect.AbandonedRun{Now: fx.Now})
	if err != nil && !errors.Is(err, mayfly.Conflict) || len(fx.Objects(fx.Real.Hot)) != 0 {
		t.Errorf("%v, left are %v", err, fx.Objects(fx.Real.Hot))
	}
}

func TestARunThatErasesNothingIsNotRecorded(t *testing.T) {
	fx := erasure.Open(t)
	fx.Story(2)
	records := func() int {
		report, err := audit.Verify(t.Context(), fx.Real.Rows, nil)
		fx.Must(err)
		return report.Records
	}
	fx.Now = fx.Now.Add(2 * erasure.Day)
	if r := fx.Collect(false); r.Looked != 2 || records() != 0 {
		t.Errorf("%+v, %d records", r, records())
	}
	fx.Orphan(0)
	fx.Now = fx.Now.Add(2 * erasure.Day)
	if r := fx.Collect(false); r.Deleted != 1 || records() != 2 {
		t.Errorf("%+v, %d records", r, records())
	}
}
