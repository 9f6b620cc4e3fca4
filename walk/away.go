package walk

import (
	"context"
	"errors"

	"github.com/mayflyhq/mayfly"
)

// Away is the error of an act that stands still because something which every
// item needs does not answer, the log above all: the walk then waits for it, and
// parks nobody for it (L10). Whatever the driver calls it, a time-out that was
// used up there is not the item's. What is Invalid is the item's own.
func Away(err error) error {
	if err == nil || errors.Is(err, mayfly.Invalid) {
		return err
	}
	return mayfly.Wrap(mayfly.Unavailable, elsewhere{err}, "")
}

// elsewhere is an error of what an act waited for: its time-out is not the act's.
type elsewhere struct{ err error }

func (e elsewhere) Error() string { return e.err.Error() }

// Is says what the error is, but for the time-out.
func (e elsewhere) Is(target error) bool {
	return target != context.DeadlineExceeded && errors.Is(e.err, target)
}
