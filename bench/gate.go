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

// gateTrial measures one Open of each sort in a loop, on one goroutine.
type gateTrial struct {
	live   int           // live stories, more than the gate caches
	cached int           // of them are asked for again and again
	ended  int           // stories past their deadline
	lasts  time.Duration // of one measurement
}

func gateTrialOf(f benchForm) gateTrial {
	if f == quickForm {
		return gateTrial{live: 200_000, cached: 4_096, ended: 4_096, lasts: 2 * time.Second}
	}
	return gateTrial{live: 1_000_000, cached: 4_096, ended: 4_096, lasts: 10 * time.Second}
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
	for _, sort := range t.sorts(ctx, b, e, ended, live, now) {
		var cost benchCost
		if err := b.progress.Timed(ctx, sort.figure, t.lasts, func(ctx context.Context) (err error) {
			cost, err = measure(ctx, t.lasts, sort.ask)
			return err
		}); err != nil {
			return fmt.Errorf("%s: %w", sort.figure, err)
		}
		b.report.add(sort.figure, cost.ns)
		if sort.allocs != "" {
			b.report.add(sort.allocs, cost.allocs)
		}
	}
	b.addIO("gate", e.io())
	return nil
}

// load loads what has ended an hour ago and what is live.
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

// gateSort is one sort of question.
type gateSort struct {
	figure, allocs string
	ask            func(n int) error
}

func (t gateTrial) sorts(ctx context.Context, b *bench, e *benchEngine, ended, live []mayfly.Item, now mayfly.Instant) []gateSort {
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
	return []gateSort{
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
