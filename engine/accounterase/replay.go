package erase

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// Accounts does every pass that is due: second ones, those that a crash cut
// short, and those for what was held. It answers how many it did.
func (e *Erase) Accounts(ctx context.Context, now mayfly.Instant) (done int, err error) {
	var failed error
	err = e.partition(ctx, store.Erased, pending, func(page []store.Row) error {
		for _, row := range page {
			if len(row.Clustering) != len(mayfly.UserID{}) {
				return mayfly.Errorf(mayfly.Corrupt, "a key of %d bytes", len(row.Clustering))
			}
			did, err := e.due(ctx, mayfly.UserID([]byte(row.Clustering)), now)
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
		unknown, err := e.unknown(ctx, page)
		if err != nil {
			return again, fmt.Errorf("replay: %w", err)
		}
		for _, d := range unknown {
			did, err := e.replay(ctx, d, now)
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

// compareAtOnce is how many lines of the deletion ledger are read at once. A node
// reads all of them before it serves, and nearly all need nothing.
const compareAtOnce = 16

// unknown are the deletions of a page that the store does not know to be finished.
func (e *Erase) unknown(ctx context.Context, page []store.Listed) ([]deletion, error) {
	all, finished := make([]deletion, len(page)), make([]bool, len(page))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(compareAtOnce)
	for i, listed := range page {
		g.Go(func() (err error) {
			if all[i], err = e.readDeletion(ctx, listed.Key); err != nil {
				return err
			}
			r, _, err := receiptOf(ctx, e.set.Rows, all[i].user)
			if err != nil && !errors.Is(err, mayfly.NotFound) {
				return err
			}
			finished[i] = err == nil && r.At >= all[i].at && r.Finished != 0
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	var left []deletion
	for i, d := range all {
		if !finished[i] {
			left = append(left, d)
		}
	}
	return left, nil
}

func (e *Erase) replay(ctx context.Context, d deletion, now mayfly.Instant) (bool, error) {
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
	if errors.Is(err, mayfly.Conflict) || walk.IsAway(err) {
		return false, nil // another node is at it, or only the log is left to tell; the account is on the list
	}
	return err == nil, err
}
