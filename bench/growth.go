package bench

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/mayflyhq/mayfly"
)

// growthTrial sweeps the same minutes in two data folders, one with few and one
// with many live items, in turns.
type growthTrial struct {
	few, many int // live items
	minutes   int // swept in each; one more falls due while memory is watched
	due       int // stories of one minute
	restarts  int
	load      time.Duration // how long births, reads and a sweep run while memory is watched
}

func growthTrialOf(f benchForm) growthTrial {
	switch f {
	case quickForm:
		return growthTrial{few: 50_000, many: 500_000, minutes: 5, due: 40_000, restarts: 2, load: 3 * time.Second}
	case longForm:
		return growthTrial{few: 1_000_000, many: 50_000_000, minutes: 5, due: 200_000, restarts: 3, load: 30 * time.Second}
	default:
		return growthTrial{few: 1_000_000, many: 10_000_000, minutes: 5, due: 200_000, restarts: 3, load: 30 * time.Second}
	}
}

func (t growthTrial) run(ctx context.Context, b *bench, folder string) error {
	first := mayfly.InstantOf(time.Now()).Minute() + 2
	few := &grown{trial: t, folder: filepath.Join(folder, "few"), live: t.few, first: first}
	many := &grown{trial: t, folder: filepath.Join(folder, "many"), live: t.many, first: first}
	for _, g := range []*grown{few, many} {
		if err := g.load(ctx, b); err != nil {
			return fmt.Errorf("%s items: %w", humanize.Comma(int64(g.live)), err)
		}
	}
	ratios := make([]float64, t.minutes)
	stage := b.progress.Begin("sweep minutes in turns", 2*t.minutes)
	for n := range t.minutes {
		turn := []*grown{few, many}
		if n%2 == 1 {
			slices.Reverse(turn)
		}
		for _, g := range turn {
			if err := g.sweep(ctx, b, n); err != nil {
				return err
			}
			stage.Add(1)
		}
		ratios[n] = many.costs[n] / few.costs[n]
	}
	stage.End()
	b.report.add("growth.sweep_ratio", median(ratios))
	b.report.add("growth.few_items", float64(t.few))
	b.report.add("growth.many_items", float64(t.many))
	b.report.add("growth.few_ns_per_story", median(few.costs))
	b.report.add("growth.many_ns_per_story", median(many.costs))
	if err := t.restart(ctx, b, many); err != nil {
		return err
	}
	b.report.add("growth.bytes_per_item", many.bytesPerItem)
	if err := t.memory(ctx, b, few, many); err != nil {
		return err
	}
	b.report.add("growth.load_per_s", many.loadPerSecond)
	b.addIO("growth", many.io)
	return nil
}

// grown is one data folder. It is open only while it is worked on, so that
// neither has a part in what is measured of the other.
type grown struct {
	trial  growthTrial
	folder string
	live   int
	first  mayfly.Minute // of those that fall due

	costs         []float64 // of sweeping one story, in nanoseconds, by minute
	loadPerSecond float64
	bytesPerItem  float64
	io            benchIO
}

// minute is the n-th minute that falls due. There is one between any two, so
// that the settling of one is over before the next begins.
func (g *grown) minute(n int) mayfly.Minute { return g.first + mayfly.Minute(2*n) }

// open opens the folder for as long as do runs.
func (g *grown) open(ctx context.Context, do func(e *benchEngine) error) error {
	e, err := openBenchEngine(g.folder)
	if err != nil {
		return err
	}
	err = do(e)
	g.io = g.io.plus(e.io())
	return errors.Join(err, e.close(ctx))
}

// load loads the items in the order of their births: those of the minutes that
// will fall due, born a day before, then a day of those that stay alive, most of
// them for a day and some for other lifetimes.
func (g *grown) load(ctx context.Context, b *bench) error {
	t := g.trial
	due := (t.minutes + 1) * t.due
	n := due + g.live
	begin := g.first.Start().Add(-24 * time.Hour)
	window := time.Duration(2*t.minutes+3) * time.Minute
	stage := b.progress.Begin("load "+humanize.Comma(int64(g.live))+" live items", n)
	defer stage.End()
	lifetimes := []mayfly.Lifetime{benchLifetime(24 * time.Hour), benchLifetime(48 * time.Hour), benchLifetime(12 * time.Hour), benchLifetime(6 * time.Hour)}
	return g.open(ctx, func(e *benchEngine) error {
		start := time.Now()
		err := newBenchLoad(e.store.Set, b.seed, n, stage).run(ctx, n, func(i int) (mayfly.Instant, mayfly.Lifetime) {
			if i < due {
				from := g.minute(i / t.due).Start().Add(-24 * time.Hour)
				return spread(from, time.Minute, i%t.due, t.due), lifetimes[0]
			}
			i -= due
			at := spread(begin.Add(window), 24*time.Hour-window, i, g.live)
			lifetime := lifetimes[[10]int{0, 0, 0, 0, 0, 0, 0, 1, 2, 3}[i%10]]
			if at.Add(lifetime.Duration()) < g.first.Start().Add(window) { // it would not be alive
				lifetime = lifetimes[0]
			}
			return at, lifetime
		}, nil)
		if err != nil {
			return err
		}
		g.loadPerSecond = float64(n) / time.Since(start).Seconds()
		if err := e.rest(ctx, b); err != nil {
			return err
		}
		size, err := folderBytes(g.folder)
		g.bytesPerItem = float64(size) / float64(n)
		return err
	})
}

// sweep sweeps the n-th minute.
func (g *grown) sweep(ctx context.Context, b *bench, n int) error {
	return g.open(ctx, func(e *benchEngine) error {
		if err := e.rest(ctx, b); err != nil { // what opening replayed is flushed
			return err
		}
		minute := g.minute(n)
		s, err := newBenchSweeper(e, minute.Start()-1)
		if err != nil {
			return err
		}
		took, err := s.run(ctx, (minute + 1).Start(), 0)
		if err != nil {
			return err
		}
		g.costs = append(g.costs, float64(took.Nanoseconds())/float64(g.trial.due))
		return s.check(ctx, (n+1)*g.trial.due)
	})
}

// folderBytes is what the files of a folder take.
func folderBytes(folder string) (sum int64, err error) {
	err = filepath.WalkDir(folder, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) { // a table that has just been compacted away
			return nil
		}
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	return sum, err
}
