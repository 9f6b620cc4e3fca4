package walk_test

import (
	"context"
	"errors"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/walk"
)

func TestWhatIsAwayIsWaitedForAndWhatIsInvalidIsTheItems(t *testing.T) {
	for _, err := range []error{mayfly.Unknown, mayfly.Unavailable, context.DeadlineExceeded, errors.New("?")} {
		if err := walk.Away(err); !errors.Is(err, mayfly.Unavailable) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v would be parked", err)
		}
	}
	if err := walk.Away(mayfly.Errorf(mayfly.Invalid, "no event")); !errors.Is(err, mayfly.Invalid) || errors.Is(err, mayfly.Unavailable) {
		t.Errorf("%v would be waited for", err)
	}
	if walk.Away(nil) != nil || walk.Down(nil) != nil {
		t.Error("nothing is away")
	}
}

func TestAStoreThatIsDownIsNotTheLog(t *testing.T) {
	err := walk.Down(mayfly.Wrap(mayfly.Full, context.DeadlineExceeded, ""))
	if !errors.Is(err, mayfly.Unavailable) || !errors.Is(err, mayfly.Full) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v would be parked", err)
	}
	if !walk.IsDown(err) || walk.IsAway(err) || walk.IsDown(walk.Away(mayfly.Unavailable)) || walk.IsDown(mayfly.Unavailable) {
		t.Errorf("%v is taken for another", err)
	}
}
