package feed

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Thread is a page of the thread around a post, as one viewer sees it.
type Thread struct {
	Post Post
	// Ancestors are what the post replies to, from the first post of the thread on: that
	// and the 19 nearest at most, without those that the viewer may not see or whose authors
	// the viewer blocks. Empty but on the first page.
	Ancestors []Post
	Replies   []Post // to the post itself, oldest first, but of whom the viewer blocks or mutes
	Next      string // cursor of the next page; empty on the last
}

// Thread returns a page of the thread around a post that viewer may see; of a repost,
// around what it reposts. A post names its ancestors itself, and they were born before
// it: nothing is followed from post to post, and what is hidden or gone in between hides
// nothing but itself. A page may be short without being the last. Errors: the gate's,
// Invalid (the cursor), Corrupt, Unavailable.
func (f *Feed) Thread(ctx context.Context, id mayfly.ID, viewer mayfly.Viewer, cursor string, limit int, now mayfly.Instant) (Thread, error) {
	p, err := f.original(ctx, id, viewer, now)
	if err != nil {
		return Thread{}, err
	}
	id = p.Item.ID
	name := "thread" + string(id[:])
	after, err := f.readCursor(name, cursor)
	if err != nil {
		return Thread{}, err
	}
	posts := []Post{p}
	if cursor == "" {
		above, err := f.openAll(ctx, p.ancestors, viewer, now)
		if err != nil {
			return Thread{}, fmt.Errorf("ancestors of %s: %w", id, err)
		}
		above = slices.DeleteFunc(above, func(p Post) bool { return p.relation.Has(mayfly.Blocks) })
		posts = append(above, p)
	}
	if posts, err = f.complete(ctx, posts, viewer, now); err != nil {
		return Thread{}, fmt.Errorf("thread of %s: %w", id, err)
	}
	below := &replies{rows: f.o.Rows, post: id}
	if !after.IsZero() {
		below.after = string(after[:]) + "\x00"
	}
	page, err := f.fill(ctx, list{name: name, next: below.next, scan: listScan, keeps: inThread}, viewer, limit, now)
	if err != nil {
		return Thread{}, err
	}
	last := len(posts) - 1
	return Thread{Post: posts[last], Ancestors: posts[:last], Replies: page.Posts, Next: page.Next}, nil
}

// inThread reports whether a reply that its viewer may see is in the thread: not of an
// author whom the viewer blocks or mutes.
func inThread(p *Post) bool {
	return !p.relation.Has(mayfly.Blocks) && !p.relation.Has(mayfly.MutesPosts)
}

// repliesPage is how many replies are read of a slice at once: a page of a list is
// spread over all of them.
const repliesPage = 16

// replies reads the replies to a post, oldest first, from all slices.
type replies struct {
	rows   store.Rows
	post   mayfly.ID
	after  string // where to begin in each slice
	slices []slicePage
}

// slicePage is what was read of a slice, and where it goes on.
type slicePage struct {
	ids  []mayfly.ID
	from string
	done bool
}

// next returns the next reply; false when there is none.
func (r *replies) next(ctx context.Context) (listed, bool, error) {
	if r.slices == nil {
		r.slices = make([]slicePage, Slices)
		g, ctx := errgroup.WithContext(ctx)
		for n := range r.slices {
			r.slices[n].from = r.after
			g.Go(func() error { return r.read(ctx, n) })
		}
		if err := g.Wait(); err != nil {
			return listed{}, false, err
		}
	}
	oldest := -1
	for n := range r.slices {
		if err := r.read(ctx, n); err != nil {
			return listed{}, false, err
		}
		if ids := r.slices[n].ids; len(ids) > 0 && (oldest < 0 || string(ids[0][:]) < string(r.slices[oldest].ids[0][:])) {
			oldest = n
		}
	}
	if oldest < 0 {
		return listed{}, false, nil
	}
	s := &r.slices[oldest]
	e := listed{id: s.ids[0]}
	s.ids = s.ids[1:]
	return e, true, nil
}

// read reads on in a slice of which nothing is left.
func (r *replies) read(ctx context.Context, n int) error {
	s := &r.slices[n]
	if len(s.ids) > 0 || s.done {
		return nil
	}
	rows, err := r.rows.Range(ctx, Replies, store.Range{Partition: store.SlicePartition(r.post, n), From: s.from, Limit: repliesPage})
	if err != nil {
		return fmt.Errorf("replies to %s: %w", r.post, err)
	}
	for _, row := range rows {
		if len(row.Clustering) != len(mayfly.ID{}) {
			return mayfly.Errorf(mayfly.Corrupt, "a reply to %s cannot be read: %x", r.post, row.Clustering)
		}
		s.ids = append(s.ids, mayfly.ID([]byte(row.Clustering)))
		s.from = row.Clustering + "\x00"
	}
	s.done = len(rows) < repliesPage
	return nil
}
