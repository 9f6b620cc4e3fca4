package cli

import (
	"context"
	"errors"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/node"
)

// Exit codes. Scripts rely on them: a number is never given another meaning.
const (
	exitOK          = 0
	exitWrong       = 1 // it ran, and what it found is not right; or it failed in a way of no other number
	exitUsage       = 2 // the command line cannot be understood
	exitConflict    = 3 // the data folder is in use, or is not ours
	exitFull        = 4 // the free-space floor is reached
	exitUnavailable = 5 // a store is away, or the clock is in doubt
	exitCorrupt     = 6 // stored bytes are not what was written
	exitDisk        = 7 // a write that must be durable failed: nothing more was acknowledged (I20)
	exitInterrupted = 130
)

// wrongError is the error of a verb that has already said what is wrong.
type wrongError string

func (e wrongError) Error() string { return string(e) }

const errWrong wrongError = "not all was right"

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
