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

// The directory is one partition with a row per chain, written before the
// chain's first record and moved behind each: it says which chains there are and
// how far each has come. It may be behind its chain, never ahead of it; one that
// is ahead tells of a chain that was cut.
const (
	directory     = "chains"
	listingFormat = 1
	listingDomain = "mayfly audit chain\x00"
	listingSize   = 1 + 8 + 8 + 8 + 32 + 32
	page          = 256
)

// listing is a chain as the directory knows it.
type listing struct {
	Head
	opened mayfly.Instant
	moved  mayfly.Instant // at of the last record; opened while there is none
}

func listingKey(chain string) store.Key { return store.Key{Partition: directory, Clustering: chain} }

func partition(chain string) string { return "chain/" + chain }

func sortOf(n Number) string { return string(binary.BigEndian.AppendUint64(nil, uint64(n))) }

func recordKey(r Ref) store.Key {
	return store.Key{Partition: partition(r.Chain), Clustering: sortOf(r.Number)}
}

// seal is the listing's bytes: format, opened, moved, count, hash of the last
// record, and SHA-256 over all that and the chain's name.
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
		return listing{}, mayfly.Errorf(mayfly.Corrupt, "audit: the directory's row of %.80q has an unknown format", chain)
	}
	in := reader{rest: value[1:]}
	l := listing{opened: mayfly.Instant(in.number()), moved: mayfly.Instant(in.number())}
	l.Head = Head{Chain: chain, Count: in.number(), Hash: in.hash()}
	if !validChain(chain) || !bytes.Equal(l.seal(), value) {
		return listing{}, mayfly.Errorf(mayfly.Corrupt, "audit: the directory's row of %.80q does not have its hash", chain)
	}
	return l, nil
}

// eachListing hands every row of the directory to visit, in the order of names.
func eachListing(ctx context.Context, rows store.Rows, visit func(chain string, value []byte) error) error {
	for from := ""; ; {
		found, err := rows.Range(ctx, store.Audit, store.Range{Partition: directory, From: from, Limit: page})
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

// A chain's first record and then every AnchorEvery-th carries the heads of the
// other chains: whoever cuts a chain at its end after that has to change another
// chain too. It carries the MaxAnchors that moved last: while no more than that
// many chains move between two anchors, whoever made them, every end is carried.
const (
	AnchorEvery = 64
	MaxAnchors  = 128
)

// anchors are the heads of the chains other than own that moved last, by name.
// A row that cannot be read is left out: Verify will say so, and no deed waits
// for it.
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
