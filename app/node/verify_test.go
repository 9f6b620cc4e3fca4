package node_test

import (
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/store"
)

// Each defect is planted alone in a healthy store, found once, and named.
func TestVerifyFindsEachPlantedDefectAndNothingInAHealthyStore(t *testing.T) {
	const bytes = "a photo"
	for name, tc := range map[string]struct {
		plant func(t *testing.T, set store.Set, item mayfly.Item)
		count func(v *node.Verified) int64
	}{
		"": {func(*testing.T, store.Set, mayfly.Item) {}, func(v *node.Verified) int64 { return 1 + v.Wrong() }},
		"LOST": {func(t *testing.T, set store.Set, item mayfly.Item) {
			must(t, set.Hot.Delete(t.Context(), item.MediaKey(mayfly.Born, 0)))
		}, func(v *node.Verified) int64 { return v.Lost }},
		"LOST changed": {func(t *testing.T, set store.Set, item mayfly.Item) {
			_, err := set.Hot.Put(t.Context(), item.MediaKey(mayfly.Born, 0), strings.NewReader("a phot0"))
			must(t, err)
		}, func(v *node.Verified) int64 { return v.Lost }},
		"RESURRECTED": {func(t *testing.T, set store.Set, item mayfly.Item) {
			_, _, err := set.Rows.Swap(t.Context(), store.Erased, store.ErasedKey(item.Owner), nil, []byte("x"), 0)
			must(t, err)
		}, func(v *node.Verified) int64 { return v.Resurrected }},
		"DOUBLE": {func(t *testing.T, set store.Set, item mayfly.Item) {
			var b store.Batch
			b.Put(store.Uploads, store.UploadKey(item.Upload), make([]byte, 16), 0)
			must(t, set.Writer.Commit(t.Context(), &b))
		}, func(v *node.Verified) int64 { return v.Double }},
		"LATE": {func(t *testing.T, set store.Set, item mayfly.Item) {
			out, err := set.Ledger.Transition(t.Context(), []mayfly.Change{{
				ID: item.ID, From: item.State, Generation: item.Generation, To: mayfly.Deleted, Nonce: 1, Cause: mayfly.ByUser, At: item.ID.Birth(),
			}})
			must(t, err)
			if out[0].Result != store.Applied {
				t.Fatal(out[0])
			}
		}, func(v *node.Verified) int64 { return v.Late }},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, set store.Set, m *machine) {
				n := start(t, set, node.Options{Source: m.source(), Idle: true})
				defer stop(t, n)
				var items []mayfly.Item
				for range 3 {
					u, err := n.Uploads().Begin(ana, n.Clock().Read().Steady)
					must(t, err)
					_, err = u.Add(t.Context(), strings.NewReader(bytes))
					must(t, err)
					day, err := mayfly.LifetimeOf(24 * time.Hour)
					must(t, err)
					p, err := n.Intake().Publish(t.Context(), intake.Draft{
						Owner: ana, Product: mayfly.Story, Fate: mayfly.Archive, Audience: mayfly.Everyone, Lifetime: day, Upload: u,
					}, n.Clock().Read().Steady)
					must(t, err)
					items = append(items, p.Item)
				}
				tc.plant(t, set, items[1])
				time.Sleep(3 * time.Hour)
				v, err := node.Verify(t.Context(), set, node.Verification{Now: n.Clock().Read().Steady, Bytes: true})
				must(t, err)
				want := int64(1)
				if name == "RESURRECTED" { // all three are ana's
					want = 3
				}
				if tc.count(v) != want || v.Items != 3 || name != "" && (v.Wrong() != want || len(v.Found) != int(want)) {
					t.Errorf("%+v", v)
				}
			})
		})
	}
}

// A row that nothing has swept for hours is late; verify sees it without a body.
func TestVerifyFindsWhatNobodyHasEnded(t *testing.T) {
	in(t, func(t *testing.T, set store.Set, m *machine) {
		n := start(t, set, node.Options{Source: m.source(), Idle: true})
		defer stop(t, n)
		mustPublish(t, n, time.Minute)
		mustPublish(t, n, 30*time.Hour)
		time.Sleep(4 * time.Hour)
		v, err := node.Verify(t.Context(), set, node.Verification{Now: n.Clock().Read().Steady})
		must(t, err)
		if v.Late != 1 || v.Wrong() != 1 || v.Items != 2 || v.States["sweep_pending"] != 1 || v.States["active"] != 1 {
			t.Errorf("%+v", v)
		}
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
