// Package audit is in charge of the record of what support and operators did
// (C6): who, to what, why, and what came of it. It is append-only and chained by
// hash: a record that is changed, moved or missing is found by Verify.
//
// The protocol is two records. The intent is durable before the deed begins: no
// deed without a name and a reason. The outcome follows it (Entry.Concluded). An
// intent without an outcome says that the deed may or may not have been done: the
// row tells. An outcome that cannot be written takes no deed back.
//
// A record is never changed and never erased: ids of users in it outlive their
// accounts (store.Kept, ST14), so nothing that a user wrote belongs in it. What
// no chain can show is a store put back whole to an earlier day, or rewritten
// whole: keep the heads of a Report elsewhere and ask VerifyAgainst.
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

// Log writes one chain: that of this process in this life. It holds no more
// than the end of it. Safe for concurrent use.
type Log struct {
	rows  store.Rows
	turn  chan struct{} // held by who writes; a channel, so that ctx can end the wait
	chain listing       // how far we know the chain to have come
	row   []byte        // of the directory, as we last knew it; nil before the first record
	doubt *Record       // written or not, or still to land: nothing else may take its number
}

// Open begins a chain for writer, a name that a reader will know the process
// by. The chain's own name has something random behind it: no two lives share
// one. Nothing is written before the first record.
func Open(ctx context.Context, rows store.Rows, writer string, now mayfly.Instant) (*Log, error) {
	if !validChain(writer) || len(writer) > maxWriter {
		return nil, mayfly.Errorf(mayfly.Invalid, "audit: %.80q is not a name for a writer", writer).
			WithHint(fmt.Sprintf("1 to %d letters, digits and . - _ :", maxWriter))
	}
	if _, err := rows.Range(ctx, store.Audit, store.Range{Partition: directory, Limit: 1}); err != nil {
		return nil, fmt.Errorf("audit: read the directory: %w", err)
	}
	var life [16]byte
	_, _ = rand.Read(life[:]) // it never fails
	chain := writer + "." + hex.EncodeToString(life[:])
	return &Log{
		rows: rows, turn: make(chan struct{}, 1),
		chain: listing{Head: Head{Chain: chain}, opened: now, moved: now},
	}, nil
}

// Chain is the name of the chain.
func (l *Log) Chain() string { return l.chain.Chain }

// Record appends e to the chain, durable on return; then the deed may begin.
// Records are in the order in which their calls took their turn.
//
// On an error of kind Unknown the record may or may not be in the chain, or land
// later; the deed must not begin. The chain is whole either way: the next call
// sees to it first. Other errors: Invalid and TooLarge (the entry), Unavailable
// (nothing was written), Corrupt (somebody else wrote into this chain; a new
// life begins a new one).
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

// tries is how often a write whose answer is lost is tried again. Each try is of
// the same bytes, so that any of them may land late.
const tries = 3

// settle ends the doubt about an earlier record, by writing the same record
// again: were its number given to another, a write that lands late would break
// the chain.
func (l *Log) settle(ctx context.Context) error {
	if l.doubt == nil {
		return nil
	}
	if err := l.append(ctx, l.doubt); err != nil {
		return fmt.Errorf("audit: an earlier record is still in doubt: %w", err)
	}
	return nil
}

// list puts the chain into the directory, before its first record.
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

// append writes r at the end of the chain and moves the end behind it.
func (l *Log) append(ctx context.Context, r *Record) error {
	may, err := l.insert(ctx, recordKey(r.Ref), r.seal())
	if err != nil {
		if may {
			l.doubt = r // and one that was in doubt stays so
		}
		return fmt.Errorf("audit: record %s: %w", r.Ref, err)
	}
	l.doubt = nil
	l.chain.Count, l.chain.Hash, l.chain.moved = uint64(r.Number)+1, r.Hash, r.At
	l.move(ctx)
	return nil
}

// insert writes value where there is nothing. The value is one that only this
// log can have written: what is there already and is the same is ours, of an
// earlier try. With an error, may says whether it may be written or still land.
func (l *Log) insert(ctx context.Context, key store.Key, value []byte) (may bool, err error) {
	for range tries {
		var swapped bool
		var current []byte
		swapped, current, err = l.rows.Swap(ctx, store.Audit, key, nil, value, 0)
		if errors.Is(err, mayfly.Unknown) {
			may = true
			found, failed := l.rows.Get(ctx, store.Audit, key)
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
			return may, mayfly.Errorf(mayfly.Corrupt, "somebody else wrote into this chain").
				WithHint("mayfly audit verify tells where; a restarted process begins a new chain")
		}
	}
	return may, inDoubt(may, err)
}

// inDoubt makes an error that follows a lost answer one of kind Unknown: that
// the last try did not happen says nothing of those before.
func inDoubt(may bool, err error) error {
	if !may || errors.Is(err, mayfly.Unknown) {
		return err
	}
	return mayfly.Wrap(mayfly.Unknown, err, "")
}

// move brings the directory up to the chain's end. The record stands whether
// this succeeds or not: a row that is behind is moved with the next record.
func (l *Log) move(ctx context.Context) {
	next := l.chain.seal()
	for range tries {
		swapped, current, err := l.rows.Swap(ctx, store.Audit, listingKey(l.chain.Chain), l.row, next, 0)
		switch {
		case err != nil:
			return
		case swapped, bytes.Equal(current, next):
			l.row = next
			return
		default:
			l.row = current // a move whose answer was lost has landed
		}
	}
}
