// Package edge drops what has ended from the caches in front of the API (E1). It
// reads the ends in the event log, purges their surrogate keys, and asks the edge
// until nothing is cached under them; then it appends purge.done.
//
// A purge of an early end that is not verified is a row, written before the event is
// committed: a crash or an edge that is down repeats purges. The package never
// decides who sees an item. That no cached answer outlives its item does not depend
// on it (E2): it makes early ends quick.
package edge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/logread"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// Edge is the caches in front of the API, all of them.
type Edge interface {
	// Purge drops every answer that is cached under one of the keys. When it returns
	// nil every cache has done so. Errors: Unavailable.
	Purge(ctx context.Context, keys []string) error
	// Cached asks every cache, and returns how many answers there were under the keys.
	// A driver that cannot look without purging does that too. Errors: Unavailable.
	Cached(ctx context.Context, keys []string) (int, error)
}

// Options are the settings of a Purger; zero values take the defaults.
type Options struct {
	// Settle is how long after a purge an answer that was on its way may still arrive
	// at the edge and be cached there. A purge is verified after that; default 5 s.
	Settle time.Duration
	// Longest is the longest pause between two looks at the edge. The first is a second,
	// and it doubles; default 1 min.
	Longest time.Duration
	// MaxUnverified is how many purges that failed are kept. Above it each is tried
	// once, and a cache that missed it has the item for as long as E2 permits; default
	// 10,000.
	MaxUnverified int
}

const (
	// forgotten is the age from which an event needs no purge: nothing is cached so long.
	forgotten = 24 * time.Hour
	// outlived is the age at which no shared cache has what it had when the purge was
	// asked for: twice the longest s-maxage.
	outlived = 10 * time.Minute
	// soon is the pause before the first look at the edge.
	soon = time.Second
	// atOnce is how many keys are purged and verified together.
	atOnce = 500
)

// Purger purges what has ended. It is safe for concurrent use.
type Purger struct {
	set  store.Set
	edge Edge
	o    Options
	now  func() mayfly.Instant

	verified, failed atomic.Uint64
	unverified       atomic.Int64
	oldest           atomic.Int64 // since when the oldest of them waits; 0: none does
}

// New returns a Purger of the edge. Errors: Invalid.
func New(set store.Set, edge Edge, now func() mayfly.Instant, o Options) (*Purger, error) {
	if edge == nil || now == nil {
		return nil, mayfly.Errorf(mayfly.Invalid, "edge: an edge and a clock are required")
	}
	if o.Settle <= 0 {
		o.Settle = 5 * time.Second
	}
	if o.Longest <= 0 {
		o.Longest = time.Minute
	}
	o.Longest = min(o.Longest, slice)
	if o.MaxUnverified <= 0 {
		o.MaxUnverified = 10_000
	}
	return &Purger{set: set, edge: edge, o: o, now: now}, nil
}

// Group is the name of the reader of the log.
const Group = "edge"

// Reader returns the reader of the log that purges what ends.
func (p *Purger) Reader() logread.Options {
	return logread.Options{Group: Group, Streams: []mayfly.Stream{mayfly.Ends}, Page: atOnce, Batch: p.handle}
}

// ends reports whether an event says that something must not be served any more.
func ends(e mayfly.Event) bool {
	switch e.Verb {
	case mayfly.WasExpired, mayfly.WasDeleted, mayfly.WasHeld:
		return true
	default:
		return false
	}
}

// handle purges what has ended, on every cache that can be reached. An item that
// expired is not served by a cache that missed it (E2): one look at the edge verifies
// its purge, and none is kept. After an early end an answer may be on its way to the
// edge: Pass verifies that later.
func (p *Purger) handle(ctx context.Context, events []mayfly.Event) error {
	now := p.now()
	var all, expired, early []Purge
	for _, e := range events {
		if !ends(e) || now.Sub(e.At) > forgotten {
			continue
		}
		purge := Purge{Event: e}
		all = append(all, purge)
		if e.Verb == mayfly.WasExpired {
			expired = append(expired, purge)
		} else {
			early = append(early, purge)
		}
	}
	if len(all) == 0 {
		return nil
	}
	err := p.edge.Purge(ctx, keys(all))
	cached := 0
	if err == nil && len(expired) > 0 {
		cached, err = p.edge.Cached(ctx, keys(expired))
	}
	if err != nil {
		p.failed.Add(1)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	early = p.public(ctx, early)
	if err != nil {
		room, failed := p.room(ctx)
		if failed != nil {
			return failed
		}
		early = early[:min(len(early), room)]
		for i := range early {
			early[i].Tries, early[i].Reason = 1, err.Error()
		}
	}
	if err != nil || cached > 0 {
		expired = nil
	}
	var b store.Batch
	now = p.now() // the edge may have taken its time
	for _, purge := range early {
		purge.Since, purge.Next = now, now.Add(soon)
		purge.write(&b)
	}
	for _, purge := range expired {
		b.Append(mayfly.PurgeDone(purge.Event))
	}
	if err := p.keep(ctx, &b); err != nil {
		return fmt.Errorf("keep purges: %w", err)
	}
	p.verified.Add(uint64(len(expired)))
	return nil
}

// keep commits purges in time for Pass to find them: not behind its watermark.
func (p *Purger) keep(ctx context.Context, b *store.Batch) error {
	begun := p.now()
	if err := p.set.Writer.Commit(ctx, b); err != nil {
		return err
	}
	if took := p.now().Sub(begun); took > behind/2 {
		return mayfly.Errorf(mayfly.Unavailable, "the store took %s", took).WithHint("try again")
	}
	return nil
}

// public returns the purges without those of items that are not for everyone: the edge
// caches nothing of them (P5). It keeps those that the ledger does not know.
func (p *Purger) public(ctx context.Context, early []Purge) []Purge {
	ids := make([]mayfly.ID, len(early))
	for i, purge := range early {
		ids[i] = purge.Event.ID // zero of a user: not found
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := p.set.Ledger.Get(ctx, ids...)
	if err != nil {
		return early
	}
	var public []Purge
	for i, row := range rows {
		if !row.Found || row.Item.Audience == mayfly.Everyone {
			public = append(public, early[i])
		}
	}
	return public
}

// room returns how many more purges that failed are kept. A reader of the log that
// waited for an edge that is down would keep purges from the caches that are up.
func (p *Purger) room(ctx context.Context) (int, error) {
	room := p.o.MaxUnverified
	for _, err := range List(ctx, p.set.Rows, p.now(), "") {
		if err != nil {
			return 0, fmt.Errorf("count purges: %w", err)
		}
		if room--; room <= 0 {
			return 0, nil
		}
	}
	return room, nil
}

// Owner has everything of a user purged soon, and verified. It is called before
// what the user's items are visible to changes, and survives a crash.
func (p *Purger) Owner(ctx context.Context, owner mayfly.UserID, now mayfly.Instant) error {
	var b store.Batch
	since := p.now()
	Purge{Event: mayfly.Event{Owner: owner, At: now}, Since: since, Next: since.Add(soon)}.write(&b)
	if err := p.keep(ctx, &b); err != nil {
		return fmt.Errorf("keep the purge of a user: %w", err)
	}
	return nil
}

// idleSave is how often the watermark is written while nothing is due.
const idleSave = 10 * time.Minute

// Pass asks the edge about the purges that are due behind a durable watermark, and
// purges again what is cached. One that is older than Settle, and of which nothing is
// cached then, is verified; the others are written again for later.
func (p *Purger) Pass(ctx context.Context, now mayfly.Instant) error {
	mark, err := loadMark(ctx, p.set.Rows, now)
	if err != nil {
		return err
	}
	from, to := begin(mark, now), now.Add(-behind)
	var due []Purge
	passed, count, oldest := 0, 0, now
	for purge, err := range list(ctx, p.set.Rows, from, now, "") {
		if err != nil {
			return err
		}
		if purge.Next <= to {
			passed++
		}
		if purge.handled {
			continue
		}
		count++
		oldest = min(oldest, purge.Since)
		switch {
		case purge.Next > now:
		case len(due) < p.o.MaxUnverified:
			due = append(due, purge)
		default:
			to = min(to, purge.Next-1) // the rest with the next pass
		}
	}
	// The newest first: of them an answer may still arrive at a cache that is up, while
	// one that is down takes all the time it has.
	slices.SortStableFunc(due, func(a, b Purge) int { return cmp.Compare(b.Since, a.Since) })
	var failed error
	full := count >= p.o.MaxUnverified
	for some := range slices.Chunk(due, atOnce) {
		over, err := p.ask(ctx, some, now, full)
		if err != nil {
			return err // and not past them
		}
		count -= over.verified + over.givenUp
		failed = cmp.Or(failed, over.failed)
	}
	p.unverified.Store(int64(count))
	p.oldest.Store(int64(oldest))
	if count == 0 {
		p.oldest.Store(0)
	}
	if ahead := to.Sub(mark.At); ahead >= behind && passed > 0 || ahead >= idleSave {
		if err := p.move(ctx, mark, from, to); err != nil {
			return errors.Join(failed, err)
		}
	}
	return failed
}

// move moves the watermark, and drops the slices that it leaves.
func (p *Purger) move(ctx context.Context, mark walk.Watermark, from, to mayfly.Instant) error {
	var b store.Batch
	for at := sliceOf(from); at < sliceOf(to+1); at++ {
		found, err := p.set.Rows.Range(ctx, Unverified, store.Range{Partition: partitionOf(at), Limit: 1})
		if err != nil {
			return fmt.Errorf("look for purges that are over: %w", err)
		}
		if len(found) > 0 {
			b.DeletePartition(Unverified, partitionOf(at))
		}
	}
	if len(b.Stages()) > 0 {
		if err := p.set.Writer.Commit(ctx, &b); err != nil {
			return fmt.Errorf("drop purges that are over: %w", err)
		}
	}
	if err := mark.Move(ctx, p.set.Rows, to, 0); err != nil && !errors.Is(err, mayfly.Conflict) { // another node has moved it
		return fmt.Errorf("move the watermark of purges: %w", err)
	}
	return nil
}

// asked is what became of some purges.
type asked struct {
	verified, givenUp int
	failed            error // the edge did not answer for them
}

// ask asks the edge about some purges. Those that are not verified are asked about
// again after a longer pause, also when the edge did not answer; when too many wait,
// those of which no cache can have anything any more are given up. After an error the
// purges are as they were.
func (p *Purger) ask(ctx context.Context, some []Purge, now mayfly.Instant, full bool) (over asked, err error) {
	cached, failed := p.edge.Cached(ctx, keys(some))
	if failed == nil && cached > 0 { // it arrived since, or is visible again: gone once is enough
		if failed = p.edge.Purge(ctx, keys(some)); failed == nil {
			cached, failed = p.edge.Cached(ctx, keys(some))
		}
	}
	if ctx.Err() != nil {
		return over, ctx.Err()
	}
	reason := ""
	switch {
	case failed != nil:
		p.failed.Add(1)
		reason, over.failed = failed.Error(), fmt.Errorf("verify %d purges: %w", len(some), failed)
	case cached > 0:
		reason = fmt.Sprintf("%d answers are cached under %d keys after a purge", cached, len(some))
	}
	var b store.Batch
	for _, purge := range some {
		switch age := now.Sub(purge.Since); {
		case reason == "" && age >= p.o.Settle:
			over.verified++
			if e := purge.Event; !e.ID.IsZero() {
				b.Append(mayfly.PurgeDone(e))
			}
		case full && age >= outlived:
			over.givenUp++
		default:
			purge.Next = purge.after(now, p.o.Longest)
			purge.Tries++
			purge.Reason = reason
			purge.write(&b)
		}
	}
	b.Then() // then only they are handled: a crash repeats them
	for _, purge := range some {
		purge.pass(&b)
	}
	if err := p.set.Writer.Commit(ctx, &b); err != nil {
		return asked{}, fmt.Errorf("write purges: %w", err)
	}
	p.verified.Add(uint64(over.verified))
	return over, nil
}

func keys(purges []Purge) []string {
	all := make([]string, len(purges))
	for i, p := range purges {
		all[i] = p.Key()
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Stats are the figures of a Purger since the process started.
type Stats struct {
	Verified   uint64         // purges that were verified
	Failed     uint64         // attempts that failed
	Unverified int64          // purges that wait, by the last look of this process
	Oldest     mayfly.Instant // since when the oldest of them waits; 0: none does
}

// Stats returns the figures.
func (p *Purger) Stats() Stats {
	return Stats{Verified: p.verified.Load(), Failed: p.failed.Load(), Unverified: p.unverified.Load(), Oldest: mayfly.Instant(p.oldest.Load())}
}
