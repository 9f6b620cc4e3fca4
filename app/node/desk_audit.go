package node

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/engine/audit"
)

// AuditRecords is a page of what support and operators did, newest first. A page
// may be short and not the last.
func (d Desk) AuditRecords(ctx context.Context, cursor string, limit int) (wire.AuditRecords, error) {
	out := wire.AuditRecords{Records: []wire.AuditRecord{}}
	before, err := placeAt(cursor)
	if err != nil {
		return out, err
	}
	page, err := audit.List(ctx, d.n.set.Rows, audit.Filter{}, before, limit)
	if err != nil {
		return out, err
	}
	for _, r := range page.Records {
		out.Records = append(out.Records, auditRecord(r))
	}
	if page.More {
		out.Next = fmt.Sprintf("%d.%d.%s", page.Next.At, page.Next.Number, page.Next.Chain)
	}
	return out, nil
}

// placeAt reads a cursor: instant, number, and the chain, which may have dots.
func placeAt(cursor string) (p audit.Place, err error) {
	if cursor == "" {
		return p, nil
	}
	parts := strings.SplitN(cursor, ".", 3)
	if len(parts) != 3 || parts[2] == "" {
		return p, badCursor(cursor)
	}
	at, badAt := strconv.ParseUint(parts[0], 10, 63)
	number, badNumber := strconv.ParseUint(parts[1], 10, 64)
	if badAt != nil || badNumber != nil {
		return p, badCursor(cursor)
	}
	p.At, p.Number, p.Chain = mayfly.Instant(at), audit.Number(number), parts[2]
	return p, nil
}

func auditRecord(r audit.Record) wire.AuditRecord {
	e := r.Entry
	out := wire.AuditRecord{
		At: r.At, Chain: r.Chain, Number: int64(r.Number), Actor: e.Actor, Verb: e.Verb.String(), Outcome: e.Outcome.String(),
		Reason: e.Reason, Detail: e.Detail,
	}
	if !e.Subject.Item.IsZero() {
		out.Item = &e.Subject.Item
	}
	if !e.Subject.User.IsZero() {
		out.User = &e.Subject.User
	}
	if e.Subject.Run != 0 {
		out.Run = runText(e.Subject.Run)
	}
	return out
}

// toldFindings is how many findings a report has at most.
const toldFindings = 100

// VerifyAudit follows the chains of the audit log, which may be written meanwhile,
// and compares them with heads that were kept elsewhere.
func (d Desk) VerifyAudit(ctx context.Context, heads []string) (wire.AuditReport, error) {
	var kept []audit.Head
	for _, line := range heads {
		head, err := audit.ParseHead(line)
		if err != nil {
			return wire.AuditReport{}, err
		}
		kept = append(kept, head)
	}
	r, err := audit.VerifyAgainst(ctx, d.n.set.Rows, kept, nil)
	if err != nil {
		return wire.AuditReport{}, err
	}
	out := wire.AuditReport{
		Sound: r.Sound(), Records: r.Records, Chains: r.Chains, Compared: r.Anchors, Findings: []string{}, More: r.More, Heads: []string{},
	}
	for i, f := range r.Findings {
		if i == toldFindings {
			out.More += len(r.Findings) - i
			break
		}
		out.Findings = append(out.Findings, f.String())
	}
	for _, h := range r.Heads {
		out.Heads = append(out.Heads, h.String())
	}
	return out, nil
}
