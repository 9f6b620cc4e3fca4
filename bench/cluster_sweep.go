package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/app/profile"
	"github.com/mayflyhq/mayfly/app/server"
	"github.com/mayflyhq/mayfly/store"
)

// clusterSweep compares the two ways to expire stories: one conditional batch for
// a page of one pigeonhole, and one conditional write for each row. The same table,
// the same driver, the same clients, each with a pigeonhole of its own, so that
// no two proposals meet; by turns in one process.
type clusterSweep struct {
	pairs           int
	batched, single int // stories of one client in a round of either kind
}

const (
	sweepClients = 16
	sweepPage    = 500
)

func (t clusterSweep) run(ctx context.Context, b *bench, place *clusterPlace) (err error) {
	st, err := profile.Open(ctx, place.config, node.Tables(), server.NewLateClock().Time())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	s := &clusterSweeper{set: st.Set, seed: b.seed, next: mayfly.InstantOf(time.Now()).Minute()}
	stage := b.progress.Begin("batches against single rows, pairs", t.pairs)
	defer stage.End()
	var batched, single, ratios []float64
	for n := range t.pairs + 1 {
		many, err := s.round(ctx, t.batched, sweepPage)
		if err != nil {
			return err
		}
		one, err := s.round(ctx, t.single, 1)
		if err != nil {
			return err
		}
		if n == 0 { // the servers get warm
			continue
		}
		batched, single, ratios = append(batched, many), append(single, one), append(ratios, many/one)
		stage.Add(1)
	}
	b.report.add("cluster.sweep_batch_per_s", median(batched))
	b.report.add("cluster.sweep_single_per_s", median(single))
	b.report.add("cluster.sweep_ratio", median(ratios))
	return nil
}

// clusterSweeper sweeps minutes that no node walks: they lie a day ahead.
type clusterSweeper struct {
	set  store.Set
	seed uint64
	next mayfly.Minute // of birth
}

// round loads a minute and answers how many stories a second went from active to
// expired_hot, size of them in one call.
func (s *clusterSweeper) round(ctx context.Context, each, size int) (float64, error) {
	var holes [sweepClients][]mayfly.Change
	err := inParallel(ctx, sweepClients, func(ctx context.Context, n int) (err error) {
		holes[n], err = s.load(ctx, mayfly.Shard(n), each)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("load: %w", err)
	}
	s.next++
	start := time.Now()
	err = inParallel(ctx, sweepClients, func(ctx context.Context, n int) error {
		for page := range slices.Chunk(holes[n], size) {
			outcomes, err := s.set.Ledger.Transition(ctx, page)
			if err != nil {
				return err
			}
			for _, o := range outcomes {
				if o.Result != store.Applied {
					return fmt.Errorf("a story that no other client moves is %s", o.Result)
				}
			}
		}
		return nil
	})
	return float64(sweepClients*each) / time.Since(start).Seconds(), err
}

// load gives birth to the stories of one pigeonhole, and answers with how each expires.
func (s *clusterSweeper) load(ctx context.Context, shard mayfly.Shard, stories int) ([]mayfly.Change, error) {
	r := rand.New(rand.NewPCG(s.seed, uint64(s.next)<<4|uint64(shard)))
	var changes []mayfly.Change
	for len(changes) < stories {
		var batch store.Batch
		for range min(sweepPage, stories-len(changes)) {
			owner, at := newBenchOwner(r), s.next.Start()+mayfly.Instant(len(changes)%60_000)
			id, err := mayfly.NewID(at, benchLifetime(24*time.Hour), owner.trace, r.Uint64()&^(mayfly.Shards-1)|uint64(shard))
			if err != nil {
				return nil, err
			}
			item := mayfly.Item{
				ID: id, Owner: owner.user, Product: mayfly.Story, Fate: mayfly.Archive, Audience: mayfly.Everyone,
				State: mayfly.Active, Generation: mayfly.Born, Nonce: mayfly.Nonce(r.Uint64() | 1), Changed: at,
			}
			batch.Insert(store.Birth{Item: item, Body: mayfly.Body{Text: loadCaption}})
			changes = append(changes, mayfly.Change{
				ID: id, From: mayfly.Active, Generation: mayfly.Born, To: mayfly.ExpiredHot,
				Nonce: mayfly.Nonce(r.Uint64() | 1), Run: 1, Cause: mayfly.ByExpiry, At: id.Deadline(),
			})
		}
		if err := s.set.Writer.Commit(ctx, &batch); err != nil {
			return nil, err
		}
	}
	return changes, nil
}

func inParallel(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	for i := range n {
		g.Go(func() error { return do(ctx, i) })
	}
	return g.Wait()
}
