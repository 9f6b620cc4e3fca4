package feed

import (
	"bytes"
	"container/heap"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/store"
)

const (
	// homeAuthors is how many authors one home is merged from at most (I17).
	homeAuthors = 2_000
	// homeEdges is how many pages of follow edges are read for it: a reader may have more
	// edges than follows, as those that mute or that are over are among them.
	homeEdges = 4
	// homeScan is how many entries one page reads at most: only replies to others and what
	// has ended are left out of a page in such numbers.
	homeScan = 10_000
	// homeAhead is further than the clock of a node that gives birth can be ahead.
	homeAhead = time.Minute
	// homeLeast and homeMost are how many entries of an author are read at once.
	homeLeast, homeMost = 4, 128
)

// Home is a page of what the authors whom a reader follows have published.
type Home struct {
	Page
	// Authors are the profiles of all authors on the page, each once.
	Authors []account.Profile
	// Partial says that the reader follows more authors than one home is merged from.
	Partial bool
}

// Home returns a page of the posts, quotes, reposts and threads of the authors whom
// reader follows, newest first by id. A reply to another author is not in it; a reply by
// which an author goes on with an own thread is. Nothing is stored for it: the lists of
// the authors are merged when it is read, so that every change of a post, an edge or an
// account shows on the next read.
//
// The cursor is the id of the last post. So no post comes twice, and one that is there
// while all pages are read is on one of them; what is published meanwhile is on the
// first page of the next read, and what ends, or is followed, meanwhile is out of, or
// in, the pages that come. A page is full unless it is the last, or there are more than
// homeScan entries between two posts that reader is shown. Errors: Invalid (the cursor),
// Corrupt, Unavailable.
func (f *Feed) Home(ctx context.Context, reader mayfly.UserID, cursor string, limit int, now mayfly.Instant) (Home, error) {
	name := "home" + string(reader[:])
	before, err := f.readCursor(name, cursor)
	if err != nil || f.o.Accounts == nil {
		return Home{}, err
	}
	edges, partial, err := f.followed(ctx, reader)
	if err != nil {
		return Home{}, fmt.Errorf("home: %w", err)
	}
	m := f.merge(edges, before, limit, now)
	l := list{name: name, next: m.next, scan: homeScan, keeps: inHome, wanted: func(e listed) bool { return e.isOfHome(now) }}
	page, err := f.fill(ctx, l, mayfly.ViewerOf(reader), limit, now)
	if err != nil {
		return Home{}, fmt.Errorf("home: %w", err)
	}
	authors, err := f.o.Accounts.Profiles(ctx, authorsOf(page.Posts)...)
	if err != nil {
		return Home{}, fmt.Errorf("home: %w", err)
	}
	return Home{Page: page, Authors: authors, Partial: partial}, nil
}

// followed returns the edges to the authors whom reader follows, and whether there are
// more than are merged.
func (f *Feed) followed(ctx context.Context, reader mayfly.UserID) (edges []account.Edge, more bool, err error) {
	next := ""
	for range homeEdges {
		page, after, err := f.o.Accounts.Following(ctx, reader, next, homeAuthors)
		if err != nil {
			return nil, false, err
		}
		edges = append(edges, page...)
		if len(edges) > homeAuthors {
			return edges[:homeAuthors], true, nil
		}
		if next = after; next == "" {
			return edges, false, nil
		}
	}
	return edges, true, nil
}

// isOfHome reports whether a list without replies to others has the entry, of which its
// reader does not mute the kind.
func (e listed) isOfHome(now mayfly.Instant) bool {
	switch {
	case e.id.ExpiredAt(now) || e.kind == Reply && !e.own:
		return false
	case e.kind == Repost:
		return !e.muted.Has(mayfly.MutesReposts)
	default:
		return !e.muted.Has(mayfly.MutesPosts)
	}
}

// inHome reports whether a post that its reader may see is in the reader's home: not of
// an author whom the reader blocks, and no repost of a post that the reader mutes. A post
// that quotes such a post stays, without it.
func inHome(p *Post) bool {
	if p.Of != nil && (p.Of.relation.Has(mayfly.Blocks) || p.Of.relation.Has(mayfly.MutesPosts)) {
		if p.Kind == Repost {
			return false
		}
		p.Of = nil
	}
	return !p.relation.Has(mayfly.Blocks)
}

// authorsOf returns the authors of posts and of what they quote or repost, each once.
func authorsOf(posts []Post) []mayfly.UserID {
	var users []mayfly.UserID
	add := func(u mayfly.UserID) {
		if !slices.Contains(users, u) {
			users = append(users, u)
		}
	}
	for _, p := range posts {
		if add(p.Item.Owner); p.Of != nil {
			add(p.Of.Item.Owner)
		}
	}
	return users
}

// merged is the lists of many authors as one, newest first: a heap of sources by the
// newest entry that each can still have. Only the sources at the top are read, all that
// are there together; an author whose last month with posts is older than what a page
// shows costs no read of that month.
type merged struct {
	rows store.Rows
	heap sources
}

// source is the entries of one author, newest first.
type source struct {
	author mayfly.UserID
	muted  mayfly.Relation // what the reader mutes of the author

	page  []listed  // that are read and not taken
	bound mayfly.ID // of the first of page; of an empty page no entry that comes is as new

	month month // that is read next
	empty bool  // nothing of month is left to read: an older month with posts is looked for
	size  int   // of the next page
}

// merge returns the entries of authors that are older than an id; of the zero ID all.
func (f *Feed) merge(edges []account.Edge, before mayfly.ID, limit int, now mayfly.Instant) *merged {
	m := &merged{rows: f.o.Rows, heap: make(sources, 0, len(edges))}
	first := monthOf(before.Birth())
	if before.IsZero() {
		first = monthOf(now.Add(homeAhead))
		before = beginning(first + 1)
	}
	size := min(max(homeLeast, 4*limit/max(len(edges), 1)), limit+1, homeMost)
	all := make([]source, len(edges))
	for i, e := range edges {
		if e.Muted.Has(mayfly.MutesPosts) && e.Muted.Has(mayfly.MutesReposts) {
			continue
		}
		all[i] = source{author: e.User, muted: e.Muted, bound: before, month: first, size: size}
		m.heap = append(m.heap, &all[i])
	}
	return m // every bound is the same: it is a heap
}

// next returns the next entry; false when there is none.
func (m *merged) next(ctx context.Context) (listed, bool, error) {
	for len(m.heap) > 0 && len(m.heap[0].page) == 0 {
		var empty []*source
		for len(m.heap) > 0 && len(m.heap[0].page) == 0 {
			empty = append(empty, heap.Pop(&m.heap).(*source))
		}
		if err := m.read(ctx, empty); err != nil {
			return listed{}, false, err
		}
		for _, s := range empty {
			if s.bound != (mayfly.ID{}) {
				heap.Push(&m.heap, s)
			}
		}
	}
	if len(m.heap) == 0 {
		return listed{}, false, nil
	}
	s := m.heap[0]
	e := s.page[0]
	if s.page = s.page[1:]; len(s.page) > 0 {
		s.bound = s.page[0].id
	} else if s.bound = e.id; s.empty {
		s.bound = beginning(s.month)
	}
	heap.Fix(&m.heap, 0)
	return e, true, nil
}

// read reads for each of the sources the next page of its month, or looks for the next
// older month with posts; without one the bound is the zero ID.
func (m *merged) read(ctx context.Context, all []*source) error {
	ranges := make([]store.Range, len(all))
	for i, s := range all {
		ranges[i] = s.next()
	}
	found, err := m.rows.Ranges(ctx, Posts, ranges...)
	if err != nil {
		return fmt.Errorf("posts of %d authors: %w", len(all), err)
	}
	for i, s := range all {
		if err := s.took(found[i]); err != nil {
			return fmt.Errorf("posts of %s: %w", s.author, err)
		}
	}
	return nil
}

// next returns what of the author index is read next.
func (s *source) next() store.Range {
	if s.empty {
		return store.Range{Partition: string(s.author[:]), To: s.month.bytes(), Reverse: true, Limit: 1}
	}
	return store.Range{Partition: monthPartition(s.author, s.month), To: string(s.bound[:]), Reverse: true, Limit: s.size}
}

// took takes over what was read.
func (s *source) took(found []store.Row) (err error) {
	if s.empty {
		if s.bound = (mayfly.ID{}); len(found) == 0 {
			return nil
		}
		s.month, err = readMonth(found[0])
		s.empty, s.bound = false, beginning(s.month+1)
		return err
	}
	s.page = make([]listed, len(found))
	for i, row := range found {
		if s.page[i], err = readListed(s.author, row); err != nil {
			return err
		}
		s.page[i].muted = s.muted
	}
	s.empty, s.size = len(found) < s.size, min(2*s.size, homeMost)
	if s.bound = beginning(s.month); len(s.page) > 0 {
		s.bound = s.page[0].id
	}
	return nil
}

// beginning returns an id that is not newer than any of a month, and newer than any of
// the months before.
func beginning(m month) (id mayfly.ID) {
	binary.BigEndian.PutUint64(id[:8], uint64(m.start())<<16)
	return id
}

// sources is a heap: the source with the newest bound first.
type sources []*source

func (s sources) Len() int           { return len(s) }
func (s sources) Less(i, j int) bool { return bytes.Compare(s[i].bound[:], s[j].bound[:]) > 0 }
func (s sources) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *sources) Push(x any)        { *s = append(*s, x.(*source)) }
func (s *sources) Pop() any {
	last := (*s)[len(*s)-1]
	*s = (*s)[:len(*s)-1]
	return last
}
