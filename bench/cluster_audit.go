package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/app/progress"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/engine/verify"
	"github.com/mayflyhq/mayfly/store"
)

// clusterAudit looks from both sides: at every story that was acknowledged, and at
// every row, object and event that is there.
type clusterAudit struct {
	record *clusterRecord
	node   *node.Node
	set    store.Set
	now    mayfly.Instant
	cold   map[mayfly.BlobKey]bool // that rows name; filled by the first look
}

const (
	auditAtOnce = 16
	auditPage   = 200
)

// audit reports the seven counts. Any but zero is a failure of the product.
func (b *clusterRecord) audit(ctx context.Context, bench *bench, e *benchEngine) error {
	a := &clusterAudit{record: b, node: e.node, set: e.store.Set, now: e.now(), cold: make(map[mayfly.BlobKey]bool)}
	stage := bench.progress.Begin("audit stories", len(b.stories))
	defer stage.End()
	b.strangers()
	if err := a.stories(ctx, stage); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	for _, look := range []func(context.Context) error{a.rows, a.objects} {
		if err := look(ctx); err != nil {
			return fmt.Errorf("audit: %w", err)
		}
	}
	for w := range verify.Words {
		bench.report.add("cluster."+strings.ToLower(w.String()), float64(b.count.Count(w)))
	}
	if !b.count.Clean() {
		return mayfly.Errorf(mayfly.Corrupt, "%s\n  %s", &b.count, strings.Join(b.count.Faults(), "\n  "))
	}
	return nil
}

// stories looks at every story that was acknowledged.
func (a *clusterAudit) stories(ctx context.Context, stage *progress.Stage) error {
	pages := make(chan []mayfly.ID)
	go func() {
		defer close(pages)
		for page := range slices.Chunk(slices.Collect(maps.Keys(a.record.stories)), auditPage) {
			select {
			case pages <- page:
			case <-ctx.Done():
				return
			}
		}
	}()
	return inParallel(ctx, auditAtOnce, func(ctx context.Context, _ int) error {
		for page := range pages {
			if err := a.page(ctx, page); err != nil {
				return err
			}
			stage.Add(len(page))
		}
		return ctx.Err()
	})
}

func (a *clusterAudit) page(ctx context.Context, ids []mayfly.ID) error {
	rows, err := a.set.Ledger.Get(ctx, ids...)
	if err != nil {
		return err
	}
	bodies, err := a.set.Ledger.Body(ctx, ids...)
	if err != nil {
		return err
	}
	owned := make([]store.Key, len(ids))
	for i, id := range ids {
		owned[i] = engine.OwnerKey(a.record.stories[id].owner, id)
	}
	listed, err := a.set.Rows.Get(ctx, engine.Owners, owned...)
	if err != nil {
		return err
	}
	for i, id := range ids {
		if listed[i] == nil {
			a.record.count.Add(verify.Lost, "%s is not in its author's list", id)
		}
		if err := a.story(ctx, id, rows[i], bodies[i]); err != nil {
			return err
		}
	}
	return nil
}

// story wants a story in the one state that its age says, with every byte of its
// medium in the one place that this state says, and its whole life in the log.
func (a *clusterAudit) story(ctx context.Context, id mayfly.ID, row store.Found, body store.FoundBody) error {
	count, s := &a.record.count, a.record.stories[id]
	for _, verb := range []mayfly.Verb{mayfly.WasCreated, mayfly.WasExpired, mayfly.WasArchived} {
		if s.seen[verb] == 0 {
			count.Add(verify.Lost, "the log does not tell that %s was %s", id, verb)
		}
	}
	if _, err := a.node.Gate().Open(ctx, id, mayfly.Viewer{}, a.now); !errors.Is(err, mayfly.Gone) {
		count.Add(verify.Leak, "a stranger got %v for %s, which ended at %s", err, id, id.Deadline())
	}
	switch {
	case !row.Found:
		count.Add(verify.Lost, "%s has no row", id)
		return nil
	case row.Item.State == mayfly.Active && s.seen[mayfly.WasExpired] != 0:
		count.Add(verify.Resurrected, "%s was expired, and is active", id)
		return nil
	case row.Item.State != mayfly.Cold:
		count.Add(verify.Late, "%s ended at %s, and is %s", id, id.Deadline(), row.Item.State)
		return nil
	case !body.Found || len(body.Body.Media) != 1 || body.Body.Media[0].SHA256 != s.hash:
		count.Add(verify.Lost, "%s has not the content that was published", id)
		return nil
	}
	return a.medium(ctx, row.Item, body.Body.Media[0])
}

func (a *clusterAudit) medium(ctx context.Context, item mayfly.Item, medium mayfly.Medium) error {
	key := item.MediaKey(item.Keys.Cold, 0)
	a.record.mu.Lock()
	a.cold[key] = true
	a.record.mu.Unlock()
	_, err := upload.ReadBack(ctx, a.set.Cold, key, medium)
	if errors.Is(err, mayfly.NotFound) || errors.Is(err, mayfly.Corrupt) {
		a.record.count.Add(verify.Lost, "%s: %v", item.ID, err)
		return nil
	}
	return err
}

// rows wants every row to be of a story that was acknowledged.
func (a *clusterAudit) rows(ctx context.Context) error {
	minutes := make(map[mayfly.Minute]bool)
	for id := range a.record.stories { // and those around them: nothing else is as short-lived
		minutes[id.Minute()-1], minutes[id.Minute()], minutes[id.Minute()+1] = true, true, true
	}
	return inParallel(ctx, mayfly.Shards, func(ctx context.Context, n int) error {
		for minute := range minutes {
			s := store.Stretch{Minute: minute, Shard: mayfly.Shard(n), To: (minute + 1).Start() - 1}
			for full := true; full; {
				page, err := a.set.Ledger.Walk(ctx, s, auditPage)
				if err != nil {
					return err
				}
				for _, item := range page {
					if a.record.stories[item.ID] == nil {
						a.record.count.Add(verify.Orphan, "%s was not acknowledged, and is %s", item.ID, item.State)
					}
					s.After = store.PositionOf(item)
				}
				full = len(page) == auditPage
			}
		}
		return nil
	})
}

// objects wants every object to be one that a row names: all of them are cold. An
// upload whose answer did not come may have left one that is collected in a day (L12).
func (a *clusterAudit) objects(ctx context.Context) error {
	cold, err := a.set.Cold.List(ctx, "", "", 2*len(a.record.stories)+auditPage)
	if err != nil {
		return err
	}
	for _, object := range cold {
		if !a.cold[object.Key] {
			a.record.count.Add(verify.Orphan, "%s in cold", object.Key)
		}
	}
	hot, err := a.set.Hot.List(ctx, "", "", 2*len(a.record.stories)+auditPage)
	if err != nil {
		return err
	}
	for _, object := range hot[min(len(hot), int(a.record.retries.Load())):] {
		a.record.count.Add(verify.Orphan, "%s in hot", object.Key)
	}
	return nil
}

// strangers wants every end in the log to be of a story that was acknowledged.
func (b *clusterRecord) strangers() {
	again := b.strange
	b.strange = nil
	for _, e := range again { // the answer may have come after the event
		b.observe(e, e.At.Time())
	}
	for _, e := range b.strange {
		b.count.Add(verify.Orphan, "the log has an event that %s was %s, and it was not acknowledged", e.ID, e.Verb)
	}
}
