// Package collect erases orphans: objects in either tier that no row names and
// none ever will. It also reports objects that a row names and that are missing.
//
// Abandoned walks over uploads past their own deadline, whose end is scheduled.
// Orphans goes round and round over everything else: what items had is a surprise,
// of which a run erases no more than its cap (L14, I16). Only objects of uploads
// older than 24 hours are judged (I15). Of a held item nothing is erased (I21).
package collect

import (
	"context"
	"fmt"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/erase"
	"github.com/mayflyhq/mayfly/store"
)

const day = 24 * time.Hour

// Options are the settings of a Collector.
type Options struct {
	Settle time.Duration // after this time no birth is in flight any more (L4); default 1 min
	Audit  *audit.Log    // records every run that erases; without it only dry runs are made
}

// Collector finds and erases orphans. Safe for concurrent use.
type Collector struct {
	set   store.Set
	items *erase.Erase
	o     Options
}

// New returns a Collector over set.
func New(set store.Set, items *erase.Erase, o Options) (*Collector, error) {
	if o.Settle == 0 {
		o.Settle = time.Minute
	}
	if o.Settle < 0 {
		return nil, mayfly.Errorf(mayfly.Invalid, "collect: settle is negative: %s", o.Settle)
	}
	return &Collector{set: set, items: items, o: o}, nil
}

// Run asks for one run of the collector.
type Run struct {
	Erase bool // without it the run is dry: it reports what it would erase and moves no watermark
	Now   mayfly.Instant
	Floor time.Duration // how old an upload is at least; default and minimum 24 h (I15)
	Cap   int           // how many objects that items had it erases at most; default and maximum the cap of L14
	Most  int           // how many objects of a tier it looks at; default 100,000

	// Abandoned restricts the run to uploads that were never published: their end
	// was due, while an orphan that an item had is a surprise.
	Abandoned bool

	By     audit.Actor // for the audit log; required with Erase
	Reason string      // the same
}

func (r Run) withDefaults() (Run, error) {
	if r.Floor == 0 {
		r.Floor = day
	}
	if r.Most == 0 {
		r.Most = 100_000
	}
	if r.Now <= 0 || r.Floor < day || r.Cap < 0 || r.Most < 0 {
		return r, mayfly.Errorf(mayfly.Invalid, "orphans: a setting is out of range: %+v", r).WithHint("the floor is at least 24 hours")
	}
	return r, nil
}

// Report is what a run found and did.
type Report struct {
	Looked    int // objects looked at that are past the floor
	Strange   int // objects whose key no key function makes: left alone
	Orphans   int // objects that nothing names
	Abandoned int // of them, those of uploads that were never published
	Deleted   int
	Capped    bool             // there are more than one run may erase
	Whole     bool             // it came to the end of both tiers; the next run starts over
	Examples  []mayfly.BlobKey // of orphans
}

// maxExamples bounds the examples of each kind in a report.
const maxExamples = 20

// Over reports whether a run found more orphans of items than one run may erase
// (L14): then an operator must look before any of them is erased. Abandoned
// uploads do not count: any user can leave some behind.
func (r Report) Over() bool { return r.Orphans-r.Abandoned > r.Cap() }

// Cap returns how many objects a run that looked at this many may erase (I16).
func (r Report) Cap() int { return capFor(r.Looked) }

// capFor returns the cap of an unscheduled job that looked at so many (L14, I16).
func capFor(looked int) int { return max(10, min(10_000, looked/1_000)) }

// Orphans collects objects that no row names and none ever will (L12), in both
// tiers, in the order of their keys from a durable watermark on that starts over
// at the end, because an object of an old item may be left by a recent operation.
// Errors: Invalid, Conflict (another collector runs), Unavailable.
func (c *Collector) Orphans(ctx context.Context, run Run) (Report, error) {
	run, err := run.withDefaults()
	if err != nil {
		return Report{}, err
	}
	p := &pass{Collector: c, run: run}
	if err := p.look(ctx); err != nil {
		return p.report, fmt.Errorf("orphans: %w", err)
	}
	if !run.Erase {
		return p.report, nil
	}
	if p.idle() { // nothing to record
		if err := p.collect(ctx); err != nil {
			return p.report, fmt.Errorf("orphans: %w", err)
		}
		return p.report, nil
	}
	err = c.o.Audit.Do(ctx, audit.Entry{Actor: run.By, Verb: audit.CollectOrphans, Reason: run.Reason}, run.Now, func() (string, error) {
		err := p.collect(ctx)
		return fmt.Sprintf("%d of %d orphans erased, %d objects looked at", p.report.Deleted, p.report.Orphans, p.report.Looked), err
	})
	if err != nil {
		return p.report, fmt.Errorf("orphans: %w", err)
	}
	return p.report, nil
}

// object is an object of a tier as the collector judged it.
type object struct {
	erase.Object
	abandoned bool      // of an upload that was never published
	stray     mayfly.ID // its item, if that has no row
}

// old reports whether the object may be judged at all: its upload is past the
// floor (I15), and no birth that is in flight can publish it any more.
func old(o erase.Object, now mayfly.Instant, floor, settle time.Duration) bool {
	if o.ID.Birth().Add(floor) > now {
		return false
	}
	return !o.Uploaded || o.ID.Expires() && o.ID.Deadline().Add(settle) <= now
}

// tier is one of the two.
type tier uint8

const (
	hot tier = iota
	cold
)

func (t tier) String() string { return [2]string{"hot", "cold"}[t] }

// dead reports whether no row names the object and none ever will. A generation
// that the row has not passed is never dead while the row lives: a claim copies
// under the generation of the row itself and names it later, a restore writes
// under the next one. Package erase takes care of a deleted row that has its body,
// and a held one stays (I21).
func dead(o erase.Object, t tier, by erase.Owner) bool {
	switch item := by.Item; {
	case !by.Found:
		return true
	case item.Held:
		return false
	case item.State == mayfly.Deleted:
		return !by.Body
	case !o.Uploaded && o.Generation >= item.Generation:
		return false
	default:
		return !named(o, t, item)
	}
}

// named reports whether the row names the object as a copy in the tier. A
// rendition belongs to the copy that the row names.
func named(o erase.Object, t tier, item mayfly.Item) bool {
	g := item.Keys.Hot
	if t == cold {
		g = item.Keys.Cold
	}
	return g != 0 && item.Owns(o.Number) && item.MediaKey(g, o.Number) == o.Key
}
