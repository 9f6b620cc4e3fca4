package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize"
	"golang.org/x/sync/errgroup"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store/loop"
)

// restart measures how long it takes from nothing to the first answer: open the
// folder, start the node, read a story. The stop before it leaves what a crash
// leaves: the store flushes nothing when it is closed.
func (t growthTrial) restart(ctx context.Context, b *bench, g *grown) error {
	stage := b.progress.Begin("restart", t.restarts)
	defer stage.End()
	var slowest time.Duration
	for range t.restarts {
		start := time.Now()
		err := g.open(ctx, func(e *benchEngine) error {
			if err := e.start(ctx, g.left().Start()-1, nil); err != nil {
				return err
			}
			id, err := mayfly.NewID(e.now(), benchLifetime(time.Hour), 0, 1)
			if err != nil {
				return err
			}
			if _, err := e.node.Gate().Open(ctx, id, mayfly.Viewer{}, e.now()); !errors.Is(err, mayfly.NotFound) {
				return fmt.Errorf("a story that never was: %w", err)
			}
			slowest = max(slowest, time.Since(start))
			return nil
		})
		if err != nil {
			return fmt.Errorf("restart: %w", err)
		}
		stage.Add(1)
	}
	b.report.add("growth.restart_s", slowest.Seconds())
	return nil
}

// left is the minute that was not swept in turns.
func (g *grown) left() mayfly.Minute { return g.minute(g.trial.minutes) }

// memory watches the resident set, first with few items, then with many, while
// a node on each is given births, reads all over its items, and a minute to sweep.
func (t growthTrial) memory(ctx context.Context, b *bench, few, many *grown) error {
	for _, m := range []struct {
		figure string
		grown  *grown
	}{{"growth.rss_few_mib", few}, {"growth.rss_mib", many}} {
		debug.FreeOSMemory() // what the loading took is no part of it
		var most int64
		what := "births, reads and sweep with " + humanize.Comma(int64(m.grown.live))
		err := b.progress.Timed(ctx, what, t.load, func(ctx context.Context) error {
			return m.grown.open(ctx, func(e *benchEngine) (err error) {
				if err := e.start(ctx, (m.grown.left() + 1).Start(), nil); err != nil { // all of it is due
					return err
				}
				most, err = watchMemory(ctx, t.load, func(ctx context.Context, stop time.Time) error { return t.strain(ctx, b, e, stop) })
				return err
			})
		})
		if err != nil {
			return fmt.Errorf("memory: %w", err)
		}
		b.report.add(m.figure, float64(most)/(1<<20))
	}
	return nil
}

// strain gives the node work until stop.
func (t growthTrial) strain(ctx context.Context, b *bench, e *benchEngine, stop time.Time) error {
	g, ctx := errgroup.WithContext(ctx)
	for n := range 8 {
		w := newBirthWriter(e, birthKind{media: n%2 == 0}, b.seed, n)
		g.Go(func() error { return w.run(ctx, newLatencies(), stop, stop) })
	}
	for n := range 4 {
		r := rand.New(rand.NewPCG(b.seed, uint64(n)))
		g.Go(func() error {
			for time.Now().Before(stop) { // ids that may have been: a lookup anywhere in the ledger
				at := e.now().Add(-time.Duration(r.Int64N(int64(20 * time.Hour))))
				id, err := mayfly.NewID(at, benchLifetime(24*time.Hour), 0, r.Uint64())
				if err != nil {
					return err
				}
				if _, err := e.node.Gate().Open(ctx, id, mayfly.Viewer{}, e.now()); err != nil && !errors.Is(err, mayfly.NotFound) {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// watchMemory returns the largest resident set while do runs.
func watchMemory(ctx context.Context, lasts time.Duration, do func(ctx context.Context, stop time.Time) error) (int64, error) {
	var most atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	stop := time.Now().Add(lasts)
	g.Go(func() error { return do(ctx, stop) })
	g.Go(func() error {
		for time.Now().Before(stop) && ctx.Err() == nil {
			now, err := residentBytes()
			if err != nil {
				return err
			}
			most.Store(max(most.Load(), now))
			if err := loop.Rest(ctx, 50*time.Millisecond); err != nil {
				return err
			}
		}
		return nil
	})
	err := g.Wait()
	return most.Load(), err
}
