package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

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
