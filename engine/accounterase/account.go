// Package accounterase erases accounts: every item of a user and every row about
// the user, with a receipt, and it proves that nothing is left.
//
// The tombstone of the account is written first, then the deletion ledger, which
// is kept outside backups, then everything is erased. Nothing of an erased account
// comes back, not even with a backup (ST14). Held items stay until they are
// released.
package accounterase

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/erase"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// Options are the settings of an Eraser.
type Options struct {
	Settle    time.Duration // after this time no birth is in flight any more (L4); default 1 min
	HeldEvery time.Duration // how often an erased account is looked at again while items are held; default 1 day

	Audit     *audit.Log  // records every erasure; without it accounts are not erased
	Deletions store.Blobs // the deletion ledger: kept outside backups, and outlives them; without it accounts are not erased
}

func (o Options) withDefaults() (Options, error) {
	if o.Settle == 0 {
		o.Settle = time.Minute
	}
	if o.HeldEvery == 0 {
		o.HeldEvery = 24 * time.Hour
	}
	if o.Settle < 0 || o.HeldEvery < 0 {
		return o, mayfly.Errorf(mayfly.Invalid, "account erasure: a setting is negative: settle %s, held every %s", o.Settle, o.HeldEvery)
	}
	return o, nil
}

// Eraser erases accounts. Safe for concurrent use.
type Eraser struct {
	set   store.Set
	items *erase.Erase
	o     Options
	parts []Part
}

// Part erases what a product keeps of a user outside of tables, such as the
// documents of a search server.
type Part struct {
	Name  string
	Erase func(ctx context.Context, user mayfly.UserID, now mayfly.Instant) (erased int, err error) // may be repeated
	Left  func(ctx context.Context, user mayfly.UserID) (int, error)                                // for Scan: how much is left
}

// Add adds parts. It is called before the first erasure.
func (e *Eraser) Add(parts ...Part) { e.parts = append(e.parts, parts...) }

// New returns an Eraser over set that ends items with items.
func New(set store.Set, items *erase.Erase, o Options) (*Eraser, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Eraser{set: set, items: items, o: o}, nil
}

// Account erases everything of a user (ST14): it writes the tombstone, then the
// deletion ledger, then makes a first pass over items and tables. RunDue makes the
// second pass, which finds births that were in flight, and finishes what a crash
// or an error interrupted. Held items stay, are named on the receipt and are
// looked at again every day. Errors: Invalid, Conflict (another caller erases the
// same account now), Unavailable, Unknown.
func (e *Eraser) Account(ctx context.Context, user mayfly.UserID, by, reason string, now mayfly.Instant) (Receipt, error) {
	if user.IsZero() {
		return Receipt{}, mayfly.Errorf(mayfly.Invalid, "erase account: the user is required")
	}
	if e.o.Deletions == nil {
		return Receipt{}, mayfly.Errorf(mayfly.Invalid, "erase account %s: there is no deletion ledger", user)
	}
	var r Receipt
	entry := audit.Entry{Actor: by, Verb: audit.EraseAccount, Subject: audit.Subject{User: user}, Reason: reason}
	err := e.o.Audit.Do(ctx, entry, now, func() (detail string, err error) {
		r, err = e.begin(ctx, deletion{user, now})
		return fmt.Sprintf("%d items, %d objects, %d held", r.Items, r.Objects, len(r.Held)+r.HeldMore), err
	})
	if err != nil {
		return r, fmt.Errorf("erase account %s: %w", user, err)
	}
	return r, nil
}

// begin starts an erasure, also of an account that was erased before.
func (e *Eraser) begin(ctx context.Context, d deletion) (Receipt, error) {
	r := Receipt{Format: receiptFormat, User: d.user, At: d.at, Again: d.at.Add(e.o.Settle), Rows: map[string]int{}}
	if err := e.list(ctx, d.user); err != nil {
		return r, err
	}
	_, old, err := receiptOf(ctx, e.set.Rows, d.user)
	if err != nil && !errors.Is(err, mayfly.NotFound) {
		return r, err
	}
	value := r.bytes()
	if err := store.Replace(ctx, e.set.Rows, engine.Erased, engine.ErasedKey(d.user), old, value, 0); err != nil {
		return r, fmt.Errorf("write the tombstone: %w", err)
	}
	if err := e.writeDeletion(ctx, d); err != nil {
		return r, err
	}
	return e.passOver(ctx, r, value, d.at)
}

// list adds the account to those that have a pass to come. It is called first, so
// that RunDue finds the account after a crash (L15).
func (e *Eraser) list(ctx context.Context, user mayfly.UserID) error {
	_, err := store.Update(ctx, e.set.Rows, engine.Erased, pendingKey(user), 0, func([]byte) ([]byte, error) { return []byte{receiptFormat}, nil })
	if err != nil {
		return fmt.Errorf("list the account: %w", err)
	}
	return nil
}

func (e *Eraser) unlist(ctx context.Context, user mayfly.UserID) error {
	if err := store.RemoveRow(ctx, e.set.Rows, engine.Erased, pendingKey(user), []byte{receiptFormat}); err != nil {
		return fmt.Errorf("take the account off the list: %w", err)
	}
	return nil
}

// passOver makes one pass and stores its receipt. The receipt of a pass that ends
// with an error is not stored: the next pass finds what is left.
func (e *Eraser) passOver(ctx context.Context, r Receipt, old []byte, now mayfly.Instant) (Receipt, error) {
	r.Held, r.HeldMore = nil, 0
	if err := e.pass(ctx, &r, now); err != nil {
		return r, err
	}
	// Only a pass that began when no birth could be in flight any more is the last.
	last := now >= r.At.Add(e.o.Settle)
	r.Passes++
	switch {
	case !last:
		r.Again = r.At.Add(e.o.Settle)
	case len(r.Held) > 0:
		r.Again = now.Add(e.o.HeldEvery)
	default:
		r.Again, r.Finished = 0, now
	}
	if err := store.Replace(ctx, e.set.Rows, engine.Erased, engine.ErasedKey(r.User), old, r.bytes(), 0); err != nil {
		return r, fmt.Errorf("store the receipt: %w", err)
	}
	if r.Finished == 0 {
		return r, nil
	}
	return r, e.unlist(ctx, r.User)
}

// pass erases the user's items and then the rows of every table by its rule. When
// only the log is unavailable everything else is done (L8), and the error says
// that another pass is due.
func (e *Eraser) pass(ctx context.Context, r *Receipt, now mayfly.Instant) error {
	var away error
	err := e.partition(ctx, engine.Owners, string(r.User[:]), func(page []store.Row) error {
		err := e.eraseOwned(ctx, r, page, now)
		if walk.IsAway(err) {
			away, err = err, nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("items: %w", err)
	}
	tables := e.set.Rows.Tables()
	for _, t := range tables {
		if err := e.eraseTable(ctx, r, tables, t); err != nil {
			return fmt.Errorf("table %s: %w", t, err)
		}
	}
	for _, p := range e.parts {
		erased, err := p.Erase(ctx, r.User, now)
		if err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
		r.Rows[p.Name] += erased
	}
	if away != nil {
		return fmt.Errorf("items: %w", away)
	}
	if r.Passes > 0 { // the first pass whose receipt was kept has appended the event
		return nil
	}
	if err := e.set.Log.Append(ctx, mayfly.UserDeleted(r.User, r.At)); err != nil {
		return fmt.Errorf("append user.deleted: %w", err)
	}
	return nil
}

// pageSize is how many rows of a user are read at once.
const pageSize = 100

// partition calls do with the rows of a partition, in pages.
func (e *Eraser) partition(ctx context.Context, t store.Table, partition string, do func([]store.Row) error) error {
	r := store.Range{Partition: partition, Limit: pageSize}
	for {
		page, err := e.set.Rows.Range(ctx, t, r)
		if err != nil || len(page) == 0 {
			return err
		}
		if err := do(page); err != nil || len(page) < pageSize {
			return err
		}
		r.From = page[len(page)-1].Clustering + "\x00"
	}
}

// eraseOwned deletes and erases the items that a page of the owner index names.
// Each step is one call for the page, and so is the wait for caches that cannot be
// notified.
func (e *Eraser) eraseOwned(ctx context.Context, r *Receipt, page []store.Row, now mayfly.Instant) error {
	names := make([]mayfly.ID, len(page))
	for i, row := range page {
		if len(row.Clustering) != len(mayfly.ID{}) {
			return mayfly.Errorf(mayfly.Corrupt, "owner index: a clustering key of %d bytes", len(row.Clustering))
		}
		names[i] = mayfly.ID([]byte(row.Clustering))
	}
	found, err := e.set.Ledger.Get(ctx, names...)
	if err != nil {
		return fmt.Errorf("read %d rows: %w", len(names), err)
	}
	var rows []mayfly.Item
	var strays store.Batch
	var bodies []mayfly.ID // that strays may have
	for i, id := range names {
		switch row := found[i].Item; {
		case !found[i].Found:
			// Its birth was abandoned, or is in flight: then the second pass finds the
			// item by this entry.
			if id.Birth().Add(e.o.Settle) <= now {
				strays.Delete(engine.Owners, engine.OwnerKey(r.User, id))
				bodies = append(bodies, id)
				r.count(engine.Owners, 1)
			}
		case row.Held:
			r.hold(id)
		default:
			rows = append(rows, row)
		}
	}
	gone, held, err := e.items.DeleteAll(ctx, rows, now)
	if err != nil {
		return err
	}
	for _, id := range held {
		r.hold(id)
	}
	if _, err := e.items.Act(ctx, walk.Batch{Items: gone, Now: now, Repeat: true}); err != nil {
		return err
	}
	for _, item := range gone {
		r.erased(item)
	}
	if len(bodies) == 0 {
		return nil
	}
	if err := e.set.Ledger.EraseBody(ctx, bodies...); err != nil { // before the entries that name them
		return fmt.Errorf("bodies of %d abandoned births: %w", len(bodies), err)
	}
	return e.set.Writer.Commit(ctx, &strays)
}
