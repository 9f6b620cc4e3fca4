package audit

import (
	"cmp"
	"context"
	"slices"

	"github.com/mayflyhq/mayfly/store"
)

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
