package diskstore

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mayflyhq/mayfly"
)

// failed gives what the disk or the database answered a kind.
func failed(doing string, err error) error {
	var known *mayfly.Error
	wrapped := fmt.Errorf("%s: %w", doing, err)
	switch {
	case errors.As(err, &known):
		return wrapped
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return mayfly.Wrap(mayfly.Full, wrapped, "free space on the disk")
	case errors.Is(err, pebble.ErrCorruption):
		return mayfly.Wrap(mayfly.Corrupt, wrapped, "restore the object from the other tier or a backup")
	default:
		return mayfly.Wrap(mayfly.Unavailable, wrapped, "")
	}
}
