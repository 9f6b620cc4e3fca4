// Package archive is in charge of hot → cold: the walk at deadline + window. Per
// page it claims, copies, verifies from the cold side, names the cold keys in
// the row, and only then erases hot (L9).
//
// Hot is never erased before the verified cold copy is durable in the row (I1).
// A worker that stopped and wakes up again writes nothing, because its
// generation is stale, and deletes only keys that are dead (I10). What is held
// is left alone (I21).
package archive

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/remind"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/walk"
)

// Name is the archive's name among the walks.
const Name = "archive"

// Options are the archive's settings.
type Options struct {
	Window  time.Duration // after the deadline: the safety window; default 90 min
	Workers int           // copies under way at once; default 16
}

// Archive moves media of expired items to cold storage.
type Archive struct {
	set store.Set
	o   Options
}

// New is an archive over set.
func New(set store.Set, o Options) (*Archive, error) {
	if o.Window == 0 {
		o.Window = 90 * time.Minute
	}
	if o.Workers == 0 {
		o.Workers = 16
	}
	if o.Window < 0 || o.Workers < 0 {
		return nil, mayfly.Errorf(mayfly.Invalid, "archive: a setting is out of range: %+v", o)
	}
	return &Archive{set: set, o: o}, nil
}

// Walk is the archive as a walk.
func (a *Archive) Walk() walk.Walk {
	return walk.Walk{Name: Name, Offset: a.o.Window, Act: a.Act, Park: park}
}

func park(b *store.Batch, f walk.Failure, due mayfly.Instant) {
	remind.Write(b, remind.Reminder{Due: due, ID: f.Item.ID, Step: remind.Archive, Attempts: 1, Reason: fmt.Sprint(f.Err)})
}

// Act archives a batch. It is the walk's act, and what a reminder does for one item.
func (a *Archive) Act(ctx context.Context, b walk.Batch) ([]walk.Failure, error) {
	p := &pass{Archive: a, batch: b}
	for _, item := range b.Items {
		switch {
		case ready(item):
			p.rows = append(p.rows, item)
		case archived(item) && (b.Repeat || item.Run != b.Run):
			p.done = append(p.done, item)
		}
	}
	for _, step := range []func(context.Context) error{p.claim, p.copy, p.name, p.eraseHot, p.finish, p.tell} {
		if err := step(ctx); err != nil {
			return nil, fmt.Errorf("archive: %w", err)
		}
	}
	return p.failures, nil
}

// ready says whether the row waits for the archive. One that another worker has
// claimed is taken over: whoever comes later has the higher generation.
func ready(item mayfly.Item) bool {
	return !item.Held && (item.State == mayfly.ExpiredHot || item.State == mayfly.Archiving)
}

func archived(item mayfly.Item) bool {
	return item.State == mayfly.Cold && item.Cause == mayfly.ByArchive
}

// pass is one batch on its way. rows are those that are still with it, each as
// its last step left it.
type pass struct {
	*Archive
	batch    walk.Batch
	rows     []mayfly.Item
	done     []mayfly.Item // cold, and to be told to the log
	failures []walk.Failure
}

// move makes one transition of every row that change has one for, in one batch
// per pigeonhole, and keeps the rows that it applied to. A row that somebody has
// moved meanwhile is theirs: it was deleted, restored, held or taken over.
func (p *pass) move(ctx context.Context, change func(mayfly.Item) mayfly.Change) error {
	if len(p.rows) == 0 {
		return nil
	}
	changes := make([]mayfly.Change, len(p.rows))
	for i, item := range p.rows {
		c := change(item)
		c.ID, c.From, c.Generation = item.ID, item.State, item.Generation
		c.Nonce, c.Run, c.Cause, c.At = mayfly.Nonce(rand.Uint64()|1), p.batch.Run, mayfly.ByArchive, p.batch.Now
		changes[i] = c
	}
	outcomes, err := p.set.Ledger.Transition(ctx, changes)
	if err != nil {
		return err
	}
	kept := p.rows[:0]
	for i, outcome := range outcomes {
		switch outcome.Verdict {
		case store.Applied:
			kept = append(kept, outcome.Current)
		case store.Stale, store.Missing:
		case store.Refused:
			p.fail(p.rows[i], outcome.Err)
		default: // not known: another try finds out, under a higher generation
			p.fail(p.rows[i], mayfly.Errorf(mayfly.Unknown, "whether %s was moved is not known", changes[i].ID))
		}
	}
	p.rows = kept
	return nil
}

func (p *pass) fail(item mayfly.Item, err error) {
	p.failures = append(p.failures, walk.Failure{Item: item, Err: err})
}

// claim takes the rows: from here on their generation fences every other worker.
func (p *pass) claim(ctx context.Context) error {
	return p.move(ctx, func(mayfly.Item) mayfly.Change { return mayfly.Change{To: mayfly.Archiving} })
}

// copy copies and verifies every medium that is not verified in cold yet, many
// at once. An item that fails is parked, and hot stays as it is.
func (p *pass) copy(ctx context.Context) error {
	bodies, err := p.set.Ledger.Body(ctx, ids(p.rows)...)
	if err != nil {
		return err
	}
	errs := make([]error, len(p.rows))
	var g errgroup.Group
	g.SetLimit(p.o.Workers)
	for i, item := range p.rows {
		if item.Media == 0 || item.Keys.Cold != 0 {
			continue
		}
		g.Go(func() error {
			errs[i] = p.copyItem(ctx, item, bodies[i])
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	kept := p.rows[:0]
	for i, item := range p.rows {
		if errs[i] != nil {
			p.fail(item, errs[i])
			continue
		}
		kept = append(kept, item)
	}
	p.rows = kept
	return ctx.Err()
}

// name makes the verified cold copy part of the row: from here on hot may go.
func (p *pass) name(ctx context.Context) error {
	return p.move(ctx, func(item mayfly.Item) mayfly.Change {
		keys := item.Keys
		if keys.Cold == 0 && item.Media > 0 {
			keys.Cold = item.Generation // of the claim, under which it was copied
		}
		return mayfly.Change{To: mayfly.Archiving, Keys: &keys}
	})
}

// eraseHot deletes the hot copy, and whatever a crashed claim or restore may have
// left under a lower generation in either tier (L12).
func (p *pass) eraseHot(ctx context.Context) error {
	var hot, cold []mayfly.BlobKey
	for _, item := range p.rows {
		if item.Media > 0 && (item.State != mayfly.Archiving || item.Keys.Cold == 0) {
			panic(fmt.Sprintf("archive: hot of %s would be erased before its cold copy is in the row (I1)", item.ID))
		}
		for n := range int(item.Media) {
			for g := mayfly.Born; g < item.Generation; g++ {
				hot = append(hot, item.MediaKey(g, n))
				if g != item.Keys.Cold && g != mayfly.Born {
					cold = append(cold, item.MediaKey(g, n))
				}
			}
		}
	}
	if err := p.set.Hot.Delete(ctx, hot...); err != nil {
		return fmt.Errorf("erase hot: %w", err)
	}
	if err := p.set.Cold.Delete(ctx, cold...); err != nil {
		return fmt.Errorf("erase what crashed claims left in cold: %w", err)
	}
	return nil
}

// finish writes cold: nothing of the item is hot any more.
func (p *pass) finish(ctx context.Context) error {
	err := p.move(ctx, func(item mayfly.Item) mayfly.Change {
		return mayfly.Change{To: mayfly.Cold, Keys: &mayfly.Keys{Cold: item.Keys.Cold}}
	})
	p.done = append(p.done, p.rows...)
	return err
}

func (p *pass) tell(ctx context.Context) error {
	if len(p.done) == 0 {
		return nil
	}
	events := make([]mayfly.Event, len(p.done))
	for i, item := range p.done {
		events[i] = mayfly.EventOf(item, mayfly.WasArchived)
	}
	return p.set.Log.Append(ctx, events...)
}

func ids(items []mayfly.Item) []mayfly.ID {
	all := make([]mayfly.ID, len(items))
	for i, item := range items {
		all[i] = item.ID
	}
	return all
}
