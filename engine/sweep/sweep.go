// Package sweep expires items: it is the walk at the deadline. It moves each item to
// its fate, appends an event, and has the bytes of purged items erased. Reconcile
// looks at ended items a second time (L6).
//
// No reader waits for it: whether an item still serves is computed from its id (L2).
// It never moves an item before its end (I5), leaves items alone that a user deleted
// or support restored, and does not purge what is held (I21).
package sweep

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// Name is the name of the walk.
const Name = "sweep"

// Options are the settings of a Sweep.
type Options struct {
	Window      time.Duration // of the archive, for what a reminder expires; default mayfly.DefaultArchiveAfter
	RemindAfter time.Duration // how far ahead a reminder is at least; default mayfly.DefaultRemindAfter
	Tombstones  remind.Tombstones
	Erase       walk.Act // erases the bytes of rows that are deleted; default refuses, so that a reminder keeps asking
}

func (o Options) withDefaults() (Options, error) {
	o.Window = cmp.Or(o.Window, mayfly.DefaultArchiveAfter)
	o.RemindAfter = cmp.Or(o.RemindAfter, mayfly.DefaultRemindAfter)
	if o.Erase == nil {
		o.Erase = noEraser
	}
	var err error
	if o.Tombstones, err = o.Tombstones.WithDefaults(); err != nil {
		return o, fmt.Errorf("sweep: %w", err)
	}
	if o.Window < 0 || o.RemindAfter < 0 {
		return o, mayfly.Errorf(mayfly.Invalid, "sweep: a setting is out of range: window %s, reminders %s ahead", o.Window, o.RemindAfter)
	}
	return o, nil
}

// noEraser is used when Options has no Erase: purged items are parked, so that their
// bytes are erased later.
func noEraser(_ context.Context, b walk.Batch) ([]walk.Failure, error) {
	return allFail(b.Items, mayfly.Errorf(mayfly.Unsupported, "this node erases nothing")), nil
}

func allFail(items []mayfly.Item, err error) []walk.Failure {
	failures := make([]walk.Failure, len(items))
	for i, item := range items {
		failures[i] = walk.Failure{Item: item, Err: err}
	}
	return failures
}

// Sweep expires items. Safe for concurrent use.
type Sweep struct {
	set store.Set
	o   Options
}

// New returns a Sweep over set. Errors: Invalid.
func New(set store.Set, o Options) (*Sweep, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Sweep{set: set, o: o}, nil
}

// Walk returns the sweep as a walk.
func (s *Sweep) Walk() walk.Walk { return walk.Walk{Name: Name, Act: s.Act, Park: park} }

// park writes a reminder for an item that could not be expired. An item that is
// deleted already only has to be erased.
func park(b *store.Batch, f walk.Failure, due mayfly.Instant) {
	step := remind.Expire
	if f.Item.State == mayfly.Deleted {
		step = remind.Erase
	}
	remind.Write(b, remind.Reminder{Due: due, ID: f.Item.ID, Step: step, Tries: 1, Reason: fmt.Sprint(f.Err)})
}

// Expire does what a reminder to expire asks for. The archive's walk has passed the
// item already, so Expire writes another reminder, to archive it. It does so only
// after the events were appended: from an item that is archived it could not be seen
// any more that the event is missing. Until then the present reminder stays (L15).
func (s *Sweep) Expire(ctx context.Context, b walk.Batch) ([]walk.Failure, error) {
	failures, err := s.Act(ctx, b)
	if err != nil {
		return nil, err
	}
	var notes store.Batch
	for _, item := range b.Items {
		if item.Fate == mayfly.Archive && (due(item, b.Now) || expired(item)) {
			at := max(item.End().Add(s.o.Window), b.Now.Add(s.o.RemindAfter))
			remind.Write(&notes, remind.Reminder{Due: at, ID: item.ID, Step: remind.Archive, Reason: "expired by a reminder"})
		}
	}
	if len(notes.Stages()) > 0 {
		if err := s.set.Writer.Commit(ctx, &notes); err != nil {
			return nil, fmt.Errorf("expire: remind to archive: %w", err)
		}
	}
	return failures, nil
}

// rounds is how often a change of a row that others change too is tried again.
const rounds = 3

// Act expires a batch: it makes the transitions, then appends their events (L15), then
// erases the bytes of purged items. It also appends the event of a row that was
// expired before, if an earlier try may have stopped in between (I13).
func (s *Sweep) Act(ctx context.Context, b walk.Batch) ([]walk.Failure, error) {
	p := &pass{Sweep: s, batch: b, events: make([]mayfly.Event, 0, len(b.Items))}
	waiting := make([]mayfly.Item, 0, len(b.Items))
	for _, item := range b.Items {
		switch {
		case due(item, b.Now):
			waiting = append(waiting, item)
		case expired(item) && (b.Repeat || item.Run != b.Run):
			p.add(item)
		}
	}
	if err := p.remindToTidy(ctx); err != nil {
		return nil, fmt.Errorf("sweep: %w", err)
	}
	if err := p.expire(ctx, waiting); err != nil {
		return nil, fmt.Errorf("sweep: %w", err)
	}
	if len(p.events) == 0 {
		return p.failures, nil
	}
	s.invalidate(ctx, p.purged)
	if err := s.set.Log.Append(ctx, p.events...); err != nil {
		return nil, fmt.Errorf("sweep: append %d events: %w", len(p.events), walk.Away(err))
	}
	if err := p.erase(ctx); err != nil {
		return nil, fmt.Errorf("sweep: %w", err)
	}
	return p.failures, nil
}

// pass is the work on one batch.
type pass struct {
	*Sweep
	batch    walk.Batch
	events   []mayfly.Event
	purged   []mayfly.Item
	failures []walk.Failure
}

// add adds the event of an expired row.
func (p *pass) add(item mayfly.Item) {
	p.events = append(p.events, mayfly.EventOf(item, mayfly.WasExpired))
	if item.State == mayfly.Deleted {
		p.purged = append(p.purged, item)
	}
}

// expire expires rows, and tries those again that have changed meanwhile. It first
// appends the events of restores that end.
func (p *pass) expire(ctx context.Context, rows []mayfly.Item) error {
	for round := 0; len(rows) > 0; round++ {
		if err := walk.AppendLast(ctx, p.set.Log, rows...); err != nil {
			return err
		}
		changes := make([]mayfly.Change, len(rows))
		for i, item := range rows {
			changes[i] = expiry(item, p.batch)
		}
		outcomes, err := walk.Transition(ctx, p.set.Ledger, changes)
		if err != nil {
			return err
		}
		rows = p.sort(outcomes, round)
	}
	return nil
}

// sort handles the outcomes of changes and returns the rows to try again.
func (p *pass) sort(outcomes []store.Outcome, round int) (next []mayfly.Item) {
	for _, outcome := range outcomes {
		switch current := outcome.Current; {
		case outcome.Result == store.Missing:
		case outcome.Result == store.Refused:
			p.failures = append(p.failures, walk.Failure{Item: current, Err: outcome.Err})
		case expired(current): // by this change, or by a walker that may not have appended the event
			p.add(current)
		case due(current, p.batch.Now) && round < rounds:
			next = append(next, current)
		case due(current, p.batch.Now):
			p.failures = append(p.failures, walk.Failure{Item: current, Err: mayfly.Errorf(mayfly.Conflict, "the row was changed by others too often")})
		}
	}
	return next
}

// remindToTidy writes the reminders that remove the tombstones which come too late
// for the tidy walk (L13).
func (p *pass) remindToTidy(ctx context.Context) error {
	var notes store.Batch
	for _, item := range p.batch.Items {
		if item.Fate == mayfly.Purge && due(item, p.batch.Now) && p.batch.Now > item.ID.Deadline().Add(p.o.Tombstones.Slack) {
			remind.Write(&notes, remind.Reminder{Due: p.o.Tombstones.Due(p.batch.Now), ID: item.ID, Step: remind.Tidy, Reason: "purged late"})
		}
	}
	if len(notes.Stages()) == 0 {
		return nil
	}
	return p.set.Writer.Commit(ctx, &notes)
}

// erase erases the bytes of purged items. Items that fail are parked: an unavailable
// media store must not delay expiry.
func (p *pass) erase(ctx context.Context) error {
	items := make([]mayfly.Item, 0, len(p.purged))
	for _, item := range p.purged {
		if !item.Held { // it may have been held since it was purged
			items = append(items, item)
		}
	}
	if len(items) == 0 {
		return nil
	}
	failures, err := p.o.Erase(ctx, walk.Batch{Items: items, Now: p.batch.Now, Run: p.batch.Run, Repeat: true})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		failures = allFail(items, err)
	}
	p.failures = append(p.failures, failures...)
	return nil
}

// invalidate removes purged rows from the caches, because author and moderators would
// still see them (I7). A row that has only expired may stay cached: the gate decides
// by its id. A cache that cannot be reached drops the rows when its lease ends, so no
// answer is awaited.
func (s *Sweep) invalidate(ctx context.Context, purged []mayfly.Item) {
	signals := make([]store.Signal, len(purged))
	for i, item := range purged {
		signals[i] = store.Signal{Topic: store.RowChanged, ID: item.ID}
	}
	_ = store.PublishAll(ctx, s.set.Signals, signals...)
}

// due reports whether the row waits for the sweep. A held item is not purged before it
// is released.
func due(item mayfly.Item, now mayfly.Instant) bool {
	return item.State == mayfly.Active && item.EndedAt(now) && !(item.Held && item.Fate == mayfly.Purge)
}

// expired reports whether the item was ended by expiry, not by a user.
func expired(item mayfly.Item) bool {
	return item.Cause == mayfly.ByExpiry && (item.State == mayfly.ExpiredHot || item.State == mayfly.Deleted)
}

// expiry returns the change that expires a due row.
func expiry(item mayfly.Item, b walk.Batch) mayfly.Change {
	to := mayfly.ExpiredHot
	if item.Fate == mayfly.Purge {
		to = mayfly.Deleted
	}
	return walk.Compose(item, mayfly.Change{To: to, Run: b.Run, Cause: mayfly.ByExpiry, At: b.Now})
}
