// Package audit records what support and operators did: who, to what, why, and
// with what outcome. The log is append-only and chained by hash, so that Verify
// finds a record that was changed, moved or removed (C6).
//
// Each operation makes two records: an intent, durable before the operation
// begins, and an outcome. After an intent without an outcome only the item's row
// shows whether the operation happened. A failed outcome record undoes nothing.
//
// Records are never changed or erased, and outlive the accounts that they name
// (store.Kept, ST14): they must never contain what a user wrote.
package audit

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Log writes the chain of this process; each start of a process begins a new
// one. It keeps only the end of the chain in memory. Safe for concurrent use.
type Log struct {
	rows  store.Rows
	turn  chan struct{} // lock of the writer; a channel, so that ctx can end the wait
	chain listing       // the end of the chain as last confirmed
	row   []byte        // the chain's row in the directory as last confirmed; nil before the first record
	doubt *Record       // a record with an unknown result, which may still land: its number is not given to another
}

// Open begins a chain for writer, the name of the process in the log. A random
// suffix makes the name of the chain unique to this start of the process. Nothing
// is written before the first record.
func Open(ctx context.Context, rows store.Rows, writer string, now mayfly.Instant) (*Log, error) {
	if !validChain(writer) || len(writer) > maxWriter {
		return nil, mayfly.Errorf(mayfly.Invalid, "audit: invalid writer name %.80q", writer).
			WithHint(fmt.Sprintf("use 1 to %d letters, digits and . - _ :", maxWriter))
	}
	if _, err := rows.Range(ctx, Table, store.Range{Partition: directory, Limit: 1}); err != nil {
		return nil, fmt.Errorf("audit: read the directory: %w", err)
	}
	var suffix [16]byte
	_, _ = rand.Read(suffix[:]) // it never fails
	chain := writer + "." + hex.EncodeToString(suffix[:])
	return &Log{
		rows: rows, turn: make(chan struct{}, 1),
		chain: listing{Head: Head{Chain: chain}, opened: now, moved: now},
	}, nil
}

// Chain returns the name of the chain.
func (l *Log) Chain() string { return l.chain.Chain }

// Record appends e to the chain. The record is durable on return, and only then
// may the operation begin. Concurrent calls write one after another.
//
// On an error of kind Unknown the record may be in the chain or land later; the
// operation must not begin. The chain stays valid: the next call writes the same
// record again before its own. Other kinds: Invalid and TooLarge (the entry),
// Unavailable (nothing was written), Corrupt (another process wrote into this
// chain; a restart begins a new one).
func (l *Log) Record(ctx context.Context, e Entry, now mayfly.Instant) (Ref, error) {
	if err := e.Validate(); err != nil {
		return Ref{}, err
	}
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return Ref{}, mayfly.Wrap(mayfly.Unavailable, ctx.Err(), "")
	}
	if err := l.settle(ctx); err != nil {
		return Ref{}, err
	}
	if err := l.list(ctx); err != nil {
		return Ref{}, err
	}
	r := &Record{
		Ref: Ref{Chain: l.chain.Chain, Number: Number(l.chain.Count)}, Entry: e,
		At: max(now, l.chain.moved), Prev: l.chain.Hash,
	}
	if r.Number%AnchorEvery == 0 {
		var err error
		if r.Anchors, err = anchors(ctx, l.rows, l.chain.Chain); err != nil {
			return Ref{}, err
		}
	}
	if err := l.append(ctx, r); err != nil {
		return Ref{}, err
	}
	return r.Ref, nil
}

// Do records the intent, runs the operation, and records the outcome with the
// detail that the operation returned. The operation does not run when the intent
// cannot be recorded. On a nil Log it is refused with Invalid.
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

// tries is how often a write is tried while its result is unknown. Each try
// writes the same bytes, so that it does no harm if one of them lands late.
const tries = 3

// settle writes an earlier record with an unknown result again. If its number
// were given to another record, a write that lands late would break the chain.
func (l *Log) settle(ctx context.Context) error {
	if l.doubt == nil {
		return nil
	}
	if err := l.append(ctx, l.doubt); err != nil {
		return fmt.Errorf("audit: the result of an earlier record is still unknown: %w", err)
	}
	return nil
}

// list adds the chain to the directory, before its first record.
func (l *Log) list(ctx context.Context) error {
	if l.row != nil {
		return nil
	}
	row := l.chain.seal()
	if _, err := l.insert(ctx, listingKey(l.chain.Chain), row); err != nil {
		return fmt.Errorf("audit: list the chain: %w", err)
	}
	l.row = row
	return nil
}

// append writes r at the end of the chain and advances the end.
func (l *Log) append(ctx context.Context, r *Record) error {
	may, err := l.insert(ctx, recordKey(r.Ref), r.seal())
	if err != nil {
		if may {
			l.doubt = r // also when r was in doubt before
		}
		return fmt.Errorf("audit: record %s: %w", r.Ref, err)
	}
	l.doubt = nil
	l.chain.Count, l.chain.Hash, l.chain.moved = uint64(r.Number)+1, r.Hash, r.At
	l.move(ctx)
	return nil
}

// insert writes value under a key that has none. Only this log can write that
// value: the same value found under the key comes from an earlier try. With an
// error, may reports whether the value may have been written or may still land.
func (l *Log) insert(ctx context.Context, key store.Key, value []byte) (may bool, err error) {
	for range tries {
		var swapped bool
		var current []byte
		swapped, current, err = l.rows.Swap(ctx, Table, key, nil, value, 0)
		if errors.Is(err, mayfly.Unknown) {
			may = true
			found, failed := l.rows.Get(ctx, Table, key)
			if failed != nil || found[0] == nil {
				continue
			}
			current, err = found[0], nil
		}
		switch {
		case err != nil:
			return may, inDoubt(may, err)
		case swapped, bytes.Equal(current, value):
			return true, nil
		default:
			return may, mayfly.Errorf(mayfly.Corrupt, "another process wrote into this chain").
				WithHint("run mayfly audit verify to see where; restart the process to begin a new chain")
		}
	}
	return may, inDoubt(may, err)
}

// inDoubt turns err into kind Unknown if an earlier try had an unknown result:
// the failure of the last try says nothing about the tries before it.
func inDoubt(may bool, err error) error {
	if !may || errors.Is(err, mayfly.Unknown) {
		return err
	}
	return mayfly.Wrap(mayfly.Unknown, err, "")
}

// move updates the chain's row in the directory. The record is valid whether this
// succeeds or not: the next record updates a row that was left behind.
func (l *Log) move(ctx context.Context) {
	next := l.chain.seal()
	row, err := store.UpdateFrom(ctx, l.rows, Table, listingKey(l.chain.Chain), l.row, 0, func([]byte) ([]byte, error) { return next, nil })
	if err == nil {
		l.row = row
	}
}
