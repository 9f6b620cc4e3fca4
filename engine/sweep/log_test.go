package sweep_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/sweep"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// notes counts the reminders that are written.
type notes struct {
	store.Writer
	reminders int
}

func (n *notes) Commit(ctx context.Context, b *store.Batch) error {
	for _, stage := range b.Stages() {
		for _, put := range stage.Puts {
			if put.Table == store.Reminders {
				n.reminders++
			}
		}
	}
	return n.Writer.Commit(ctx, b)
}

// L10: a log that is away is not the items' fault, in whatever words it says so.
// The walk parks nobody, or an outage would be one reminder an item. L8: nor does
// expiry wait for it; only the watermark does, until everything is told.
func TestALogThatIsAwayForTwoMinutesParksNobodyAndIsCaughtUpWith(t *testing.T) {
	for name, away := range map[string]error{
		"refused":   mayfly.Errorf(mayfly.Unavailable, "no broker"),
		"no answer": mayfly.Wrap(mayfly.Unknown, fmt.Errorf("append: no answer yet: %w", context.DeadlineExceeded), ""),
		"timed out": mayfly.Wrap(mayfly.Unavailable, context.DeadlineExceeded, ""),
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t)
			parked := &notes{Writer: h.set.Writer}
			h.set.Writer = parked
			var items []mayfly.Item
			for i := range 100 {
				items = append(items, h.born(mayfly.Fate(1+i%2)))
			}
			s, err := sweep.New(h.set, h.o)
			if err != nil {
				t.Fatal(err)
			}
			shard := walk.NewShard(h.set.Rows, items[0].ID.Shard(), "one", 5*time.Second, deadline.Add(-time.Minute))
			w, err := walk.New(h.set, s.Walk(), shard, walk.Options{Holder: "one", Unpaced: true})
			if err != nil {
				t.Fatal(err)
			}
			h.log.err = away
			now, refused := deadline, 0
			for ; now < deadline.Add(2*time.Minute); now = now.Add(time.Second) {
				switch _, err := w.Pass(t.Context(), now); {
				case errors.Is(err, mayfly.Unavailable):
					refused++
				case err != nil || now == deadline || now > deadline.Add(20*time.Second):
					t.Fatalf("at %s nothing is said of the log: %v", now, err)
				}
				for _, item := range items {
					if row := h.row(item.ID); row.State == mayfly.Active {
						t.Fatalf("at %s: %s waits for the log", now, item.ID)
					}
				}
				mark, err := walk.LoadWatermark(t.Context(), h.set.Rows, sweep.Name, shard)
				if err != nil || mark.At >= deadline {
					t.Fatalf("at %s the watermark is at %s, %v", now, mark.At, err)
				}
			}
			if parked.reminders > 0 || refused < 100 {
				t.Fatalf("%d items were parked, %d passes refused", parked.reminders, refused)
			}
			h.log.err = nil
			for end := now.Add(30 * time.Second); now < end; now = now.Add(time.Second) {
				for more := true; more; {
					if more, err = w.Pass(t.Context(), now); err != nil {
						t.Fatal(err)
					}
				}
			}
			mark, err := walk.LoadWatermark(t.Context(), h.set.Rows, sweep.Name, shard)
			if err != nil || mark.At < deadline || parked.reminders > 0 {
				t.Fatalf("the watermark is at %s, %v; %d parked", mark.At, err, parked.reminders)
			}
			told := map[mayfly.ID]bool{}
			for _, e := range h.events() {
				told[e.ID] = true
			}
			for _, item := range items {
				if !told[item.ID] {
					t.Fatalf("%s was not told", item.ID)
				}
			}
		})
	}
}
