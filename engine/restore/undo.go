package restore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/loop"
)

// UndoRequest is a request to undo a run of a walk (L14).
type UndoRequest struct {
	Until    mayfly.Instant // for items whose deadline has passed; the others serve until their deadline
	By       audit.Actor    // required
	Reason   string         // required
	DryRun   bool           // count only
	Max      int            // items that it may restore; default 10,000
	Progress func(Undone)   // called from time to time, by one goroutine at a time; may be nil
}

// Undone is the progress or the result of an undo.
type Undone struct {
	Found    int // rows that the run changed last and that may be restored
	Ahead    int // of these, rows whose deadline is in the future
	Held     int // held rows of the run, which are not changed
	Deleted  int // rows that the run deleted, which cannot be restored
	Restored int
	Refused  int     // rows that may not be restored, or were changed meanwhile
	Failed   int     // rows whose restore failed
	Back     int     // watermarks that were moved back
	Why      []error // errors of the first refusals and failures
}

// maxWhy is the maximum length of Undone.Why.
const maxWhy = 20

const defaultMax = 10_000

// Undo restores every row that a run of a walk changed last. It moves watermarks
// back that are ahead of now or have passed restored rows. It may be repeated: rows
// that are restored already are not found again. Errors: Invalid, NotFound (no such
// run), TooLarge (more than Max: nothing was done), Unavailable (some rows failed:
// see Undone).
func (r *Restore) Undo(ctx context.Context, run mayfly.Run, req UndoRequest, now mayfly.Instant) (Undone, error) {
	if req.Max == 0 {
		req.Max = defaultMax
	}
	u := &undo{Restore: r, run: run, req: req, now: now, elapsed: loop.Stopwatch()}
	if err := u.find(ctx); err != nil {
		return u.count, fmt.Errorf("undo run %x: %w", uint64(run), err)
	}
	if req.DryRun {
		return u.count, nil
	}
	if err := u.may(); err != nil {
		return u.count, err
	}
	intent := audit.Entry{
		Actor: req.By, Verb: audit.UndoRun, Subject: audit.Subject{Run: run}, Reason: req.Reason,
		Detail: fmt.Sprintf("%d items", u.count.Found),
	}
	err := r.audited(ctx, intent, now, func(ctx context.Context) (string, error) {
		err := u.restore(ctx)
		if err == nil {
			err = u.moveBack(ctx)
		}
		if err == nil && u.count.Failed > 0 {
			err = mayfly.Errorf(mayfly.Unavailable, "%d of %d items could not be restored: %w", u.count.Failed, u.count.Found, errors.Join(u.count.Why...)).
				WithHint("undo it again: restored items are not changed")
		}
		return fmt.Sprintf("%d restored, %d refused, %d watermarks moved back", u.count.Restored, u.count.Refused, u.count.Back), err
	})
	return u.count, err
}

// undo is the state of one undo.
type undo struct {
	*Restore
	run     mayfly.Run
	req     UndoRequest
	now     mayfly.Instant
	elapsed func() time.Duration // since now: an undo may take longer than the time until its reminders are due
	origin  mayfly.Instant
	parts   []part
	ids     []mayfly.ID

	mu    sync.Mutex
	count Undone
}

// part is what the run did in one shard.
type part struct {
	walk  string
	shard *walk.Shard
	from  mayfly.Instant
	to    mayfly.Instant
	ahead bool // a deadline of a row to restore is in the future
}

// may returns why the undo may not begin, or nil.
func (u *undo) may() error {
	switch past := u.count.Found - u.count.Ahead; {
	case u.count.Found > u.req.Max:
		return mayfly.Errorf(mayfly.TooLarge, "run %x changed %d items; at most %d may be restored", uint64(u.run), u.count.Found, u.req.Max).
			WithHint("check with a dry run, then raise the maximum")
	case past > 0 && u.req.Until < u.soon(u.now):
		return mayfly.Errorf(mayfly.Invalid, "the deadline of %d items has passed; until %s is too soon", past, u.req.Until).
			WithHint(fmt.Sprintf("the earliest possible instant is %s", u.soon(u.now)))
	}
	return nil
}

// find reads the parts of the run and the rows that still have its number.
func (u *undo) find(ctx context.Context) error {
	runs, err := walk.RunsOf(ctx, u.set.Rows, u.run)
	if err != nil {
		return err
	}
	if len(runs) == 0 {
		return mayfly.Errorf(mayfly.NotFound, "the run does not exist").WithHint("runs are kept for 40 days")
	}
	if u.origin, err = walk.Origin(ctx, u.set.Rows, u.now); err != nil {
		return err
	}
	u.parts = u.join(runs)
	for i := range u.parts {
		if err := u.scan(ctx, &u.parts[i]); err != nil {
			return err
		}
		u.progress()
	}
	return nil
}

// join merges the runs of each shard into one part that spans them.
func (u *undo) join(runs []walk.Run) (parts []part) {
	at := map[mayfly.Shard]int{}
	for _, run := range runs { // a run belongs to one walk
		i, known := at[run.Shard]
		if !known {
			at[run.Shard] = len(parts)
			parts = append(parts, part{walk: run.Walk, shard: u.shard(run.Shard), from: run.From, to: run.To})
			continue
		}
		parts[i].from, parts[i].to = min(parts[i].from, run.From), max(parts[i].to, run.To)
	}
	return parts
}

// shard returns a shard to read its watermarks; it never takes the lease.
func (u *undo) shard(number mayfly.Shard) *walk.Shard {
	return walk.NewShard(u.set.Rows, number, "undo", time.Second, u.origin)
}

// scanPage is how many rows are read at once.
const scanPage = 500

// scan reads the rows that the run may have changed: those of its span, in the
// minutes that have any.
func (u *undo) scan(ctx context.Context, p *part) error {
	shard, minute := p.shard.Number(), p.from.Minute()
	for {
		next, found, err := u.set.Ledger.NextMinute(ctx, shard, minute)
		if err != nil {
			return fmt.Errorf("next minute of shard %d: %w", shard, err)
		}
		if !found || next > p.to.Minute() {
			return nil
		}
		if err := u.scanMinute(ctx, p, next); err != nil {
			return fmt.Errorf("read minute %d: %w", next, err)
		}
		minute = next + 1
	}
}

func (u *undo) scanMinute(ctx context.Context, p *part, minute mayfly.Minute) error {
	s := store.Stretch{Minute: minute, Shard: p.shard.Number(), To: p.to}
	for {
		page, err := u.set.Ledger.Walk(ctx, s, scanPage)
		if err != nil {
			return err
		}
		for _, item := range page {
			u.found(p, item)
		}
		if len(page) < scanPage {
			return nil
		}
		s.After = store.PositionOf(page[len(page)-1])
	}
}

// found counts a row if it has the number of the run.
func (u *undo) found(p *part, item mayfly.Item) {
	switch {
	case item.Run != u.run:
		return
	case item.State == mayfly.Deleted:
		u.count.Deleted++
		return
	case item.Held:
		u.count.Held++
		return
	}
	u.count.Found++
	if item.ID.Deadline() > u.now {
		u.count.Ahead++
		p.ahead = true
	}
	if len(u.ids) <= u.req.Max { // one more than Max shows that there are too many
		u.ids = append(u.ids, item.ID)
	}
}

// restore restores the rows that were found, several at once. It counts failures
// and continues with the other rows.
func (u *undo) restore(ctx context.Context) error {
	var g errgroup.Group
	g.SetLimit(u.o.Workers)
	for _, id := range u.ids {
		if ctx.Err() != nil {
			break
		}
		g.Go(func() error {
			now, until := u.now.Add(u.elapsed()), id.Deadline()
			if until <= now {
				until = u.req.Until
			}
			_, err := u.bring(ctx, id, until, now)
			u.restored(id, err)
			return nil
		})
	}
	_ = g.Wait() // errors are counted
	if err := ctx.Err(); err != nil {
		return mayfly.Wrap(mayfly.Unavailable, err, "undo it again: restored items are not changed")
	}
	return nil
}

func (u *undo) restored(id mayfly.ID, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case err == nil:
		u.count.Restored++
	case refusal(err):
		u.count.Refused++
	default:
		u.count.Failed++
	}
	if err != nil && len(u.count.Why) < maxWhy {
		u.count.Why = append(u.count.Why, fmt.Errorf("%s: %w", id, err))
	}
	u.progress()
}

func (u *undo) progress() {
	if u.req.Progress != nil {
		u.req.Progress(u.count)
	}
}

// moveBack moves watermarks that have passed restored rows back to where the run
// began. It moves a watermark that is ahead of now back to now, because it has
// passed items that are not published yet; also in shards without rows of the run.
func (u *undo) moveBack(ctx context.Context) error {
	for _, p := range u.everyShard() {
		moved, err := u.movePart(ctx, p)
		if err != nil {
			return fmt.Errorf("move the watermark of %s in shard %d back: %w", p.walk, p.shard.Number(), err)
		}
		if moved {
			u.count.Back++
		}
	}
	return nil
}

// everyShard returns the parts of the run and one part for every other shard.
func (u *undo) everyShard() []part {
	all := slices.Clone(u.parts)
	for number := range mayfly.Shard(mayfly.Shards) {
		if !slices.ContainsFunc(u.parts, func(p part) bool { return p.shard.Number() == number }) {
			all = append(all, part{walk: u.parts[0].walk, shard: u.shard(number), from: u.now})
		}
	}
	return all
}

// slack is how much a walk repeats, so that it misses no item that is published at
// now.
const slack = time.Minute

func (u *undo) movePart(ctx context.Context, p part) (bool, error) {
	for range rounds {
		mark, err := walk.LoadWatermark(ctx, u.set.Rows, p.walk, p.shard)
		if err != nil {
			return false, err
		}
		if mark.At <= u.now && !p.ahead {
			return false, nil
		}
		to := min(p.from, u.now.Add(-slack))
		if mark.At <= to {
			return false, nil
		}
		err = mark.Move(ctx, u.set.Rows, to, 0)
		if err == nil {
			return true, nil
		}
		if !errors.Is(err, mayfly.Conflict) && !errors.Is(err, mayfly.Unknown) {
			return false, err
		}
	}
	return false, mayfly.Errorf(mayfly.Unavailable, "the watermark keeps changing").WithHint("undo it again")
}
