package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/engine/sweep"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// sweepTrial sweeps minutes that are over, as fast as it goes, in turns with bare
// Pebble batches and with the drain of a sorted set of Redis.
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
	minutes := benchMinutes()
	t.stories -= t.stories % len(minutes)
	if err := loadMinutes(ctx, b, e, minutes, t.stories/len(minutes), false); err != nil {
		return err
	}
	peer, err := startRedis(ctx, filepath.Join(folder, "redis"), "always")
	if err != nil {
		if err := b.withoutPeer(ctx, "sweep.ratio_redis is", err); err != nil {
			return err
		}
	} else {
		defer func() { err = errors.Join(err, peer.stop()) }()
	}
	r, err := t.turns(ctx, b, e, minutes, baselines{folder: filepath.Join(folder, "bare"), redis: peer})
	if err != nil {
		return err
	}
	b.report.add("sweep.stories_per_s", float64(t.stories)/r.took.Seconds())
	b.report.add("sweep.ratio_bare", medianRatio(r.ours, r.bare))
	if peer != nil {
		b.report.add("sweep.ratio_redis", medianRatio(r.ours, r.redis))
		b.report.add("sweep.redis_per_s", median(r.redis))
	}
	b.report.add("sweep.stories", float64(t.stories))
	b.report.add("sweep.bytes_per_story", float64(r.io.bytes)/float64(t.stories))
	b.report.add("sweep.allocs_per_story", float64(r.allocs)/float64(t.stories))
	b.addIO("sweep", r.io)
	return nil
}

// baselines are what the sweep is compared with.
type baselines struct {
	folder string     // of bare Pebble
	redis  *redisPeer // nil if there is none
}

// sweepResult is the sum of all turns of the sweep, and the rates of each turn.
type sweepResult struct {
	took              time.Duration
	io                benchIO
	allocs            uint64
	ours, bare, redis []float64 // stories a second
}

// turns sweeps one minute after the other, each followed by the baselines.
func (t sweepTrial) turns(ctx context.Context, b *bench, e *benchEngine, minutes []mayfly.Minute, with baselines) (r sweepResult, err error) {
	s, err := newBenchSweeper(e, minutes[0].Start()-1)
	if err != nil {
		return r, err
	}
	stage := b.progress.Begin("sweep stories, and baselines by turns", t.stories)
	defer stage.End()
	each := t.stories / len(minutes)
	for n, minute := range minutes {
		if err := e.rest(ctx, b); err != nil {
			return r, err
		}
		before, synced, allocs := e.io(), syncedIO(e.store.Meter), mallocs()
		took, err := s.run(ctx, (minute + 1).Start(), 0)
		if err != nil {
			return r, err
		}
		r.allocs += mallocs() - allocs
		r.took, r.io = r.took+took, r.io.plus(e.io().since(before))
		r.ours = append(r.ours, float64(each)/took.Seconds())
		bytes := int(syncedIO(e.store.Meter).since(synced).bytes) / each
		rate, err := barePebble(ctx, filepath.Join(with.folder, strconv.Itoa(n)), each, mayfly.Shards, bytes)
		if err != nil {
			return r, fmt.Errorf("bare Pebble: %w", err)
		}
		r.bare = append(r.bare, rate)
		if with.redis != nil {
			if rate, err = (redisDrain{peer: with.redis, stories: each / 4, event: string(opaque(3, bytes/2))}).run(ctx); err != nil {
				return r, err
			}
			r.redis = append(r.redis, rate)
		}
		stage.Add(each)
	}
	return r, s.check(ctx, t.stories)
}

func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

// benchMinutes returns the minutes that fall due in the turns of a trial. There is
// one between any two, so that the settling of one is over before the next begins.
func benchMinutes() []mayfly.Minute {
	first := mayfly.InstantOf(time.Now()).Minute() + 1
	minutes := make([]mayfly.Minute, baselineTurns)
	for n := range minutes {
		minutes[n] = first + mayfly.Minute(2*n)
	}
	return minutes
}

// loadMinutes loads stories whose deadlines fall into the minutes, as many into each.
func loadMinutes(ctx context.Context, b *bench, e *benchEngine, minutes []mayfly.Minute, each int, media bool) error {
	n := each * len(minutes)
	stage := b.progress.Begin("load stories of "+strconv.Itoa(len(minutes))+" minutes", n)
	defer stage.End()
	day := benchLifetime(24 * time.Hour)
	load := newBenchLoad(e.store.Set, b.seed, n, stage)
	load.media = media
	return load.run(ctx, n, func(i int) (mayfly.Instant, mayfly.Lifetime) {
		return spread(minutes[i/each].Start().Add(-24*time.Hour), time.Minute, i%each, each), day
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

// run processes all that is due up to end, at the instant end + offset, and returns
// the time from there to the durable watermark. Items younger than the settling
// time are visited twice, as in a node; only the wait for it is left out.
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

// check returns an error unless the log has an event for each story. A few events
// come twice, where one pass ended and the next began within a millisecond.
func (s *benchWalk) check(ctx context.Context, stories int) error {
	r, err := s.set.Log.Reader(ctx, mayfly.Ends, "bench")
	if err != nil {
		return err
	}
	events, err := r.Lag(ctx)
	if err = errors.Join(err, r.Close()); err == nil && (events < int64(stories) || events > int64(stories+stories/100)) {
		err = fmt.Errorf("%d stories were due, and the log has %d events", stories, events)
	}
	return err
}
