package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Replay lets a group read a stream again, from the first event at or after the
// instant (0 is the oldest kept), and says how many events wait for it then. The
// group's readers must have stopped. What they did before they will be told to do
// again: effects happen once because events carry a key (I13). Errors: Conflict
// (others read for the group), Invalid, Unavailable.
func Replay(ctx context.Context, log store.Log, stream mayfly.Stream, group string, from mayfly.Instant) (waiting int64, err error) {
	r, err := log.Reader(ctx, stream, group)
	if err != nil {
		return 0, fmt.Errorf("replay %s: %w", stream, err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if err := r.Seek(ctx, from); err != nil {
		return 0, fmt.Errorf("replay %s: %w", stream, err)
	}
	if err := r.Commit(ctx); err != nil {
		return 0, fmt.Errorf("replay %s: %w", stream, err)
	}
	if waiting, err = r.Lag(ctx); err != nil {
		return 0, fmt.Errorf("replay %s: it is done, but how many events wait is not known: %w", stream, err)
	}
	return waiting, nil
}
