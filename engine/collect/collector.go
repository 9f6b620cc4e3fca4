package erase

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// collector is one run.
type collector struct {
	*Erase
	run    OrphanRun
	report OrphanReport
	tiers  [2]listing
	found  int // that the run may erase, over both tiers
	kept   int // of them
}

// listing is how far a run came in one tier.
type listing struct {
	mark    []byte         // the watermark as stored
	from    mayfly.BlobKey // where the run began
	next    mayfly.BlobKey // where the next one goes on; empty: from the beginning
	orphans []object
	more    bool // there are others, which were not kept
}

func (c *collector) tier(t tier) store.Blobs {
	if t == cold {
		return c.set.Cold
	}
	return c.set.Hot
}

func orphanMark(t tier) store.Key {
	return store.Key{Partition: "orphans", Clustering: t.String()}
}

// look lists and judges, and erases nothing.
func (c *collector) look(ctx context.Context) error {
	c.report.Whole = true
	for t := range c.tiers {
		t, l := tier(t), &c.tiers[t]
		found, err := c.set.Rows.Get(ctx, store.Watermarks, orphanMark(t))
		if err != nil {
			return fmt.Errorf("load the watermark: %w", err)
		}
		if l.mark = found[0]; len(l.mark) > 0 {
			l.from = mayfly.BlobKey(l.mark[1:])
			l.next = l.from
		}
		whole, err := c.lookIn(ctx, t, l)
		if err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
		if whole {
			l.next = ""
		}
		c.report.Whole = c.report.Whole && whole
	}
	return nil
}

const (
	listPage = 1_000
	// keep is how many orphans a run remembers: as many as it may ever erase.
	keep = 10_000
)

// lookIn looks at one tier until its end, or until the run has looked enough.
func (c *collector) lookIn(ctx context.Context, t tier, l *listing) (whole bool, err error) {
	for looked := 0; looked < c.run.Most; {
		page, err := c.tier(t).List(ctx, l.next, "", min(listPage, c.run.Most-looked))
		if err != nil || len(page) == 0 {
			return err == nil, err
		}
		objects, next := c.readPage(page)
		looked += len(page)
		c.report.Looked += len(objects)
		dead, err := c.judge(ctx, t, objects)
		if err != nil {
			return false, err
		}
		l.next = next
		for _, o := range dead {
			c.note(l, o)
		}
	}
	return false, nil
}

// note counts an orphan, and keeps it if the run may erase it.
func (c *collector) note(l *listing, o object) {
	c.report.Orphans++
	if o.abandoned {
		c.report.Abandoned++
	}
	if len(c.report.Examples) < maxExamples {
		c.report.Examples = append(c.report.Examples, o.key)
	}
	if c.run.Abandoned && !o.abandoned {
		return
	}
	c.found++
	if c.kept == keep {
		l.more = true
		return
	}
	l.orphans = append(l.orphans, o)
	c.kept++
}

// readPage reads the keys of a page as far as they are past the floor, and says
// where the next page begins: keys of a prefix are in order of time, so that the
// first one that is too young ends the prefix.
func (c *collector) readPage(page []store.Listed) (objects []object, next mayfly.BlobKey) {
	for _, listed := range page {
		o, ours := readKey(listed.Key)
		switch {
		case !ours:
			c.report.Strange++
		case o.id.Birth().Add(c.run.Floor) > c.run.Now:
			return objects, listed.Key[:2] + "0" // behind every key of "00/…"
		case o.old(c.run.Now, c.run.Floor, c.o.Settle):
			objects = append(objects, o)
		}
	}
	return objects, page[len(page)-1].Key + "\x00"
}

// judge reads the rows that objects belong to and answers the dead ones.
func (c *collector) judge(ctx context.Context, t tier, objects []object) ([]object, error) {
	owners, err := c.owners(ctx, objects)
	if err != nil {
		return nil, err
	}
	var dead []object
	for i, o := range objects {
		if o.dead(t, owners[i]) {
			o.abandoned = owners[i].unpublished || o.raw() // nobody's item ever had a raw one
			o.stray = owners[i].stray
			dead = append(dead, o)
		}
	}
	return dead, nil
}

// owners reads what the ledger knows of the items that objects belong to.
func (e *Erase) owners(ctx context.Context, objects []object) ([]owner, error) {
	items, err := e.itemsOf(ctx, objects)
	if err != nil {
		return nil, err
	}
	owners := make([]owner, len(objects))
	var at []int
	var named []mayfly.ID
	for i, id := range items {
		if id.IsZero() {
			owners[i].unpublished = true
			continue
		}
		at, named = append(at, i), append(named, id)
	}
	if len(named) == 0 {
		return owners, nil
	}
	bodies, err := e.set.Ledger.Body(ctx, named...)
	if err != nil {
		return nil, fmt.Errorf("read %d bodies: %w", len(named), err)
	}
	rows, err := e.set.Ledger.Get(ctx, named...) // last, so that what it says is the newest
	if err != nil {
		return nil, fmt.Errorf("read %d rows: %w", len(named), err)
	}
	for n, i := range at {
		owners[i] = owner{item: rows[n].Item, found: rows[n].Found, body: bodies[n].Found}
		if !rows[n].Found {
			owners[i].stray = named[n]
		}
	}
	return owners, nil
}

// itemsOf are the items that objects belong to: by the key, or by what their
// upload was published as; zero: nothing.
func (e *Erase) itemsOf(ctx context.Context, objects []object) ([]mayfly.ID, error) {
	items := make([]mayfly.ID, len(objects))
	var at []int
	var keys []store.Key
	for i, o := range objects {
		if items[i] = o.id; o.uploaded {
			at, keys = append(at, i), append(keys, store.UploadKey(o.id))
		}
	}
	if len(keys) == 0 {
		return items, nil
	}
	values, err := e.set.Rows.Get(ctx, store.Uploads, keys...)
	if err != nil {
		return nil, fmt.Errorf("read %d uploads: %w", len(keys), err)
	}
	for n, i := range at {
		items[i] = mayfly.ID{}
		if len(values[n]) == len(mayfly.ID{}) {
			items[i] = mayfly.ID(values[n])
		}
	}
	return items, nil
}

// again is how many objects are judged once more, and erased, at once.
const again = 100

// collect erases what look found, up to the cap, in each tier the oldest first,
// and moves the watermarks.
func (c *collector) collect(ctx context.Context) error {
	left := capFor(c.report.Looked)
	if c.run.Cap > 0 {
		left = min(left, c.run.Cap)
	}
	c.report.Capped = c.found > left
	for t := range c.tiers {
		t, l := tier(t), &c.tiers[t]
		slices.SortStableFunc(l.orphans, func(a, b object) int { return cmp.Compare(a.id.Birth(), b.id.Birth()) })
		for len(l.orphans) > 0 && left > 0 {
			n := min(again, left, len(l.orphans))
			dead, err := c.judge(ctx, t, l.orphans[:n]) // I12: just before
			if err != nil {
				return err
			}
			if err := c.eraseStrays(ctx, dead); err != nil {
				return err
			}
			if err := deleteAll(ctx, c.tier(t), keys(dead)); err != nil {
				return fmt.Errorf("%s: %w", t, err)
			}
			c.report.Deleted += len(dead)
			left -= n
			l.orphans = l.orphans[n:]
		}
		if len(l.orphans) > 0 {
			l.next = slices.Min(keys(l.orphans)) // the next run goes on there
		} else if l.more {
			l.next = l.from
		}
		if err := c.move(ctx, t, l); err != nil {
			return err
		}
	}
	return nil
}

// eraseStrays erases what births that were given up left of the bodies of the items
// that objects belong to, while the objects name them.
func (c *collector) eraseStrays(ctx context.Context, objects []object) error {
	var strays []mayfly.ID
	for _, o := range objects {
		if !o.stray.IsZero() && !slices.Contains(strays, o.stray) {
			strays = append(strays, o.stray)
		}
	}
	if len(strays) == 0 {
		return nil
	}
	if err := c.set.Ledger.EraseBody(ctx, strays...); err != nil {
		return fmt.Errorf("bodies of %d abandoned births: %w", len(strays), err)
	}
	return nil
}

func keys(objects []object) []mayfly.BlobKey {
	all := make([]mayfly.BlobKey, len(objects))
	for i, o := range objects {
		all[i] = o.key
	}
	return all
}

const markFormat = 1

func (c *collector) move(ctx context.Context, t tier, l *listing) error {
	if err := c.swap(ctx, store.Watermarks, orphanMark(t), l.mark, append([]byte{markFormat}, l.next...)); err != nil {
		return fmt.Errorf("%s: move the watermark: %w", t, err)
	}
	return nil
}
