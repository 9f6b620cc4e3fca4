package collect

import (
	"cmp"
	"context"
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
	found  int // orphans that items had and that the run may erase up to its cap, over both tiers
}

// listing is how far a run has come in one tier.
type listing struct {
	mark      []byte         // the watermark as stored
	from      mayfly.BlobKey // where the run began
	next      mayfly.BlobKey // where the next one continues; empty: at the start
	orphans   []object       // that items had
	abandoned []object       // of uploads that were never published
	more      bool           // there are others that were not kept
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
	keep     = 10_000 // how many orphans of each kind a run remembers in a tier: as many as its cap can be
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
	if len(p.report.Examples) < maxExamples {
		p.report.Examples = append(p.report.Examples, o.Key)
	}
	kept := &l.orphans
	switch {
	case o.abandoned:
		p.report.Abandoned++
		kept = &l.abandoned
	case p.run.Abandoned:
		return
	default:
		p.found++
	}
	if len(*kept) == keep {
		l.more = true
		return
	}
	*kept = append(*kept, o)
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

// judge returns the dead ones of objects. What the ledger knows is read once for
// all objects of an upload or an item.
func (c *Collector) judge(ctx context.Context, t tier, objects []erase.Object) ([]object, error) {
	type owned struct {
		id       mayfly.ID
		uploaded bool
	}
	at := map[owned]int{}
	var first []erase.Object // of each owner
	for _, o := range objects {
		by := owned{o.ID, o.Uploaded}
		if _, known := at[by]; !known {
			at[by] = len(first)
			first = append(first, o)
		}
	}
	owners, err := c.items.Owners(ctx, first)
	if err != nil {
		return nil, err
	}
	var orphans []object
	for _, o := range objects {
		if by := owners[at[owned{o.ID, o.Uploaded}]]; dead(o, t, by) {
			orphans = append(orphans, object{o, by.Unpublished || o.Raw(), by.Stray}) // no item ever had a raw one
		}
	}
	return orphans, nil
}

// again is how many objects are judged again and erased at once.
const again = 100

// allowed returns how many orphans that items had the run may erase (L14, I16).
func (p *pass) allowed() int {
	if p.run.Cap > 0 {
		return min(p.report.Cap(), p.run.Cap)
	}
	return p.report.Cap()
}

// idle reports whether there is nothing to erase.
func (p *pass) idle() bool {
	return !slices.ContainsFunc(p.tiers[:], func(l listing) bool { return len(l.abandoned)+len(l.orphans) > 0 })
}

// collect erases what look found and moves the watermarks: of what items had, in
// each tier the oldest first, as much as the cap allows; all abandoned uploads,
// whose end was due.
func (p *pass) collect(ctx context.Context) error {
	left := p.allowed()
	p.report.Capped = p.found > left
	for t := range p.tiers {
		t, l := tier(t), &p.tiers[t]
		p.report.Capped = p.report.Capped || l.more
		if err := p.erase(ctx, t, l.abandoned); err != nil {
			return err
		}
		slices.SortStableFunc(l.orphans, func(a, b object) int { return cmp.Compare(a.ID.Birth(), b.ID.Birth()) })
		n := min(left, len(l.orphans))
		if err := p.erase(ctx, t, l.orphans[:n]); err != nil {
			return err
		}
		left -= n
		if rest := l.orphans[n:]; l.more {
			l.next = l.from
		} else if len(rest) > 0 {
			l.next = slices.Min(keys(rest)) // the next run continues there
		}
		if err := p.move(ctx, t, l); err != nil {
			return err
		}
	}
	return nil
}

// erase erases objects that were found dead, after judging them again (I12).
func (p *pass) erase(ctx context.Context, t tier, objects []object) error {
	for some := range slices.Chunk(objects, again) {
		dead, err := p.judge(ctx, t, plain(some))
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
