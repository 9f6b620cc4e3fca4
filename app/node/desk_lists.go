package node

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/walk"
)

// DeadLetters is a page of the steps that were given up, shard by shard in order
// of id: of one item unless it is zero, of one step unless it is empty. A page may
// be short, or empty, and not the last: at most limit are looked at.
func (d Desk) DeadLetters(ctx context.Context, item mayfly.ID, step, cursor string, limit int) (wire.DeadLetters, error) {
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
				return out, nil // they are in order: there is no more of it
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

// letterAt reads the cursor of a page: the letter that it stands behind.
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

// retriedAfter is when a step that is tried again is due: as far ahead as every
// reminder, so that no walk can have passed it (L15).
const retriedAfter = mayfly.DefaultRemindAfter

// RetryDead puts the dead letter of a step of an item on its way again. Errors:
// Invalid, NotFound, Conflict.
func (d Desk) RetryDead(ctx context.Context, item mayfly.ID, step, by, reason string, now mayfly.Instant) error {
	dead, err := d.dead(ctx, item, step)
	if err != nil {
		return err
	}
	_, err = d.n.RetryDead(ctx, []remind.Dead{dead}, by, reason, now.Add(retriedAfter), now)
	return err
}

// DropDead forgets it: the step is not done. Errors: Invalid, NotFound, Conflict.
func (d Desk) DropDead(ctx context.Context, item mayfly.ID, step, by, reason string, now mayfly.Instant) error {
	dead, err := d.dead(ctx, item, step)
	if err != nil {
		return err
	}
	return d.n.DropDead(ctx, dead, by, reason, now)
}

func (d Desk) dead(ctx context.Context, item mayfly.ID, word string) (remind.Dead, error) {
	step, err := remind.ParseStep(word)
	if err != nil {
		return remind.Dead{}, err
	}
	return remind.DeadLetter(ctx, d.n.set.Rows, item, step)
}

const (
	// runsKept is how far back runs can be listed: a day more than they are kept.
	runsKept = 41 * 24 * time.Hour
	// runsAnHour is how many parts of runs are read of one hour.
	runsAnHour = 10_000
)

// Runs is a page of the runs that began from an instant on, until now.
func (d Desk) Runs(ctx context.Context, from mayfly.Instant, cursor string, limit int, now mayfly.Instant) (wire.Runs, error) {
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

// compareRuns is the order of the runs of one hour.
func compareRuns(a, b walk.Run) int {
	return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Began, b.Began))
}

// runCursor stands behind a run.
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
	return mayfly.Errorf(mayfly.Invalid, "%.40q is no cursor", cursor).WithHint("take next of the page before as it is")
}
