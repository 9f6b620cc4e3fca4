// Package archive is in charge of hot → cold: the walk at deadline + window. Per
// page it claims, copies, verifies from the cold side, names the cold keys in
// the row, and only then erases hot (L9). Retire, the walk years later, ends
// what has been cold for long enough (L13).
//
// Hot is never erased before the verified cold copy is durable in the row (I1).
// A worker that stopped and wakes up again writes nothing, because its
// generation is stale, and deletes only keys that are dead (I10). What is held
// is left alone (I21). What belongs to an erased account gets no cold copy.
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

// Name is the archive's name among the walks; sweep is the one it stays behind.
const (
	Name  = "archive"
	sweep = "sweep"
)

// Verify is how a cold copy is verified, from the cold side.
type Verify uint8

// The ways to verify.
const (
	Bytes    Verify = iota // read every copy back and hash it
	Checksum               // ask the tier for the hash it has computed itself, and read a sample back, or all where it cannot
)

// Options are the archive's settings.
type Options struct {
	Window  time.Duration // after the deadline: the safety window; default mayfly.DefaultArchiveAfter
	Workers int           // items copied at once in a batch; more are no faster, and reads wait behind them; default mayfly.DefaultArchiveWorkers
	Verify  Verify        // default Bytes
	Sample  int           // with Checksum: one copy in so many is read back nevertheless; default 100
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
}

// New is an archive over set.
func New(set store.Set, o Options) (*Archive, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Archive{set: set, o: o}, nil
}

// Walk is the archive as a walk.
func (a *Archive) Walk() walk.Walk {
	return walk.Walk{Name: Name, Offset: a.o.Window, Behind: sweep, Act: a.Act, Park: parkAs(remind.Archive)}
}

// parkAs reminds of step for an item that failed; of what is deleted already
// only the erasing is left.
func parkAs(step remind.Step) walk.Park {
	return func(b *store.Batch, f walk.Failure, due mayfly.Instant) {
		step := step
		if f.Item.State == mayfly.Deleted {
			step = remind.Erase
		}
		remind.Write(b, remind.Reminder{Due: due, ID: f.Item.ID, Step: step, Tries: 1, Reason: fmt.Sprint(f.Err)})
	}
}

// Act archives a batch. It is the walk's act, and what a reminder does for one
// item. When a tier is away it answers with an error and not with failures: then
// the walk waits, instead of parking every item that it meets (L10).
func (a *Archive) Act(ctx context.Context, b walk.Batch) ([]walk.Failure, error) {
	p := &pass{Archive: a, batch: b}
	for _, item := range b.Items {
		switch {
		case ready(item) && b.Now < item.End().Add(a.o.Window):
			// It served once more and has just ended: the reminder that ended it brings it when its window is over.
		case ready(item):
			p.rows = append(p.rows, item)
		case archived(item) && again(item, b):
			p.done = append(p.done, item)
		case ended(item, mayfly.ByAccount) && again(item, b):
			p.gone = append(p.gone, item)
		}
	}
	for _, step := range []func(context.Context) error{p.leaveErased, p.claim, p.copy, p.name, p.eraseHot, p.finish, p.tell} {
		if err := step(ctx); err != nil {
			return nil, fmt.Errorf("archive: %w", p.blame(ctx, err))
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

// again says whether what was done to the row may not have been told.
func again(item mayfly.Item, b walk.Batch) bool { return b.Repeat || item.Run != b.Run }
