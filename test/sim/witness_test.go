package sim

import (
	"context"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/fixture"
)

// witnessed returns set with hooks that write into the record what the store has
// acknowledged to the engine.
func (b *record) witnessed(set store.Set) store.Set {
	appended := func(events []mayfly.Event) {
		for _, e := range events {
			b.write(ack{wish: -1, event: &e})
		}
	}
	return fixture.Hook(set, &fixture.Hooks{
		Commit: func(_ context.Context, batch *store.Batch, do func() error) error {
			err := do()
			if err == nil {
				for _, stage := range batch.Stages() {
					appended(stage.Events)
				}
			}
			return err
		},
		Transition: func(ctx context.Context, changes []mayfly.Change, do fixture.Transition) ([]store.Outcome, error) {
			outcomes, err := do(ctx, changes)
			for _, o := range outcomes {
				if err == nil && o.Result == store.Applied {
					b.write(ack{wish: -1, row: &o.Current})
				}
			}
			return outcomes, err
		},
		Append: func(_ context.Context, events []mayfly.Event, do func() error) error {
			err := do()
			if err == nil {
				appended(events)
			}
			return err
		},
	})
}
