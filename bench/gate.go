package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/mayflyhq/mayfly"
)

// gateTrial measures one Open of each case in a loop, on one goroutine.
type gateTrial struct {
	live   int           // live stories, more than the gate caches
	cached int           // of them are asked for again and again
	ended  int           // stories past their deadline
	lasts  time.Duration // of one measurement
	bloom  int           // ids in the Bloom filter that the gate is compared with
}

func gateTrialOf(f benchForm) gateTrial {
	if f == quickForm {
		return gateTrial{live: 200_000, cached: 4_096, ended: 4_096, lasts: 2 * time.Second, bloom: 10_000_000}
	}
	return gateTrial{live: 1_000_000, cached: 4_096, ended: 4_096, lasts: 10 * time.Second, bloom: 10_000_000}
}

func (t gateTrial) run(ctx context.Context, b *bench, folder string) (err error) {
	e, err := openBenchEngine(folder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.close(ctx)) }()
	now := mayfly.InstantOf(time.Now())
	ended, live, err := t.load(ctx, b, e, now)
	if err != nil {
		return err
	}
	if err := e.start(ctx, now, nil); err != nil {
		return err
	}
	if err := e.rest(ctx, b); err != nil {
		return err
	}
	for _, one := range t.cases(ctx, b, e, ended, live, now) {
		var cost benchCost
		if err := b.progress.Timed(ctx, one.figure, t.lasts, func(ctx context.Context) (err error) {
			cost, err = measure(ctx, t.lasts, one.ask)
			return err
		}); err != nil {
			return fmt.Errorf("%s: %w", one.figure, err)
		}
		b.report.add(one.figure, cost.ns)
		if one.allocs != "" {
			b.report.add(one.allocs, cost.allocs)
		}
	}
	if err := t.compare(ctx, b, e, now); err != nil {
		return fmt.Errorf("compare with a Bloom filter: %w", err)
	}
	b.addIO("gate", e.io())
	return nil
}

// compare asks the gate and a Bloom filter for the same expired ids, by turns. The
// ids come from all over the filter, as those of readers would.
func (t gateTrial) compare(ctx context.Context, b *bench, e *benchEngine, now mayfly.Instant) error {
	filter, ids, viewer, err := t.fill(b, now)
	if err != nil {
		return err
	}
	g := e.node.Gate()
	var ours, bloom []float64
	lasts := t.lasts / baselineTurns
	err = b.progress.Timed(ctx, "gate and Bloom filter by turns", 2*t.lasts, func(ctx context.Context) error {
		for range baselineTurns {
			gate, err := measure(ctx, lasts, func(n int) error {
				if _, err := g.Open(ctx, ids[n%len(ids)], viewer, now); err != mayfly.Gone {
					return fmt.Errorf("an expired id answered %v", err)
				}
				return nil
			})
			if err != nil {
				return err
			}
			lookup, err := measure(ctx, lasts, func(n int) error {
				if !filter.has(ids[n%len(ids)]) {
					return errors.New("an id of the Bloom filter was not found")
				}
				return nil
			})
			if err != nil {
				return err
			}
			ours, bloom = append(ours, gate.ns), append(bloom, lookup.ns)
		}
		return nil
	})
	if err != nil {
		return err
	}
	b.report.add("gate.ratio_bloom", medianRatio(ours, bloom))
	b.report.add("gate.bloom_ns", median(bloom))
	return nil
}

// fill returns a Bloom filter of expired ids, up to a million of them spread over
// it, and a viewer who wrote none of these.
func (t gateTrial) fill(b *bench, now mayfly.Instant) (filter *bloomFilter, ids []mayfly.ID, viewer mayfly.Viewer, err error) {
	stage := b.progress.Begin("fill a Bloom filter", t.bloom)
	defer stage.End()
	r := rand.New(rand.NewPCG(b.seed, 2))
	filter, viewer = newBloomFilter(t.bloom, 0.001), mayfly.ViewerOf(newBenchOwner(r).user)
	day, every := benchLifetime(24*time.Hour), max(1, t.bloom/1_000_000)
	for n := range t.bloom {
		at := spread(now.Add(-48*time.Hour), 23*time.Hour, n, t.bloom)
		id, err := mayfly.NewID(at, day, mayfly.Trace(r.Uint64())&mayfly.TraceMax, r.Uint64())
		if err != nil {
			return nil, nil, viewer, err
		}
		filter.add(id)
		if n%every == 0 && !viewer.MayHaveWritten(id) {
			ids = append(ids, id)
		}
	}
	stage.Add(t.bloom)
	return filter, ids, viewer, nil
}

// load loads stories that ended an hour ago and live ones.
func (t gateTrial) load(ctx context.Context, b *bench, e *benchEngine, now mayfly.Instant) (ended, live []mayfly.Item, err error) {
	n := t.ended + t.live
	stage := b.progress.Begin("load stories", n)
	defer stage.End()
	day := benchLifetime(24 * time.Hour)
	items := make([]mayfly.Item, n)
	err = newBenchLoad(e.store.Set, b.seed, n, stage).run(ctx, n, func(i int) (mayfly.Instant, mayfly.Lifetime) {
		if i < t.ended { // born first
			return now.Add(-25 * time.Hour), day
		}
		return spread(now.Add(-23*time.Hour), 22*time.Hour, i, n), day
	}, func(i int, item mayfly.Item) { items[i] = item })
	return items[:t.ended], items[t.ended:], err
}

// gateCase is a call of the gate that is measured.
type gateCase struct {
	figure, allocs string
	ask            func(n int) error
}

func (t gateTrial) cases(ctx context.Context, b *bench, e *benchEngine, ended, live []mayfly.Item, now mayfly.Instant) []gateCase {
	r := rand.New(rand.NewPCG(b.seed, 1))
	viewer := mayfly.ViewerOf(newBenchOwner(r).user)
	g := e.node.Gate()
	var others []mayfly.ID // expired ones that the viewer cannot have written
	authors := make([]mayfly.Viewer, len(ended))
	for i, item := range ended {
		authors[i] = mayfly.ViewerOf(item.Owner)
		if !viewer.MayHaveWritten(item.ID) {
			others = append(others, item.ID)
		}
	}
	cached, shuffled := live[:t.cached], r.Perm(len(live))
	open := func(id mayfly.ID, viewer mayfly.Viewer) error {
		_, err := g.Open(ctx, id, viewer, now)
		return err
	}
	return []gateCase{
		{"gate.expired_ns", "gate.expired_allocs", func(n int) error {
			if err := open(others[n%len(others)], viewer); err != mayfly.Gone {
				return fmt.Errorf("an expired id answered %v", err)
			}
			return nil
		}},
		{"gate.live_ns", "gate.live_allocs", func(n int) error { return open(cached[n%len(cached)].ID, viewer) }},
		{"gate.uncached_ns", "", func(n int) error { return open(live[shuffled[n%len(shuffled)]].ID, viewer) }},
		{"gate.author_ns", "", func(n int) error { return open(ended[n%len(ended)].ID, authors[n%len(ended)]) }},
	}
}

// benchCost is what one call costs.
type benchCost struct{ ns, allocs float64 }

// measure calls ask over and over for about as long as lasts, after a tenth of
// that unmeasured. A call's time is that of the median thousand, so that what
// else the machine does in between is left out. Allocations are counted for the
// process and cut to a whole number a call, as Go's own benchmarks do it.
func measure(ctx context.Context, lasts time.Duration, ask func(n int) error) (benchCost, error) {
	const thousand = 1_000 // so that the clock is not what is measured
	n := 0
	loop := func(lasts time.Duration) (*hdrhistogram.Histogram, error) {
		times := newLatencies()
		for start := time.Now(); time.Since(start) < lasts && ctx.Err() == nil; {
			begun := time.Now()
			for range thousand {
				if err := ask(n); err != nil {
					return times, err
				}
				n++
			}
			if err := times.RecordValue(time.Since(begun).Nanoseconds()); err != nil {
				return times, err
			}
		}
		return times, ctx.Err()
	}
	if _, err := loop(lasts / 10); err != nil {
		return benchCost{}, err
	}
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	times, err := loop(lasts)
	runtime.ReadMemStats(&after)
	return benchCost{
		ns:     float64(times.ValueAtQuantile(50)) / thousand,
		allocs: float64((after.Mallocs - before.Mallocs) / uint64(thousand*times.TotalCount())),
	}, err
}
