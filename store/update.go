package store

import (
	"bytes"
	"context"
	"errors"

	"github.com/mayflyhq/mayfly"
)

// updateTries bounds how often Update composes a change again after another
// writer changed the row first.
const updateTries = 16

// swapTries bounds how often a swap is repeated whose outcome is not known.
const swapTries = 4

// Update changes a row of a swapped table by compare-and-set. It reads the row,
// calls change with its value (nil when the row does not exist) and writes what
// change returns (nil removes the row); when another writer was first, it calls
// change again with the new value. If change returns the value it was given,
// nothing is written. It returns the value of the row after the update.
//
// A row that holds what was to be written after an outcome that was not known counts
// as written, so two callers that write the same bytes must mean the same thing. An
// error of change ends the update and is returned.
// Errors: those of Rows, and Unavailable when the row keeps changing.
func Update(ctx context.Context, rows Rows, t Table, key Key, reclaimAt mayfly.Instant, change func(old []byte) ([]byte, error)) ([]byte, error) {
	old, err := getRow(ctx, rows, t, key)
	if err != nil {
		return nil, err
	}
	return UpdateFrom(ctx, rows, t, key, old, reclaimAt, change)
}

// UpdateFrom is Update for a caller that has just read the row: its first try
// starts from old.
func UpdateFrom(ctx context.Context, rows Rows, t Table, key Key, old []byte, reclaimAt mayfly.Instant, change func(old []byte) ([]byte, error)) ([]byte, error) {
	for range updateTries {
		next, err := change(old)
		if err != nil || sameValue(old, next) {
			return old, err
		}
		swapped, current, err := swap(ctx, rows, t, key, old, next, reclaimAt)
		switch {
		case err != nil:
			return nil, err
		case swapped:
			return next, nil
		}
		old = current
	}
	return nil, mayfly.Errorf(mayfly.Unavailable, "table %s: a row was changed by others %d times in a row", t, updateTries).WithHint("try again")
}

// Replace writes next if the row still is old, and composes nothing else. A row that
// is next already counts as written. Errors: those of Rows, and Conflict when the row
// is neither.
func Replace(ctx context.Context, rows Rows, t Table, key Key, old, next []byte, reclaimAt mayfly.Instant) error {
	swapped, current, err := swap(ctx, rows, t, key, old, next, reclaimAt)
	if err == nil && !swapped && !sameValue(current, next) {
		return mayfly.Errorf(mayfly.Conflict, "table %s: another writer has just changed the row", t).WithHint("read it again and retry")
	}
	return err
}

// swap is Rows.Swap, repeated while its outcome is not known. A row that is next, or
// that another writer has changed since, settles it. One that still is old does not,
// because a read may miss a swap that the store has accepted and completes later: only
// the same swap again shows what became of it. Errors: Unavailable also when it is
// never known.
func swap(ctx context.Context, rows Rows, t Table, key Key, old, next []byte, reclaimAt mayfly.Instant) (swapped bool, current []byte, err error) {
	for try := range swapTries {
		swapped, current, err = rows.Swap(ctx, t, key, old, next, reclaimAt)
		if !errors.Is(err, mayfly.Unknown) {
			return swapped || err == nil && try > 0 && sameValue(current, next), current, err
		}
		found, readErr := getRow(ctx, rows, t, key)
		if written := sameValue(found, next); readErr == nil && (written || !sameValue(found, old)) {
			return written, found, nil
		}
	}
	return false, nil, mayfly.Errorf(mayfly.Unavailable, "table %s: whether the row was written is not known: %v", t, err).WithHint("try again")
}

// RemoveRow removes a row of a swapped table, whatever its value has become
// since it was read as old.
func RemoveRow(ctx context.Context, rows Rows, t Table, key Key, old []byte) error {
	_, err := UpdateFrom(ctx, rows, t, key, old, 0, func([]byte) ([]byte, error) { return nil, nil })
	return err
}

func getRow(ctx context.Context, rows Rows, t Table, key Key) ([]byte, error) {
	found, err := rows.Get(ctx, t, key)
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

// sameValue compares two values of a row; nil stands for absence.
func sameValue(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }
