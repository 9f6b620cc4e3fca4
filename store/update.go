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

// Update changes a row of a swapped table by compare-and-set. It reads the row,
// calls change with its value (nil when the row does not exist) and writes what
// change returns (nil removes the row); when another writer was first, it calls
// change again with the new value. If change returns the value it was given,
// nothing is written. It returns the value of the row after the update.
//
// After an error of kind Unknown the row is read again: a row that holds what
// was to be written counts as written, so two callers that write the same bytes
// must mean the same thing. An error of change ends the update and is returned.
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
		swapped, current, err := rows.Swap(ctx, t, key, old, next, reclaimAt)
		if errors.Is(err, mayfly.Unknown) {
			if current, err = getRow(ctx, rows, t, key); err == nil {
				swapped = sameValue(current, next)
			}
		}
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

// Replace writes next if the row still is old, and tries once. A row that is next
// already counts as written. Errors: those of Rows, and Conflict when the row is
// neither.
func Replace(ctx context.Context, rows Rows, t Table, key Key, old, next []byte, reclaimAt mayfly.Instant) error {
	swapped, current, err := rows.Swap(ctx, t, key, old, next, reclaimAt)
	if errors.Is(err, mayfly.Unknown) {
		if current, err = getRow(ctx, rows, t, key); err == nil && !sameValue(current, next) {
			return mayfly.Errorf(mayfly.Unavailable, "table %s: the row could not be written", t).WithHint("try again")
		}
	}
	if err == nil && !swapped && !sameValue(current, next) {
		return mayfly.Errorf(mayfly.Conflict, "table %s: another writer has just changed the row", t).WithHint("read it again and retry")
	}
	return err
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
