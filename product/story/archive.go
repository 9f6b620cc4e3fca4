package story

import (
	"context"
	"fmt"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/gate"
	"github.com/mayflyhq/mayfly/store"
)

// archiveScan is how many entries of the owner index one page of the archive
// reads at most: an author with many live or deleted stories gets short pages
// instead of slow ones (I17).
const archiveScan = 2_000

// archivePage is how many entries are read at once at least.
const archivePage = 64

// Between bounds the births of the stories of an archive: from From on, before To;
// 0 is unbounded.
type Between struct {
	From, To mayfly.Instant
}

// Archive returns a page of author's own ended stories by birth, newest first
// (ST6). Live stories are in the ring, deleted and held ones nowhere. cursor is
// next of the page before; next is empty on the last page, and a page may be short
// without being the last. Errors: Unauthenticated, Invalid (the cursor), Corrupt,
// Unavailable.
func (s *Stories) Archive(ctx context.Context, author mayfly.UserID, between Between, cursor string, limit int, now mayfly.Instant) (stories []Story, next string, err error) {
	if author.IsZero() {
		return nil, "", mayfly.Errorf(mayfly.Unauthenticated, "an archive belongs to a user").WithHint("ask with a user's token")
	}
	r, err := between.slice(author, cursor)
	if err != nil {
		return nil, "", err
	}
	limit = pageOf(limit)
	for scanned := 0; scanned < archiveScan; {
		r.Limit = max(limit-len(stories), archivePage)
		page, err := s.o.Rows.Range(ctx, engine.Owners, r)
		if err != nil {
			return nil, "", fmt.Errorf("archive: read the owner index: %w", err)
		}
		ended, err := s.ended(ctx, author, page, now)
		if err != nil {
			return nil, "", fmt.Errorf("archive: %w", err)
		}
		stories = append(stories, ended...)
		if len(stories) > limit {
			return stories[:limit], stories[limit-1].Item.ID.Short(), nil
		}
		if len(page) < r.Limit {
			return stories, "", nil
		}
		scanned += len(page)
		r.To = page[len(page)-1].Clustering
	}
	return stories, mayfly.ID([]byte(r.To)).Short(), nil
}

// slice returns the part of the owner index that a page reads, from its end.
func (b Between) slice(author mayfly.UserID, cursor string) (store.Range, error) {
	r := store.Range{Partition: string(author[:]), Reverse: true}
	if b.From > 0 {
		r.From = engine.BornFrom(b.From)
	}
	if b.To != 0 {
		r.To = engine.BornFrom(b.To)
	}
	if cursor == "" {
		return r, nil
	}
	id, err := mayfly.ParseID(cursor)
	if err != nil {
		return r, mayfly.Errorf(mayfly.Invalid, "%.40q is no cursor", cursor).WithHint("use next of the page before")
	}
	if at := string(id[:]); r.To == "" || at < r.To {
		r.To = at
	}
	return r, nil
}

// ended returns the stories of a page that have ended and that the author may see.
func (s *Stories) ended(ctx context.Context, author mayfly.UserID, page []store.Row, now mayfly.Instant) ([]Story, error) {
	var ids []mayfly.ID
	for _, row := range page {
		id, ok, err := storyOf(row)
		if err != nil {
			return nil, err
		}
		if ok && id.ExpiredAt(now) {
			ids = append(ids, id)
		}
	}
	opened, err := s.o.Gate.OpenAll(ctx, ids, mayfly.ViewerOf(author), now)
	if err != nil {
		return nil, err
	}
	var stories []Story
	for _, o := range opened {
		if o.Verdict != gate.Archived || o.Item.Owner != author {
			continue
		}
		story, err := shown(o)
		if err != nil {
			return nil, err
		}
		stories = append(stories, story)
	}
	return stories, nil
}
