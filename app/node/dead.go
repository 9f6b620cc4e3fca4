package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/remind"
)

// RetryDead puts dead letters on their way again, due at due, and says how many.
// Each is written down (C6).
func (n *Node) RetryDead(ctx context.Context, dead []remind.Dead, by, reason string, due, now mayfly.Instant) (done int, err error) {
	for _, d := range dead {
		err := n.audited(ctx, audit.RetryDeadLetter, d, by, reason, now, func() error {
			return remind.Retry(ctx, n.set, d.ID, d.Step, due)
		})
		if err != nil {
			return done, fmt.Errorf("retry %s of %s: %w", d.Step, d.ID, err)
		}
		done++
	}
	return done, nil
}

// DropDead forgets a dead letter. It is written down with its reason.
func (n *Node) DropDead(ctx context.Context, d remind.Dead, by, reason string, now mayfly.Instant) error {
	return n.audited(ctx, audit.DropDeadLetter, d, by, reason, now, func() error {
		return remind.Drop(ctx, n.set.Rows, d.ID, d.Step)
	})
}

func (n *Node) audited(ctx context.Context, verb audit.Verb, d remind.Dead, by, reason string, now mayfly.Instant, do func() error) error {
	entry := audit.Entry{Actor: by, Verb: verb, Subject: audit.Subject{Item: d.ID}, Reason: reason, Detail: d.Step.String()}
	intent, err := n.engine.audit.Record(ctx, entry, now)
	if err != nil {
		return err
	}
	outcome, failed := audit.Done, do()
	if failed != nil {
		outcome = audit.Failed
	}
	_, err = n.engine.audit.Record(ctx, entry.Concluded(intent, outcome, d.Step.String()), now)
	return errors.Join(failed, err)
}
