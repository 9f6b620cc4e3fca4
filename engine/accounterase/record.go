package erase

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/store"
)

// audited writes the intent down, does the deed and writes down what came of it.
func (e *Erase) audited(ctx context.Context, entry audit.Entry, now mayfly.Instant, deed func() (detail string, err error)) error {
	if e.o.Audit == nil {
		return mayfly.Errorf(mayfly.Invalid, "%s is not done without an audit log", entry.Verb)
	}
	intent, err := e.o.Audit.Record(ctx, entry, now)
	if err != nil {
		return fmt.Errorf("write the intent down: %w", err)
	}
	detail, err := deed()
	outcome := audit.Done
	if err != nil {
		outcome, detail = audit.Failed, fmt.Sprintf("%s; %v", detail, err)
	}
	if _, failed := e.o.Audit.Record(ctx, entry.Concluded(intent, outcome, detail), now); failed != nil {
		return errors.Join(err, fmt.Errorf("write the outcome down: %w", failed))
	}
	return err
}

// swap replaces old by next. Conflict: somebody else was there. An answer that is
// lost is read back: whoever else writes the same bytes has done the same.
func (e *Erase) swap(ctx context.Context, t store.Table, key store.Key, old, next []byte) error {
	swapped, current, err := e.set.Rows.Swap(ctx, t, key, old, next, 0)
	if errors.Is(err, mayfly.Unknown) {
		found, failed := e.set.Rows.Get(ctx, t, key)
		if failed != nil {
			return errors.Join(err, failed)
		}
		current, err = found[0], nil
		if !bytes.Equal(current, next) || (current == nil) != (next == nil) {
			return mayfly.Errorf(mayfly.Unavailable, "%s: the row could not be written", t)
		}
		swapped = true
	}
	if err != nil {
		return err
	}
	if !swapped && (!bytes.Equal(current, next) || (current == nil) != (next == nil)) {
		return mayfly.Errorf(mayfly.Conflict, "%s: somebody else has just changed the row", t).WithHint("look again, and try again")
	}
	return nil
}
