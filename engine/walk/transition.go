package walk

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Compose makes c a change of item as it was read: it fills in the id, the state
// and the generation that the row must have, and a nonce unless c has one.
func Compose(item mayfly.Item, c mayfly.Change) mayfly.Change {
	c.ID, c.From, c.Generation = item.ID, item.State, item.Generation
	if c.Nonce == 0 {
		c.Nonce = NewNonce()
	}
	return c
}

// NewNonce returns a random nonce; it is never zero.
func NewNonce() mayfly.Nonce { return mayfly.Nonce(rand.Uint64() | 1) }

// AppendLast appends the last events of rows that a step changes next. An earlier step
// may have stopped between its change and the event, and the row would not show that
// any more once it has changed again (I13).
func AppendLast(ctx context.Context, log store.Log, items ...mayfly.Item) error {
	var events []mayfly.Event
	for _, item := range items {
		if e, found := mayfly.LastEvent(item); found {
			events = append(events, e)
		}
	}
	if len(events) == 0 {
		return nil
	}
	if err := log.Append(ctx, events...); err != nil {
		return fmt.Errorf("append %d events of earlier changes: %w", len(events), Away(err))
	}
	return nil
}

// Transition makes changes and returns one outcome for each, in order. A change
// whose outcome is not known is read back: it is Applied if the row shows its
// nonce, and Stale if the row has moved on without it (L1). It stays InDoubt
// only if the row is as it was, because the change may still land; Current is
// that row. An error means that nothing is known of any change.
func Transition(ctx context.Context, ledger store.Ledger, changes []mayfly.Change) ([]store.Outcome, error) {
	if len(changes) == 0 {
		return nil, nil
	}
	outcomes, err := ledger.Transition(ctx, changes)
	if err == nil {
		err = settle(ctx, ledger, changes, outcomes)
	}
	if err != nil {
		return nil, err
	}
	return outcomes, nil
}

// TransitionOne makes one change for a caller that has to know what became of it.
// It differs from Transition in that an error of the store is settled too, by
// reading the row back. Errors: Unknown, if the row cannot be read.
func TransitionOne(ctx context.Context, ledger store.Ledger, c mayfly.Change) (store.Outcome, error) {
	changes := []mayfly.Change{c}
	outcomes, err := ledger.Transition(ctx, changes)
	if err != nil {
		outcomes = []store.Outcome{{Result: store.InDoubt}}
	}
	if readErr := settle(ctx, ledger, changes, outcomes); readErr != nil {
		return store.Outcome{}, mayfly.Errorf(mayfly.Unknown, "whether %s was changed is not known: %w", c.ID, errors.Join(err, readErr))
	}
	if outcomes[0].Result == store.InDoubt {
		outcomes[0].Err = err
	}
	return outcomes[0], nil
}

// settle reads back the rows whose change is in doubt.
func settle(ctx context.Context, ledger store.Ledger, changes []mayfly.Change, outcomes []store.Outcome) error {
	var at []int
	var ids []mayfly.ID
	for i, outcome := range outcomes {
		if outcome.Result == store.InDoubt {
			at, ids = append(at, i), append(ids, changes[i].ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	found, err := ledger.Get(ctx, ids...)
	if err != nil {
		return fmt.Errorf("read %d rows back: %w", len(ids), err)
	}
	for n, i := range at {
		outcomes[i] = settled(changes[i], found[n])
	}
	return nil
}

// settled returns what a row tells of a change that was in doubt.
func settled(c mayfly.Change, row store.Found) store.Outcome {
	result := store.Stale
	switch {
	case !row.Found:
		return store.Outcome{Result: store.Missing}
	case row.Item.Nonce == c.Nonce:
		result = store.Applied
	case row.Item.Generation == c.Generation:
		result = store.InDoubt
	}
	return store.Outcome{Result: result, Current: row.Item}
}
