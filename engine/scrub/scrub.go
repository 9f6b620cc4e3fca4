package erase

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/loop"
)

// ScrubRun asks for the cold copies of a span of the ledger to be read again.
type ScrubRun struct {
	Rows           Span
	Now            mayfly.Instant
	BytesPerSecond int64 // how fast it reads at most; default 8 MiB

	Progress func(done, of int) // is told of minutes of deadlines; may be nil
}

func (r ScrubRun) withDefaults() (ScrubRun, error) {
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

// ScrubReport is what a scrub read and found.
type ScrubReport struct {
	Items, Objects int
	Bytes          int64
	Bad            []BadCopy // at most maxBad; what is over them is counted
	BadObjects     int
	Again          int  // items put back on their way to be copied again from hot
	Whole          bool // it came to the end of what is there
}

// BadCopy is a cold object that is not what was uploaded.
type BadCopy struct {
	Item mayfly.ID
	Key  mayfly.BlobKey
	Why  string
}

const maxBad = 100

// Scrub reads cold objects again and compares them with what was uploaded (L9).
// It erases nothing. Where the archive has not finished and hot is whole, the bad
// copy is no longer named, so that the archive copies again instead of erasing
// hot behind it (I1).
func (e *Erase) Scrub(ctx context.Context, run ScrubRun) (ScrubReport, error) {
	run, err := run.withDefaults()
	if err != nil {
		return ScrubReport{}, err
	}
	s := &scrub{Erase: e, run: run}
	first, of := run.Rows.From.Minute(), int(run.Rows.To.Minute()-run.Rows.From.Minute())
	err = e.each(ctx, run.Rows, func(page []mayfly.Item) error {
		if _, err := s.page(ctx, page, math.MaxInt64); err != nil {
			return err
		}
		if len(page) > 0 && page[0].ID.Expires() {
			run.Progress(int(page[0].ID.Deadline().Minute()-first), of)
		}
		return nil
	})
	if err != nil {
		return s.report, fmt.Errorf("scrub: %w", err)
	}
	run.Progress(of, of)
	s.report.Whole = true
	return s.report, nil
}

type scrub struct {
	*Erase
	run    ScrubRun
	report ScrubReport
}

// page reads the copies of rows until it has read enough, and answers how many of
// the rows it has done.
func (s *scrub) page(ctx context.Context, page []mayfly.Item, enough int64) (done int, err error) {
	if len(page) == 0 {
		return 0, nil
	}
	bodies, err := s.set.Ledger.Body(ctx, ids(page)...)
	if err != nil {
		return 0, err
	}
	for i, item := range page {
		if item.Keys.Cold == 0 || item.State == mayfly.Deleted || !bodies[i].Found {
			continue
		}
		if err := s.item(ctx, item, bodies[i].Body); err != nil {
			return i, fmt.Errorf("%s: %w", item.ID, err)
		}
		if s.report.Bytes >= enough {
			return i + 1, nil
		}
	}
	return len(page), nil
}

func (s *scrub) item(ctx context.Context, item mayfly.Item, body mayfly.Body) error {
	bad, err := s.bad(ctx, s.set.Cold, item, item.Keys.Cold, body)
	if err != nil {
		return err
	}
	s.report.Items++
	if len(bad) == 0 {
		return nil
	}
	row, err := s.read(ctx, item.ID)
	switch {
	case errors.Is(err, mayfly.NotFound):
		return nil
	case err != nil:
		return err
	case row.State == mayfly.Deleted || row.Keys.Cold != item.Keys.Cold:
		return nil // it moved while it was read: it was deleted, restored or copied anew
	}
	s.report.BadObjects += len(bad)
	s.report.Bad = append(s.report.Bad, bad[:min(len(bad), maxBad-len(s.report.Bad))]...)
	return s.again(ctx, row, body)
}

// bad reads a copy of the item, at the run's pace, and answers what is not right.
func (s *scrub) bad(ctx context.Context, tier store.Blobs, item mayfly.Item, g mayfly.Generation, body mayfly.Body) ([]BadCopy, error) {
	var bad []BadCopy
	for n, medium := range body.Media {
		key := item.MediaKey(g, n)
		size, why := store.ReadBack(ctx, tier, key, medium)
		if errors.Is(why, mayfly.Unavailable) || ctx.Err() != nil {
			return nil, errors.Join(why, ctx.Err()) // that says nothing about the object
		}
		if why != nil {
			bad = append(bad, BadCopy{Item: item.ID, Key: key, Why: why.Error()})
		}
		s.report.Objects++
		s.report.Bytes += size
		if err := loop.Rest(ctx, time.Duration(float64(size)/float64(s.run.BytesPerSecond)*float64(time.Second))); err != nil {
			return nil, err
		}
	}
	return bad, nil
}

// claimOver is after how long a claim has no worker any more: one gives its batch
// up after five minutes.
const claimOver = 10 * time.Minute

// again puts an item back on its way whose archiving has not finished and whose
// hot copy is whole: a reminder first, then the row names hot alone. The archive
// erases hot behind a cold copy that is named without reading it once more; while
// its worker may be about to do so, hot must not become the only copy (I1).
func (s *scrub) again(ctx context.Context, row mayfly.Item, body mayfly.Body) error {
	if row.State != mayfly.Archiving || row.Keys.Hot == 0 || row.Held || s.run.Now.Sub(row.Changed) < claimOver {
		return nil
	}
	bad, err := s.bad(ctx, s.set.Hot, row, row.Keys.Hot, body)
	if err != nil || len(bad) > 0 {
		return err
	}
	var b store.Batch
	remind.Write(&b, remind.Reminder{
		Due: s.run.Now.Add(s.o.RemindAfter), ID: row.ID, Step: remind.Archive, Reason: "its cold copy does not match what was uploaded",
	})
	if err := s.set.Writer.Commit(ctx, &b); err != nil {
		return fmt.Errorf("remind of the archive: %w", err)
	}
	outcomes, err := s.set.Ledger.Transition(ctx, []mayfly.Change{{
		ID: row.ID, From: row.State, Generation: row.Generation, To: mayfly.Archiving, Nonce: mayfly.Nonce(rand.Uint64() | 1),
		Run: row.Run, Cause: row.Cause, At: s.run.Now, Keys: &mayfly.Keys{Hot: row.Keys.Hot},
	}})
	if err != nil {
		return fmt.Errorf("name hot alone: %w", err)
	}
	if outcomes[0].Result == store.Applied {
		s.report.Again++
	}
	return nil
}
