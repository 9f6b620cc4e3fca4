package audit

import (
	"context"
	"errors"
	"fmt"

	"github.com/mayflyhq/mayfly"
)

// Do runs an operation between two records: the intent, without which it is not
// run, and the outcome with the detail that the operation returns. On a nil Log
// the operation is refused with Invalid.
func (l *Log) Do(ctx context.Context, intent Entry, now mayfly.Instant, operation func() (detail string, err error)) error {
	if l == nil {
		return mayfly.Errorf(mayfly.Invalid, "%s needs an audit log", intent.Verb)
	}
	ref, err := l.Record(ctx, intent, now)
	if err != nil {
		return fmt.Errorf("record the intent: %w", err)
	}
	detail, err := operation()
	outcome := Done
	if err != nil {
		outcome, detail = Failed, fmt.Sprintf("%s; %v", detail, err)
	}
	if _, failed := l.Record(ctx, intent.Concluded(ref, outcome, detail), now); failed != nil {
		return errors.Join(err, fmt.Errorf("record the outcome: %w", failed))
	}
	return err
}
