package cli

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/node"
	"github.com/mayflyhq/mayfly/sweep"
	"github.com/mayflyhq/mayfly/walk"
)

// readsTrial asks at a fixed rate, in pairs of rounds: one at rest, one while a
// window of stories falls due and the node's own walkers sweep it at their pace.
type readsTrial struct {
	pairs     int
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
	t := readsTrial{pairs: 5, dueEach: 20_000, live: 1_000_000, ended: 50_000, perSecond: 20_000}
	t.round, t.warm, t.settle = time.Minute, 2*time.Second, 15*time.Second
	if f == quickForm {
		// A settling time that fits the round: the second look is in it, too.
		t.round, t.warm, t.settle = 1500*time.Millisecond, time.Second, time.Second
		t.live, t.ended = 150_000, 10_000
	}
	return t
}

func (t readsTrial) window() time.Duration { return t.warm + t.round }

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
	var trouble problems
	if err := e.start(ctx, t.begin(base), func(o *node.Options) {
		o.Walk.Settle, o.Problem = t.settle, trouble.tell
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
	t.tell(b, rounds)
	return nil
}

// readsRounds is what the rounds have shown.
type readsRounds struct {
	idle, swept []*hdrhistogram.Histogram
	stories     uint64 // swept in the measured rounds and their warm-up
	lag         time.Duration
	io          benchIO
}

func (t readsTrial) rounds(ctx context.Context, b *bench, e *benchEngine, readers *readersOf, base mayfly.Instant) (*readsRounds, error) {
	var r readsRounds
	for pair := range t.pairs {
		a := arrivals{perSecond: t.perSecond, askers: readers.askers, seed: b.seed + uint64(pair)}
		idle, err := t.measure(ctx, b, e, a, readers, fmt.Sprintf("pair %d, at rest", pair+1), t.warm/4)
		if err != nil {
			return nil, err
		}
		from := base.Add(time.Duration(pair) * t.between())
		if e.now() > from {
			return nil, errors.New("a round at rest took so long that the next window fell due in it: the machine is too busy")
		}
		e.hands.set(from) // the window begins to fall due
		before, io := sweptBy(e), e.io()
		swept, err := t.measure(ctx, b, e, a, readers, fmt.Sprintf("pair %d, swept", pair+1), t.warm)
		if err != nil {
			return nil, err
		}
		r.idle, r.swept = append(r.idle, idle), append(r.swept, swept)
		r.stories += sweptBy(e) - before
		r.io = r.io.plus(e.io().since(io))
		r.lag = max(r.lag, lagOf(e))
		if err := t.quiet(ctx, b, e, from.Add(t.window())); err != nil {
			return nil, err
		}
	}
	return &r, nil
}

func (t readsTrial) measure(ctx context.Context, b *bench, e *benchEngine, a arrivals, readers *readersOf, what string, warm time.Duration) (h *hdrhistogram.Histogram, err error) {
	runtime.GC() // what came before is no part of it
	err = b.stages.timed(ctx, what, warm+t.round, func(ctx context.Context) error {
		h, err = a.run(ctx, warm, t.round, func(asker, _ int) error { return readers.ask(ctx, e, asker) })
		return err
	})
	return h, err
}

// quiet waits until the walkers have passed until for good and what they wrote
// is compacted, so that nothing of it reaches into a round at rest.
func (t readsTrial) quiet(ctx context.Context, b *bench, e *benchEngine, until mayfly.Instant) error {
	e.hands.set(max(e.now(), until.Add(t.settle+time.Second))) // spares the wait for the settling
	for start := time.Now(); ; {
		behind := slices.ContainsFunc(e.node.Progress(sweep.Name), func(p walk.Progress) bool { return p.Watermark < until })
		if !behind {
			return e.rest(ctx, b)
		}
		if time.Since(start) > 2*time.Minute {
			return errors.New("the sweep does not come to rest: the machine is too busy")
		}
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

func sweptBy(e *benchEngine) (n uint64) {
	for _, p := range e.node.Progress(sweep.Name) {
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

func (t readsTrial) tell(b *bench, r *readsRounds) {
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
	b.addIO("reads", r.io)
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 0 {
		return (sorted[middle-1] + sorted[middle]) / 2
	}
	return sorted[middle]
}
