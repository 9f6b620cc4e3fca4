// Package restore implements the operations of support on items: it restores a
// wrongly expired item for a while (ST11), undoes a run of a walk (L14), and holds
// and releases items (L16). Each operation is recorded in the audit log before it
// begins, with its actor and reason.
//
// It must never restore a deleted item (I7) and must change a held item only to
// release it or hold it again (I21). It writes media only to new keys, so that the
// old keys stay valid until the row is changed (L11).
package restore

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// Options are the settings of a Restore.
type Options struct {
	RemindAfter time.Duration // minimum time until a reminder is due; default mayfly.DefaultRemindAfter
	Window      time.Duration // the safety window, after which media go cold; default mayfly.DefaultArchiveAfter
	Days        time.Duration // how long after its end a cold item can be restored; default mayfly.DefaultRestoreWithin
	Retention   time.Duration // how long cold items are kept; 0 keeps them for ever
	Tombstones  remind.Tombstones
	Timeout     time.Duration // of one item; default 1 min
	Workers     int           // items that an undo restores at once; default 8

	// Released is called with an item whose hold has just ended, as it was held. May be nil.
	Released func(context.Context, mayfly.Item)
}

func (o Options) withDefaults() (Options, error) {
	o.RemindAfter = cmp.Or(o.RemindAfter, mayfly.DefaultRemindAfter)
	o.Window = cmp.Or(o.Window, mayfly.DefaultArchiveAfter)
	o.Days = cmp.Or(o.Days, mayfly.DefaultRestoreWithin)
	o.Timeout = cmp.Or(o.Timeout, time.Minute)
	o.Workers = cmp.Or(o.Workers, 8)
	var err error
	if o.Tombstones, err = o.Tombstones.WithDefaults(); err != nil {
		return o, fmt.Errorf("restore: %w", err)
	}
	if o.RemindAfter < 0 || o.Window < 0 || o.Days < 0 || o.Retention < 0 || o.Timeout < 0 || o.Workers < 0 {
		return o, mayfly.Errorf(mayfly.Invalid, "restore: setting out of range: %+v", o)
	}
	return o, nil
}

// Restore runs the operations of support on items. Safe for concurrent use.
type Restore struct {
	set store.Set
	log *audit.Log
	o   Options
}

// New returns a Restore over set that records its operations in log.
func New(set store.Set, log *audit.Log, o Options) (*Restore, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Restore{set: set, log: log, o: o}, nil
}

// Request is a request to restore one item.
type Request struct {
	ID     mayfly.ID
	Until  mayfly.Instant // end of the restored time
	By     audit.Actor    // required
	Reason string         // required
}

// soon returns an instant at which an operation that begins at now has certainly
// ended, so that a reminder that is due then sees its result.
func (r *Restore) soon(now mayfly.Instant) mayfly.Instant {
	return now.Add(2*r.o.RemindAfter + r.o.Timeout)
}

// lateLook is how long after an operation with an unknown result the row is checked
// once more: a failed change may land late.
const lateLook = 24 * time.Hour

// Item restores an expired item until req.Until: from the hot tier within the
// safety window, later from the cold tier. It returns the new row. Errors: Invalid
// (no actor, no reason, too short), NotFound, Gone (deleted, purged, or too late),
// Conflict (it serves, or is held), Corrupt, Unavailable, Unknown (it may be
// restored now or later; if so, it ends at req.Until).
func (r *Restore) Item(ctx context.Context, req Request, now mayfly.Instant) (item mayfly.Item, err error) {
	if soon := r.soon(now); req.Until < soon {
		return item, mayfly.Errorf(mayfly.Invalid, "restore %s: until %s is too soon", req.ID, req.Until).
			WithHint(fmt.Sprintf("the earliest possible instant is %s", soon))
	}
	intent := audit.Entry{
		Actor: req.By, Verb: audit.Restore, Subject: audit.Subject{Item: req.ID},
		Reason: req.Reason, Detail: "until " + req.Until.String(),
	}
	err = r.audited(ctx, intent, now, func(ctx context.Context) (string, error) {
		item, err = r.bring(ctx, req.ID, req.Until, now)
		return fmt.Sprintf("generation %d, until %s", item.Generation, item.ServesUntil), err
	})
	return item, err
}

// audited runs an operation and records its intent before and its outcome after it.
func (r *Restore) audited(ctx context.Context, intent audit.Entry, now mayfly.Instant, operation func(context.Context) (string, error)) error {
	ref, err := r.log.Record(ctx, intent, now)
	if err != nil {
		return fmt.Errorf("%s: record the intent: %w", intent.Verb, err)
	}
	detail, err := operation(ctx)
	outcome := audit.Done
	if err != nil {
		outcome, detail = audit.Failed, err.Error()
		if refusal(err) {
			outcome = audit.Refused
		}
	}
	// The time of the operation may be up. A failure to record the outcome does not
	// undo the operation: the row shows its result.
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.o.Timeout)
	defer cancel()
	_, _ = r.log.Record(late, intent.Concluded(ref, outcome, detail), now)
	if err != nil {
		return fmt.Errorf("%s: %w", intent.Verb, err)
	}
	return nil
}

// refusal reports whether err means that a rule forbids the operation.
func refusal(err error) bool {
	for _, kind := range []mayfly.Kind{mayfly.NotFound, mayfly.Gone, mayfly.Conflict, mayfly.Invalid} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// rounds is how often a change is tried while other processes change the row.
const rounds = 5

// bring restores one item. It always ends within Timeout, so that the reminders
// that it writes first are due after it.
func (r *Restore) bring(ctx context.Context, id mayfly.ID, until, now mayfly.Instant) (mayfly.Item, error) {
	ctx, cancel := r.detached(ctx)
	defer cancel()
	t := try{Restore: r, until: until, now: now, nonce: walk.NewNonce()}
	item, err := t.all(ctx, id)
	if err != nil && t.moving { // it may be restored nevertheless
		r.notify(ctx, of(id, store.RestoredSet, store.RowChanged)...)
	}
	return item, err
}

// detached returns a context for an operation whose intent is recorded. The
// operation continues when its caller disconnects: otherwise a row could be changed
// without a signal to the caches, which would show the old row (L16, I19).
func (r *Restore) detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), r.o.Timeout)
}

// gaveUp returns the error after the last round.
func gaveUp(id mayfly.ID, doubt bool) error {
	if doubt {
		return mayfly.Errorf(mayfly.Unknown, "it is unknown whether %s was changed", id).WithHint("check the item, then try again")
	}
	return mayfly.Errorf(mayfly.Unavailable, "the row of %s keeps changing", id).WithHint("try again")
}

func (r *Restore) row(ctx context.Context, id mayfly.ID) (mayfly.Item, error) {
	found, err := r.set.Ledger.Get(ctx, id)
	if err != nil {
		return mayfly.Item{}, fmt.Errorf("read %s: %w", id, err)
	}
	if !found[0].Found {
		return mayfly.Item{}, mayfly.Errorf(mayfly.NotFound, "there is no item %s", id)
	}
	return found[0].Item, nil
}

// mayComeBack returns why an item may not be restored at now, or nil.
func (r *Restore) mayComeBack(item mayfly.Item, now mayfly.Instant) error {
	switch {
	case item.State == mayfly.Deleted:
		return mayfly.Errorf(mayfly.Gone, "%s is deleted", item.ID).WithHint("deleted items cannot be restored")
	case item.Held:
		return mayfly.Errorf(mayfly.Conflict, "%s is held", item.ID).WithHint("release it first")
	case item.State == mayfly.Active && !item.EndedAt(now):
		return mayfly.Errorf(mayfly.Conflict, "%s still serves", item.ID).WithHint("until " + item.End().String())
	case item.Fate == mayfly.Purge:
		return mayfly.Errorf(mayfly.Gone, "%s has ended and is purged", item.ID).WithHint("only archived items can be restored")
	case item.State == mayfly.Cold && now > item.End().Add(r.o.Days):
		return mayfly.Errorf(mayfly.Gone, "%s ended at %s", item.ID, item.End()).WithHint(fmt.Sprintf("cold items can be restored for %d days after their end", r.o.Days/(24*time.Hour)))
	}
	return nil
}

// transition makes one change and reports whether the row is the result of it. A
// row with the nonce of the change is, whatever the store returned (L1).
func (r *Restore) transition(ctx context.Context, c mayfly.Change) (current mayfly.Item, mine bool, err error) {
	o, err := walk.TransitionOne(ctx, r.set.Ledger, c)
	switch {
	case err != nil:
		return mayfly.Item{}, false, err
	case o.Result == store.Refused:
		return o.Current, false, o.Err
	case o.Result == store.Missing:
		return mayfly.Item{}, false, mayfly.Errorf(mayfly.NotFound, "there is no item %s", c.ID)
	}
	return o.Current, o.Current.Nonce == c.Nonce, nil // an earlier round of this caller may have landed
}

// keepRestored makes sure that the entry of an id in the restored set lasts until
// an instant. Entries only grow while they are in use, so that the removal of an
// ended one by compare-and-set never takes out that of a later restore. An entry
// has no meaning after its instant, so the store may reclaim it if Clean never
// removes it.
func (r *Restore) keepRestored(ctx context.Context, id mayfly.ID, until mayfly.Instant) error {
	var b store.Batch
	engine.ListRestored(&b, id, until)
	err := r.set.Writer.Commit(ctx, &b) // first, so that what is in the set is found by loads
	if err != nil {
		return fmt.Errorf("list the restored item: %w", err)
	}
	_, err = store.Update(ctx, r.set.Rows, engine.Restored, engine.RestoredKey(id), engine.RestoredReclaim(until), func(old []byte) ([]byte, error) {
		lasts, err := readRestored(id, old)
		if err != nil || lasts >= until {
			return old, err
		}
		return restoredEntry(until), nil
	})
	if err != nil {
		return fmt.Errorf("write the restored set: %w", err)
	}
	return nil
}

func restoredEntry(until mayfly.Instant) []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(until))
}

// readRestored returns until when an entry lasts; 0 if there is none.
func readRestored(id mayfly.ID, entry []byte) (mayfly.Instant, error) {
	switch {
	case entry == nil:
		return 0, nil
	case len(entry) != 8:
		return 0, mayfly.Errorf(mayfly.Corrupt, "restored set: the entry of %s has %d bytes", id, len(entry))
	}
	return mayfly.Instant(binary.BigEndian.Uint64(entry)), nil
}

// restoredUntil returns the entries of ids in the restored set; 0 for an id that is
// not in it.
func (r *Restore) restoredUntil(ctx context.Context, ids ...mayfly.ID) ([]mayfly.Instant, error) {
	keys := make([]store.Key, len(ids))
	for i, id := range ids {
		keys[i] = engine.RestoredKey(id)
	}
	found, err := r.set.Rows.Get(ctx, engine.Restored, keys...)
	if err != nil {
		return nil, fmt.Errorf("read the restored set: %w", err)
	}
	all := make([]mayfly.Instant, len(ids))
	for i, entry := range found {
		if all[i], err = readRestored(ids[i], entry); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// of returns the signals of an item for the topics.
func of(id mayfly.ID, topics ...store.Topic) []store.Signal {
	signals := make([]store.Signal, len(topics))
	for i, topic := range topics {
		signals[i] = store.Signal{Topic: topic, ID: id}
	}
	return signals
}

// notify sends signals to the caches about items that become visible. A failure is
// ignored, because cache entries expire by themselves. It has its own timeout: the
// operation may have used up its time.
func (r *Restore) notify(ctx context.Context, signals ...store.Signal) {
	ctx, cancel := r.detached(ctx)
	defer cancel()
	_ = store.PublishAll(ctx, r.set.Signals, signals...)
}
