package accounterase

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// RunDue makes every pass that is due: second passes, those that a crash
// interrupted, and those for held items. It returns how many it made.
func (e *Eraser) RunDue(ctx context.Context, now mayfly.Instant) (done int, err error) {
	var failed error
	err = e.partition(ctx, engine.Erased, pending, func(page []store.Row) error {
		for _, row := range page {
			if len(row.Clustering) != len(mayfly.UserID{}) {
				return mayfly.Errorf(mayfly.Corrupt, "a clustering key of %d bytes", len(row.Clustering))
			}
			did, err := e.due(ctx, mayfly.UserID([]byte(row.Clustering)), now)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil { // the other accounts go on
				failed = err
			}
			if did {
				done++
			}
		}
		return nil
	})
	if err = errors.Join(err, failed); err != nil {
		return done, fmt.Errorf("erase accounts: %w", err)
	}
	return done, nil
}

// due makes the pass of one account if it is due.
func (e *Eraser) due(ctx context.Context, user mayfly.UserID, now mayfly.Instant) (bool, error) {
	r, old, err := receiptOf(ctx, e.set.Rows, user)
	switch {
	case errors.Is(err, mayfly.NotFound):
		return false, nil // listed, and no tombstone yet: the call failed, or is under way
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

// Replay erases again every account of the deletion ledger whose erasure the store
// does not know, because a backup was restored (ST14). A node calls it before its
// first read. It returns how many accounts it erased.
func (e *Eraser) Replay(ctx context.Context, now mayfly.Instant) (again int, err error) {
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

// listPage is how many entries of the deletion ledger are listed at once.
const listPage = 1_000

// compareAtOnce is how many entries of the deletion ledger are read concurrently.
// A node reads all of them before it serves, and nearly all need nothing.
const compareAtOnce = 16

// unknown returns the deletions of a page that the store does not know to be
// finished.
func (e *Eraser) unknown(ctx context.Context, page []store.Listed) ([]deletion, error) {
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

func (e *Eraser) replay(ctx context.Context, d deletion, now mayfly.Instant) (bool, error) {
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
		return false, nil // another node does it, or only the log is missing; the account is on the list
	}
	return err == nil, err
}
