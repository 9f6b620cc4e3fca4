package erase

import (
	"context"
	"errors"
	"fmt"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Accounts does every pass that is due: second ones, those that a crash cut
// short, and those for what was held. It answers how many it did.
func (e *Erase) Accounts(ctx context.Context, now mayfly.Instant) (done int, err error) {
	var failed error
	err = e.partition(ctx, store.Erased, pending, func(page []store.Row) error {
		for _, row := range page {
			if len(row.Sort) != len(mayfly.UserID{}) {
				return mayfly.Errorf(mayfly.Corrupt, "a key of %d bytes", len(row.Sort))
			}
			did, err := e.due(ctx, mayfly.UserID([]byte(row.Sort)), now)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil { // one account that fails does not hold up the others
				failed = err
			}
			if did {
				done++
			}
		}
		return nil
	})
	if err = errors.Join(err, failed); err != nil {
		return done, fmt.Errorf("accounts: %w", err)
	}
	return done, nil
}

// due does the pass of one account if it is due.
func (e *Erase) due(ctx context.Context, user mayfly.UserID, now mayfly.Instant) (bool, error) {
	r, old, err := receiptOf(ctx, e.set.Rows, user)
	switch {
	case errors.Is(err, mayfly.NotFound):
		return false, nil // listed, and no tombstone yet: whoever asked for it was told that it failed, or asks now
	case err != nil:
		return false, err
	case r.Finished != 0:
		return false, e.unlist(ctx, user)
	case r.Again > now:
		return false, nil
	}
	_, err = e.passOver(ctx, r, old, now)
	if errors.Is(err, mayfly.Conflict) {
		return false, nil // another node does it
	}
	if err != nil {
		return false, fmt.Errorf("%s: %w", user, err)
	}
	return true, nil
}

// Replay erases again every account of the deletion ledger that the store does
// not know to be erased, or erased since: a backup was put back (ST14). A node
// calls it before its first read. It answers how many it erased.
func (e *Erase) Replay(ctx context.Context, now mayfly.Instant) (again int, err error) {
	if e.o.Deletions == nil {
		return 0, mayfly.Errorf(mayfly.Invalid, "replay: there is no deletion ledger")
	}
	from := mayfly.BlobKey(deletionPrefix)
	for {
		page, err := e.o.Deletions.List(ctx, from, deletionEnd, listPage)
		if err != nil {
			return again, fmt.Errorf("replay: list the deletion ledger: %w", err)
		}
		for _, listed := range page {
			did, err := e.replay(ctx, listed.Key, now)
			if err != nil {
				return again, fmt.Errorf("replay: %w", err)
			}
			if did {
				again++
			}
		}
		if len(page) < listPage {
			return again, nil
		}
		from = page[len(page)-1].Key + "\x00"
	}
}

func (e *Erase) replay(ctx context.Context, key mayfly.BlobKey, now mayfly.Instant) (bool, error) {
	d, err := e.readDeletion(ctx, key)
	if err != nil {
		return false, err
	}
	r, old, err := receiptOf(ctx, e.set.Rows, d.user)
	switch known := err == nil && r.At >= d.at; {
	case err != nil && !errors.Is(err, mayfly.NotFound):
		return false, err
	case known && r.Finished != 0:
		return false, nil
	case known:
		if err := e.list(ctx, d.user); err != nil {
			return false, err
		}
		_, err = e.passOver(ctx, r, old, now)
	default:
		_, err = e.Account(ctx, d.user, "mayfly", "the deletion ledger names the account", now)
	}
	if errors.Is(err, mayfly.Conflict) {
		return false, nil // another node is at it, and the account is on its list
	}
	return err == nil, err
}
