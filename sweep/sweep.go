// Package sweep is in charge of hard expiry: the walk at offset zero. It moves
// what is past its deadline to its fate and tells the log.
//
// Nobody waits for it: that an item has stopped serving is arithmetic on its id
// (L2). It erases nothing, moves nothing before its deadline (I5), and leaves
// alone what somebody deleted, restored, or holds from being purged (I21).
package sweep

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/remind"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/walk"
)

// Name is the sweep's name among the walks.
const Name = "sweep"

// Sweep expires items.
type Sweep struct {
	ledger  store.Ledger
	log     store.Log
	signals store.Signals
}

// New is the sweep over set, as a walk.
func New(set store.Set) walk.Walk {
	s := &Sweep{ledger: set.Ledger, log: set.Log, signals: set.Signals}
	return walk.Walk{Name: Name, Act: s.act, Park: park}
}

// park reminds of an item that could not be expired.
func park(b *store.Batch, f walk.Failure, due mayfly.Instant) {
	remind.Write(b, remind.Reminder{Due: due, ID: f.Item.ID, Step: remind.Expire, Attempts: 1, Reason: fmt.Sprint(f.Err)})
}

// rounds is how often a change that met a moving row is composed again.
const rounds = 3

// act expires a batch: transitions first, their events after (L15). The event
// of a row that is found expired already is appended too where an earlier try
// may not have come so far: at least once (I13).
func (s *Sweep) act(ctx context.Context, b walk.Batch) ([]walk.Failure, error) {
	events := make([]mayfly.Event, 0, len(b.Items))
	changes := make([]mayfly.Change, 0, len(b.Items))
	var purged []mayfly.ID
	tell := func(item mayfly.Item) {
		events = append(events, mayfly.EventOf(item, mayfly.WasExpired))
		if item.State == mayfly.Deleted {
			purged = append(purged, item.ID)
		}
	}
	for _, item := range b.Items {
		switch {
		case due(item, b.Now):
			changes = append(changes, expiry(item, b))
		case expired(item) && (b.Repeat || item.Run != b.Run):
			tell(item)
		}
	}
	var failures []walk.Failure
	for round := 0; len(changes) > 0; round++ {
		outcomes, err := s.ledger.Transition(ctx, changes)
		if err != nil {
			return nil, fmt.Errorf("sweep: %w", err)
		}
		if err := s.settle(ctx, changes, outcomes); err != nil {
			return nil, err
		}
		var next []mayfly.Change
		for _, outcome := range outcomes {
			switch current := outcome.Current; {
			case outcome.Verdict == store.Missing:
			case outcome.Verdict == store.Refused:
				failures = append(failures, walk.Failure{Item: current, Err: outcome.Err})
			case expired(current): // by this change, or by another walker that may not have told the log
				tell(current)
			case due(current, b.Now) && round < rounds:
				next = append(next, expiry(current, b))
			case due(current, b.Now):
				failures = append(failures, walk.Failure{Item: current, Err: mayfly.Errorf(mayfly.Conflict, "the row keeps changing")})
			}
		}
		changes = next
	}
	if len(events) == 0 {
		return failures, nil
	}
	s.invalidate(ctx, purged)
	if err := s.log.Append(ctx, events...); err != nil {
		return nil, fmt.Errorf("sweep: append %d events: %w", len(events), err)
	}
	return failures, nil
}

// invalidate takes purged rows out of the caches: deleted is deleted for author
// and moderators too (I7), whose reads the id alone does not end. A row that is
// only expired may stay cached: Judge does not ask. Whoever cannot be told loses
// the lease of its cache by itself, and nobody waits for an answer here.
func (s *Sweep) invalidate(ctx context.Context, purged []mayfly.ID) {
	for _, id := range purged {
		_ = s.signals.Publish(ctx, store.Signal{Topic: store.RowChanged, ID: id})
	}
}

// settle reads back the rows whose change is in doubt. Whose change the row
// shows need not be told: what expired has its event appended whoever moved it,
// and what is still due is composed again.
func (s *Sweep) settle(ctx context.Context, changes []mayfly.Change, outcomes []store.Outcome) error {
	var at []int
	var ids []mayfly.ID
	for i, outcome := range outcomes {
		if outcome.Verdict == store.InDoubt {
			at, ids = append(at, i), append(ids, changes[i].ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	found, err := s.ledger.Get(ctx, ids...)
	if err != nil {
		return fmt.Errorf("sweep: read %d rows back: %w", len(ids), err)
	}
	for n, i := range at {
		outcomes[i] = store.Outcome{Verdict: store.Missing}
		if found[n].Found {
			outcomes[i] = store.Outcome{Verdict: store.Stale, Current: found[n].Item}
		}
	}
	return nil
}

// due says whether the row waits for the sweep. A held item is not purged: it
// waits for its release.
func due(item mayfly.Item, now mayfly.Instant) bool {
	return item.State == mayfly.Active && item.EndedAt(now) && !(item.Held && item.Fate == mayfly.Purge)
}

// expired says whether expiry, and not somebody, ended the item.
func expired(item mayfly.Item) bool {
	return item.Cause == mayfly.ByExpiry && (item.State == mayfly.ExpiredHot || item.State == mayfly.Deleted)
}

// expiry is the change that a due row gets.
func expiry(item mayfly.Item, b walk.Batch) mayfly.Change {
	to := mayfly.ExpiredHot
	if item.Fate == mayfly.Purge {
		to = mayfly.Deleted
	}
	return mayfly.Change{
		ID: item.ID, From: item.State, Generation: item.Generation, To: to,
		Nonce: mayfly.Nonce(rand.Uint64() | 1), Run: b.Run, Cause: mayfly.ByExpiry, At: b.Now,
	}
}
