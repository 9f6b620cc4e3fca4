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

// Verify reads every chain and reports each difference from what was written:
// records that are changed, missing, moved, foreign or not linked to the previous
// one, chains that end earlier than the directory or an anchor says, and chains
// that the directory no longer lists. It calls each, if not nil, for every valid
// record, chain by chain, and stops at its first error.
//
// It writes nothing, and logs may be written meanwhile. It keeps one page of
// records and one head per chain in memory. Its error is a failure to read, not a
// finding.
func Verify(ctx context.Context, rows store.Rows, each func(Record) error) (Report, error) {
	return VerifyAgainst(ctx, rows, nil, each)
}

// VerifyAgainst is Verify with the heads of an earlier report, which were kept
// outside the store: every chain must still contain them. That finds what the
// store alone cannot show: all of it rewritten, or replaced by an old copy.
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
	known  map[string]bool // names of chains; true once the chain was read
	unseen []string        // anchored chains, read at the end unless the directory lists them
}

// listed verifies a chain that the directory lists.
func (v *verifier) listed(ctx context.Context, chain string, value []byte) error {
	if !validChain(chain) {
		v.report.add(Finding{Ref: Ref{Chain: fmt.Sprintf("%.80q", chain)}, Fault: Foreign, Detail: "directory row with an invalid chain name"})
		return nil
	}
	l, err := readListing(chain, value)
	if err != nil {
		v.report.add(Finding{Ref: Ref{Chain: chain}, Fault: Changed, Detail: err.Error()})
		l = listing{Head: Head{Chain: chain}}
	}
	return v.read(ctx, l)
}

// unlisted verifies a chain that an anchor names, unless it was read already. It
// looks into the directory again: the chain may have been listed in the meantime.
func (v *verifier) unlisted(ctx context.Context, chain string) error {
	if v.known[chain] {
		return nil
	}
	found, err := v.rows.Get(ctx, Table, listingKey(chain))
	if err != nil {
		return fmt.Errorf("audit: read the directory: %w", err)
	}
	if found[0] != nil {
		return v.listed(ctx, chain, found[0])
	}
	v.report.add(Finding{Ref: Ref{Chain: chain}, Fault: Unlisted, Detail: "the directory does not list the chain"})
	return v.read(ctx, listing{Head: Head{Chain: chain}})
}

// read verifies the records of a chain against each other and against l. l was
// read before them, so it must not be ahead of them.
func (v *verifier) read(ctx context.Context, l listing) error {
	v.known[l.Chain] = true
	c := &chain{v: v, listed: l.Head, end: Head{Chain: l.Chain}}
	for from := ""; ; {
		found, err := v.rows.Range(ctx, Table, store.Range{Partition: partition(l.Chain), From: from, Limit: page})
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

// anchored verifies that the chains still contain heads, which the record by, or
// the caller, has kept. It compares hashes only: read verifies the records.
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
		keys[i] = recordKey(h.last()) // of an empty chain: its first key, which is not compared
	}
	found, err := v.rows.Get(ctx, Table, keys...)
	if err != nil {
		return fmt.Errorf("audit: read the anchors of %s: %w", by, err)
	}
	for i, h := range heads {
		v.report.Anchors++
		_, stored := splitHash(found[i])
		switch {
		case h.Count == 0 || stored == h.Hash:
		case found[i] == nil:
			v.report.add(Finding{Ref: h.last(), Fault: Missing, Detail: "the record existed when it was anchored", By: by})
		default:
			v.report.add(Finding{Ref: h.last(), Fault: Changed, Detail: "the record had another hash when it was anchored", By: by})
		}
	}
	return nil
}

// last returns the last record of a head.
func (h Head) last() Ref {
	return Ref{Chain: h.Chain, Number: Number(max(h.Count, 1) - 1)}
}

// chain is the state of Verify while it reads one chain.
type chain struct {
	v      *verifier
	listed Head           // as stored in the directory
	next   Number         // the number that must follow
	sound  bool           // the record before next is valid
	end    Head           // after the last valid record
	at     mayfly.Instant // time of that record
}

// find adds a finding at a number of the chain.
func (c *chain) find(n Number, fault Fault, format string, args ...any) {
	c.v.report.add(Finding{Ref: Ref{Chain: c.end.Chain, Number: n}, Fault: fault, Detail: fmt.Sprintf(format, args...)})
}

// take verifies the next row of the chain's partition.
func (c *chain) take(ctx context.Context, row store.Row) error {
	if len(row.Clustering) != 8 {
		c.find(c.next, Foreign, "row key is not a number: %.40q", row.Clustering)
		return nil
	}
	n := Number(binary.BigEndian.Uint64([]byte(row.Clustering)))
	if n > c.next {
		c.find(c.next, Missing, "%d missing before %d", n-c.next, n)
	}
	followed := n == c.next && c.sound
	c.next, c.sound = n+1, false
	r, err := readRecord(row.Value)
	switch {
	case err != nil:
		c.find(n, Changed, "%v", err)
		return nil
	case r.Chain != c.end.Chain:
		c.find(n, Foreign, "the row contains record %s", r.Ref)
		return nil
	case r.Number != n:
		c.find(n, Moved, "the row contains record %s", r.Ref)
		return nil
	}
	c.sound = true
	switch {
	case n == 0 && r.Prev != Hash{}:
		c.find(n, Unlinked, "the first record contains the hash of a previous one")
	case followed && r.Prev != c.end.Hash:
		c.find(n, Unlinked, "the previous record has another hash")
	case followed && r.At < c.at:
		c.find(n, Unlinked, "the record is older than the previous one")
	}
	if c.listed.Count == uint64(n)+1 && c.listed.Hash != r.Hash {
		c.find(n, Changed, "the directory has another hash for the record")
	}
	c.end.Count, c.end.Hash, c.at = uint64(n)+1, r.Hash, r.At
	c.v.report.Records++
	if err := c.v.each(r); err != nil {
		return err
	}
	return c.v.anchored(ctx, r.Anchors, r.Ref)
}

// close verifies that the chain is as long as the directory says.
func (c *chain) close() {
	if c.listed.Count > uint64(c.next) {
		c.find(c.next, Missing, "the chain ends here; the directory counts %d records", c.listed.Count)
	}
	if c.next == 0 && c.listed.Count == 0 {
		c.v.report.Empty++
		return
	}
	c.v.report.Chains++
	c.v.report.Heads = append(c.v.report.Heads, c.end)
}

// Fault is the kind of a finding.
type Fault uint8

// The faults.
const (
	Changed  Fault = iota + 1 // the bytes are not those that were written
	Missing                   // a record that existed is gone
	Moved                     // a record of this chain under the key of another
	Foreign                   // a record of another chain, or not a record
	Unlinked                  // it does not match the previous record: one of the two was changed
	Unlisted                  // a chain that was anchored is not in the directory
)

// String returns the name of the fault.
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

// Finding is one difference from what was written.
type Finding struct {
	Ref    // where
	Fault  Fault
	Detail string // what was found
	By     Ref    // the record whose anchor shows it; zero when the chain itself does
}

// String returns the finding as one line.
func (f Finding) String() string {
	line := fmt.Sprintf("%s: %s: %s", f.Ref, f.Fault, f.Detail)
	if f.By != (Ref{}) {
		line += " (anchored by " + f.By.String() + ")"
	}
	return line
}

// MaxFindings is how many findings a report contains; the others are only counted.
const MaxFindings = 1000

// Report is the result of a verification.
type Report struct {
	Chains  int // chains with records
	Empty   int // chains in the directory without records
	Records int // valid records
	Anchors int // heads compared: of anchors, and of the caller

	Findings []Finding // the first MaxFindings
	More     int       // findings beyond those

	// Heads are the ends of all chains, ordered by name. Keep them outside the
	// store: VerifyAgainst then finds what the store alone cannot show.
	Heads []Head
}

// Sound reports whether there are no findings.
func (r *Report) Sound() bool { return len(r.Findings) == 0 && r.More == 0 }

// add adds a finding, once for each record and fault.
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
