package accounterase

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// RunDue makes every pass that is due: second passes, those that a crash
// interrupted, and those for held items. It returns how many it made.
func (e *Eraser) RunDue(ctx context.Context, now mayfly.Instant) (done int, err error) {
	err = e.due(ctx, now, func(entry entry) (mayfly.Instant, error) {
		did, later, err := e.passDue(ctx, entry, now)
		if did {
			done++
		}
		return later, err
	})
	if err != nil {
		return done, fmt.Errorf("erase accounts: %w", err)
	}
	return done, nil
}

// maxBegin is how long an account is listed whose tombstone does not come.
const maxBegin = time.Hour

// passDue makes the pass of an account if it is due. later is when the account has
// to be looked at again, if nothing else has listed it for then.
func (e *Eraser) passDue(ctx context.Context, entry entry, now mayfly.Instant) (did bool, later mayfly.Instant, err error) {
	r, old, err := recordOf(ctx, e.set.Rows, entry.user)
	switch {
	case errors.Is(err, mayfly.NotFound): // the call failed before its tombstone, or is under way
		if now.Sub(entry.listed) < maxBegin {
			later = now.Add(shortestPause)
		}
		return false, later, nil
	case err != nil:
		return false, now.Add(shortestPause), err
	case r.Finished != 0 || r.Again > now:
		return false, 0, nil
	case r.heldAt(now):
		return false, max(r.Until, now.Add(shortestPause)), nil
	}
	later = now.Add(shortestPause)
	_, err = e.take(ctx, r, old, now)
	if errors.Is(err, mayfly.Conflict) {
		return false, later, nil // another process does it
	}
	if err != nil {
		return false, later, fmt.Errorf("%s: %w", entry.user, err)
	}
	return true, 0, nil
}

// take takes the lease of an account and makes a pass.
func (e *Eraser) take(ctx context.Context, r record, old []byte, now mayfly.Instant) (Receipt, error) {
	p := e.newPass(r, old, now)
	if err := p.save(ctx); err != nil {
		return r.Receipt, err
	}
	return p.run(ctx)
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
			r, _, err := recordOf(ctx, e.set.Rows, all[i].user)
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
	r, old, err := recordOf(ctx, e.set.Rows, d.user)
	switch known := err == nil && r.At >= d.at; {
	case err != nil && !errors.Is(err, mayfly.NotFound):
		return false, err
	case known && r.Finished != 0:
		return false, nil
	case known:
		// Also if another process seems to hold the lease: it may have died with the
		// node that starts here.
		if err := e.list(ctx, d.user, now.Add(e.o.Settle), now); err != nil {
			return false, err
		}
		_, err = e.take(ctx, r, old, now)
	default:
		_, err = e.Account(ctx, d.user, audit.Actor{Subject: "mayfly"}, "the deletion ledger names the account", now)
	}
	if errors.Is(err, mayfly.Conflict) || walk.IsAway(err) {
		return false, nil // another node does it, or only the log is missing; the account is on the list
	}
	return err == nil, err
}
