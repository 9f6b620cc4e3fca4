package erase

import (
	"context"
	"fmt"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/audit"
)

// OrphanRun asks for one run of the collector.
type OrphanRun struct {
	Erase bool // without it, it is a dry run: it tells what it would erase, and moves no watermark
	Now   mayfly.Instant
	Floor time.Duration // how old an upload is at least; default and least 24 h (I15)
	Cap   int           // how many objects it erases at most; default and most the cap of L14
	Most  int           // how many objects of a tier it looks at; default 100,000
	Rows  Span          // of rows whose objects are looked for: the other way round

	// Abandoned leaves everything but uploads that were never published: their end
	// was due, that of an object that an item had is a surprise.
	Abandoned bool

	By, Reason string // who collects and why, for the audit log; required with Erase
}

func (r OrphanRun) withDefaults() (OrphanRun, error) {
	if r.Floor == 0 {
		r.Floor = day
	}
	if r.Most == 0 {
		r.Most = 100_000
	}
	if r.Now <= 0 || r.Floor < day || r.Cap < 0 || r.Most < 0 {
		return r, mayfly.Errorf(mayfly.Invalid, "orphans: a setting is out of range: %+v", r).WithHint("nothing younger than 24 hours is collected")
	}
	return r, nil
}

// OrphanReport is what a run found and did.
type OrphanReport struct {
	Looked    int // objects looked at, of those past the floor
	Strange   int // whose key is none of ours: left alone
	Orphans   int // that nothing names
	Abandoned int // of them, those of uploads that were never published
	Deleted   int
	Capped    bool             // there are more than one run may erase
	Whole     bool             // it came to the end of both tiers; the next run begins anew
	Rows      int              // rows whose objects were looked for
	Missing   int              // objects that a row names and that are not there
	Examples  []mayfly.BlobKey // of orphans
	Lost      []mayfly.BlobKey // examples of what is missing
}

// maxExamples is how many examples a report has of each sort.
const maxExamples = 20

// capFor is the cap of an unscheduled job that looked at so many (L14, I16).
func capFor(looked int) int { return max(10, min(10_000, looked/1_000)) }

// Orphans collects objects that no row names and none ever will (L12), in both
// tiers, in the order of their keys behind a durable watermark that begins anew
// at the end: an object of an old item may be left by something recent. The other
// way round it reports objects that are named and not there; nothing comes of
// that. Errors: Invalid, Conflict (another collector runs), Unavailable.
func (e *Erase) Orphans(ctx context.Context, run OrphanRun) (OrphanReport, error) {
	run, err := run.withDefaults()
	if err != nil {
		return OrphanReport{}, err
	}
	c := &collector{Erase: e, run: run}
	if err := c.look(ctx); err != nil {
		return c.report, fmt.Errorf("orphans: %w", err)
	}
	if err := c.missing(ctx); err != nil {
		return c.report, fmt.Errorf("orphans: rows without objects: %w", err)
	}
	if !run.Erase {
		return c.report, nil
	}
	err = e.audited(ctx, audit.Entry{Actor: run.By, Verb: audit.CollectOrphans, Reason: run.Reason}, run.Now, func() (string, error) {
		err := c.collect(ctx)
		return fmt.Sprintf("%d of %d orphans erased, %d objects looked at", c.report.Deleted, c.report.Orphans, c.report.Looked), err
	})
	if err != nil {
		return c.report, fmt.Errorf("orphans: %w", err)
	}
	return c.report, nil
}
