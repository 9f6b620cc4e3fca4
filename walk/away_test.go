package walk_test

import (
	"context"
	"errors"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/walk"
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
	if walk.Away(nil) != nil {
		t.Error("nothing is away")
	}
}
