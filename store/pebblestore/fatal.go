package pebblestore

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mayflyhq/mayfly"
)

// readError gives an error of a read its kind.
func readError(what string, err error) error {
	var known *mayfly.Error
	switch {
	case errors.As(err, &known):
		return fmt.Errorf("%s: %w", what, err)
	case errors.Is(err, pebble.ErrCorruption):
		return mayfly.Wrap(mayfly.Corrupt, fmt.Errorf("%s: %w", what, err), "restore the data folder from a backup")
	default:
		return mayfly.Wrap(mayfly.Unavailable, fmt.Errorf("%s: %w", what, err), "")
	}
}
