// Package scrub reads cold copies again and compares them with what was uploaded
// (L9). It erases nothing. Where the archive of an item is not finished and hot is
// complete, it makes the archive copy again instead of erasing hot (I1).
package scrub

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/loop"
)

// Scrubber reads cold copies. Safe for concurrent use.
type Scrubber struct {
	set         store.Set
	remindAfter time.Duration
}

// New returns a Scrubber over set that writes reminders remindAfter ahead; 0 is the
// default.
func New(set store.Set, remindAfter time.Duration) (*Scrubber, error) {
	if remindAfter == 0 {
		remindAfter = mayfly.DefaultRemindAfter
	}
	if remindAfter < 0 {
		return nil, mayfly.Errorf(mayfly.Invalid, "scrub: remind after is negative: %s", remindAfter)
	}
	return &Scrubber{set: set, remindAfter: remindAfter}, nil
}

// Run asks for the cold copies of a span of the ledger.
type Run struct {
	Rows           walk.Span
	Now            mayfly.Instant
	BytesPerSecond int64 // how fast it reads at most; default 8 MiB

	Progress func(done, of int) // is called with minutes of deadlines; may be nil
}

func (r Run) withDefaults() (Run, error) {
	if r.BytesPerSecond == 0 {
		r.BytesPerSecond = 8 << 20
	}
	if r.Progress == nil {
		r.Progress = func(int, int) {}
	}
	if r.BytesPerSecond < 0 || r.Now <= 0 {
		return r, mayfly.Errorf(mayfly.Invalid, "scrub: a setting is out of range: %d bytes a second at %s", r.BytesPerSecond, r.Now)
	}
	return r, nil
}

// Report is what a run read and found.
type Report struct {
	Items, Objects int
	Bytes          int64
	Bad            []BadCopy // at most maxBad; BadObjects counts all
	BadObjects     int
	Again          int  // items that the archive will copy again from hot
	Whole          bool // it came to the end of the span
}

// BadCopy is a cold object that is not what was uploaded.
type BadCopy struct {
	Item mayfly.ID
	Key  mayfly.BlobKey
	Why  string
}

const maxBad = 100

// All reads the cold objects of a span and compares them with what was uploaded
// (L9).
func (s *Scrubber) All(ctx context.Context, run Run) (Report, error) {
	run, err := run.withDefaults()
	if err != nil {
		return Report{}, err
	}
	p := &pass{Scrubber: s, run: run}
	first, of := run.Rows.From.Minute(), int(run.Rows.To.Minute()-run.Rows.From.Minute())
	err = run.Rows.Each(ctx, s.set.Ledger, func(page []mayfly.Item) error {
		if _, err := p.page(ctx, page, math.MaxInt64); err != nil {
			return err
		}
		if len(page) > 0 && page[0].ID.Expires() {
			run.Progress(int(page[0].ID.Deadline().Minute()-first), of)
		}
		return nil
	})
	if err != nil {
		return p.report, fmt.Errorf("scrub: %w", err)
	}
	run.Progress(of, of)
	p.report.Whole = true
	return p.report, nil
}

// pass is one run.
type pass struct {
	*Scrubber
	run    Run
	report Report
}

// page reads the copies of rows until it has read enough bytes, and returns how
// many of the rows it has done.
func (p *pass) page(ctx context.Context, page []mayfly.Item, enough int64) (done int, err error) {
	if len(page) == 0 {
		return 0, nil
	}
	bodies, err := p.set.Ledger.Body(ctx, store.IDs(page)...)
	if err != nil {
		return 0, err
	}
	for i, item := range page {
		if item.Keys.Cold == 0 || item.State == mayfly.Deleted || !bodies[i].Found {
			continue
		}
		if err := p.item(ctx, item, bodies[i].Body); err != nil {
			return i, fmt.Errorf("%s: %w", item.ID, err)
		}
		if p.report.Bytes >= enough {
			return i + 1, nil
		}
	}
	return len(page), nil
}

func (p *pass) item(ctx context.Context, item mayfly.Item, body mayfly.Body) error {
	bad, err := p.bad(ctx, p.set.Cold, item, item.Keys.Cold, body)
	if err != nil {
		return err
	}
	p.report.Items++
	if len(bad) == 0 {
		return nil
	}
	row, err := store.ItemOf(ctx, p.set.Ledger, item.ID)
	switch {
	case errors.Is(err, mayfly.NotFound):
		return nil
	case err != nil:
		return err
	case row.State == mayfly.Deleted || row.Keys.Cold != item.Keys.Cold:
		return nil // it was deleted, restored or copied again meanwhile
	}
	p.report.BadObjects += len(bad)
	p.report.Bad = append(p.report.Bad, bad[:min(len(bad), maxBad-len(p.report.Bad))]...)
	return p.again(ctx, row, body)
}

// bad reads a copy of the item, at the run's pace, and returns the objects that
// differ from what was uploaded.
func (p *pass) bad(ctx context.Context, tier store.Blobs, item mayfly.Item, g mayfly.Generation, body mayfly.Body) ([]BadCopy, error) {
	var bad []BadCopy
	for n, medium := range body.Media {
		key := item.MediaKey(g, n)
		size, why := upload.ReadBack(ctx, tier, key, medium)
		if errors.Is(why, mayfly.Unavailable) || ctx.Err() != nil {
			return nil, errors.Join(why, ctx.Err()) // it says nothing about the object
		}
		if why != nil {
			bad = append(bad, BadCopy{Item: item.ID, Key: key, Why: why.Error()})
		}
		p.report.Objects++
		p.report.Bytes += size
		if err := loop.Rest(ctx, time.Duration(float64(size)/float64(p.run.BytesPerSecond)*float64(time.Second))); err != nil {
			return nil, err
		}
	}
	return bad, nil
}

// claimOver is how long after a claim no worker has it any more: a worker gives
// its batch up after five minutes.
const claimOver = 10 * time.Minute

// again makes the archive copy an item again whose archiving is not finished and
// whose hot copy is complete: it writes a reminder, then makes the row name hot
// alone. The archive erases hot once the row names a cold copy, without reading
// that copy again; while a worker may be about to do so, hot must not become the
// only copy (I1).
func (p *pass) again(ctx context.Context, row mayfly.Item, body mayfly.Body) error {
	if row.State != mayfly.Archiving || row.Keys.Hot == 0 || row.Held || p.run.Now.Sub(row.Changed) < claimOver {
		return nil
	}
	bad, err := p.bad(ctx, p.set.Hot, row, row.Keys.Hot, body)
	if err != nil || len(bad) > 0 {
		return err
	}
	var b store.Batch
	remind.Write(&b, remind.Reminder{
		Due: p.run.Now.Add(p.remindAfter), ID: row.ID, Step: remind.Archive, Reason: "its cold copy does not match what was uploaded",
	})
	if err := p.set.Writer.Commit(ctx, &b); err != nil {
		return fmt.Errorf("remind of the archive: %w", err)
	}
	outcomes, err := walk.Transition(ctx, p.set.Ledger, []mayfly.Change{walk.Compose(row, mayfly.Change{
		To: mayfly.Archiving, Run: row.Run, Cause: row.Cause, At: p.run.Now, Keys: &mayfly.Keys{Hot: row.Keys.Hot},
	})})
	if err != nil {
		return fmt.Errorf("name hot alone: %w", err)
	}
	if outcomes[0].Result == store.Applied {
		p.report.Again++
	}
	return nil
}
