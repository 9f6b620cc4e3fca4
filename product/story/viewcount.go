package story

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/loop"
)

// viewCounts counts the views that this node records, by story. A view adds one in
// memory, and a loop stores what has changed in the node's own row: no other process
// writes that row, so that no compare-and-set is needed. A crash loses the views of a
// second from the count, and a viewer who comes to two nodes at once counts twice,
// until FinishViews counts the rows.
type viewCounts struct {
	mu      sync.Mutex
	stories map[mayfly.ID]*viewCount
}

// viewCount is the count of a story on this node. It is guarded by the lock of
// viewCounts.
type viewCount struct {
	id     mayfly.ID
	total  uint64
	stored uint64 // total as it is stored
	users  int    // views that are being recorded
	// isReminded is set when the reminder to count for good is known to be written.
	isReminded bool
}

const (
	// maxViewCounts is how many stories are remembered.
	maxViewCounts = 1 << 16
	// storeEvery is how often counts that have changed are stored.
	storeEvery = time.Second
	// storeBatch is how many of them are written at once.
	storeBatch = 500
)

func newViewCounts() *viewCounts { return &viewCounts{stories: map[mayfly.ID]*viewCount{}} }

// use returns the count of a story, which is not forgotten until release; nil if it
// is not known.
func (v *viewCounts) use(id mayfly.ID) *viewCount {
	v.mu.Lock()
	defer v.mu.Unlock()
	c := v.stories[id]
	if c != nil {
		c.users++
	}
	return c
}

// learn is use after the node's row was read.
func (v *viewCounts) learn(id mayfly.ID, stored uint64) *viewCount {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.stories[id] == nil {
		for other, c := range v.stories { // any
			if len(v.stories) < maxViewCounts {
				break
			}
			if c.users == 0 && c.total == c.stored {
				delete(v.stories, other)
			}
		}
		v.stories[id] = &viewCount{id: id, total: stored, stored: stored}
	}
	v.stories[id].users++
	return v.stories[id]
}

func (v *viewCounts) release(c *viewCount) {
	v.mu.Lock()
	defer v.mu.Unlock()
	c.users--
}

func (v *viewCounts) reminded(c *viewCount) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return c.isReminded
}

// add counts a view that was recorded, with the reminder.
func (v *viewCounts) add(c *viewCount) {
	v.mu.Lock()
	defer v.mu.Unlock()
	c.total, c.isReminded = c.total+1, true
}

// of returns what this node has counted for a story; false if it is not known.
func (v *viewCounts) of(id mayfly.ID) (uint64, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if c := v.stories[id]; c != nil {
		return c.total, true
	}
	return 0, false
}

// changed returns copies of the counts that are not stored.
func (v *viewCounts) changed() (all []viewCount) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, c := range v.stories {
		if c.total != c.stored {
			all = append(all, *c)
		}
	}
	return all
}

func (v *viewCounts) wasStored(all []viewCount) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, c := range all {
		v.stories[c.id].stored = c.total
	}
}

// countFor returns the count of a story on this node, which the caller releases.
func (s *Stories) countFor(ctx context.Context, id mayfly.ID) (*viewCount, error) {
	if c := s.views.use(id); c != nil {
		return c, nil
	}
	found, err := s.o.Rows.Get(ctx, ViewCounts, viewCountKey(id, s.o.Node))
	if err != nil {
		return nil, err
	}
	stored := uint64(0)
	if found[0] != nil {
		if stored, err = readCount(found[0]); err != nil {
			return nil, err
		}
	}
	return s.views.learn(id, stored), nil
}

const countFormat = 1

func countBytes(n uint64) []byte { return binary.BigEndian.AppendUint64([]byte{countFormat}, n) }

func readCount(b []byte) (uint64, error) {
	if len(b) != 1+8 || b[0] != countFormat {
		return 0, mayfly.Errorf(mayfly.Corrupt, "a count of views cannot be read: %x", b)
	}
	return binary.BigEndian.Uint64(b[1:]), nil
}

// Start begins to store the counts of views, until Stop.
func (s *Stories) Start(ctx context.Context) {
	s.storing.Store(loop.Start(ctx, loop.Options{
		Name: "counts of views", Failed: func(err error, _ int) { s.o.Problem(err) },
	}, func(ctx context.Context) error {
		select { // a story that is watched by many is written once for all of them
		case <-time.After(storeEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
		return s.StoreViewCounts(ctx)
	}))
}

// Stop stores what is left. An error of that is a Problem, because the count is
// repaired later.
func (s *Stories) Stop(ctx context.Context) error {
	if storing := s.storing.Load(); storing != nil {
		if err := storing.Stop(ctx); err != nil {
			return err
		}
	}
	if err := s.StoreViewCounts(ctx); err != nil {
		s.o.Problem(err)
	}
	return nil
}

// StoreViewCounts stores the counts that have changed on this node. Only one call at
// a time is allowed.
func (s *Stories) StoreViewCounts(ctx context.Context) error {
	all := s.views.changed()
	for len(all) > 0 {
		page := all[:min(storeBatch, len(all))]
		var b store.Batch
		for _, c := range page {
			// A row that is written after its story was erased goes by its time.
			b.Put(ViewCounts, viewCountKey(c.id, s.o.Node), countBytes(c.total), s.viewsEnd(c.id).Add(viewsOver))
		}
		if err := s.o.Writer.Commit(ctx, &b); err != nil {
			return fmt.Errorf("store the counts of views: %w", err)
		}
		s.views.wasStored(page)
		all = all[len(page):]
	}
	return nil
}

// maxCountRows is how many counts of nodes are read of a story.
const maxCountRows = 1_000

// viewCount returns how many users have seen a story, from stored counts: what it
// costs does not depend on that number.
func (s *Stories) viewCount(ctx context.Context, id mayfly.ID) (int, error) {
	sum, known := s.views.of(id) // first: a row that is read later holds as much or more
	rows, err := s.o.Rows.Range(ctx, ViewCounts, store.Range{Partition: string(id[:]), Limit: maxCountRows})
	if err != nil {
		return 0, err
	}
	for _, row := range rows {
		n, err := readCount(row.Value)
		if err != nil {
			return 0, err
		}
		if row.Clustering == "" {
			return int(n), nil
		}
		if row.Clustering != s.o.Node || !known {
			sum += n
		}
	}
	return int(sum), nil
}

// countTogether is how many slices of a story, and how many stories, are counted at
// the same time.
const countTogether = 8

// FinishViews counts the views of stories for good and stores the number. Reminders
// call it, once the views have ended.
func (s *Stories) FinishViews(ctx context.Context, b walk.Batch) ([]walk.Failure, error) {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(countTogether)
	for _, item := range b.Items {
		g.Go(func() error { return s.finishViews(ctx, item, b.Now) })
	}
	return nil, g.Wait()
}

func (s *Stories) finishViews(ctx context.Context, item mayfly.Item, now mayfly.Instant) error {
	key := viewCountKey(item.ID, "")
	final, err := s.o.Rows.Get(ctx, ViewCounts, key)
	if err != nil {
		return err
	}
	if final[0] == nil && item.State != mayfly.Deleted {
		var count int
		if now < s.viewsEnd(item.ID).Add(viewsUncounted) {
			count, err = s.countViews(ctx, item.ID)
		} else { // the views may be gone
			count, err = s.viewCount(ctx, item.ID)
		}
		if err != nil {
			return fmt.Errorf("count the views of %s: %w", item.ID, err)
		}
		var b store.Batch
		b.Put(ViewCounts, key, countBytes(uint64(count)), 0)
		if err := s.o.Writer.Commit(ctx, &b); err != nil {
			return err
		}
	}
	// A story that was deleted meanwhile may have been erased before the row was written.
	tombstone, deleted, err := s.o.Erase.Tombstone(ctx, item.ID)
	if err != nil || !deleted || tombstone.Held {
		return err
	}
	var b store.Batch
	b.Delete(ViewCounts, key)
	return s.o.Writer.Commit(ctx, &b)
}

// viewPage is how many views are read at once while they are counted.
const viewPage = 1_000

// countViews counts the rows of a story, slice by slice.
func (s *Stories) countViews(ctx context.Context, id mayfly.ID) (int, error) {
	var counts [ViewSlices]int
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(countTogether)
	for slice := range counts {
		g.Go(func() error {
			r := store.Range{Partition: store.SlicePartition(id, slice), Limit: viewPage}
			for {
				page, err := s.o.Rows.Range(ctx, Views, r)
				if err != nil {
					return err
				}
				counts[slice] += len(page)
				if len(page) < r.Limit {
					return nil
				}
				r.From = page[len(page)-1].Clustering + "\x00"
			}
		})
	}
	err := g.Wait()
	total := 0
	for _, n := range counts {
		total += n
	}
	return total, err
}
