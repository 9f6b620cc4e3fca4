package accounterase_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/product/story"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/erasure"
)

func TestRelationsGoInBothDirectionsWithTheAccount(t *testing.T) {
	fx := erasure.Open(t)
	other := erasure.Follower(erasure.Ana())
	fx.Relate(erasure.Ana(), other)
	fx.Relate(other, erasure.Ana())
	fx.Relate(erasure.Ben(), other)
	r, err := fx.Accounts().Account(t.Context(), erasure.Ana(), "support", "asked to", fx.Now)
	if err != nil || r.Rows["relations"] != 2 || r.Rows["related"] != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, table := range []store.Table{account.Relations, account.Related} {
		if a := erasure.Ana(); fx.Count(table, string(a[:])) != 0 {
			t.Errorf("%s: rows under the erased name are left", table)
		}
	}
	if fx.Count(account.Relations, string(other[:])) != 0 || fx.Count(account.Related, string(other[:])) != 1 {
		t.Error("the mirror table still names the erased user, or has lost a row about another user")
	}
}

func TestTheScanFindsRelationsAndViewsThatNoRowOfTheUserTellsOf(t *testing.T) {
	fx := erasure.Open(t)
	bens := fx.Publish(intake.Draft{Owner: erasure.Ben(), Fate: mayfly.Archive}, 0)
	if got := fx.Scan(erasure.Ana()); got.Count != 0 {
		t.Fatalf("%+v", got)
	}
	fx.PutRows(map[store.Table]store.Key{story.Views: story.ViewKey(bens.ID, erasure.Ana())})
	fx.SwapIn(account.Relations, account.RelationKey(erasure.Ben(), erasure.Ana()))
	fx.SwapIn(account.Related, account.RelatedKey(erasure.Ben(), erasure.Ana()))
	if got := fx.Scan(erasure.Ana()); got.Count != 3 {
		t.Fatalf("%+v", got)
	}
	mine := fx.Story(0)
	fx.PutRows(map[store.Table]store.Key{story.Views: story.ViewKey(mine.ID, erasure.Ben())})
	fx.PutRows(map[store.Table]store.Key{upload.Renditions: {Partition: string(mine.ID[:]), Clustering: "\x0a"}})
	_, err := fx.Eraser().Delete(t.Context(), mine.ID, mayfly.ByUser, fx.Now)
	fx.Must(err)
	if got := fx.Scan(erasure.Ana()); got.Count != 3+2+2 { // and the body, and the index
		t.Fatalf("%+v", got)
	}
}

func TestWhatAnErasedViewerHasSeenIsForgottenOnBothSides(t *testing.T) {
	fx := erasure.Open(t)
	bens := fx.Publish(intake.Draft{Owner: erasure.Ben(), Fate: mayfly.Archive}, 0)
	for range 250 { // more than a page
		fx.Now = fx.Now.Add(time.Millisecond)
		fx.View(mayfly.Item{ID: fx.NewID(erasure.Ben())}, erasure.Ana())
	}
	fx.View(bens, erasure.Ana())
	fx.View(bens, erasure.Follower(erasure.Ben()))
	r, err := fx.Accounts().Account(t.Context(), erasure.Ana(), "support", "asked to", fx.Now)
	if err != nil || r.Rows["seen"] != 251 || r.Rows["views"] != 251 {
		t.Fatalf("%+v, %v", r, err)
	}
	if got := fx.Scan(erasure.Ana()); got.Count != 0 {
		t.Fatalf("%+v", got)
	}
	if f := erasure.Follower(erasure.Ben()); fx.Count(story.Seen, string(f[:])) != 1 || fx.Count(story.Views, story.ViewKey(bens.ID, f).Partition) != 1 {
		t.Error("another's view is gone")
	}
}

func TestTheMediaOfReservedUploadsGoWithTheAccount(t *testing.T) {
	fx := erasure.Open(t)
	waiting, others := fx.Upload(3), fx.Upload(1)
	published, held := fx.Story(2), fx.Story(1)
	fx.Hold(held.ID)
	for _, upload := range []mayfly.ID{waiting.ID, published.Upload, held.Upload, fx.NewID(erasure.Ana())} {
		fx.Reserve(erasure.Ana(), upload)
	}
	fx.Reserve(erasure.Ben(), others.ID)
	for _, raw := range []mayfly.BlobKey{mayfly.RawKey(waiting.ID, 4), mayfly.RawKey(published.Upload, 1)} { // put by presigned URLs
		_, err := fx.Real.Hot.Put(t.Context(), raw, strings.NewReader("as it was put"))
		fx.Must(err)
	}
	r, err := fx.Accounts().Account(t.Context(), erasure.Ana(), "support", "asked to", fx.Now)
	fx.Must(err)
	if r.Rows["reservations"] != 4 || r.Objects != 3+1+2 || len(r.Held) != 1 {
		t.Fatalf("%+v", r)
	}
	want := []mayfly.BlobKey{mayfly.UploadKey(others.ID, 0), mayfly.UploadKey(held.Upload, 0)}
	slices.Sort(want)
	if got := fx.Keys(fx.Real.Hot); !slices.Equal(got, want) {
		t.Fatalf("left %v, want %v", got, want)
	}
}

// arriving is rows in which a medium arrives just before a reservation is taken out.
type arriving struct {
	store.Rows
	arrive func()
}

func (a *arriving) Swap(ctx context.Context, t store.Table, key store.Key, old, next []byte, reclaimAt mayfly.Instant) (bool, []byte, error) {
	if t == upload.Reservations && a.arrive != nil {
		arrive := a.arrive
		a.arrive = nil
		arrive()
	}
	return a.Rows.Swap(ctx, t, key, old, next, reclaimAt)
}

func TestAMediumThatArrivesWhileItsReservationIsErasedGoesToo(t *testing.T) {
	fx := erasure.Open(t)
	reserved := fx.Upload(1)
	key := fx.Reserve(erasure.Ana(), reserved.ID)
	fx.Set.Rows = &arriving{Rows: fx.Real.Rows, arrive: func() {
		_, err := fx.Real.Hot.Put(t.Context(), mayfly.UploadKey(reserved.ID, 1), bytes.NewReader(erasure.Content(1)))
		fx.Must(err)
		found, err := fx.Real.Rows.Get(t.Context(), upload.Reservations, key)
		fx.Must(err)
		_, _, err = fx.Real.Rows.Swap(t.Context(), upload.Reservations, key, found[0], []byte("one more"), 0)
		fx.Must(err)
	}}
	r, err := fx.Accounts().Account(t.Context(), erasure.Ana(), "support", "asked to", fx.Now)
	fx.Must(err)
	if left := fx.Keys(fx.Real.Hot); len(left) > 0 || r.Objects != 2 {
		t.Fatalf("left %v: %+v", left, r)
	}
}
