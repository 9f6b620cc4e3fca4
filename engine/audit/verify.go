package audit

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/mayflyhq/mayfly"
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

// chain is one chain while Verify reads it.
type chain struct {
	v      *verifier
	listed Head           // as the directory has it
	next   Number         // the number that must come
	sound  bool           // the record in front of next is there and whole
	end    Head           // behind the last whole record
	at     mayfly.Instant // of that record
}

// find notes a finding at a number of the chain.
func (c *chain) find(n Number, fault Fault, format string, args ...any) {
	c.v.report.add(Finding{Ref: Ref{Chain: c.end.Chain, Number: n}, Fault: fault, Detail: fmt.Sprintf(format, args...)})
}

// take verifies the next row of the chain's partition.
func (c *chain) take(ctx context.Context, row store.Row) error {
	if len(row.Clustering) != 8 {
		c.find(c.next, Foreign, "a row that has no number: %.40q", row.Clustering)
		return nil
	}
	n := Number(binary.BigEndian.Uint64([]byte(row.Clustering)))
	if n > c.next {
		c.find(c.next, Missing, "%d missing in front of %d", n-c.next, n)
	}
	followed := n == c.next && c.sound
	c.next, c.sound = n+1, false
	r, err := readRecord(row.Value)
	switch {
	case err != nil:
		c.find(n, Changed, "%v", err)
		return nil
	case r.Chain != c.end.Chain:
		c.find(n, Foreign, "the record says that it is %s", r.Ref)
		return nil
	case r.Number != n:
		c.find(n, Moved, "the record says that it is %s", r.Ref)
		return nil
	}
	c.sound = true
	switch {
	case n == 0 && r.Prev != Hash{}:
		c.find(n, Unlinked, "a first record that follows another")
	case followed && r.Prev != c.end.Hash:
		c.find(n, Unlinked, "it follows a record with another hash")
	case followed && r.At < c.at:
		c.find(n, Unlinked, "it is older than the record in front of it")
	}
	if c.listed.Count == uint64(n)+1 && c.listed.Hash != r.Hash {
		c.find(n, Changed, "the directory has it with another hash")
	}
	c.end.Count, c.end.Hash, c.at = uint64(n)+1, r.Hash, r.At
	c.v.report.Records++
	if err := c.v.each(r); err != nil {
		return err
	}
	return c.v.anchored(ctx, r.Anchors, r.Ref)
}

// close verifies that the chain reaches as far as the directory says.
func (c *chain) close() {
	if c.listed.Count > uint64(c.next) {
		c.find(c.next, Missing, "the chain ends here, and the directory counts %d", c.listed.Count)
	}
	if c.next == 0 && c.listed.Count == 0 {
		c.v.report.Empty++
		return
	}
	c.v.report.Chains++
	c.v.report.Heads = append(c.v.report.Heads, c.end)
}

// Fault is what is wrong at a place.
type Fault uint8

// The faults.
const (
	Changed  Fault = iota + 1 // the bytes are not those that were written
	Missing                   // something was there and is not
	Moved                     // a record of this chain in the place of another
	Foreign                   // a record of another chain, or nothing of ours at all
	Unlinked                  // it does not follow from the record in front: one of the two is not what was written
	Unlisted                  // a chain that somebody anchored is not in the directory
)

// String is the fault's word.
func (f Fault) String() string {
	switch f {
	case Changed:
		return "changed"
	case Missing:
		return "missing"
	case Moved:
		return "moved"
	case Foreign:
		return "foreign"
	case Unlinked:
		return "unlinked"
	case Unlisted:
		return "unlisted"
	default:
		return fmt.Sprintf("fault(%d)", uint8(f))
	}
}

// Finding is one thing that is wrong.
type Finding struct {
	Ref    // where
	Fault  Fault
	Detail string // what was seen
	By     Ref    // the record of another chain that tells; zero when the chain itself does
}

// String is the finding in a line.
func (f Finding) String() string {
	line := fmt.Sprintf("%s: %s: %s", f.Ref, f.Fault, f.Detail)
	if f.By != (Ref{}) {
		line += " (says " + f.By.String() + ")"
	}
	return line
}

// MaxFindings is how many findings a report keeps; the others are counted.
const MaxFindings = 1000

// Report is what a verification saw.
type Report struct {
	Chains  int // that have a record
	Empty   int // listed before their first record, and nothing came
	Records int // that are whole and in their place
	Anchors int // heads that other chains, or the caller, had kept

	Findings []Finding // the first MaxFindings
	More     int       // findings beyond those

	// Heads are the ends of all chains, by name. Kept elsewhere, they let
	// VerifyAgainst see what this store alone cannot show.
	Heads []Head
}

// Sound says that nothing is wrong.
func (r *Report) Sound() bool { return len(r.Findings) == 0 && r.More == 0 }

// add notes a finding, once for a place and a fault.
func (r *Report) add(f Finding) {
	for _, known := range r.Findings {
		if known.Ref == f.Ref && known.Fault == f.Fault {
			return
		}
	}
	if len(r.Findings) < MaxFindings {
		r.Findings = append(r.Findings, f)
		return
	}
	r.More++
}
