package collect_test

import (
	"slices"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/test/erasure"
)

// Every row is passed once, however the passes are cut by their cap and however late
// they come; each asks the store for no more than its cap and a page.
func TestRowsAreLookedAtWithoutGapsWithinTheCap(t *testing.T) {
	fx := erasure.Open(t)
	const items, media, limit, page = 600, 3, 100, 100
	var lost []mayfly.BlobKey
	for n := range items {
		fx.Now = fx.Now.Add(time.Second)
		item := fx.Story(media)
		if n%10 == 0 {
			lost = append(lost, item.MediaKey(mayfly.Born, 1))
		}
	}
	fx.Must(fx.Real.Hot.Delete(t.Context(), lost...))
	fx.Now = fx.Now.Add(5 * time.Hour)
	rows, missing, passes, most, every := 0, 0, 0, 0, uint32(1)
	for more := true; more; passes++ {
		r := fx.Missing(limit)
		rows, missing, most, more = rows+r.Rows, missing+r.Missing, max(most, r.Looked), r.More
		if r.Every < every {
			t.Errorf("pass %d looks at one in %d, the one before at one in %d", passes, r.Every, every)
		}
		every = r.Every
	}
	if rows != items || most > limit+page*media || every < 2 || passes < 3 || missing == 0 || missing >= len(lost) {
		t.Errorf("%d rows in %d passes, at most %d objects in one, one in %d at last, %d of %d found missing", rows, passes, most, every, missing, len(lost))
	}
	for range 8 { // the rate comes back when there is little to do
		fx.Now = fx.Now.Add(2 * time.Hour)
		every = fx.Missing(limit).Every
	}
	item := fx.Story(2)
	fx.Must(fx.Real.Hot.Delete(t.Context(), item.MediaKey(mayfly.Born, 0)))
	fx.Now = fx.Now.Add(30 * time.Hour)
	if r := fx.Missing(limit); every != 1 || r.Rows != 1 || !slices.Equal(r.Lost, []mayfly.BlobKey{item.MediaKey(mayfly.Born, 0)}) {
		t.Errorf("one in %d, %+v", every, r)
	}
}
