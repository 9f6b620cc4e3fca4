package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/adminapi"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/collect"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/restore"
	"github.com/mayflyhq/mayfly/engine/scrub"
	"github.com/mayflyhq/mayfly/engine/verify"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/product/account"
)

// AdminOperations does what support and operators ask for, with the types of the
// wire format, so that the admin API and the command line give the same answers.
type AdminOperations struct{ n *Node }

// AdminOperations returns the operations of the node.
func (n *Node) AdminOperations() AdminOperations { return AdminOperations{n} }

// Operations returns what the admin API does.
func (o operator) Operations() adminapi.Operations { return o.Node.AdminOperations() }

// restoredFor is how long a restored item serves by default.
const restoredFor = 24 * time.Hour

// Restore restores one item, or undoes a run of a walk. It calls progress, which may
// be nil, with the number of restored items and of all items of the run. If a run is
// undone in part, the failures are counted and are no error.
func (d AdminOperations) Restore(ctx context.Context, in wire.RestoreRequest, by audit.Actor, progress func(done, of int), now mayfly.Instant) (wire.Restored, error) {
	until := now.Add(restoredFor)
	if in.Until != nil && *in.Until != 0 {
		until = *in.Until
	}
	switch {
	case (in.ID == nil) == (in.Run == ""):
		return wire.Restored{}, mayfly.Errorf(mayfly.Invalid, "either id or run is required").WithHint("give one of them")
	case in.Run != "":
		return d.undo(ctx, in, by, until, progress, now)
	}
	item, err := d.n.Restore().Item(ctx, restore.Request{ID: *in.ID, Until: until, By: by, Reason: in.Reason}, now)
	if err != nil {
		return wire.Restored{}, err
	}
	return wire.Restored{ID: &item.ID, ServesUntil: &item.ServesUntil, Restored: 1}, nil
}

func (d AdminOperations) undo(ctx context.Context, in wire.RestoreRequest, by audit.Actor, until mayfly.Instant, progress func(done, of int), now mayfly.Instant) (wire.Restored, error) {
	run, err := parseRun(in.Run)
	if err != nil {
		return wire.Restored{}, err
	}
	if in.Max < 0 {
		return wire.Restored{}, mayfly.Errorf(mayfly.Invalid, "max is negative: %d", in.Max).WithHint("give the greatest number of items to restore, or leave it out")
	}
	request := restore.UndoRequest{Until: until, By: by, Reason: in.Reason, DryRun: in.DryRun, Max: in.Max}
	if progress != nil {
		request.Progress = func(u restore.Undone) { progress(u.Restored, u.Found) }
	}
	done, err := d.n.Restore().Undo(ctx, run, request, now)
	out := wire.Restored{
		Found: done.Found, Restored: done.Restored, Refused: done.Refused, Failed: done.Failed,
		Ahead: done.Ahead, Held: done.Held, Deleted: done.Deleted, Back: done.Back,
	}
	for _, why := range done.Why {
		out.Why = append(out.Why, why.Error())
	}
	if done.Failed > 0 && errors.Is(err, mayfly.Unavailable) && ctx.Err() == nil {
		return out, nil
	}
	return out, err
}

// parseRun reads a run as runText writes it.
func parseRun(text string) (mayfly.Run, error) {
	run, err := strconv.ParseUint(text, 16, 64)
	if err != nil {
		return 0, mayfly.Errorf(mayfly.Invalid, "%.20q is not a run", text).WithHint("a run has 16 hexadecimal digits; mayfly restore --runs lists them")
	}
	return mayfly.Run(run), nil
}

func runText(run mayfly.Run) string { return fmt.Sprintf("%016x", uint64(run)) }

// DenyToken refuses an access token from now on: the one that is given, or the one
// with an id. Errors: Invalid, Unavailable, Unknown.
func (d AdminOperations) DenyToken(ctx context.Context, in wire.TokenDenial, by audit.Actor, now mayfly.Instant) (err error) {
	var token account.AccessToken
	switch {
	case (in.Token == "") == (in.ID == "") || in.Token != "" && in.Issuer != "":
		return mayfly.Errorf(mayfly.Invalid, "either token or id is required").WithHint("give the token, or its id and its issuer")
	case in.Token != "":
		token, err = d.n.accounts.ReadAccess(ctx, in.Token, now)
		if errors.Is(err, mayfly.Unauthenticated) { // not the caller's own
			return mayfly.Errorf(mayfly.Invalid, "the token is not accepted anyway: %v", err)
		}
	default:
		token, err = d.n.accounts.AccessNamed(in.Issuer, in.ID, now)
	}
	if err != nil {
		return err
	}
	detail := fmt.Sprintf("token %.200q of %.200q", token.ID, token.Issuer)
	entry := audit.Entry{Actor: by, Verb: audit.DenyToken, Subject: audit.Subject{User: token.User}, Reason: in.Reason, Detail: detail}
	return d.n.engine.audit.Do(ctx, entry, now, func() (string, error) { return detail, d.n.accounts.Deny(ctx, token) })
}

// Orphans looks for media that no item owns, among most objects of a tier at most
// (0: the default of a node), and reports them; with a reason it erases them.
func (d AdminOperations) Orphans(ctx context.Context, by audit.Actor, reason string, most int, now mayfly.Instant) (wire.Orphans, error) {
	return d.orphans(ctx, collect.Run{Now: now, Most: most, Erase: reason != "", By: by, Reason: reason})
}

func (d AdminOperations) orphans(ctx context.Context, run collect.Run) (wire.Orphans, error) {
	run.Floor = d.n.o.OrphanAge
	r, err := d.n.engine.collect.Orphans(ctx, run)
	out := wire.Orphans{Looked: r.Looked, Orphans: r.Orphans, Erased: r.Deleted, Strange: r.Strange, Capped: r.Capped, Whole: r.Whole, Examples: []string{}}
	for _, key := range r.Examples {
		out.Examples = append(out.Examples, string(key))
	}
	return out, err
}

// Verify measures the seven words over everything in a store that no other process
// uses: it compares every row with its content, its media, the event log and what
// the gate serves of it, and every stored object with the row that names it. It
// reads the bytes of media unless quick.
func (d AdminOperations) Verify(ctx context.Context, quick bool, progress func(minutes int), now mayfly.Instant) (*verify.Report, error) {
	r, err := verify.Run(ctx, d.n.set, verify.Options{
		Now: now, Bytes: !quick, Progress: progress, Each: d.n.VerifyItem, Objects: true, Gate: d.n.engine.gate, Group: "verify",
	})
	if err != nil {
		return nil, err
	}
	return r, d.n.verifyStores(ctx, r, now)
}

// Scrubbed returns what the node's scrub has read and found since the start.
func (d AdminOperations) Scrubbed() wire.Scrub {
	s := d.n.Scrubbed()
	out := wire.Scrub{
		Items: int64(s.Items), Objects: int64(s.Objects), Bytes: int64(s.Bytes), Mismatch: int64(s.BadObjects), Again: int64(s.Again),
		Bad: badCopies(s.Bad),
	}
	if s.At != 0 {
		out.At = &s.At
	}
	return out
}

// Scrub reads the cold copies of a span now.
func (d AdminOperations) Scrub(ctx context.Context, run scrub.Run) (wire.Scrub, error) {
	r, err := d.n.engine.scrub.All(ctx, run)
	return wire.Scrub{
		At: &run.Now, Items: int64(r.Items), Objects: int64(r.Objects), Bytes: r.Bytes, Mismatch: int64(r.BadObjects), Again: int64(r.Again),
		Bad: badCopies(r.Bad),
	}, err
}

func badCopies(all []scrub.BadCopy) []wire.BadCopy {
	out := make([]wire.BadCopy, len(all))
	for i, bad := range all {
		out[i] = wire.BadCopy{Item: bad.Item, Key: string(bad.Key), Why: bad.Why}
	}
	return out
}

// DeadLetters returns a page of the steps that were given up, by shard and id: of one
// item unless it is zero, of one step unless it is empty. A page may be short or
// empty and not be the last: at most limit letters are read.
func (d AdminOperations) DeadLetters(ctx context.Context, item mayfly.ID, step, cursor string, limit int) (wire.DeadLetters, error) {
	out := wire.DeadLetters{Letters: []wire.DeadLetter{}}
	after, last := remind.Dead{ID: item}, mayfly.Shard(mayfly.Shards-1)
	if !item.IsZero() {
		last = item.Shard()
	}
	var err error
	if step != "" {
		if _, err = remind.ParseStep(step); err != nil {
			return out, err
		}
	}
	if cursor != "" {
		if after, err = letterAt(cursor); err != nil {
			return out, err
		}
	}
	looked := 0
	for shard := after.ID.Shard(); shard <= last && looked < limit; shard++ {
		found, err := remind.DeadLetters(ctx, d.n.set.Rows, shard, after, limit-looked)
		if err != nil {
			return out, err
		}
		looked += len(found)
		for _, dead := range found {
			if !item.IsZero() && dead.ID != item {
				return out, nil // letters are in order, so there is no more of this item
			}
			if step == "" || dead.Step.String() == step {
				out.Letters = append(out.Letters, letter(dead))
			}
			out.Next = dead.ID.String() + "." + dead.Step.String()
		}
		after = remind.Dead{}
	}
	if looked < limit {
		out.Next = ""
	}
	return out, nil
}

// letterAt reads a cursor: the last letter of the page before.
func letterAt(cursor string) (d remind.Dead, err error) {
	id, step, _ := strings.Cut(cursor, ".")
	if d.ID, err = mayfly.ParseID(id); err != nil {
		return d, err
	}
	d.Step, err = remind.ParseStep(step)
	return d, err
}

func letter(d remind.Dead) wire.DeadLetter {
	out := wire.DeadLetter{Item: d.ID, Step: d.Step.String(), Reason: d.Reason, Attempts: int(d.Tries), Since: d.Since, Tries: []wire.Try{}}
	for _, t := range d.History {
		out.Tries = append(out.Tries, wire.Try{At: t.At, Reason: t.Reason})
	}
	return out
}

// retriedAfter is how far ahead a step that is tried again is due: as far as every
// reminder, so that no walk can have passed it (L15).
const retriedAfter = mayfly.DefaultRemindAfter

// RetryDead schedules the step of a dead letter again. Errors: Invalid, NotFound,
// Conflict.
func (d AdminOperations) RetryDead(ctx context.Context, item mayfly.ID, step string, by audit.Actor, reason string, now mayfly.Instant) error {
	dead, err := d.dead(ctx, item, step)
	if err != nil {
		return err
	}
	_, err = d.n.RetryDead(ctx, []remind.Dead{dead}, by, reason, now.Add(retriedAfter), now)
	return err
}

// DropDead removes a dead letter: its step is never done. Errors: Invalid, NotFound,
// Conflict.
func (d AdminOperations) DropDead(ctx context.Context, item mayfly.ID, step string, by audit.Actor, reason string, now mayfly.Instant) error {
	dead, err := d.dead(ctx, item, step)
	if err != nil {
		return err
	}
	return d.n.DropDead(ctx, dead, by, reason, now)
}

func (d AdminOperations) dead(ctx context.Context, item mayfly.ID, word string) (remind.Dead, error) {
	step, err := remind.ParseStep(word)
	if err != nil {
		return remind.Dead{}, err
	}
	return remind.DeadLetter(ctx, d.n.set.Rows, item, step)
}

const (
	// runsKept is how far back runs can be listed: a day more than they are kept.
	runsKept = 41 * 24 * time.Hour
	// runsAnHour is how many runs of one hour are read at most.
	runsAnHour = 10_000
)

// Runs returns a page of the runs that began at an instant or later.
func (d AdminOperations) Runs(ctx context.Context, from mayfly.Instant, cursor string, limit int, now mayfly.Instant) (wire.Runs, error) {
	out := wire.Runs{Runs: []wire.Run{}}
	from = max(from, now.Add(-runsKept))
	behind, at := walk.Run{}, from
	if cursor != "" {
		var err error
		if behind, err = runAt(cursor); err != nil {
			return out, err
		}
		at = max(from, behind.Began)
	}
	for hour := startOfHour(at); hour <= now; hour = hour.Add(time.Hour) {
		found, err := walk.RunsIn(ctx, d.n.set.Rows, hour, runsAnHour)
		if err != nil {
			return out, err
		}
		for _, run := range found {
			if run.Began < from || hour == startOfHour(behind.Began) && compareRuns(run, behind) <= 0 {
				continue
			}
			if len(out.Runs) == limit {
				out.Next = runCursor(behind)
				return out, nil
			}
			out.Runs = append(out.Runs, wire.Run{Run: runText(run.Number), Walk: run.Walk, Shard: int(run.Shard), Began: run.Began, From: run.From})
			behind = run
		}
	}
	return out, nil
}

func startOfHour(at mayfly.Instant) mayfly.Instant {
	const hour = mayfly.Instant(time.Hour / time.Millisecond)
	return at - at%hour
}

// compareRuns orders the runs of one hour.
func compareRuns(a, b walk.Run) int {
	return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Began, b.Began))
}

// runCursor returns the cursor of the page that begins after a run.
func runCursor(r walk.Run) string {
	return fmt.Sprintf("%d.%s.%d", r.Began, runText(r.Number), r.Shard)
}

func runAt(cursor string) (r walk.Run, err error) {
	var number string
	dots := strings.ReplaceAll(cursor, ".", " ")
	if n, err := fmt.Sscanf(dots, "%d %16s %d", &r.Began, &number, &r.Shard); err != nil || n != 3 {
		return r, badCursor(cursor)
	}
	if r.Number, err = parseRun(number); err != nil || runCursor(r) != cursor {
		return r, badCursor(cursor)
	}
	return r, nil
}

func badCursor(cursor string) error {
	return mayfly.Errorf(mayfly.Invalid, "%.40q is not a cursor", cursor).WithHint("use next of the page before, unchanged")
}

// AuditRecords returns a page of the audit log, newest first. A page may be short
// and not the last.
func (d AdminOperations) AuditRecords(ctx context.Context, cursor string, limit int) (wire.AuditRecords, error) {
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
		At: r.At, Chain: r.Chain, Number: int64(r.Number), Actor: e.Actor.Subject, Issuer: e.Actor.Issuer, Verb: e.Verb.String(), Outcome: e.Outcome.String(),
		Reason: e.Reason, Detail: e.Detail,
	}
	if !e.Actor.For.IsZero() {
		out.For = &e.Actor.For
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

// maxFindings is how many findings a report has at most.
const maxFindings = 100

// VerifyAudit follows the chains of the audit log, which may be written meanwhile,
// and compares them with heads that were kept elsewhere.
func (d AdminOperations) VerifyAudit(ctx context.Context, heads []string) (wire.AuditReport, error) {
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
		if i == maxFindings {
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

// RetryDead schedules dead letters again, due at due, and returns how many. Each is
// recorded in the audit log (C6).
func (n *Node) RetryDead(ctx context.Context, dead []remind.Dead, by audit.Actor, reason string, due, now mayfly.Instant) (done int, err error) {
	for _, d := range dead {
		err := n.audited(ctx, audit.RetryDeadLetter, d, by, reason, now, func() error {
			return remind.Retry(ctx, n.set, d.ID, d.Step, due)
		})
		if err != nil {
			return done, fmt.Errorf("retry %s of %s: %w", d.Step, d.ID, err)
		}
		done++
	}
	return done, nil
}

// DropDead removes a dead letter and records the reason in the audit log.
func (n *Node) DropDead(ctx context.Context, d remind.Dead, by audit.Actor, reason string, now mayfly.Instant) error {
	return n.audited(ctx, audit.DropDeadLetter, d, by, reason, now, func() error {
		return remind.Drop(ctx, n.set.Rows, d.ID, d.Step)
	})
}

func (n *Node) audited(ctx context.Context, verb audit.Verb, d remind.Dead, by audit.Actor, reason string, now mayfly.Instant, do func() error) error {
	entry := audit.Entry{Actor: by, Verb: verb, Subject: audit.Subject{Item: d.ID}, Reason: reason, Detail: d.Step.String()}
	intent, err := n.engine.audit.Record(ctx, entry, now)
	if err != nil {
		return err
	}
	outcome, failed := audit.Done, do()
	if failed != nil {
		outcome = audit.Failed
	}
	_, err = n.engine.audit.Record(ctx, entry.Concluded(intent, outcome, d.Step.String()), now)
	return errors.Join(failed, err)
}
