package collect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/erase"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/loop"
)

// AbandonedRun asks for one pass over the uploads that were never published.
type AbandonedRun struct {
	Now    mayfly.Instant
	Floor  time.Duration // how old an upload is at least; default and minimum 24 h (I15)
	Budget time.Duration // how long the pass may take; default 1 min
}

// AbandonedReport is what a pass over abandoned uploads did.
type AbandonedReport struct {
	Looked  int  // objects looked at
	Deleted int  // objects erased
	More    bool // the budget is used up, and there is more to do at once
}

const (
	defaultBudget = time.Minute
	atOnce        = 8 // how many prefixes are listed concurrently
)

// Abandoned erases the objects of uploads that were never published and whose own
// deadline has passed. That is their scheduled end, so no cap applies: the pass
// ends when nothing is left or its budget is used up. It walks hot storage in
// order of upload time, each prefix behind a durable watermark; what lands behind
// a watermark is left to Orphans. Errors: Invalid, Conflict (another collector
// runs), Unavailable; the other prefixes go on.
func (c *Collector) Abandoned(ctx context.Context, run AbandonedRun) (AbandonedReport, error) {
	checked, err := Run{Now: run.Now, Floor: run.Floor}.withDefaults()
	if err != nil {
		return AbandonedReport{}, err
	}
	run.Floor = checked.Floor
	if run.Budget == 0 {
		run.Budget = defaultBudget
	}
	a := &abandoned{Collector: c, run: run, elapsed: loop.Stopwatch()}
	if err := a.each(ctx); err != nil {
		return a.report, fmt.Errorf("abandoned uploads: %w", err)
	}
	return a.report, nil
}

// abandoned is one pass over abandoned uploads.
type abandoned struct {
	*Collector
	run     AbandonedRun
	elapsed func() time.Duration

	mu     sync.Mutex
	report AbandonedReport
}

// each walks every prefix, several at once. Each of them gets the same number of
// pages in turn, so that a large one does not use up the budget of the others.
func (a *abandoned) each(ctx context.Context) error {
	lanes := make([]*lane, mayfly.Prefixes)
	for n := range lanes {
		lanes[n] = &lane{name: fmt.Sprintf("%02d", n)}
	}
	if err := together(lanes, func(l *lane) { l.load(ctx, a.set.Rows) }); err != nil {
		return err
	}
	for left := lanes; len(left) > 0 && !a.report.More; {
		_ = together(left, func(l *lane) { l.done, l.err = a.page(ctx, l) }) // an error ends its prefix only
		left = slices.DeleteFunc(slices.Clone(left), func(l *lane) bool { return l.done || l.err != nil })
		a.report.More = len(left) > 0 && a.elapsed() >= a.run.Budget
	}
	return together(lanes, func(l *lane) { l.err = errors.Join(l.err, l.save(ctx, a.set.Rows)) })
}

// together calls do with every lane, several at once, and returns their errors.
func together(lanes []*lane, do func(*lane)) error {
	var g errgroup.Group
	g.SetLimit(atOnce)
	for _, l := range lanes {
		g.Go(func() error {
			do(l)
			return nil
		})
	}
	_ = g.Wait()
	var all []error
	for _, l := range lanes {
		if l.err != nil {
			all = append(all, fmt.Errorf("prefix %s: %w", l.name, l.err))
		}
	}
	return errors.Join(all...)
}

// lane is how far the walk has come in one prefix.
type lane struct {
	name string
	mark []byte // the watermark as stored
	next mayfly.BlobKey
	done bool
	err  error
}

func (l *lane) key() store.Key { return store.Key{Partition: "abandoned", Clustering: l.name} }

func (l *lane) load(ctx context.Context, rows store.Rows) {
	found, err := rows.Get(ctx, walk.Watermarks, l.key())
	if err != nil {
		l.err = fmt.Errorf("load the watermark: %w", err)
		return
	}
	l.next = mayfly.BlobKey(l.name + "/")
	if l.mark = found[0]; len(l.mark) > 0 {
		l.next = mayfly.BlobKey(l.mark[1:])
	}
}

func (l *lane) save(ctx context.Context, rows store.Rows) error {
	mark := append([]byte{markFormat}, l.next...)
	if string(mark) == string(l.mark) || ctx.Err() != nil {
		return ctx.Err()
	}
	if err := store.Replace(ctx, rows, walk.Watermarks, l.key(), l.mark, mark, 0); err != nil {
		return fmt.Errorf("move the watermark: %w", err)
	}
	return nil
}

// page judges and erases the next page of a prefix. It reports whether it came to
// the first upload that is too young: keys of a prefix are in order of time.
func (a *abandoned) page(ctx context.Context, l *lane) (done bool, err error) {
	page, err := a.set.Hot.List(ctx, l.next, mayfly.BlobKey(l.name+"0"), listPage)
	if err != nil || len(page) == 0 {
		return true, err
	}
	objects, next, done := a.due(page)
	orphans, err := a.judge(ctx, hot, objects)
	if err != nil {
		return true, err
	}
	var keys []mayfly.BlobKey
	for _, o := range orphans {
		if o.abandoned {
			keys = append(keys, o.Key)
		}
	}
	if err := erase.DeleteObjects(ctx, a.set.Hot, keys); err != nil {
		return true, err
	}
	a.mu.Lock()
	a.report.Looked += len(objects)
	a.report.Deleted += len(keys)
	a.mu.Unlock()
	l.next = next
	return done || len(page) < listPage, nil
}

// due returns the objects of a page whose upload is past its deadline, and where
// the next page begins: at the first upload that is too young, if there is one.
func (a *abandoned) due(page []store.Listed) (objects []erase.Object, next mayfly.BlobKey, done bool) {
	for _, listed := range page {
		o, ours := erase.ReadKey(listed.Key)
		switch {
		case !ours:
		case o.ID.Birth().Add(a.run.Floor) > a.run.Now:
			return objects, listed.Key, true
		case !o.Uploaded || !o.ID.Expires():
		case !old(o, a.run.Now, a.run.Floor, a.o.Settle):
			return objects, listed.Key, true
		default:
			objects = append(objects, o)
		}
	}
	return objects, page[len(page)-1].Key + "\x00", false
}
