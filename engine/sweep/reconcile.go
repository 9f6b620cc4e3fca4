package sweep

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// The names of the two walks of Reconcile, and of the archive: the later walk stays
// behind it, because a backlog of the archive is not a defect.
const (
	ReconcileName     = "reconcile"
	ReconcileLateName = "reconcile-late"
	archive           = "archive"
)

// ReconcileOptions are the settings of Reconcile.
type ReconcileOptions struct {
	Soon        time.Duration // after the deadline: the first second look; default mayfly.DefaultReconcile
	Late        time.Duration // the other one, at which the archive has been there; default mayfly.DefaultReconcileLate
	Window      time.Duration // of the archive; default mayfly.DefaultArchiveAfter
	Grace       time.Duration // how much longer than its window an item may wait for the archive; default 30 min
	Stuck       time.Duration // how long a claim, or the erasing of what is deleted, may take; default 1 h
	RemindAfter time.Duration // how far ahead a reminder is at least; default mayfly.DefaultRemindAfter
}

func (o ReconcileOptions) withDefaults() (ReconcileOptions, error) {
	for _, d := range []struct {
		of    *time.Duration
		value time.Duration
	}{
		{&o.Soon, mayfly.DefaultReconcile},
		{&o.Late, mayfly.DefaultReconcileLate},
		{&o.Window, mayfly.DefaultArchiveAfter},
		{&o.Grace, 30 * time.Minute},
		{&o.Stuck, time.Hour},
		{&o.RemindAfter, mayfly.DefaultRemindAfter},
	} {
		if *d.of == 0 {
			*d.of = d.value
		}
		if *d.of < 0 {
			return o, mayfly.Errorf(mayfly.Invalid, "reconcile: a setting is out of range: %+v", o)
		}
	}
	if o.Late <= o.Soon {
		return o, mayfly.Errorf(mayfly.Invalid, "reconcile: the late look, at %s, is not after the first at %s", o.Late, o.Soon)
	}
	return o, nil
}

// Reconcile looks at ended items a second time (L6). It finds those that are not where
// they should be by now, and writes a reminder for the step that is missing. In a
// healthy system it finds none. It changes and erases nothing itself. A row does not
// show whether its event was appended: the missing step appends it again. Safe for
// concurrent use.
type Reconcile struct {
	set   store.Set
	o     ReconcileOptions
	found [defects]atomic.Uint64
}

// Found counts the items of each defect that were found since the process started.
type Found struct {
	Active     uint64 // still active past their end: a late birth, or a step that was given up
	ExpiredHot uint64 // expired and not archived
	Archiving  uint64 // claimed by the archive, without progress
	Unerased   uint64 // deleted, and their content still exists
}

// Total returns how many were found.
func (f Found) Total() uint64 { return f.Active + f.ExpiredHot + f.Archiving + f.Unerased }

// defect is what is wrong with a row.
type defect uint8

const (
	none defect = iota
	stillActive
	notArchived
	stuckClaim
	notErased // as far as the row shows; the body decides
	defects
)

// step returns the step that repairs the defect.
func (d defect) step() remind.Step {
	switch d {
	case stillActive:
		return remind.Expire
	case notErased:
		return remind.Erase
	default:
		return remind.Archive
	}
}

func (d defect) String() string {
	switch d {
	case stillActive:
		return "it is active past its end"
	case notArchived:
		return "it was not archived"
	case stuckClaim:
		return "its archiving came to no end"
	case notErased:
		return "it is deleted and not erased"
	default:
		return "nothing"
	}
}

// NewReconcile returns a Reconcile over set. Errors: Invalid.
func NewReconcile(set store.Set, o ReconcileOptions) (*Reconcile, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Reconcile{set: set, o: o}, nil
}

// Walks returns the two walks.
func (r *Reconcile) Walks() []walk.Walk {
	return []walk.Walk{
		{Name: ReconcileName, Offset: r.o.Soon, Behind: Name, Act: r.Act, Park: r.park},
		{Name: ReconcileLateName, Offset: r.o.Late, Behind: archive, Act: r.Act, Park: r.park},
	}
}

// Found returns what was found so far.
func (r *Reconcile) Found() Found {
	return Found{
		Active: r.found[stillActive].Load(), ExpiredHot: r.found[notArchived].Load(),
		Archiving: r.found[stuckClaim].Load(), Unerased: r.found[notErased].Load(),
	}
}

// park writes a reminder for an item that could not be checked: the step that it most
// likely waits for reads its row again.
func (r *Reconcile) park(b *store.Batch, f walk.Failure, due mayfly.Instant) {
	step := r.judge(f.Item, due).step()
	remind.Write(b, remind.Reminder{Due: due, ID: f.Item.ID, Step: step, Reason: fmt.Sprint(f.Err)})
}

// Act checks a batch. Its reminders are durable before they are counted.
func (r *Reconcile) Act(ctx context.Context, b walk.Batch) ([]walk.Failure, error) {
	found := make(map[mayfly.ID]defect)
	var deleted []mayfly.ID
	for _, item := range b.Items {
		if d := r.judge(item, b.Now); d != none {
			found[item.ID] = d
			if d == notErased {
				deleted = append(deleted, item.ID)
			}
		}
	}
	if err := r.forgetErased(ctx, found, deleted); err != nil {
		return nil, fmt.Errorf("reconcile: %w", err)
	}
	if len(found) == 0 {
		return nil, nil
	}
	var notes store.Batch
	for id, d := range found {
		remind.Write(&notes, remind.Reminder{Due: b.Now.Add(r.o.RemindAfter), ID: id, Step: d.step(), Reason: "reconcile: " + d.String()})
	}
	if err := r.set.Writer.Commit(ctx, &notes); err != nil {
		return nil, fmt.Errorf("reconcile: remind of %d items: %w", len(found), err)
	}
	for _, d := range found {
		r.found[d].Add(1)
	}
	return nil, nil
}

// judge returns what is wrong with a row at now. A held item stays where it is until
// it is released (L16), and a restored one has a reminder of its own.
func (r *Reconcile) judge(item mayfly.Item, now mayfly.Instant) defect {
	ended, resting := now.Sub(item.End()), now.Sub(item.Changed)
	switch item.State {
	case mayfly.Active:
		if due(item, now) && ended >= r.o.Soon {
			return stillActive
		}
	case mayfly.ExpiredHot:
		if !item.Held && ended >= r.o.Window+r.o.Grace && resting >= r.o.Grace {
			return notArchived
		}
	case mayfly.Archiving:
		if !item.Held && ended >= r.o.Window && resting >= r.o.Stuck {
			return stuckClaim
		}
	case mayfly.Deleted:
		if !item.Held && resting >= r.o.Stuck {
			return notErased
		}
	}
	return none
}

// forgetErased removes items from found whose content is erased.
func (r *Reconcile) forgetErased(ctx context.Context, found map[mayfly.ID]defect, deleted []mayfly.ID) error {
	if len(deleted) == 0 {
		return nil
	}
	bodies, err := r.set.Ledger.Body(ctx, deleted...)
	if err != nil {
		return fmt.Errorf("look for the content of %d deleted items: %w", len(deleted), err)
	}
	for i, id := range deleted {
		if !bodies[i].Found {
			delete(found, id)
		}
	}
	return nil
}
