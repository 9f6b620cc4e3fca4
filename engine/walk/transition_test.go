package walk_test

import (
	"context"
	"errors"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// lostAnswers is a ledger that makes other changes instead of those it is asked
// for, and never answers what became of them.
type lostAnswers struct {
	store.Ledger
	instead []mayfly.Change
	err     error // of Transition
	readErr error // of Get
}

func (l *lostAnswers) Transition(ctx context.Context, changes []mayfly.Change) ([]store.Outcome, error) {
	if l.instead != nil {
		if _, err := l.Ledger.Transition(ctx, l.instead); err != nil {
			return nil, err
		}
	}
	outcomes := make([]store.Outcome, len(changes))
	for i := range outcomes {
		outcomes[i].Result = store.InDoubt
	}
	return outcomes, l.err
}

func (l *lostAnswers) Get(ctx context.Context, ids ...mayfly.ID) ([]store.Found, error) {
	if l.readErr != nil {
		return nil, l.readErr
	}
	return l.Ledger.Get(ctx, ids...)
}

func TestAChangeInDoubtIsAppliedOnlyIfTheRowShowsItsNonce(t *testing.T) {
	set := open(t)
	found, err := set.Ledger.Get(t.Context(), due(t, set, start, start+1, start+2)...)
	if err != nil {
		t.Fatal(err)
	}
	expire := func(i int) mayfly.Change {
		return walk.Compose(found[i].Item, mayfly.Change{To: mayfly.ExpiredHot, Cause: mayfly.ByExpiry, At: start + 2})
	}
	changes := []mayfly.Change{expire(0), expire(1), expire(2)}
	missing := changes[0]
	missing.ID[0] ^= 1
	l := &lostAnswers{Ledger: set.Ledger, instead: []mayfly.Change{changes[0], expire(1)}} // the second by another process
	outcomes, err := walk.Transition(t.Context(), l, append(changes, missing))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []store.Result{store.Applied, store.Stale, store.InDoubt, store.Missing} {
		if outcomes[i].Result != want {
			t.Errorf("change %d is %s, want %s", i, outcomes[i].Result, want)
		}
	}
	if outcomes[1].Current.State != mayfly.ExpiredHot || outcomes[2].Current != found[2].Item {
		t.Errorf("rows as they are: %+v, %+v", outcomes[1].Current, outcomes[2].Current)
	}

	away := mayfly.Errorf(mayfly.Unavailable, "away")
	l.instead, l.err = changes[2:], away
	if outcome, err := walk.TransitionOne(t.Context(), l, changes[2]); err != nil || outcome.Result != store.Applied {
		t.Errorf("a change that landed behind an error: %+v, %v", outcome, err)
	}
	if _, err := walk.Transition(t.Context(), l, changes); !errors.Is(err, away) {
		t.Errorf("a batch that failed: %v", err)
	}
	l.readErr = away
	if _, err := walk.TransitionOne(t.Context(), l, changes[2]); !errors.Is(err, mayfly.Unknown) {
		t.Errorf("a change whose row cannot be read: %v", err)
	}
	l.err = nil
	if _, err := walk.Transition(t.Context(), l, changes); !errors.Is(err, away) {
		t.Errorf("changes whose rows cannot be read: %v", err)
	}
}
