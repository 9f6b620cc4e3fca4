package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/collect"
	"github.com/mayflyhq/mayfly/engine/scrub"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store/loop"
)

// Upkeep has the settings of background work: collecting objects that no item owns,
// and reading cold copies again (L9, L12).
type Upkeep struct {
	OrphansEvery time.Duration // how often orphans are looked for; default 1 h
	OrphanAge    time.Duration // least age of an upload that is collected; default and minimum 24 h (I15)
	ScrubBytes   int64         // how many bytes of cold copies are read a second; 0: none
	ScrubEvery   time.Duration // least time between two reads of a copy; default 24 h
}

// Orphans is the last result of the collector, and how much it has erased.
type Orphans struct {
	At        mayfly.Instant // time of the last run; 0: none
	Last      collect.Report
	Over      bool   // it found more objects of former items than one run may erase, and waits for an operator (L14)
	Deleted   uint64 // since the process started
	Abandoned uint64 // objects of uploads past their deadline that were erased since then; not in Deleted
	Missing   uint64 // objects that rows name and that were not found, since then
}

// Scrubbed is what the scrub has read and found since the process started.
type Scrubbed struct {
	At             mayfly.Instant // time of the last run; 0: none
	Items, Objects uint64
	Bytes          uint64
	BadObjects     uint64
	Again          uint64 // items that are copied from hot storage again
	Bad            []scrub.BadCopy
}

// upkeep holds the results of both loops.
type upkeep struct {
	mu       sync.Mutex
	orphans  Orphans
	scrubbed Scrubbed
}

// Orphans returns the results of the collector.
func (n *Node) Orphans() Orphans {
	n.engine.upkeep.mu.Lock()
	defer n.engine.upkeep.mu.Unlock()
	return n.engine.upkeep.orphans
}

// Scrubbed returns the results of the scrub.
func (n *Node) Scrubbed() Scrubbed {
	n.engine.upkeep.mu.Lock()
	defer n.engine.upkeep.mu.Unlock()
	s := n.engine.upkeep.scrubbed
	s.Bad = append([]scrub.BadCopy(nil), s.Bad...)
	return s
}

// scrubCadence is the pause between two parts of a scrub; ScrubBytes limits its speed.
const scrubCadence = time.Second

// afterStart is which part of its period a loop waits before its first run: a process
// that has just started has more urgent work.
const afterStart = 10

// abandonedShare is how many times as often as orphans abandoned uploads are looked
// for, so that they are gone well within an hour of their deadline.
const abandonedShare = 12

// startUpkeep starts the loops that no user waits for. Failures are retried slowly,
// because a pass takes long.
func (n *Node) startUpkeep() {
	start := func(name string, every time.Duration, do func(context.Context, mayfly.Instant) error) {
		o := loop.Options{Name: name, Every: every, First: every / afterStart, Jitter: 0.1, Backoff: time.Second, BackoffMax: min(every, time.Minute)}
		n.startWith(o, n.whenMine(do))
	}
	start("orphans", n.o.OrphansEvery, n.collectOrphans)
	start("abandoned", n.o.OrphansEvery/abandonedShare, n.collectAbandoned)
	start("missing", n.o.OrphansEvery, n.findMissing)
	start("held", n.o.OrphansEvery, n.engine.restore.TidyHeld)
	if n.accounts != nil {
		start("counts", recountCadence, n.recount)
	}
	if n.o.ScrubBytes > 0 {
		start("scrub", scrubCadence, n.scrub)
	}
}

// recountCadence is how often the counts of follow edges are brought up to date.
const recountCadence = 10 * time.Second

// recount counts the follow edges that have changed, and settles changes that stopped
// half-way.
func (n *Node) recount(ctx context.Context, now mayfly.Instant) error {
	_, err := n.accounts.Recount(ctx, now)
	return err
}

// collectOrphans looks for orphans. The first run erases nothing (L12). A later run
// erases objects of former items, up to its cap, if it and the one before found no
// more of them than one run may erase; otherwise an operator has to look at them
// (L14), and it erases only uploads that were never published.
func (n *Node) collectOrphans(ctx context.Context, now mayfly.Instant) error {
	run := collect.Run{Now: now, Floor: n.o.OrphanAge}
	found, err := n.engine.collect.Orphans(ctx, run)
	if err != nil {
		return err
	}
	before := n.looked(found, now)
	if found.Over() {
		n.o.Problem("orphans", mayfly.Errorf(mayfly.TooLarge, "found %d orphans of former items and erased none of them, because one run erases %d at most", found.Orphans-found.Abandoned, found.Cap()).
			WithHint("run mayfly orphans to see them"))
	}
	run.Abandoned = found.Over() || before.Over
	if before.At == 0 || run.Abandoned && found.Abandoned == 0 {
		return nil
	}
	run.Erase, run.By, run.Reason = true, audit.Actor{Subject: n.o.Name}, fmt.Sprintf("every %s", n.o.OrphansEvery)
	done, err := n.engine.collect.Orphans(ctx, run)
	n.collected(done)
	return notConflict(err) // another node collects and has moved the watermark
}

// notConflict returns err unless it says that another node does the same.
func notConflict(err error) error {
	if errors.Is(err, mayfly.Conflict) {
		return nil
	}
	return err
}

// collectAbandoned erases the uploads past their deadline that were never published,
// until none is left.
func (n *Node) collectAbandoned(ctx context.Context, now mayfly.Instant) error {
	for may := true; may; now, may = n.mayUpkeep() {
		done, err := n.engine.collect.Abandoned(ctx, collect.AbandonedRun{Now: now, Floor: n.o.OrphanAge})
		n.counted(func(o *Orphans) { o.Abandoned += uint64(done.Deleted) })
		if err != nil || !done.More {
			return notConflict(err)
		}
	}
	return nil
}

// findMissing looks for the media that items name when the items end and are still
// hot; the scrub checks cold copies.
func (n *Node) findMissing(ctx context.Context, now mayfly.Instant) error {
	found, err := n.engine.collect.Missing(ctx, collect.MissingRun{From: now.Add(-n.o.OrphansEvery), To: now.Add(-n.o.Settle)})
	n.counted(func(o *Orphans) { o.Missing += uint64(found.Missing) })
	if found.Missing > 0 {
		n.o.Problem("missing", mayfly.Errorf(mayfly.Corrupt, "%d media that items name are missing, such as %v", found.Missing, found.Lost[:min(len(found.Lost), lostNamed)]).
			WithHint(n.lostHint()))
	}
	return notConflict(err)
}

// lostNamed is how many missing media a problem names.
const lostNamed = 10

// lostHint returns what to do about missing media. mayfly verify needs a data folder,
// and a cluster has none.
func (n *Node) lostHint() string {
	if n.set.Time != nil {
		return "restore them from a backup of the bucket; mayfly scrub --admin URL reports on cold copies"
	}
	return "restore them from a backup; to see all of them stop the server and run mayfly verify"
}

// looked stores the result of a run and returns the previous one.
func (n *Node) looked(found collect.Report, now mayfly.Instant) (before Orphans) {
	n.counted(func(o *Orphans) {
		before = *o
		o.At, o.Last, o.Over = now, found, found.Over()
	})
	return before
}

func (n *Node) collected(done collect.Report) {
	n.counted(func(o *Orphans) {
		o.Last.Deleted = done.Deleted
		o.Deleted += uint64(done.Deleted)
	})
}

// counted changes what is known of the collector.
func (n *Node) counted(change func(*Orphans)) {
	n.engine.upkeep.mu.Lock()
	defer n.engine.upkeep.mu.Unlock()
	change(&n.engine.upkeep.orphans)
}

// scrub reads the next cold copies, of items that the archive has had time to copy.
func (n *Node) scrub(ctx context.Context, now mayfly.Instant) error {
	origin, err := walk.Origin(ctx, n.set.Rows, now)
	if err != nil {
		return err
	}
	run := scrub.Run{Rows: walk.Span{From: origin, To: now.Add(-n.o.Archive.Window)}, Now: now, BytesPerSecond: n.o.ScrubBytes}
	found, err := n.engine.scrub.Next(ctx, run, n.o.ScrubEvery)
	n.scrubbed(found, now)
	for _, bad := range found.Bad {
		n.o.Problem("scrub", mayfly.Errorf(mayfly.Corrupt, "object %s of item %s is not what was uploaded: %s", bad.Key, bad.Item, bad.Why).
			WithHint("restore the object from a backup, then run mayfly scrub again"))
	}
	return notConflict(err) // another node scrubs and has moved the position
}

// maxBad is how many bad copies are named; more are only counted.
const maxBad = 100

func (n *Node) scrubbed(r scrub.Report, now mayfly.Instant) {
	u := n.engine.upkeep
	u.mu.Lock()
	defer u.mu.Unlock()
	s := &u.scrubbed
	s.At, s.Items, s.Objects, s.Bytes = now, s.Items+uint64(r.Items), s.Objects+uint64(r.Objects), s.Bytes+uint64(r.Bytes)
	s.BadObjects, s.Again = s.BadObjects+uint64(r.BadObjects), s.Again+uint64(r.Again)
	s.Bad = append(s.Bad, r.Bad[:min(len(r.Bad), maxBad-len(s.Bad))]...)
}
