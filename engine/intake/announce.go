package intake

import (
	"context"
	"fmt"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/walk"
)

// Announce appends the events of births: what a reminder does for a birth whose
// event could not be appended when it was acknowledged. Whatever has become of
// the item since, it was born (L8).
func (in *Intake) Announce(ctx context.Context, b walk.Batch) ([]walk.Failure, error) {
	events := make([]mayfly.Event, len(b.Items))
	for i, item := range b.Items {
		events[i] = birthEvent(item)
	}
	if err := in.set.Log.Append(ctx, events...); err != nil {
		return nil, fmt.Errorf("announce %d births: %w", len(events), walk.Away(err))
	}
	return nil, nil
}

// birthEvent is the event of an item's birth, whatever it has become.
func birthEvent(item mayfly.Item) mayfly.Event {
	item.Generation, item.Changed = mayfly.Born, item.ID.Birth()
	return mayfly.EventOf(item, mayfly.WasCreated)
}
