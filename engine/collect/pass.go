package collect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/erase"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// pass is one run.
type pass struct {
	*Collector
	run    Run
	report Report
	tiers  [2]listing
	found  int // that the run may erase, over both tiers
	kept   int // of them
}

// listing is how far a run has come in one tier.
type listing struct {
	mark    []byte         // the watermark as stored
	from    mayfly.BlobKey // where the run began
	next    mayfly.BlobKey // where the next one continues; empty: at the start
	orphans []object
	more    bool // there are others that were not kept
}

func (p *pass) tier(t tier) store.Blobs {
	if t == cold {
		return p.set.Cold
	}
	return p.set.Hot
}

func orphanMark(t tier) store.Key {
	return store.Key{Partition: "orphans", Clustering: t.String()}
}

// look lists and judges objects and erases nothing.
func (p *pass) look(ctx context.Context) error {
	p.report.Whole = true
	for t := range p.tiers {
		t, l := tier(t), &p.tiers[t]
		found, err := p.set.Rows.Get(ctx, walk.Watermarks, orphanMark(t))
		if err != nil {
			return fmt.Errorf("load the watermark: %w", err)
		}
		if l.mark = found[0]; len(l.mark) > 0 {
			l.from = mayfly.BlobKey(l.mark[1:])
			l.next = l.from
		}
		whole, err := p.lookIn(ctx, t, l)
		if err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
		if whole {
			l.next = ""
		}
		p.report.Whole = p.report.Whole && whole
	}
	return nil
}

const (
	listPage = 1_000
	keep     = 10_000 // how many orphans a run remembers: as many as it may ever erase
)

// lookIn looks at one tier until its end, or until the run has looked at Most.
func (p *pass) lookIn(ctx context.Context, t tier, l *listing) (whole bool, err error) {
	for looked := 0; looked < p.run.Most; {
		page, err := p.tier(t).List(ctx, l.next, "", min(listPage, p.run.Most-looked))
		if err != nil || len(page) == 0 {
			return err == nil, err
		}
		objects, next := p.readPage(page)
		looked += len(page)
		p.report.Looked += len(objects)
		orphans, err := p.judge(ctx, t, objects)
		if err != nil {
			return false, err
		}
		l.next = next
		for _, o := range orphans {
			p.note(l, o)
		}
	}
	return false, nil
}

// note counts an orphan, and keeps it if the run may erase it.
func (p *pass) note(l *listing, o object) {
	p.report.Orphans++
	if o.abandoned {
		p.report.Abandoned++
	}
	if len(p.report.Examples) < maxExamples {
		p.report.Examples = append(p.report.Examples, o.Key)
	}
	if p.run.Abandoned && !o.abandoned {
		return
	}
	p.found++
	if p.kept == keep {
		l.more = true
		return
	}
	l.orphans = append(l.orphans, o)
	p.kept++
}

// readPage reads the keys of a page as far as they are past the floor and returns
// where the next page begins: keys of a prefix are in order of time, so that the
// first one that is too young ends the prefix.
func (p *pass) readPage(page []store.Listed) (objects []erase.Object, next mayfly.BlobKey) {
	for _, listed := range page {
		o, ours := erase.ReadKey(listed.Key)
		switch {
		case !ours:
			p.report.Strange++
		case o.ID.Birth().Add(p.run.Floor) > p.run.Now:
			return objects, listed.Key[:2] + "0" // after every key of "00/…"
		case old(o, p.run.Now, p.run.Floor, p.o.Settle):
			objects = append(objects, o)
		}
	}
	return objects, page[len(page)-1].Key + "\x00"
}

// judge reads the rows that objects belong to and returns the dead objects.
func (p *pass) judge(ctx context.Context, t tier, objects []erase.Object) ([]object, error) {
	owners, err := p.items.Owners(ctx, objects)
	if err != nil {
		return nil, err
	}
	var orphans []object
	for i, o := range objects {
		if by := owners[i]; dead(o, t, by) {
			orphans = append(orphans, object{o, by.Unpublished || o.Raw(), by.Stray}) // no item ever had a raw one
		}
	}
	return orphans, nil
}

// again is how many objects are judged again and erased at once.
const again = 100

// collect erases what look found, up to the cap, in each tier the oldest first,
// and moves the watermarks.
func (p *pass) collect(ctx context.Context) error {
	left := capFor(p.report.Looked)
	if p.run.Cap > 0 {
		left = min(left, p.run.Cap)
	}
	p.report.Capped = p.found > left
	for t := range p.tiers {
		t, l := tier(t), &p.tiers[t]
		slices.SortStableFunc(l.orphans, func(a, b object) int { return cmp.Compare(a.ID.Birth(), b.ID.Birth()) })
		for len(l.orphans) > 0 && left > 0 {
			n := min(again, left, len(l.orphans))
			dead, err := p.judge(ctx, t, plain(l.orphans[:n])) // again, just before (I12)
			if err != nil {
				return err
			}
			if err := p.eraseStrays(ctx, dead); err != nil {
				return err
			}
			if err := erase.DeleteObjects(ctx, p.tier(t), keys(dead)); err != nil {
				return fmt.Errorf("%s: %w", t, err)
			}
			p.report.Deleted += len(dead)
			left -= n
			l.orphans = l.orphans[n:]
		}
		if len(l.orphans) > 0 {
			l.next = slices.Min(keys(l.orphans)) // the next run continues there
		} else if l.more {
			l.next = l.from
		}
		if err := p.move(ctx, t, l); err != nil {
			return err
		}
	}
	return nil
}

// eraseStrays erases the bodies that abandoned births left of the items that
// objects belong to, before the objects that name them.
func (p *pass) eraseStrays(ctx context.Context, objects []object) error {
	var strays []mayfly.ID
	for _, o := range objects {
		if !o.stray.IsZero() && !slices.Contains(strays, o.stray) {
			strays = append(strays, o.stray)
		}
	}
	if len(strays) == 0 {
		return nil
	}
	if err := p.set.Ledger.EraseBody(ctx, strays...); err != nil {
		return fmt.Errorf("bodies of %d abandoned births: %w", len(strays), err)
	}
	return nil
}

func plain(objects []object) []erase.Object {
	all := make([]erase.Object, len(objects))
	for i, o := range objects {
		all[i] = o.Object
	}
	return all
}

func keys(objects []object) []mayfly.BlobKey {
	all := make([]mayfly.BlobKey, len(objects))
	for i, o := range objects {
		all[i] = o.Key
	}
	return all
}

const markFormat = 1

func (p *pass) move(ctx context.Context, t tier, l *listing) error {
	if err := store.Replace(ctx, p.set.Rows, walk.Watermarks, orphanMark(t), l.mark, append([]byte{markFormat}, l.next...), 0); err != nil {
		return fmt.Errorf("%s: move the watermark: %w", t, err)
	}
	return nil
}

// missing looks for the objects that rows name (L12).
func (p *pass) missing(ctx context.Context) error {
	return p.run.Rows.Each(ctx, p.set.Ledger, func(page []mayfly.Item) error {
		for _, item := range page {
			lost, err := p.lost(ctx, item)
			if err != nil {
				return err
			}
			p.report.Rows++
			p.report.Missing += len(lost)
			room := maxExamples - len(p.report.Lost)
			p.report.Lost = append(p.report.Lost, lost[:max(0, min(room, len(lost)))]...)
		}
		return nil
	})
}

// rounds is how often a row is read again because it changed meanwhile.
const rounds = 16

// lost returns the objects that the row names and that do not exist. When one is
// not found the row is read again, because it may have moved.
func (c *Collector) lost(ctx context.Context, item mayfly.Item) ([]mayfly.BlobKey, error) {
	for range rounds {
		lost, err := c.absent(ctx, item)
		if err != nil || len(lost) == 0 {
			return nil, err
		}
		row, err := store.ItemOf(ctx, c.set.Ledger, item.ID)
		switch {
		case errors.Is(err, mayfly.NotFound):
			return nil, nil
		case err != nil:
			return nil, err
		case row.Generation == item.Generation:
			return lost, nil
		}
		item = row
	}
	return nil, nil // it keeps moving: the next run looks again
}

// absent returns the missing objects of the copy that an item is read from: cold
// as soon as the row names it, since hot is erased from then on (I1).
func (c *Collector) absent(ctx context.Context, item mayfly.Item) ([]mayfly.BlobKey, error) {
	if item.State == mayfly.Deleted && !item.Held {
		return nil, nil
	}
	tier, g := c.copyOf(item)
	var lost []mayfly.BlobKey
	for n := range int(item.Media) {
		key := item.MediaKey(g, n)
		switch _, err := tier.Stat(ctx, key); {
		case errors.Is(err, mayfly.NotFound):
			lost = append(lost, key)
		case err != nil:
			return nil, fmt.Errorf("look for %s: %w", key, err)
		}
	}
	return lost, nil
}

func (c *Collector) copyOf(item mayfly.Item) (store.Blobs, mayfly.Generation) {
	if item.Keys.Cold != 0 {
		return c.set.Cold, item.Keys.Cold
	}
	return c.set.Hot, item.Keys.Hot
}
