package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/engine/archive"
	"github.com/mayflyhq/mayfly/engine/sweep"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// archiveTrial archives one minute whose safety window is over, as fast as it
// goes: every medium is copied to cold, read back from there, named in its row
// and deleted from hot.
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
	minute := mayfly.InstantOf(time.Now()).Minute() + 1
	if err := loadMinute(ctx, b, e, minute, t.stories, true); err != nil {
		return err
	}
	archiving, o, err := t.sweep(ctx, e, minute)
	if err != nil {
		return err
	}
	if err := e.rest(ctx, b); err != nil {
		return err
	}
	stage := b.progress.Begin("archive stories", t.stories)
	defer stage.End()
	before := e.io()
	took, err := archiving.run(ctx, (minute + 1).Start(), o.Window)
	if err != nil {
		return err
	}
	io := e.io().since(before)
	stage.Add(t.stories)
	if err := t.check(ctx, e.store.Set); err != nil {
		return err
	}
	stories := float64(t.stories)
	b.report.add("archive.stories_per_s", stories/took.Seconds())
	b.report.add("archive.stories", stories)
	b.report.add("archive.bytes_per_story", float64(io.bytes)/stories)
	b.report.add("archive.stories_per_fsync", stories/float64(io.fsyncs))
	b.addIO("archive", io)
	return nil
}

// sweep expires the minute, and answers with the archive that comes next, on the
// shards of the same process.
func (t archiveTrial) sweep(ctx context.Context, e *benchEngine, minute mayfly.Minute) (*benchWalk, archive.Options, error) {
	o := node.FromConfig(e.config)
	shards := newBenchShards(e, minute.Start()-1)
	s, err := sweep.New(e.store.Set, o.Sweep)
	if err != nil {
		return nil, o.Archive, err
	}
	sweeping, err := newBenchWalk(e, s.Walk(), shards)
	if err != nil {
		return nil, o.Archive, err
	}
	if _, err := sweeping.run(ctx, (minute + 1).Start(), 0); err != nil {
		return nil, o.Archive, err
	}
	a, err := archive.New(e.store.Set, o.Archive)
	if err != nil {
		return nil, o.Archive, err
	}
	archiving, err := newBenchWalk(e, a.Walk(), shards, func(w *walk.Options) { w.Timeout = time.Minute })
	return archiving, o.Archive, err
}

// check holds the tiers against what was due: everything is cold, nothing is hot.
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
