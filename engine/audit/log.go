package audit

import (
	"context"
	"crypto/rand"
	"encoding/hex"
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
