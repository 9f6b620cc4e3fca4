package sweep_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/sweep"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/fixture"
)

// L10: a log that is away is not the items' fault, in whatever words it says so.
// The walk parks no item, or an outage would write one reminder per item. Expiry does
// not wait for the log either (L8): only the watermark waits until all is appended.
func TestALogThatIsAwayForTwoMinutesParksNoItemAndIsCaughtUp(t *testing.T) {
	for name, away := range map[string]error{
		"refused":   mayfly.Errorf(mayfly.Unavailable, "no broker"),
		"no answer": mayfly.Wrap(mayfly.Unknown, fmt.Errorf("append: no answer yet: %w", context.DeadlineExceeded), ""),
		"timed out": mayfly.Wrap(mayfly.Unavailable, context.DeadlineExceeded, ""),
	} {
		t.Run(name, func(t *testing.T) {
			e := open(t)
			parked := 0
			e.Hooks.Commit = func(_ context.Context, b *store.Batch, do func() error) error {
				for _, stage := range b.Stages() {
					for _, put := range stage.Puts {
						if put.Table == remind.Reminders {
							parked++
						}
					}
				}
				return do()
			}
			var items []mayfly.Item
			for i := range 100 {
				items = append(items, e.born(mayfly.Fate(1+i%2)))
			}
			s, err := sweep.New(e.Set, e.options)
			if err != nil {
				t.Fatal(err)
			}
			shard := walk.NewShard(e.Set.Rows, items[0].ID.Shard(), "one", 5*time.Second, deadline.Add(-time.Minute))
			w, err := walk.New(e.Set, s.Walk(), shard, walk.Options{Holder: "one", Unpaced: true})
			if err != nil {
				t.Fatal(err)
			}
			e.Hooks.Append = fixture.FailAppend(away)
			now, refused := deadline, 0
			for ; now < deadline.Add(2*time.Minute); now = now.Add(time.Second) {
				switch _, err := w.Pass(t.Context(), now); {
				case errors.Is(err, mayfly.Unavailable):
					refused++
				case err != nil || now == deadline || now > deadline.Add(20*time.Second):
					t.Fatalf("at %s nothing is said of the log: %v", now, err)
				}
				for _, item := range items {
					if row := e.Row(item.ID); row.State == mayfly.Active {
						t.Fatalf("at %s: %s waits for the log", now, item.ID)
					}
				}
				mark, err := walk.LoadWatermark(t.Context(), e.Set.Rows, sweep.Name, shard)
				if err != nil || mark.At >= deadline {
					t.Fatalf("at %s the watermark is at %s, %v", now, mark.At, err)
				}
			}
			if parked > 0 || refused < 100 {
				t.Fatalf("%d items were parked, %d passes refused", parked, refused)
			}
			e.Hooks.Append = nil
			for end := now.Add(30 * time.Second); now < end; now = now.Add(time.Second) {
				for more := true; more; {
					if more, err = w.Pass(t.Context(), now); err != nil {
						t.Fatal(err)
					}
				}
			}
			mark, err := walk.LoadWatermark(t.Context(), e.Set.Rows, sweep.Name, shard)
			if err != nil || mark.At < deadline || parked > 0 {
				t.Fatalf("the watermark is at %s, %v; %d parked", mark.At, err, parked)
			}
			appended := map[mayfly.ID]bool{}
			for _, event := range e.NewEvents(mayfly.Ends) {
				appended[event.ID] = true
			}
			for _, item := range items {
				if !appended[item.ID] {
					t.Fatalf("%s has no event", item.ID)
				}
			}
		})
	}
}
