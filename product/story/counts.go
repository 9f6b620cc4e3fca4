package story

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/store"
)

const (
	// recountAfter is how long a count is used before the owner index is read again,
	// and how long after a birth whose outcome is not known nothing is remembered.
	recountAfter = time.Minute
	// landsWithin is how long after its birth a story of another node may appear in
	// the owner index.
	landsWithin = time.Minute
	// maxCounted is of how many authors the live stories are remembered.
	maxCounted = 4096
)

// counts remembers which stories of an author may be live, so that publishing does
// not read them all each time. What it knows is never less than what is live: it
// learns of every birth on this node, and of those on other nodes from the newest
// entries of the owner index. A story that is deleted elsewhere is counted until the
// next recount; who has reached the limit by this count is judged by the gate.
type counts struct {
	mu      sync.Mutex
	authors map[mayfly.UserID]*counted
	births  [mayfly.TraceMax + 1]uint64 // on this node, by the author's trace
}

// counted is what is remembered of an author.
type counted struct {
	ids   []mayfly.ID    // by their deadlines
	at    mayfly.Instant // when the owner index was read as a whole
	doubt mayfly.Instant // nothing is known for sure until then
}

func newCounts() *counts { return &counts{authors: map[mayfly.UserID]*counted{}} }

func byDeadline(a, b mayfly.ID) int {
	return cmp.Or(cmp.Compare(a.Deadline(), b.Deadline()), a.Compare(b))
}

func (c *counted) add(id mayfly.ID) {
	if i, found := slices.BinarySearchFunc(c.ids, id, byDeadline); !found {
		c.ids = slices.Insert(c.ids, i, id)
	}
}

// of returns how many stories of author's may be live, and when that was counted.
func (c *counts) of(author mayfly.UserID, now mayfly.Instant) (n int, at mayfly.Instant, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.authors[author]
	if known == nil || now < known.doubt || now < known.at || now.Sub(known.at) >= recountAfter {
		return 0, 0, false
	}
	ended := 0
	for ended < len(known.ids) && known.ids[ended].ExpiredAt(now) {
		ended++
	}
	known.ids = known.ids[ended:]
	return len(known.ids), known.at, true
}

// version changes with each birth on this node of an author with the same trace.
func (c *counts) version(author mayfly.UserID) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.births[author.Trace()]
}

// learn remembers what was read of the whole owner index at now, unless a story was
// born since the version was read: the index may have been read before it.
func (c *counts) learn(author mayfly.UserID, ids []mayfly.ID, version uint64, now mayfly.Instant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.authors[author]
	if c.births[author.Trace()] != version || known != nil && now < known.doubt {
		return
	}
	if known == nil && len(c.authors) >= maxCounted {
		for other := range c.authors { // any
			delete(c.authors, other)
			break
		}
	}
	ids = slices.Clone(ids)
	slices.SortFunc(ids, byDeadline)
	c.authors[author] = &counted{ids: ids, at: now}
}

// add counts stories that were born, here or on another node, and returns how many
// may be live.
func (c *counts) add(author mayfly.UserID, ids ...mayfly.ID) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.authors[author]
	if known == nil {
		return 0
	}
	for _, id := range ids {
		known.add(id)
	}
	return len(known.ids)
}

// born counts a birth on this node. It is called with the author's lock held. The row
// of a birth that failed may still land: nothing is remembered then for a while.
func (c *counts) born(author mayfly.UserID, id mayfly.ID, failed bool, now mayfly.Instant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.births[author.Trace()]++
	known := c.authors[author]
	switch {
	case failed:
		c.authors[author] = &counted{doubt: now.Add(recountAfter)}
	case known != nil:
		known.add(id)
	}
}

// deleted forgets a story that was deleted: it never comes back.
func (c *counts) deleted(author mayfly.UserID, id mayfly.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.authors[author]; known != nil {
		if i, found := slices.BinarySearchFunc(known.ids, id, byDeadline); found {
			known.ids = slices.Delete(known.ids, i, i+1)
		}
	}
}

// mayServe returns how many stories of author's may serve at now, or more. It costs
// the same whatever that number is, but for one recount in a while.
func (s *Stories) mayServe(ctx context.Context, author mayfly.UserID, now mayfly.Instant) (int, error) {
	restored, err := s.restored(ctx, author, now)
	if err != nil {
		return 0, err
	}
	n, at, ok := s.counts.of(author, now)
	if !ok {
		version := s.counts.version(author)
		ids, err := s.bornSince(ctx, author, now.Add(-s.o.Longest), now)
		if err != nil {
			return 0, err
		}
		s.counts.learn(author, ids, version, now)
		return len(restored) + len(ids), nil
	}
	if !s.o.Alone {
		ids, err := s.bornSince(ctx, author, at.Add(-landsWithin), now)
		if err != nil {
			return 0, err
		}
		n = max(n, s.counts.add(author, ids...))
	}
	return len(restored) + n, nil
}

// serving returns the ids of author's stories that may serve at now, oldest first:
// those whose deadline is ahead, and the restored ones (ST11). The gate decides
// which of them do serve.
func (s *Stories) serving(ctx context.Context, author mayfly.UserID, now mayfly.Instant) ([]mayfly.ID, error) {
	restored, err := s.restored(ctx, author, now)
	if err != nil {
		return nil, err
	}
	ids, err := s.bornSince(ctx, author, now.Add(-s.o.Longest), now)
	if err != nil {
		return nil, err
	}
	ids = append(restored, ids...)
	slices.SortFunc(ids, mayfly.ID.Compare)
	return ids, nil
}

// restored returns the restored stories that may be author's, without those whose
// deadline is ahead: they are in the owner index.
func (s *Stories) restored(ctx context.Context, author mayfly.UserID, now mayfly.Instant) ([]mayfly.ID, error) {
	restored, err := s.o.Gate.RestoredOf(ctx, author, now)
	return slices.DeleteFunc(restored, func(id mayfly.ID) bool { return !id.ExpiredAt(now) }), err
}

// ownedPage is how many entries of the owner index are read at once.
const ownedPage = 500

// bornSince returns author's stories that were born at an instant or later and whose
// deadline is ahead, oldest first.
func (s *Stories) bornSince(ctx context.Context, author mayfly.UserID, since, now mayfly.Instant) (ids []mayfly.ID, err error) {
	r := store.Range{Partition: string(author[:]), From: engine.BornFrom(since), Limit: ownedPage}
	for {
		page, err := s.o.Rows.Range(ctx, engine.Owners, r)
		if err != nil {
			return nil, fmt.Errorf("read the owner index: %w", err)
		}
		for _, row := range page {
			id, ok, err := storyOf(row)
			if err != nil {
				return nil, err
			}
			if ok && !id.ExpiredAt(now) {
				ids = append(ids, id)
			}
		}
		if len(page) < r.Limit {
			return ids, nil
		}
		r.From = page[len(page)-1].Clustering + "\x00"
	}
}
