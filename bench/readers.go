package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/gate"
	"github.com/mayflyhq/mayfly/engine/walk"
)

// readersOf opens stories at the gate as viewers do: mostly popular ones, sometimes
// one that was not read for long, sometimes one that has expired.
type readersOf struct {
	askers int
	asker  []readerState
	hot    []mayfly.ID // live, in the gate's cache
	live   []mayfly.ID // more than it holds
	gone   []mayfly.ID // past their deadline
	own    []mayfly.ID // past their deadline, asked for by
	author []mayfly.Viewer
}

type readerState struct {
	random *rand.Rand
	viewer mayfly.Viewer
}

const (
	readAskers = 16
	readHot    = 4_096

	// Of 100 requests; the others are for stories that have expired.
	shareHot  = 60
	shareLive = 20
	shareOwn  = 5
)

// load loads live stories, stories that were over a while ago, and for each pair
// of rounds a window of stories that fall due.
func (t readsTrial) load(ctx context.Context, b *bench, e *benchEngine, base mayfly.Instant) (*readersOf, error) {
	due := int(float64(t.dueEach) * t.window().Seconds())
	n := t.ended + t.windows()*due + t.live
	stage := b.progress.Begin("load stories", n)
	defer stage.End()
	day := benchLifetime(24 * time.Hour)
	r := &readersOf{askers: readAskers}
	load := newBenchLoad(e.store.Set, b.seed, n, stage)
	err := load.run(ctx, n, func(i int) (mayfly.Instant, mayfly.Lifetime) {
		if i < t.ended {
			return spread(t.begin(base).Add(-24*time.Hour-40*time.Second), 30*time.Second, i, t.ended), day
		}
		if i -= t.ended; i < t.windows()*due {
			return spread(t.from(base, i/due).Add(-24*time.Hour), t.window(), i%due, due), day
		}
		i -= t.windows() * due
		return spread(base.Add(-20*time.Hour), 19*time.Hour, i, t.live), day
	}, func(i int, item mayfly.Item) {
		switch {
		case i < t.ended:
			r.gone, r.own = append(r.gone, item.ID), append(r.own, item.ID)
			r.author = append(r.author, mayfly.ViewerOf(item.Owner))
		case i >= t.ended+t.windows()*due:
			r.live = append(r.live, item.ID)
		}
	})
	random := rand.New(rand.NewPCG(b.seed, 2))
	for range min(readHot, len(r.live)) {
		r.hot = append(r.hot, r.live[random.IntN(len(r.live))])
	}
	for n := range r.askers {
		own := rand.New(rand.NewPCG(b.seed, uint64(100+n)))
		r.asker = append(r.asker, readerState{random: own, viewer: mayfly.ViewerOf(newBenchOwner(own).user)})
	}
	return r, err
}

// loadArchived loads the stories that fall due for the archive in the third
// rounds. The walks begin before them: the node sweeps them first of all.
func (t readsTrial) loadArchived(ctx context.Context, b *bench, e *benchEngine, base mayfly.Instant) error {
	each := int(float64(t.moveEach) * t.window().Seconds())
	n := t.archived * each
	stage := b.progress.Begin("load stories with media", n)
	defer stage.End()
	first := base.Add(-e.config.Ends.ArchiveAfter)
	if _, err := walk.Origin(ctx, e.store.Set.Rows, first); err != nil {
		return err
	}
	load := newBenchLoad(e.store.Set, b.seed+1, n, stage)
	load.media = true
	day := benchLifetime(24 * time.Hour)
	return load.run(ctx, n, func(i int) (mayfly.Instant, mayfly.Lifetime) {
		// Behind the swept window of each pair comes that of its third round.
		from := t.from(first, 2*(i/each)+1).Add(-24 * time.Hour)
		return spread(from, t.window(), i%each, each), day
	}, nil)
}

// ask opens one story and returns an error unless the verdict is the expected one.
func (r *readersOf) ask(ctx context.Context, e *benchEngine, asker int) error {
	s := &r.asker[asker]
	pick := func(ids []mayfly.ID) mayfly.ID { return ids[s.random.IntN(len(ids))] }
	switch dice := s.random.IntN(100); {
	case dice < shareHot:
		return r.open(ctx, e, pick(r.hot), s.viewer, gate.Serve)
	case dice < shareHot+shareLive:
		return r.open(ctx, e, pick(r.live), s.viewer, gate.Serve)
	case dice < shareHot+shareLive+shareOwn:
		n := s.random.IntN(len(r.own))
		return r.open(ctx, e, r.own[n], r.author[n], gate.Archived)
	default:
		return r.open(ctx, e, pick(r.gone), s.viewer, gate.Gone)
	}
}

func (r *readersOf) open(ctx context.Context, e *benchEngine, id mayfly.ID, viewer mayfly.Viewer, want gate.Verdict) error {
	opened, err := e.node.Gate().Open(ctx, id, viewer, e.now())
	got := opened.Verdict
	if errors.Is(err, mayfly.Gone) {
		got, err = gate.Gone, nil
	}
	if err != nil || got != want {
		return fmt.Errorf("%s: %s instead of %s: %w", id, got, want, err)
	}
	return nil
}
