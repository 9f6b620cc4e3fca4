package story

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/gate"
	"github.com/mayflyhq/mayfly/store"
)

// View records that viewer has seen the story (ST8): once, with the first instant.
// Only views while it serves count; those of its author, of moderators and of
// anonymous viewers do not. Errors: the gate's, Unavailable.
func (s *Stories) View(ctx context.Context, id mayfly.ID, viewer mayfly.Viewer, now mayfly.Instant) error {
	opened, err := s.open(ctx, id, viewer, now)
	if err != nil {
		return err
	}
	if opened.Verdict != gate.Serve || viewer.Moderator() || viewer.User().IsZero() || viewer.Wrote(opened.Item) {
		return nil
	}
	key := ViewKey(id, viewer.User())
	found, err := s.o.Rows.Get(ctx, Views, key)
	if err != nil {
		return fmt.Errorf("view %s: %w", id, err)
	}
	if found[0] != nil {
		return nil
	}
	kept := opened.Item.End().Add(s.o.ViewsKept)
	value := view{at: now, kept: kept}.append(nil)
	var b store.Batch
	b.Put(Seen, SeenKey(viewer.User(), id), value, kept)
	b.Then() // so that a row in Views implies one in Seen
	b.Put(Views, key, value, kept)
	if err := s.o.Writer.Commit(ctx, &b); err != nil {
		return fmt.Errorf("view %s: %w", id, err)
	}
	return nil
}

// view is the value of a row of Views and Seen. A row may stay after its time,
// so the time is in it.
type view struct {
	at, kept mayfly.Instant
}

const (
	viewFormat = 1
	viewSize   = 1 + 8 + 8
)

func (v view) append(b []byte) []byte {
	b = append(b, viewFormat)
	b = binary.BigEndian.AppendUint64(b, uint64(v.at))
	return binary.BigEndian.AppendUint64(b, uint64(v.kept))
}

func readView(value []byte) (view, error) {
	if len(value) != viewSize || value[0] != viewFormat {
		return view{}, mayfly.Errorf(mayfly.Corrupt, "a view of %d bytes cannot be read", len(value))
	}
	return view{
		at:   mayfly.Instant(binary.BigEndian.Uint64(value[1:])),
		kept: mayfly.Instant(binary.BigEndian.Uint64(value[9:])),
	}, nil
}

// Viewed is a user who has seen a story.
type Viewed struct {
	User mayfly.UserID
	At   mayfly.Instant
}

// The bounds of a page.
const (
	pageDefault = 50
	pageMost    = 200
	viewPage    = 1_000 // rows read at once while counting
)

func pageOf(limit int) int {
	if limit <= 0 {
		return pageDefault
	}
	return min(limit, pageMost)
}

// Viewers returns a page of the users who have seen the story, in no particular
// order, and how many there are in all. It is for its author and for moderators;
// any other viewer gets the gate's refusal. next is the cursor of the next page;
// empty on the last. Errors: the gate's, Invalid (the cursor), Unavailable.
func (s *Stories) Viewers(ctx context.Context, id mayfly.ID, viewer mayfly.Viewer, after string, limit int, now mayfly.Instant) (count int, views []Viewed, next string, err error) {
	opened, err := s.open(ctx, id, viewer, now)
	if err != nil {
		return 0, nil, "", err
	}
	if !viewer.Moderator() && !viewer.Wrote(opened.Item) {
		return 0, nil, "", gate.Refusal(id, now)
	}
	c := viewCursor{}
	if after != "" {
		if c, err = readViewCursor(after); err != nil {
			return 0, nil, "", err
		}
	} else if c.count, err = s.countViews(ctx, id, now); err != nil {
		return 0, nil, "", fmt.Errorf("viewers of %s: %w", id, err)
	}
	views, more, err := s.viewsFrom(ctx, id, &c, pageOf(limit), now)
	if err != nil {
		return 0, nil, "", fmt.Errorf("viewers of %s: %w", id, err)
	}
	if more {
		next = c.String()
	}
	return c.count, views, next, nil
}

// countViews counts slice by slice, in pages: it needs the memory of one page
// whatever the count.
func (s *Stories) countViews(ctx context.Context, id mayfly.ID, now mayfly.Instant) (int, error) {
	count := 0
	c := viewCursor{}
	for {
		views, more, err := s.viewsFrom(ctx, id, &c, viewPage, now)
		if err != nil {
			return 0, err
		}
		count += len(views)
		if !more {
			return count, nil
		}
	}
}

// viewsFrom reads at most limit views from the cursor on, moves it past them, and
// reports whether there may be more. Rows past their time are left out.
func (s *Stories) viewsFrom(ctx context.Context, id mayfly.ID, c *viewCursor, limit int, now mayfly.Instant) ([]Viewed, bool, error) {
	var all []Viewed
	for c.slice < ViewSlices {
		r := store.Range{Partition: store.SlicePartition(id, c.slice), From: c.from, Limit: limit - len(all)}
		page, err := s.o.Rows.Range(ctx, Views, r)
		if err != nil {
			return nil, false, err
		}
		for _, row := range page {
			v, err := readView(row.Value)
			if err != nil || len(row.Clustering) != len(mayfly.UserID{}) {
				return nil, false, mayfly.Errorf(mayfly.Corrupt, "a view of %s cannot be read: %x", id, row.Clustering)
			}
			if now < v.kept {
				all = append(all, Viewed{User: mayfly.UserID([]byte(row.Clustering)), At: v.at})
			}
		}
		if len(page) < r.Limit {
			c.slice, c.from = c.slice+1, ""
			continue
		}
		c.from = page[len(page)-1].Clustering + "\x00"
		if len(all) == limit {
			return all, true, nil
		}
	}
	return all, false, nil
}

// viewCursor is where a page of views begins. It carries the count of the first
// page, so that the following pages need not count again.
type viewCursor struct {
	count int
	slice int
	from  string // the first viewer of the page
}

func (c viewCursor) String() string {
	b := binary.BigEndian.AppendUint64(nil, uint64(c.count))
	b = append(b, byte(c.slice))
	return base64.RawURLEncoding.EncodeToString(append(b, c.from...))
}

func readViewCursor(text string) (viewCursor, error) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) < 9 || len(b) > 9+17 || b[8] >= ViewSlices || b[0] != 0 {
		return viewCursor{}, mayfly.Errorf(mayfly.Invalid, "%.40q is no cursor", text).WithHint("use next of the page before")
	}
	return viewCursor{count: int(binary.BigEndian.Uint64(b)), slice: int(b[8]), from: string(b[9:])}, nil
}
