package sim

import (
	"context"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// witnessed returns set with a witness in front of it that writes into the record what
// the store has acknowledged to the engine.
func (b *record) witnessed(set store.Set) store.Set {
	set.Writer = witnessWriter{set.Writer, b}
	set.Ledger = witnessLedger{set.Ledger, b}
	set.Log = witnessLog{set.Log, b}
	return set
}

type witnessWriter struct {
	store.Writer
	record *record
}

func (w witnessWriter) Commit(ctx context.Context, batch *store.Batch) error {
	err := w.Writer.Commit(ctx, batch)
	if err == nil {
		for _, stage := range batch.Stages() {
			for _, e := range stage.Events {
				w.record.write(ack{wish: -1, event: &e})
			}
		}
	}
	return err
}

type witnessLedger struct {
	store.Ledger
	record *record
}

func (l witnessLedger) Transition(ctx context.Context, changes []mayfly.Change) ([]store.Outcome, error) {
	outcomes, err := l.Ledger.Transition(ctx, changes)
	if err == nil {
		for _, o := range outcomes {
			if o.Result == store.Applied {
				l.record.write(ack{wish: -1, row: &o.Current})
			}
		}
	}
	return outcomes, err
}

type witnessLog struct {
	store.Log
	record *record
}

func (l witnessLog) Append(ctx context.Context, events ...mayfly.Event) error {
	err := l.Log.Append(ctx, events...)
	if err == nil {
		for _, e := range events {
			l.record.write(ack{wish: -1, event: &e})
		}
	}
	return err
}
