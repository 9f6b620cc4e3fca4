package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/engine/archive"
	"github.com/mayflyhq/mayfly/engine/sweep"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// archiveTrial archives minutes whose safety window is over, as fast as it
// goes: every medium is copied to cold, read back from there, named in its row
// and deleted from hot. Bare writes of as many bytes with as many syncs run in
// turns with it.
type archiveTrial struct{ stories int }

func archiveTrialOf(f benchForm) archiveTrial {
	if f == quickForm {
		return archiveTrial{stories: 60_000}
	}
	return archiveTrial{stories: 350_000} // a minute of the average load
}

func (t archiveTrial) run(ctx context.Context, b *bench, folder string) (err error) {
	e, err := openBenchEngine(folder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.close(ctx)) }()
	minutes := benchMinutes()
	if err := loadMinutes(ctx, b, e, minutes, t.stories/len(minutes), true); err != nil {
		return err
	}
	archiving, o, err := t.sweep(ctx, e, minutes)
	if err != nil {
		return err
	}
	stage := b.progress.Begin("archive stories, and bare writes by turns", t.stories)
	defer stage.End()
	var took time.Duration
	var io benchIO
	var ours, bare []float64
	each := t.stories / len(minutes)
	for _, minute := range minutes {
		if err := e.rest(ctx, b); err != nil {
			return err
		}
		before, synced := e.io(), syncedIO(e.store.Meter)
		turn, err := archiving.run(ctx, (minute + 1).Start(), o.Window)
		if err != nil {
			return err
		}
		took, io = took+turn, io.plus(e.io().since(before))
		writes := newBareWrites(mayfly.Shards*o.Workers, syncedIO(e.store.Meter).since(synced), int64(each))
		rate, err := writes.run(ctx, filepath.Join(folder, "bare"), func(written int64) bool { return written < int64(each) })
		if err != nil {
			return fmt.Errorf("bare writes: %w", err)
		}
		ours, bare = append(ours, float64(each)/turn.Seconds()), append(bare, rate)
		stage.Add(each)
	}
	t.stories = each * len(minutes)
	if err := t.check(ctx, e.store.Set); err != nil {
		return err
	}
	stories := float64(t.stories)
	b.report.add("archive.stories_per_s", stories/took.Seconds())
	b.report.add("archive.ratio_bare", medianRatio(ours, bare))
	b.report.add("archive.stories", stories)
	b.report.add("archive.bytes_per_story", float64(io.bytes)/stories)
	b.report.add("archive.stories_per_fsync", stories/float64(io.fsyncs))
	b.addIO("archive", io)
	return nil
}

// sweep expires the minutes, and returns the archive that comes next, on the
// shards of the same process.
func (t archiveTrial) sweep(ctx context.Context, e *benchEngine, minutes []mayfly.Minute) (*benchWalk, archive.Options, error) {
	o := node.FromConfig(e.config)
	shards := newBenchShards(e, minutes[0].Start()-1)
	s, err := sweep.New(e.store.Set, o.Sweep)
	if err != nil {
		return nil, o.Archive, err
	}
	sweeping, err := newBenchWalk(e, s.Walk(), shards)
	if err != nil {
		return nil, o.Archive, err
	}
	if _, err := sweeping.run(ctx, (minutes[len(minutes)-1] + 1).Start(), 0); err != nil {
		return nil, o.Archive, err
	}
	a, err := archive.New(e.store.Set, o.Archive)
	if err != nil {
		return nil, o.Archive, err
	}
	archiving, err := newBenchWalk(e, a.Walk(), shards, func(w *walk.Options) { w.Timeout = time.Minute })
	return archiving, o.Archive, err
}

// check returns an error unless every medium is in the cold tier and none in the hot one.
func (t archiveTrial) check(ctx context.Context, set store.Set) error {
	hot, err := set.Hot.List(ctx, "", "", 1)
	if err != nil {
		return err
	}
	cold, err := set.Cold.List(ctx, "", "", 2*t.stories)
	if err == nil && (len(hot) > 0 || len(cold) != t.stories) {
		err = fmt.Errorf("of %d media %d are cold, and %d or more are still hot", t.stories, len(cold), len(hot))
	}
	return err
}
