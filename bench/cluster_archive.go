package bench

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/engine/archive"
	"github.com/mayflyhq/mayfly/store/loop"
)

// clusterPair are two nodes in this process, each with connections of its own.
type clusterPair [2]*benchEngine

func (p clusterPair) close(ctx context.Context) error {
	var errs []error
	for _, e := range p {
		if e != nil {
			errs = append(errs, e.close(ctx))
		}
	}
	return errors.Join(errs...)
}

// patience bounds the wait for what walks have still to do.
const patience = 20 * time.Minute

// archived waits until the archive of every shard has passed deadline for good,
// whichever node walks it.
func (p clusterPair) archived(ctx context.Context, deadline mayfly.Instant) error {
	for start := time.Now(); time.Since(start) < patience; {
		left := mayfly.Shards
		var passed [mayfly.Shards]bool
		for _, e := range p {
			for _, w := range e.node.Progress(archive.Name) {
				if w.Watermark >= deadline && !passed[w.Shard] {
					passed[w.Shard] = true
					left--
				}
			}
		}
		if left == 0 {
			return nil
		}
		if err := loop.Rest(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
	return fmt.Errorf("not archived within %s", patience)
}

// archived measures the archive by two nodes, as fast as it goes: stories with one
// medium of 8 KiB, all of them due at one instant, at which the nodes have shared
// the shards out and swept.
func (t clusterTrial) archived(ctx context.Context, b *bench, place *clusterPlace, record *clusterRecord) (err error) {
	last, err := t.loadHot(ctx, b, place, record)
	if err != nil {
		return err
	}
	const prepare = 8 * time.Second
	due := max(mayfly.InstantOf(time.Now()).Add(prepare), last.Add(place.config.Walk.Settle+prepare))
	pair, err := place.pair(ctx, func(o *node.Options) {
		o.Walk.Unpaced = true
		o.Archive.Window = due.Sub(last)
		o.Sweep.Window, o.Reconcile.Window, o.Retire.Window, o.Restore.Window = o.Archive.Window, o.Archive.Window, o.Archive.Window, o.Archive.Window
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pair.close(ctx)) }()
	if err := loop.Rest(ctx, time.Until(due.Time())); err != nil {
		return err
	}
	stage := b.progress.Begin("archive stories, two nodes", t.archive)
	defer stage.End()
	if err := pair.archived(ctx, last); err != nil {
		return err
	}
	took := time.Since(due.Time())
	stage.Add(t.archive)
	b.report.add("cluster.archive_per_s", float64(t.archive)/took.Seconds())
	return nil
}

// loadHot loads stories whose deadlines are within the next second, and returns
// the last of these.
func (t clusterTrial) loadHot(ctx context.Context, b *bench, place *clusterPlace, record *clusterRecord) (last mayfly.Instant, err error) {
	e, err := place.start(ctx, "a", func(o *node.Options) { o.Idle = true })
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, e.close(ctx)) }()
	stage := b.progress.Begin("load stories with media", t.archive)
	defer stage.End()
	load := newBenchLoad(e.store.Set, b.seed, t.archive, stage)
	load.media = true
	day := benchLifetime(24 * time.Hour)
	from := e.now().Add(time.Second - 24*time.Hour)
	err = load.run(ctx, t.archive, func(i int) (mayfly.Instant, mayfly.Lifetime) {
		return spread(from, time.Second, i, t.archive), day
	}, func(_ int, item mayfly.Item) {
		last = max(last, item.ID.Deadline())
		record.acknowledge(item, sha256.Sum256(benchContent(item.Upload)))
	})
	return last, err
}
