package bench

import (
	"context"
	"fmt"
	"strings"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/verify"
	"github.com/mayflyhq/mayfly/store"
)

// audit verifies every row, object and event of the place against the stories that
// were acknowledged, and reports the seven counts. Any but zero is a failure of the
// product. An upload whose answer did not come may have left an object that is
// collected in a day (L12).
func (r *clusterRecord) audit(ctx context.Context, b *bench, e *benchEngine) error {
	known := &verify.Record{Items: map[mayfly.ID]verify.Expected{}, Unfinished: int(r.retries.Load())}
	for id, s := range r.stories {
		known.Items[id] = verify.Expected{Media: [][32]byte{s.hash}, State: mayfly.Cold}
	}
	stage := b.progress.Begin("verify stories", len(r.stories))
	defer stage.End()
	found, err := verify.Run(ctx, e.store.Set, verify.Options{
		Now: e.now(), Bytes: true, Objects: true, Group: "bench-audit", Gate: e.node.Gate(), Record: known,
		Each: func(context.Context, *verify.Report, mayfly.Item, store.FoundBody) error {
			stage.Add(1)
			return nil
		},
	})
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	for w := range verify.Words {
		b.report.add("cluster."+strings.ToLower(w.String()), float64(found.Count(w)))
	}
	if !found.Clean() {
		return mayfly.Errorf(mayfly.Corrupt, "%s\n  %s", found, strings.Join(found.Faults(), "\n  "))
	}
	return nil
}
