package erase

import (
	"context"
	"errors"
	"fmt"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// Account erases everything that a user has (ST14). The tombstone comes first,
// then the deletion ledger, then a pass over everything; a second pass, for
// births that were in flight, is due after the settling time and done by
// Accounts, as is whatever a crash or an error left over. What is held stays, is
// named on the receipt, and looked at again day by day. Errors: Invalid,
// Conflict (somebody else erases the same account now), Unavailable, Unknown.
func (e *Erase) Account(ctx context.Context, user mayfly.UserID, by, reason string, now mayfly.Instant) (Receipt, error) {
	if user.IsZero() || e.o.Deletions == nil {
		return Receipt{}, mayfly.Errorf(mayfly.Invalid, "erase account %s: nobody has no account, and without a deletion ledger none is erased", user)
	}
	var r Receipt
	entry := audit.Entry{Actor: by, Verb: audit.EraseAccount, Subject: audit.Subject{User: user}, Reason: reason}
	err := e.audited(ctx, entry, now, func() (detail string, err error) {
		r, err = e.account(ctx, deletion{user, now})
		return fmt.Sprintf("%d items, %d objects, %d held", r.Items, r.Objects, len(r.Held)+r.HeldMore), err
	})
	if err != nil {
		return r, fmt.Errorf("erase account %s: %w", user, err)
	}
	return r, nil
}

// account begins an erasure, or begins it anew.
func (e *Erase) account(ctx context.Context, d deletion) (Receipt, error) {
	r := Receipt{Format: receiptFormat, User: d.user, At: d.at, Again: d.at.Add(e.o.Settle), Rows: map[string]int{}}
	if err := e.list(ctx, d.user); err != nil {
		return r, err
	}
	_, old, err := receiptOf(ctx, e.set.Rows, d.user)
	if err != nil && !errors.Is(err, mayfly.NotFound) {
		return r, err
	}
	value := r.bytes()
	if err := e.swap(ctx, store.Erased, tombstoneKey(d.user), old, value); err != nil {
		return r, fmt.Errorf("write the tombstone: %w", err)
	}
	if err := e.writeDeletion(ctx, d); err != nil {
		return r, err
	}
	return e.passOver(ctx, r, value, d.at)
}

// list puts the account among those that have a pass to come: first, so that a
// crash behind it is found (L15).
func (e *Erase) list(ctx context.Context, user mayfly.UserID) error {
	found, err := e.set.Rows.Get(ctx, store.Erased, pendingKey(user))
	if err == nil && found[0] == nil {
		err = e.swap(ctx, store.Erased, pendingKey(user), nil, []byte{receiptFormat})
	}
	if err != nil {
		return fmt.Errorf("list the account: %w", err)
	}
	return nil
}

// passOver does one pass and keeps its receipt. Of a pass that ends with an
// error the receipt is not kept: the next one finds what is left.
func (e *Erase) passOver(ctx context.Context, r Receipt, old []byte, now mayfly.Instant) (Receipt, error) {
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
	if err := e.swap(ctx, store.Erased, tombstoneKey(r.User), old, r.bytes()); err != nil {
		return r, fmt.Errorf("keep the receipt: %w", err)
	}
	if r.Finished == 0 {
		return r, nil
	}
	return r, e.unlist(ctx, r.User)
}

func (e *Erase) unlist(ctx context.Context, user mayfly.UserID) error {
	if err := e.swap(ctx, store.Erased, pendingKey(user), []byte{receiptFormat}, nil); err != nil {
		return fmt.Errorf("take the account off the list: %w", err)
	}
	return nil
}

// pass erases the user's items and then every table by its rule. Nothing waits for
// a log that is away (L8): then all else is done, and the error says that another
// pass is due.
func (e *Erase) pass(ctx context.Context, r *Receipt, now mayfly.Instant) error {
	var away error
	err := e.partition(ctx, store.Owners, string(r.User[:]), func(page []store.Row) error {
		err := e.eraseOwned(ctx, r, page, now)
		if walk.IsAway(err) {
			away, err = err, nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("items: %w", err)
	}
	for _, t := range store.Tables() {
		if err := e.eraseTable(ctx, r, t); err != nil {
			return fmt.Errorf("table %s: %w", t, err)
		}
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

// accountPage is how many rows of a user are read at once.
const accountPage = 100

// partition hands the rows of a partition to do, in pages.
func (e *Erase) partition(ctx context.Context, t store.Table, partition string, do func([]store.Row) error) error {
	r := store.Range{Partition: partition, Limit: accountPage}
	for {
		page, err := e.set.Rows.Range(ctx, t, r)
		if err != nil || len(page) == 0 {
			return err
		}
		if err := do(page); err != nil || len(page) < accountPage {
			return err
		}
		r.From = page[len(page)-1].Clustering + "\x00"
	}
}

// erased counts what has gone with an item.
func (r *Receipt) erased(item mayfly.Item) {
	r.Items++
	r.count(store.Owners, 1)
	if item.Media > 0 {
		r.count(store.Uploads, 1)
	}
	if item.ServesUntil != 0 {
		r.count(store.Restored, 1)
	}
	for _, g := range []mayfly.Generation{item.Keys.Hot, item.Keys.Cold} {
		if g != 0 {
			r.Objects += int(item.Media)
		}
	}
}
