package audit

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/mayflyhq/mayfly/store"
)

// Verify reads every chain and reports all that is not as it was written:
// records that are changed, missing, moved, foreign or do not follow from each
// other, a chain cut at its end where the directory or another chain's anchor
// remembers more, a chain that is no longer listed. It hands every record that
// is whole and in its place to each, chain by chain (nil: to nobody); an error of
// each ends it.
//
// It writes nothing, and logs may be written meanwhile. It holds one page of
// records and one head per chain. Its error is a failure to read, not a finding.
func Verify(ctx context.Context, rows store.Rows, each func(Record) error) (Report, error) {
	return VerifyAgainst(ctx, rows, nil, each)
}

// VerifyAgainst is Verify with heads of an earlier report that were kept
// elsewhere: every chain still has to contain them. That finds what a store
// cannot show by itself: one that was rewritten or put back as a whole.
func VerifyAgainst(ctx context.Context, rows store.Rows, kept []Head, each func(Record) error) (Report, error) {
	if each == nil {
		each = func(Record) error { return nil }
	}
	v := &verifier{rows: rows, each: each, known: map[string]bool{}}
	if err := eachListing(ctx, rows, func(chain string, value []byte) error { return v.listed(ctx, chain, value) }); err != nil {
		return v.report, err
	}
	for heads := range slices.Chunk(kept, MaxAnchors) {
		if err := v.anchored(ctx, heads, Ref{}); err != nil {
			return v.report, err
		}
	}
	for len(v.unseen) > 0 {
		chain := v.unseen[0]
		v.unseen = v.unseen[1:]
		if err := v.unlisted(ctx, chain); err != nil {
			return v.report, err
		}
	}
	slices.SortFunc(v.report.Heads, func(a, b Head) int { return strings.Compare(a.Chain, b.Chain) })
	return v.report, nil
}

type verifier struct {
	rows   store.Rows
	each   func(Record) error
	report Report
	known  map[string]bool // chains: true once it was read
	unseen []string        // anchored chains, to be read if the directory does not name them
}

// listed verifies a chain that the directory names.
func (v *verifier) listed(ctx context.Context, chain string, value []byte) error {
	if !validChain(chain) {
		v.report.add(Finding{Ref: Ref{Chain: fmt.Sprintf("%.80q", chain)}, Fault: Foreign, Detail: "the directory has a row that is no chain's"})
		return nil
	}
	l, err := readListing(chain, value)
	if err != nil {
		v.report.add(Finding{Ref: Ref{Chain: chain}, Fault: Changed, Detail: err.Error()})
		l = listing{Head: Head{Chain: chain}}
	}
	return v.read(ctx, l)
}

// unlisted verifies a chain that an anchor names, unless it was read already.
// It may have been listed since the directory was read.
func (v *verifier) unlisted(ctx context.Context, chain string) error {
	if v.known[chain] {
		return nil
	}
	found, err := v.rows.Get(ctx, store.Audit, listingKey(chain))
	if err != nil {
		return fmt.Errorf("audit: read the directory: %w", err)
	}
	if found[0] != nil {
		return v.listed(ctx, chain, found[0])
	}
	v.report.add(Finding{Ref: Ref{Chain: chain}, Fault: Unlisted, Detail: "the chain is not in the directory"})
	return v.read(ctx, listing{Head: Head{Chain: chain}})
}

// read verifies the records of a chain against each other and against l, which
// was read before them and so is not ahead of them.
func (v *verifier) read(ctx context.Context, l listing) error {
	v.known[l.Chain] = true
	c := &chain{v: v, listed: l.Head, end: Head{Chain: l.Chain}}
	for from := ""; ; {
		found, err := v.rows.Range(ctx, store.Audit, store.Range{Partition: partition(l.Chain), From: from, Limit: page})
		if err != nil {
			return fmt.Errorf("audit: read chain %s: %w", l.Chain, err)
		}
		for _, row := range found {
			if err := c.take(ctx, row); err != nil {
				return err
			}
			from = row.Clustering + "\x00"
		}
		if len(found) < page {
			break
		}
	}
	c.close()
	return nil
}

// anchored verifies that chains still hold what by, or the caller, saw in them.
// The record itself is verified where its chain is read.
func (v *verifier) anchored(ctx context.Context, heads []Head, by Ref) error {
	if len(heads) == 0 {
		return nil
	}
	keys := make([]store.Key, len(heads))
	for i, h := range heads {
		if _, named := v.known[h.Chain]; !named {
			v.known[h.Chain] = false
			v.unseen = append(v.unseen, h.Chain)
		}
		keys[i] = recordKey(h.last()) // of an empty chain: its first place, not looked at
	}
	found, err := v.rows.Get(ctx, store.Audit, keys...)
	if err != nil {
		return fmt.Errorf("audit: read what %s anchors: %w", by, err)
	}
	for i, h := range heads {
		v.report.Anchors++
		_, stored := splitHash(found[i])
		switch {
		case h.Count == 0 || stored == h.Hash:
		case found[i] == nil:
			v.report.add(Finding{Ref: h.last(), Fault: Missing, Detail: "it was there when it was anchored", By: by})
		default:
			v.report.add(Finding{Ref: h.last(), Fault: Changed, Detail: "it had another hash when it was anchored", By: by})
		}
	}
	return nil
}

// last is the last record that a head stands for.
func (h Head) last() Ref {
	return Ref{Chain: h.Chain, Number: Number(max(h.Count, 1) - 1)}
}
