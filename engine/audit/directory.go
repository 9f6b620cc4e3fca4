package audit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// The directory is one partition with a row per chain: the name of the chain and
// its end. The row is written before the chain's first record and updated after
// each record, so it may be behind its chain, never ahead. A row that is ahead
// shows that the end of the chain was removed.
const (
	directory     = "chains"
	listingFormat = 1
	listingDomain = "mayfly audit chain\x00"
	listingSize   = 1 + 8 + 8 + 8 + 32 + 32
	page          = 256
)

// listing is the row of a chain in the directory.
type listing struct {
	Head
	opened mayfly.Instant
	moved  mayfly.Instant // time of the last record; opened while there is none
}

func listingKey(chain string) store.Key { return store.Key{Partition: directory, Clustering: chain} }

func partition(chain string) string { return "chain/" + chain }

func clusteringOf(n Number) string { return string(binary.BigEndian.AppendUint64(nil, uint64(n))) }

func recordKey(r Ref) store.Key {
	return store.Key{Partition: partition(r.Chain), Clustering: clusteringOf(r.Number)}
}

// seal returns the encoded row: format, opened, moved, count, hash of the last
// record, and the SHA-256 of all that and of the chain's name.
func (l listing) seal() []byte {
	b := appendNumber([]byte{listingFormat}, uint64(l.opened))
	b = appendNumber(b, uint64(l.moved))
	b = appendNumber(b, l.Count)
	b = append(b, l.Hash[:]...)
	own := sum(listingDomain, []byte(l.Chain), b)
	return append(b, own[:]...)
}

func readListing(chain string, value []byte) (listing, error) {
	if len(value) != listingSize || value[0] != listingFormat {
		return listing{}, mayfly.Errorf(mayfly.Corrupt, "audit: directory row of chain %.80q has an unknown format", chain)
	}
	in := reader{rest: value[1:]}
	l := listing{opened: mayfly.Instant(in.number()), moved: mayfly.Instant(in.number())}
	l.Head = Head{Chain: chain, Count: in.number(), Hash: in.hash()}
	if !validChain(chain) || !bytes.Equal(l.seal(), value) {
		return listing{}, mayfly.Errorf(mayfly.Corrupt, "audit: hash of the directory row of chain %.80q does not match", chain)
	}
	return l, nil
}

// eachListing calls visit for every row of the directory, ordered by name.
func eachListing(ctx context.Context, rows store.Rows, visit func(chain string, value []byte) error) error {
	for from := ""; ; {
		found, err := rows.Range(ctx, Table, store.Range{Partition: directory, From: from, Limit: page})
		if err != nil {
			return fmt.Errorf("audit: read the directory: %w", err)
		}
		for _, row := range found {
			if err := visit(row.Clustering, row.Value); err != nil {
				return err
			}
			from = row.Clustering + "\x00"
		}
		if len(found) < page {
			return nil
		}
	}
}

// The first record of a chain and then every AnchorEvery-th contains the heads of
// other chains (anchors). Removing the end of a chain unnoticed then requires a
// change of another chain too. A record contains at most MaxAnchors heads, of the
// chains that were written last: while no more chains than that are written between
// two anchor records, every end is anchored.
const (
	AnchorEvery = 64
	MaxAnchors  = 128
)

// anchors returns the heads of the chains other than own that were written last,
// ordered by name. It skips a row that cannot be read: Verify reports it, and it
// must not block operations.
func anchors(ctx context.Context, rows store.Rows, own string) ([]Head, error) {
	var last []listing
	keep := func() {
		slices.SortFunc(last, func(a, b listing) int {
			return cmp.Or(cmp.Compare(b.moved, a.moved), cmp.Compare(a.Chain, b.Chain))
		})
		last = last[:min(len(last), MaxAnchors)]
	}
	err := eachListing(ctx, rows, func(chain string, value []byte) error {
		if l, err := readListing(chain, value); err == nil && chain != own {
			last = append(last, l)
		}
		if len(last) >= 2*MaxAnchors {
			keep()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	keep()
	heads := make([]Head, len(last))
	for i, l := range last {
		heads[i] = l.Head
	}
	slices.SortFunc(heads, func(a, b Head) int { return cmp.Compare(a.Chain, b.Chain) })
	return heads, nil
}
