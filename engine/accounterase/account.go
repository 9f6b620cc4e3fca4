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
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/erase"
	"github.com/mayflyhq/mayfly/store"
)

// Options are the settings of an Eraser.
type Options struct {
	Settle    time.Duration // after this time no birth is in flight any more (L4); default 1 min
	HeldEvery time.Duration // how often an erased account is looked at again while items are held; default 1 day
	Lease     time.Duration // how long after its last sign of life the pass of a process is taken over by another; default 30 s

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
	if o.Lease == 0 {
		o.Lease = 30 * time.Second
	}
	if o.Settle < 0 || o.HeldEvery < 0 || o.Lease < 0 {
		return o, mayfly.Errorf(mayfly.Invalid, "account erasure: a setting is negative: settle %s, held every %s, lease %s", o.Settle, o.HeldEvery, o.Lease)
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
// looked at again every day. When another process takes the pass over, the receipt
// is returned as far as it has come. Errors: Invalid, Conflict (another caller erases
// the same account now), Unavailable, Unknown.
func (e *Eraser) Account(ctx context.Context, user mayfly.UserID, by audit.Actor, reason string, now mayfly.Instant) (Receipt, error) {
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
		if errors.Is(err, errTaken) {
			r, err = ReceiptOf(ctx, e.set.Rows, user)
		}
		return fmt.Sprintf("%d items, %d objects, %d held", r.Items, r.Objects, len(r.Held)+r.HeldMore), err
	})
	if err != nil {
		return r, fmt.Errorf("erase account %s: %w", user, err)
	}
	return r, nil
}

// begin starts an erasure, also of an account that was erased before. The counts of
// an erasure that is not finished are kept.
func (e *Eraser) begin(ctx context.Context, d deletion) (Receipt, error) {
	r := record{Receipt: Receipt{Format: receiptFormat, User: d.user, Rows: map[string]int{}}}
	if err := e.list(ctx, d.user, d.at.Add(e.o.Settle), d.at); err != nil { // first, so that RunDue finds the account after a crash (L15)
		return r.Receipt, err
	}
	known, old, err := recordOf(ctx, e.set.Rows, d.user)
	switch {
	case err != nil && !errors.Is(err, mayfly.NotFound):
		return r.Receipt, err
	case err == nil && known.heldAt(d.at):
		return known.Receipt, mayfly.Errorf(mayfly.Conflict, "another process erases the account now").WithHint("it goes on by itself; ask for the receipt later")
	case err == nil && known.Finished == 0:
		r = known
	}
	r.At, r.Again = d.at, d.at.Add(e.o.Settle)
	p := e.newPass(r, old, d.at)
	if err := p.save(ctx); err != nil {
		return r.Receipt, fmt.Errorf("write the tombstone: %w", err)
	}
	if err := e.writeDeletion(ctx, d); err != nil {
		return r.Receipt, errors.Join(err, p.release(ctx))
	}
	return p.run(ctx)
}

// pageSize is how many rows of a user are read at once.
const pageSize = 100

// partition calls do with the rows of a partition, in pages.
func (e *Eraser) partition(ctx context.Context, t store.Table, partition string, do func([]store.Row) error) error {
	return e.rows(ctx, store.Range{Partition: partition}, t, do)
}

// rows calls do with the rows of a range, in pages.
func (e *Eraser) rows(ctx context.Context, r store.Range, t store.Table, do func([]store.Row) error) error {
	r.Limit = pageSize
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
