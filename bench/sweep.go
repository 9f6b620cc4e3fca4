package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/engine/sweep"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// sweepTrial sweeps one minute that is over, as fast as it goes.
type sweepTrial struct{ stories int }

func sweepTrialOf(f benchForm) sweepTrial {
	if f == quickForm {
		return sweepTrial{stories: 600_000}
	}
	return sweepTrial{stories: 1_200_000}
}

func (t sweepTrial) run(ctx context.Context, b *bench, folder string) (err error) {
	e, err := openBenchEngine(folder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.close(ctx)) }()
	minute := mayfly.InstantOf(time.Now()).Minute() + 1
	if err := loadMinute(ctx, b, e, minute, t.stories, false); err != nil {
		return err
	}
	if err := e.rest(ctx, b); err != nil {
		return err
	}
	s, err := newBenchSweeper(e, minute.Start()-1)
	if err != nil {
		return err
	}
	stage := b.progress.Begin("sweep stories", t.stories)
	defer stage.End()
	before, allocs := e.io(), mallocs()
	took, err := s.run(ctx, (minute + 1).Start(), 0)
	if err != nil {
		return err
	}
	io := e.io().since(before)
	allocs = mallocs() - allocs
	stage.Add(t.stories)
	if err := s.check(ctx, t.stories); err != nil {
		return err
	}
	b.report.add("sweep.stories_per_s", float64(t.stories)/took.Seconds())
	b.report.add("sweep.stories", float64(t.stories))
	b.report.add("sweep.bytes_per_story", float64(io.bytes)/float64(t.stories))
	b.report.add("sweep.allocs_per_story", float64(allocs)/float64(t.stories))
	b.addIO("sweep", io)
	return nil
}

func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

// loadMinute loads stories whose deadlines fall into one minute.
func loadMinute(ctx context.Context, b *bench, e *benchEngine, minute mayfly.Minute, stories int, media bool) error {
	stage := b.progress.Begin("load stories of one minute", stories)
	defer stage.End()
	day := benchLifetime(24 * time.Hour)
	load := newBenchLoad(e.store.Set, b.seed, stories, stage)
	load.media = media
	return load.run(ctx, stories, func(i int) (mayfly.Instant, mayfly.Lifetime) {
		return spread(minute.Start().Add(-24*time.Hour), time.Minute, i, stories), day
	}, nil)
}

// benchWalk is one walk over all shards, unpaced.
type benchWalk struct {
	set     store.Set
	settle  time.Duration
	walkers []*walk.Walker
}

// newBenchSweeper is the sweep, which begins behind origin.
func newBenchSweeper(e *benchEngine, origin mayfly.Instant) (*benchWalk, error) {
	s, err := sweep.New(e.store.Set, sweep.Options{})
	if err != nil {
		return nil, err
	}
	return newBenchWalk(e, s.Walk(), newBenchShards(e, origin))
}

// benchShards are the shards of a process: one lease each, for all walks.
type benchShards struct {
	holder string
	all    []*walk.Shard
}

func newBenchShards(e *benchEngine, origin mayfly.Instant) benchShards {
	s := benchShards{holder: fmt.Sprintf("bench-%d", rand.Uint64())}
	for n := range mayfly.Shard(mayfly.Shards) {
		s.all = append(s.all, walk.NewShard(e.store.Set.Rows, n, s.holder, config.Default().Walk.Lease, origin))
	}
	return s
}

// newBenchWalk is a walk with the settings of a node but for its pace, changed by set.
func newBenchWalk(e *benchEngine, of walk.Walk, shards benchShards, set ...func(o *walk.Options)) (*benchWalk, error) {
	c := config.Default().Walk
	o := walk.Options{Holder: shards.holder, Settle: c.Settle, Page: c.Page, Batch: c.Batch, Lease: c.Lease, Timeout: c.Timeout, Unpaced: true}
	for _, change := range set {
		change(&o)
	}
	s := &benchWalk{set: e.store.Set, settle: c.Settle}
	for _, shard := range shards.all {
		w, err := walk.New(s.set, of, shard, o)
		if err != nil {
			return nil, err
		}
		s.walkers = append(s.walkers, w)
	}
	return s, nil
}

// run does what is due up to end, when it is offset behind that, from the moment
// at which it is all due to the durable watermark behind it, and says how long
// that took. What is younger than the settling time is looked at twice, as in a
// node; only the wait for it is left out.
func (s *benchWalk) run(ctx context.Context, end mayfly.Instant, offset time.Duration) (time.Duration, error) {
	start := time.Now()
	for _, now := range []mayfly.Instant{end.Add(offset), end.Add(offset + s.settle)} {
		g, ctx := errgroup.WithContext(ctx)
		for _, w := range s.walkers {
			g.Go(func() error {
				for {
					more, err := w.Pass(ctx, now.Add(time.Since(start)))
					if err != nil || !more {
						return err
					}
				}
			})
		}
		if err := g.Wait(); err != nil {
			return 0, err
		}
	}
	took := time.Since(start)
	for _, w := range s.walkers {
		if p := w.Progress(); p.Watermark < end-1 || p.Parked > 0 {
			return 0, fmt.Errorf("shard %d: the watermark stands at %s, %d stories are parked", p.Shard, p.Watermark, p.Parked)
		}
	}
	return took, nil
}

// check holds the log against what was due: an event for each story. A few are
// told again, where one pass ended and the next began within a millisecond.
func (s *benchWalk) check(ctx context.Context, stories int) error {
	r, err := s.set.Log.Reader(ctx, mayfly.Ends, "bench")
	if err != nil {
		return err
	}
	told, err := r.Lag(ctx)
	if err = errors.Join(err, r.Close()); err == nil && (told < int64(stories) || told > int64(stories+stories/100)) {
		err = fmt.Errorf("%d stories were due, and the log tells of %d", stories, told)
	}
	return err
}
