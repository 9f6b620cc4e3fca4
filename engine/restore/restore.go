// Package restore is in charge of what support does to items: it brings a
// wrongly expired one back for a while (ST11), undoes a whole run of a walk
// (L14), holds and releases (L16). Each is written to the audit log before it
// is done, with who and why.
//
// It never brings back what is deleted (I7), never touches what is held but to
// release it (I21), and writes media to new keys only (L11): what names the old
// ones stays true until the row has moved.
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
	RemindAfter time.Duration // how far ahead a reminder is at least; default mayfly.DefaultRemindAfter
	Window      time.Duration // the safety window, after which media go cold; default mayfly.DefaultArchiveAfter
	Days        time.Duration // for how long after its end a cold item can come back; default mayfly.DefaultRestoreWithin
	Retention   time.Duration // how long cold items live; 0 is for ever
	Tombstones  remind.Tombstones
	Timeout     time.Duration // of one item; default 1 min
	Workers     int           // items that an undo restores at once; default 8
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
		return o, mayfly.Errorf(mayfly.Invalid, "restore: a setting is out of range: %+v", o)
	}
	return o, nil
}

// Restore does support's work on items. Safe for concurrent use.
type Restore struct {
	set store.Set
	log *audit.Log
	o   Options
}

// New is a Restore over set that writes down what it does in log.
func New(set store.Set, log *audit.Log, o Options) (*Restore, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Restore{set: set, log: log, o: o}, nil
}

// Request asks for one item to come back.
type Request struct {
	ID     mayfly.ID
	Until  mayfly.Instant // how long it serves then
	By     string         // who asks for it: required
	Reason string         // and why: required
}

// soon is when a deed that begins at now is certainly over: a reminder that is
// due then finds what became of it.
func (r *Restore) soon(now mayfly.Instant) mayfly.Instant {
	return now.Add(2*r.o.RemindAfter + r.o.Timeout)
}

// lateLook is how long after a deed whose outcome may never have been known the
// row is looked at once more: a change that failed may land late.
const lateLook = 24 * time.Hour

// Item brings an expired item back until req.Until: from hot within the safety
// window, from cold later. The answer is its row. Errors: Invalid (nobody asks,
// no reason, too short), NotFound, Gone (deleted, purged, or out of time),
// Conflict (it serves, or is held), Corrupt, Unavailable, Unknown (it may be
// back, or be back later; if so it ends at req.Until).
func (r *Restore) Item(ctx context.Context, req Request, now mayfly.Instant) (item mayfly.Item, err error) {
	if soon := r.soon(now); req.Until < soon {
		return item, mayfly.Errorf(mayfly.Invalid, "restore %s: until %s is too soon", req.ID, req.Until).
			WithHint(fmt.Sprintf("say an instant from %s on", soon))
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

// audited does a deed between its intent and its outcome in the audit log.
func (r *Restore) audited(ctx context.Context, intent audit.Entry, now mayfly.Instant, deed func(context.Context) (string, error)) error {
	ref, err := r.log.Record(ctx, intent, now)
	if err != nil {
		return fmt.Errorf("%s: write the intent down: %w", intent.Verb, err)
	}
	detail, err := deed(ctx)
	outcome := audit.Done
	if err != nil {
		outcome, detail = audit.Failed, err.Error()
		if refusal(err) {
			outcome = audit.Refused
		}
	}
	// The deed's time may be up. An outcome that cannot be written takes no deed
	// back: the row tells what became of the intent.
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.o.Timeout)
	defer cancel()
	_, _ = r.log.Record(late, intent.Concluded(ref, outcome, detail), now)
	if err != nil {
		return fmt.Errorf("%s: %w", intent.Verb, err)
	}
	return nil
}

// refusal says that the rules said no.
func refusal(err error) bool {
	for _, kind := range []mayfly.Kind{mayfly.NotFound, mayfly.Gone, mayfly.Conflict, mayfly.Invalid} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// rounds is how often a change that met a moving row is composed again.
const rounds = 5

// bring brings one item back. Whatever it meets, it is over within Timeout, so
// that the reminders it begins with come after it.
func (r *Restore) bring(ctx context.Context, id mayfly.ID, until, now mayfly.Instant) (mayfly.Item, error) {
	ctx, cancel := r.detached(ctx)
	defer cancel()
	t := try{Restore: r, until: until, now: now, nonce: walk.NewNonce()}
	item, err := t.all(ctx, id)
	if err != nil && t.moving { // it may be back all the same
		r.tell(ctx, of(id, store.RestoredSet, store.RowChanged)...)
	}
	return item, err
}

// detached is a context for a deed whose intent is written down: it goes to its
// end also when whoever asked for it has gone. A row that is changed, and of which
// no cache was told, would be shown as it was (L16, I19).
func (r *Restore) detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), r.o.Timeout)
}

// gaveUp is the error after the last round.
func gaveUp(id mayfly.ID, doubt bool) error {
	if doubt {
		return mayfly.Errorf(mayfly.Unknown, "whether %s was changed is not known", id).WithHint("look at it, and try again")
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

// mayComeBack says why an item may not be restored at now.
func (r *Restore) mayComeBack(item mayfly.Item, now mayfly.Instant) error {
	switch {
	case item.State == mayfly.Deleted:
		return mayfly.Errorf(mayfly.Gone, "%s is deleted", item.ID).WithHint("what is deleted stays deleted")
	case item.Held:
		return mayfly.Errorf(mayfly.Conflict, "%s is held", item.ID).WithHint("release it first")
	case item.State == mayfly.Active && !item.EndedAt(now):
		return mayfly.Errorf(mayfly.Conflict, "%s still serves", item.ID).WithHint("until " + item.End().String())
	case item.Fate == mayfly.Purge:
		return mayfly.Errorf(mayfly.Gone, "%s has ended, and its fate is to be purged", item.ID).WithHint("only what is archived comes back")
	case item.State == mayfly.Cold && now > item.End().Add(r.o.Days):
		return mayfly.Errorf(mayfly.Gone, "%s ended at %s", item.ID, item.End()).WithHint(fmt.Sprintf("what is cold comes back within %d days", r.o.Days/(24*time.Hour)))
	}
	return nil
}

// transition makes one change and says whether the row is as it made it. A row
// that shows the nonce is this caller's, whatever the answer was (L1).
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

// putRestored adds an id to the restored set. Past its time the entry says
// nothing, so that the store may take it back if Clean never comes.
func putRestored(b *store.Batch, id mayfly.ID, until mayfly.Instant) {
	b.Put(engine.Restored, engine.RestoredKey(id), binary.BigEndian.AppendUint64(nil, uint64(until)), until.Add(remind.Kept))
}

// restoredUntil are the entries of ids in the restored set; 0 for one that is
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
	for i, value := range found {
		switch {
		case value == nil:
		case len(value) != 8:
			return nil, mayfly.Errorf(mayfly.Corrupt, "restored set: the entry of %s has %d bytes", ids[i], len(value))
		default:
			all[i] = mayfly.Instant(binary.BigEndian.Uint64(value))
		}
	}
	return all, nil
}

// of are the signals that tell of an item.
func of(id mayfly.ID, topics ...store.Topic) []store.Signal {
	signals := make([]store.Signal, len(topics))
	for i, topic := range topics {
		signals[i] = store.Signal{Topic: topic, ID: id}
	}
	return signals
}

// tell tells the caches of items that show more than before: who cannot be told
// forgets them by itself. It has a time of its own: the deed may have used up its.
func (r *Restore) tell(ctx context.Context, signals ...store.Signal) {
	ctx, cancel := r.detached(ctx)
	defer cancel()
	_ = store.PublishAll(ctx, r.set.Signals, signals...)
}
