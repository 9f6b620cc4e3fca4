package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/collect"
	"github.com/mayflyhq/mayfly/engine/scrub"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store/loop"
)

// Upkeep has the settings of background work: collecting objects that no item owns,
// and reading cold copies again (L9, L12).
type Upkeep struct {
	OrphansEvery time.Duration // how often orphans are looked for; default 1 h
	OrphanAge    time.Duration // how old an upload is at least that is collected; default and least 24 h (I15)
	ScrubBytes   int64         // how many bytes of cold copies are read a second; 0 is none
	ScrubEvery   time.Duration // how often every copy is read at most; default 24 h
}

// Orphans is what the collector found last, and all that it has erased.
type Orphans struct {
	At      mayfly.Instant // of the last look; 0 is none
	Last    collect.Report
	Over    bool   // it found more that items had than one run may erase, and waits for an operator (L14)
	Deleted uint64 // since the process started
}

// Scrubbed is what the scrub has read and found since the process started.
type Scrubbed struct {
	At             mayfly.Instant // of the last look; 0 is none
	Items, Objects uint64
	Bytes          uint64
	BadObjects     uint64
	Again          uint64 // items that are copied again from hot
	Bad            []scrub.BadCopy
}

// upkeep is what both loops remember.
type upkeep struct {
	mu       sync.Mutex
	orphans  Orphans
	scrubbed Scrubbed
}

// Orphans is how the collector stands.
func (n *Node) Orphans() Orphans {
	n.engine.upkeep.mu.Lock()
	defer n.engine.upkeep.mu.Unlock()
	return n.engine.upkeep.orphans
}

// Scrubbed is how the scrub stands.
func (n *Node) Scrubbed() Scrubbed {
	n.engine.upkeep.mu.Lock()
	defer n.engine.upkeep.mu.Unlock()
	s := n.engine.upkeep.scrubbed
	s.Bad = append([]scrub.BadCopy(nil), s.Bad...)
	return s
}

// scrubCadence is how soon a scrub goes on; how fast it reads is ScrubBytes.
const scrubCadence = time.Second

// afterStart is which part of its period a loop waits at first: a process that has
// just started has better things to do.
const afterStart = 10

// startUpkeep starts the loops that no user waits for. Failures are retried slowly,
// because a pass takes long.
func (n *Node) startUpkeep() {
	start := func(name string, every time.Duration, do func(context.Context, mayfly.Instant) error) {
		o := loop.Options{Name: name, Every: every, First: every / afterStart, Jitter: 0.1, Backoff: time.Second, BackoffMax: min(every, time.Minute)}
		n.startWith(o, n.whenMine(do))
	}
	start("orphans", n.o.OrphansEvery, n.collectOrphans)
	if n.o.ScrubBytes > 0 {
		start("scrub", scrubCadence, n.scrub)
	}
}

// collectOrphans looks for orphans. The first look is the dry run of L12. From then
// on every look erases, up to its cap, uploads that were never published, and what
// an item had only if this look and the one before found no more of that than one
// run may erase: else an operator has to look at it (L14).
func (n *Node) collectOrphans(ctx context.Context, now mayfly.Instant) error {
	run := collect.Run{Now: now, Floor: n.o.OrphanAge}
	look := run
	look.Rows = walk.Span{From: now.Add(-n.o.OrphansEvery), To: now} // still hot; of what is cold the scrub tells
	found, err := n.engine.collect.Orphans(ctx, look)
	if err != nil {
		return err
	}
	before := n.looked(found, now)
	if found.Missing > 0 {
		n.o.Problem("orphans", mayfly.Errorf(mayfly.Corrupt, "%d media that items name are not there, such as %v", found.Missing, found.Lost[:min(len(found.Lost), lostNamed)]).
			WithHint(n.lostHint()))
	}
	if found.Over() {
		n.o.Problem("orphans", mayfly.Errorf(mayfly.TooLarge, "there are %d orphans that items had, and one run erases %d at most: none of them was erased", found.Orphans-found.Abandoned, found.Cap()).
			WithHint("look at them: mayfly orphans"))
	}
	run.Abandoned = found.Over() || before.Over
	if before.At == 0 || run.Abandoned && found.Abandoned == 0 {
		return nil
	}
	run.Erase, run.By, run.Reason = true, n.o.Name, fmt.Sprintf("every %s", n.o.OrphansEvery)
	done, err := n.engine.collect.Orphans(ctx, run)
	n.collected(done)
	if errors.Is(err, mayfly.Conflict) {
		return nil // another node collects: it has moved the watermark
	}
	return err
}

// lostNamed is how many lost media one line names.
const lostNamed = 10

// lostHint says what helps with media that are lost. Verify is for a data folder,
// and a cluster has none.
func (n *Node) lostHint() string {
	if n.set.Time != nil {
		return "put them back from a backup of the bucket; of cold copies the nodes' own scrub tells more: mayfly scrub --admin URL"
	}
	return "put them back from a backup; to see all of them stop the server, then mayfly verify"
}

// looked remembers a look and answers what was known before it.
func (n *Node) looked(found collect.Report, now mayfly.Instant) (before Orphans) {
	u := n.engine.upkeep
	u.mu.Lock()
	defer u.mu.Unlock()
	before = u.orphans
	u.orphans = Orphans{At: now, Last: found, Over: found.Over(), Deleted: before.Deleted}
	return before
}

func (n *Node) collected(done collect.Report) {
	u := n.engine.upkeep
	u.mu.Lock()
	defer u.mu.Unlock()
	u.orphans.Last.Deleted = done.Deleted
	u.orphans.Deleted += uint64(done.Deleted)
}

// scrub reads on, at its pace, in what the archive has had time to copy.
func (n *Node) scrub(ctx context.Context, now mayfly.Instant) error {
	origin, err := walk.Origin(ctx, n.set.Rows, now)
	if err != nil {
		return err
	}
	run := scrub.Run{Rows: walk.Span{From: origin, To: now.Add(-n.o.Archive.Window)}, Now: now, BytesPerSecond: n.o.ScrubBytes}
	found, err := n.engine.scrub.Next(ctx, run, n.o.ScrubEvery)
	n.scrubbed(found, now)
	for _, bad := range found.Bad {
		n.o.Problem("scrub", mayfly.Errorf(mayfly.Corrupt, "%s of %s is not what was uploaded: %s", bad.Key, bad.Item, bad.Why).
			WithHint("put the object back from a backup, then look again: mayfly scrub"))
	}
	if errors.Is(err, mayfly.Conflict) {
		return nil // another node scrubs, and has moved the position
	}
	return err
}

// maxBad is how many bad copies are remembered; what is over them is counted.
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
