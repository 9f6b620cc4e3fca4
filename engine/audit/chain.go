package audit

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

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
