package accounterase_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/product/story"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/erasure"
	"github.com/mayflyhq/mayfly/test/fixture"
)

func TestRelationsGoInBothDirectionsWithTheAccount(t *testing.T) {
	fx := erasure.Open(t)
	other := erasure.Follower(fixture.Ana())
	fx.Relate(fixture.Ana(), other)
	fx.Relate(other, fixture.Ana())
	fx.Relate(fixture.Ben(), other)
	r, err := fx.Accounts().Account(t.Context(), fixture.Ana(), audit.Actor{Subject: "support"}, "asked to", fx.Now)
	if err != nil || r.Rows["relations"] != 2 || r.Rows["related"] != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, table := range []store.Table{account.Relations, account.Related} {
		if a := fixture.Ana(); len(fx.Partition(table, string(a[:]))) != 0 {
			t.Errorf("%s: rows under the erased name are left", table)
		}
	}
	if len(fx.Partition(account.Relations, string(other[:]))) != 0 || len(fx.Partition(account.Related, string(other[:]))) != 1 {
		t.Error("the mirror table still names the erased user, or has lost a row about another user")
	}
}

func TestTheScanFindsRelationsAndViewsThatNoRowOfTheUserTellsOf(t *testing.T) {
	fx := erasure.Open(t)
	bens := fx.StoryOf(fixture.Ben(), 0)
	if got := fx.Scan(fixture.Ana()); got.Count != 0 {
		t.Fatalf("%+v", got)
	}
	fx.PutRows(map[store.Table]store.Key{story.Views: story.ViewKey(bens.ID, fixture.Ana())})
	fx.SwapIn(account.Relations, account.RelationKey(fixture.Ben(), fixture.Ana()))
	fx.SwapIn(account.Related, account.RelatedKey(fixture.Ben(), fixture.Ana()))
	if got := fx.Scan(fixture.Ana()); got.Count != 3 {
		t.Fatalf("%+v", got)
	}
	mine := fx.Story(0)
	fx.PutRows(map[store.Table]store.Key{story.Views: story.ViewKey(mine.ID, fixture.Ben())})
	fx.PutRows(map[store.Table]store.Key{upload.Renditions: {Partition: string(mine.ID[:]), Clustering: "\x0a"}})
	_, err := fx.Eraser().Delete(t.Context(), mine.ID, mayfly.ByUser, fx.Now)
	fx.Must(err)
	if got := fx.Scan(fixture.Ana()); got.Count != 3+2+2 { // and the body, and the index
		t.Fatalf("%+v", got)
	}
}

func TestWhatAnErasedViewerHasSeenIsForgottenOnBothSides(t *testing.T) {
	fx := erasure.Open(t)
	bens := fx.StoryOf(fixture.Ben(), 0)
	for range 250 { // more than a page
		fx.Now = fx.Now.Add(time.Millisecond)
		fx.View(mayfly.Item{ID: fx.NewID(fixture.Ben())}, fixture.Ana())
	}
	fx.View(bens, fixture.Ana())
	fx.View(bens, erasure.Follower(fixture.Ben()))
	r, err := fx.Accounts().Account(t.Context(), fixture.Ana(), audit.Actor{Subject: "support"}, "asked to", fx.Now)
	if err != nil || r.Rows["seen"] != 251 || r.Rows["views"] != 251 {
		t.Fatalf("%+v, %v", r, err)
	}
	if got := fx.Scan(fixture.Ana()); got.Count != 0 {
		t.Fatalf("%+v", got)
	}
	if f := erasure.Follower(fixture.Ben()); len(fx.Partition(story.Seen, string(f[:]))) != 1 || len(fx.Partition(story.Views, story.ViewKey(bens.ID, f).Partition)) != 1 {
		t.Error("another's view is gone")
	}
}

func TestTheMediaOfReservedUploadsGoWithTheAccount(t *testing.T) {
	fx := erasure.Open(t)
	waiting, others := fx.Uploaded(3), fx.Uploaded(1)
	published, held := fx.Story(2), fx.Story(1)
	fx.Hold(held.ID)
	for _, upload := range []mayfly.ID{waiting.ID, published.Upload, held.Upload, fx.NewID(fixture.Ana())} {
		fx.Reserve(fixture.Ana(), upload)
	}
	fx.Reserve(fixture.Ben(), others.ID)
	for _, raw := range []mayfly.BlobKey{mayfly.RawKey(waiting.ID, 4), mayfly.RawKey(published.Upload, 1)} { // put by presigned URLs
		_, err := fx.Real.Hot.Put(t.Context(), raw, strings.NewReader("as it was put"))
		fx.Must(err)
	}
	r, err := fx.Accounts().Account(t.Context(), fixture.Ana(), audit.Actor{Subject: "support"}, "asked to", fx.Now)
	fx.Must(err)
	if r.Rows["reservations"] != 4 || r.Objects != 3+1+2 || len(r.Held) != 1 {
		t.Fatalf("%+v", r)
	}
	want := []mayfly.BlobKey{mayfly.UploadKey(others.ID, 0), mayfly.UploadKey(held.Upload, 0)}
	slices.Sort(want)
	if got := fx.Objects(fx.Real.Hot); !slices.Equal(got, want) {
		t.Fatalf("left %v, want %v", got, want)
	}
}
