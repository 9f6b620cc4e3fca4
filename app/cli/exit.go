package cli

import (
	"context"
	"errors"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/node"
)

// Exit codes. Scripts rely on them: the meaning of a number never changes.
const (
	exitOK          = 0
	exitWrong       = 1 // the verb found something wrong, or failed for another reason than those below
	exitUsage       = 2 // invalid command line or configuration
	exitConflict    = 3 // the data folder is in use or belongs to another program; or the item's state does not allow it
	exitFull        = 4 // the free-space floor is reached
	exitUnavailable = 5 // a store is unavailable, or the clock is unconfirmed
	exitCorrupt     = 6 // stored data is damaged
	exitDisk        = 7 // a write that must be durable failed: nothing more was acknowledged (I20)
	exitInterrupted = 130
)

// wrongError is the error of a verb that has already printed what is wrong.
type wrongError string

func (e wrongError) Error() string { return string(e) }

const errWrong wrongError = "the check failed"

type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func usage(err error) error { return usageError{err} }

func exitCode(err error) int {
	var use usageError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.As(err, &use), errors.Is(err, mayfly.Invalid):
		return exitUsage
	case node.DiskFailed(err):
		return exitDisk
	case errors.Is(err, mayfly.Conflict):
		return exitConflict
	case errors.Is(err, mayfly.Full):
		return exitFull
	case errors.Is(err, mayfly.Unavailable):
		return exitUnavailable
	case errors.Is(err, mayfly.Corrupt):
		return exitCorrupt
	default:
		return exitWrong
	}
}
