// Package archive moves the media of expired items from hot to cold storage. For each
// batch it claims the rows, copies the media, verifies the copies from the cold side,
// names them in the rows, and only then erases hot (L9). Retire deletes items whose
// time in cold storage is over (L13).
//
// Hot is never erased before a verified cold copy is durable in the row (I1). A worker
// that was stopped and goes on later writes nothing, because its generation is old,
// and deletes only keys that are dead (I10). It leaves held items alone (I21), and
// makes no cold copy of items of an erased account.
package archive

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// Name is the name of the walk. It stays behind the sweep.
const (
	Name  = "archive"
	sweep = "sweep"
)

// Verify is how a cold copy is verified.
type Verify uint8

// The ways to verify.
const (
	Bytes    Verify = iota // read every copy back and hash it
	Checksum               // ask the tier for a hash that it computed itself, and read a sample back; all copies if it cannot
)

// Options are the settings of an Archive.
type Options struct {
	Window  time.Duration // after the deadline: the safety window; default mayfly.DefaultArchiveAfter
	Workers int           // items copied at once in a batch; more are no faster, and reads wait behind them; default mayfly.DefaultArchiveWorkers
	Verify  Verify        // default Bytes
	Sample  int           // with Checksum: one copy in so many is read back too; default 100
	Erase   walk.Act      // erases the bytes of rows that are deleted; default refuses, so that a reminder keeps asking

	Tombstones remind.Tombstones
}

func (o Options) withDefaults() (Options, error) {
	o.Window = cmp.Or(o.Window, mayfly.DefaultArchiveAfter)
	o.Workers = cmp.Or(o.Workers, mayfly.DefaultArchiveWorkers)
	o.Sample = cmp.Or(o.Sample, 100)
	if o.Erase == nil {
		o.Erase = noEraser
	}
	var err error
	if o.Tombstones, err = o.Tombstones.WithDefaults(); err != nil {
		return o, fmt.Errorf("archive: %w", err)
	}
	if o.Window < 0 || o.Workers < 0 || o.Sample < 0 || o.Verify > Checksum {
		return o, mayfly.Errorf(mayfly.Invalid, "archive: a setting is out of range: window %s, %d workers, sample %d, verify %d", o.Window, o.Workers, o.Sample, o.Verify)
	}
	return o, nil
}

// Archive moves media of expired items to cold storage. Safe for concurrent use.
type Archive struct {
	set     store.Set
	o       Options
	trouble atomic.Pointer[trouble] // nil while copies go well
	claims  claims
}

// New returns an Archive over set. Errors: Invalid.
func New(set store.Set, o Options) (*Archive, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Archive{set: set, o: o}, nil
}

// Walk returns the archive as a walk.
func (a *Archive) Walk() walk.Walk {
	return walk.Walk{Name: Name, Offset: a.o.Window, Behind: sweep, Act: a.Act, Park: parkAs(remind.Archive)}
}

// parkAs returns a Park that writes a reminder for step. An item that is deleted
// already only has to be erased.
func parkAs(step remind.Step) walk.Park {
	return func(b *store.Batch, f walk.Failure, due mayfly.Instant) {
		step := step
		if f.Item.State == mayfly.Deleted {
			step = remind.Erase
		}
		remind.Write(b, remind.Reminder{Due: due, ID: f.Item.ID, Step: step, Tries: 1, Reason: fmt.Sprint(f.Err)})
	}
}

// Act archives a batch, for the walk and for reminders. When a tier is unavailable it
// returns an error and no failures: the walk waits instead of parking every item (L10).
func (a *Archive) Act(ctx context.Context, b walk.Batch) ([]walk.Failure, error) {
	p := &pass{Archive: a, batch: b}
	for _, item := range b.Items {
		switch {
		case ready(item) && b.Now < item.End().Add(a.o.Window):
			// It was restored and has just ended: a reminder archives it when its window is over.
		case ready(item):
			p.rows = append(p.rows, item)
		case archived(item) && again(item, b):
			p.done = append(p.done, item)
		case ended(item, mayfly.ByAccount) && again(item, b):
			p.gone = append(p.gone, item)
		}
	}
	if b.Repeat { // the walk is behind the sweep, a reminder may come before the sweep's event
		if err := walk.AppendLast(ctx, a.set.Log, p.rows...); err != nil {
			return nil, fmt.Errorf("archive: %w", err)
		}
	}
	for _, step := range []func(context.Context) error{p.leaveErased, p.claim, p.copy, p.name, p.eraseHot, p.finish, p.announce} {
		if err := step(ctx); err != nil {
			return nil, fmt.Errorf("archive: %w", p.blame(ctx, err))
		}
	}
	return p.failures, nil
}

// ready reports whether the row waits for the archive. A row that another worker has
// claimed is taken over: the later worker has the higher generation.
func ready(item mayfly.Item) bool {
	return !item.Held && (item.State == mayfly.ExpiredHot || item.State == mayfly.Archiving)
}

func archived(item mayfly.Item) bool {
	return item.State == mayfly.Cold && item.Cause == mayfly.ByArchive
}

// again reports whether the event of the row may be missing in the log.
func again(item mayfly.Item, b walk.Batch) bool { return b.Repeat || item.Run != b.Run }
