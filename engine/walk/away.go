package walk

import (
	"context"
	"errors"

	"github.com/mayflyhq/mayfly"
)

// Away is the error of an act that has done its deed and could not tell of it,
// because the log does not answer. No step depends on the log (L8): the first look
// goes on, and the second, which tells again, waits for it; nobody is parked for
// it (L10). Whatever the driver calls it, a time-out that was
// used up there is not the item's. What is Invalid is the item's own.
func Away(err error) error {
	if err == nil || errors.Is(err, mayfly.Invalid) {
		return err
	}
	return mayfly.Wrap(mayfly.Unavailable, elsewhere{err}, "")
}

// IsAway says whether err is one of Away.
func IsAway(err error) bool {
	var e elsewhere
	return errors.As(err, &e)
}

// Down is the error of an act that could not do its deed because a store does not
// answer: every item would fare alike. The walk waits, nobody is parked and no try
// is counted (L10), however long the act has waited for it.
func Down(err error) error {
	if err == nil {
		return nil
	}
	return mayfly.Wrap(mayfly.Unavailable, silent{elsewhere{err}}, "")
}

// IsDown says whether err is one of Down.
func IsDown(err error) bool {
	var e silent
	return errors.As(err, &e)
}

// silent is an error of a store that does not answer.
type silent struct{ elsewhere }

// elsewhere is an error of what an act waited for: its time-out is not the act's.
type elsewhere struct{ err error }

func (e elsewhere) Error() string { return e.err.Error() }

// Is says what the error is, but for the time-out.
func (e elsewhere) Is(target error) bool {
	return target != context.DeadlineExceeded && errors.Is(e.err, target)
}
