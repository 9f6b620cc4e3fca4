package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/engine/archive"
	"github.com/mayflyhq/mayfly/engine/sweep"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store/loop"
)

// readsTrial reads at a fixed rate, in pairs of rounds: one at rest, one while a
// window of stories falls due and the node's own walkers sweep it at their pace.
// The first pairs have a third round, in which other stories, whose safety window
// is over, are archived beside the sweep.
type readsTrial struct {
	pairs     int
	archived  int           // so many pairs have the third round
	moveEach  int           // stories due a second for the archive, with a medium each
	round     time.Duration // what is measured of each
	warm      time.Duration // before it: the sweep has come into its pace
	dueEach   int           // stories due a second
	live      int
	ended     int // stories whose authors look at them
	perSecond float64
	settle    time.Duration // of the walks
	cadence   time.Duration // of the walks; the product's own if 0
}

func readsTrialOf(f benchForm) readsTrial {
	t := readsTrial{pairs: 5, archived: 3, moveEach: 5_800, dueEach: 20_000, live: 1_000_000, ended: 50_000, perSecond: 20_000}
	t.round, t.warm, t.settle = time.Minute, 2*time.Second, 15*time.Second
	if f == quickForm {
		// A settling time that fits the round: the second look is in it, too.
		t.round, t.warm, t.settle = 1500*time.Millisecond, time.Second, time.Second
		t.live, t.ended, t.archived = 150_000, 10_000, 2
	}
	return t
}

func (t readsTrial) window() time.Duration { return t.warm + t.round }

// windows is how many windows of stories fall due: one for each pair, and then
// one for each third round.
func (t readsTrial) windows() int { return t.pairs + t.archived }

// from is when the n-th window begins to fall due: that of the third round of a
// pair comes right behind the pair's own.
func (t readsTrial) from(base mayfly.Instant, n int) mayfly.Instant {
	return base.Add(time.Duration(n) * t.between())
}

// between is how far apart windows lie: far enough for a round at rest, and by
// less than a step of the clock that would be in doubt.
func (t readsTrial) between() time.Duration { return t.window() + t.settle + 4*time.Minute }

// begin is what the clock shows at first: long enough before the first window
// for the round at rest that comes before it.
func (t readsTrial) begin(base mayfly.Instant) mayfly.Instant {
	return base.Add(-t.window() - t.settle - time.Minute)
}

func (t readsTrial) run(ctx context.Context, b *bench, folder string) (err error) {
	e, err := openBenchEngine(folder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.close(ctx)) }()
	base := mayfly.InstantOf(time.Now()).Add(time.Hour)
	readers, err := t.load(ctx, b, e, base)
	if err != nil {
		return err
	}
	if err := t.loadArchived(ctx, b, e, base); err != nil {
		return err
	}
	var trouble problems
	if err := e.start(ctx, t.begin(base), func(o *node.Options) {
		o.Walk.Settle, o.Problem = t.settle, trouble.report
		// A round is too short for the archive to come so late that it keeps up.
		o.ArchiveLateness = t.warm
		if t.cadence != 0 {
			o.Cadence = t.cadence
		}
	}); err != nil {
		return err
	}
	if err := t.quiet(ctx, b, e, t.begin(base)); err != nil {
		return err
	}
	rounds, err := t.rounds(ctx, b, e, readers, base)
	if err = errors.Join(err, trouble.err()); err != nil {
		return err
	}
	t.report(b, rounds)
	return nil
}

// readsRounds holds the measurements of the rounds.
type readsRounds struct {
	idle, swept, archived []*hdrhistogram.Histogram
	stories               uint64 // swept in the swept rounds and their warm-up
	moved                 uint64 // archived in the third rounds and their warm-up
	lag                   time.Duration
	io                    benchIO
}

func (t readsTrial) rounds(ctx context.Context, b *bench, e *benchEngine, readers *readersOf, base mayfly.Instant) (*readsRounds, error) {
	var r readsRounds
	window := 0
	for pair := range t.pairs {
		a := arrivals{perSecond: t.perSecond, askers: readers.askers, seed: b.seed + uint64(pair)}
		ask := func(what string, warm time.Duration) (*hdrhistogram.Histogram, error) {
			return t.measure(ctx, b, e, a, readers, fmt.Sprintf("pair %d, %s", pair+1, what), warm)
		}
		idle, err := ask("at rest", t.warm/4)
		if err != nil {
			return nil, err
		}
		before, io := doneBy(e, sweep.Name), e.io()
		swept, err := t.due(ctx, b, e, t.from(base, window), func() (*hdrhistogram.Histogram, error) { return ask("swept", t.warm) })
		if err != nil {
			return nil, err
		}
		window++
		r.idle, r.swept = append(r.idle, idle), append(r.swept, swept)
		r.stories += doneBy(e, sweep.Name) - before
		r.io = r.io.plus(e.io().since(io))
		r.lag = max(r.lag, lagOf(e))
		if pair >= t.archived {
			continue
		}
		before = doneBy(e, archive.Name)
		archived, err := t.due(ctx, b, e, t.from(base, window), func() (*hdrhistogram.Histogram, error) {
			defer func() { r.moved += doneBy(e, archive.Name) - before }()
			return ask("swept and archived", t.warm)
		})
		if err != nil {
			return nil, err
		}
		window++
		r.archived = append(r.archived, archived)
	}
	return &r, nil
}

// due lets a window fall due, measures meanwhile, and waits until it is over.
func (t readsTrial) due(ctx context.Context, b *bench, e *benchEngine, from mayfly.Instant, measure func() (*hdrhistogram.Histogram, error)) (*hdrhistogram.Histogram, error) {
	if e.now() > from {
		return nil, errors.New("a round took so long that the next window fell due in it: the machine is too busy")
	}
	e.clock.set(from)
	h, err := measure()
	if err != nil {
		return nil, err
	}
	return h, t.quiet(ctx, b, e, from.Add(t.window()))
}

func (t readsTrial) measure(ctx context.Context, b *bench, e *benchEngine, a arrivals, readers *readersOf, what string, warm time.Duration) (h *hdrhistogram.Histogram, err error) {
	runtime.GC() // what came before is no part of it
	err = b.progress.Timed(ctx, what, warm+t.round, func(ctx context.Context) error {
		h, err = a.run(ctx, warm, t.round, func(asker, _ int) error { return readers.ask(ctx, e, asker) })
		return err
	})
	return h, err
}

// quiet waits until the walkers have passed until for good and what they wrote
// is compacted, so that nothing of it reaches into a round at rest.
func (t readsTrial) quiet(ctx context.Context, b *bench, e *benchEngine, until mayfly.Instant) error {
	e.clock.set(max(e.now(), until.Add(t.settle+time.Second))) // spares the wait for the settling
	behind := func(name string, until mayfly.Instant) bool {
		return slices.ContainsFunc(e.node.Progress(name), func(p walk.Progress) bool { return p.Watermark < until })
	}
	for start := time.Now(); ; {
		if !behind(sweep.Name, until) && !behind(archive.Name, until.Add(-e.config.Ends.ArchiveAfter)) {
			return e.rest(ctx, b)
		}
		if time.Since(start) > 2*time.Minute {
			return errors.New("the walks do not come to rest: the machine is too busy")
		}
		if err := loop.Rest(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// doneBy is how many items a walk has acted on.
func doneBy(e *benchEngine, name string) (n uint64) {
	for _, p := range e.node.Progress(name) {
		n += p.Done
	}
	return n
}

func lagOf(e *benchEngine) (lag time.Duration) {
	for _, p := range e.node.Progress(sweep.Name) {
		lag = max(lag, p.Lag)
	}
	return lag
}

func (t readsTrial) report(b *bench, r *readsRounds) {
	at := func(all []*hdrhistogram.Histogram, q float64) (values []float64) {
		for _, h := range all {
			values = append(values, float64(h.ValueAtQuantile(q))/1e3)
		}
		return values
	}
	idle, swept := at(r.idle, 99), at(r.swept, 99)
	ratios := make([]float64, len(idle))
	for i := range idle {
		ratios[i] = swept[i] / idle[i]
	}
	b.report.add("reads.p99_ratio", median(ratios))
	b.report.add("reads.per_s", t.perSecond)
	b.report.add("reads.idle_p50_us", median(at(r.idle, 50)))
	b.report.add("reads.idle_p99_us", median(idle))
	b.report.add("reads.swept_p50_us", median(at(r.swept, 50)))
	b.report.add("reads.swept_p99_us", median(swept))
	b.report.add("reads.swept_per_s", float64(r.stories)/(time.Duration(t.pairs)*t.window()).Seconds())
	b.report.add("reads.lag_s", r.lag.Seconds())
	t.reportArchived(b, at(r.archived, 99), idle, r)
	b.addIO("reads", r.io)
}

// reportArchived reports the third rounds, each against the round at rest of its pair.
func (t readsTrial) reportArchived(b *bench, archived, idle []float64, r *readsRounds) {
	ratios := make([]float64, len(archived))
	for i := range archived {
		ratios[i] = archived[i] / idle[i]
	}
	b.report.add("reads.archive_p99_ratio", median(ratios))
	b.report.add("reads.archived_p99_us", median(archived))
	b.report.add("reads.archived_per_s", float64(r.moved)/(time.Duration(t.archived)*t.window()).Seconds())
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 0 {
		return (sorted[middle-1] + sorted[middle]) / 2
	}
	return sorted[middle]
}
