package story

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/gate"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/store"
)

// viewsEnd returns when the views of a story end: from then on none is recorded, none
// is listed, and the count is final (ST8). A story that lives longer than ViewsKept
// counts its views up to its deadline.
func (s *Stories) viewsEnd(id mayfly.ID) mayfly.Instant {
	return max(id.Birth().Add(s.o.ViewsKept), id.Deadline())
}

const (
	// countAfter is how long after the end of views they are counted for good: none is
	// on its way to the store any more, and the reminder for it, which is written with
	// a view, lies far enough ahead of every view.
	countAfter = 10 * time.Minute
	// viewsUncounted is how long after their end views are stored, so that they can be
	// counted after an outage.
	viewsUncounted = 24 * time.Hour
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
	if now >= s.viewsEnd(id) { // it was restored
		return nil
	}
	if err := s.view(ctx, id, viewer.User(), now); err != nil {
		return fmt.Errorf("view %s: %w", id, err)
	}
	return nil
}

// view records a view that counts. The lock keeps two requests of a viewer from
// counting as two on this node.
func (s *Stories) view(ctx context.Context, id mayfly.ID, viewer mayfly.UserID, now mayfly.Instant) error {
	unlock, err := s.viewers.lock(ctx, viewer)
	if err != nil {
		return err
	}
	defer unlock()
	key := ViewKey(id, viewer)
	found, err := s.o.Rows.Get(ctx, Views, key)
	if err != nil || found[0] != nil {
		return err
	}
	count, err := s.countFor(ctx, id)
	if err != nil {
		return err
	}
	defer s.views.release(count)
	end := s.viewsEnd(id)
	value, stored := view{at: now, kept: end}.append(nil), end.Add(viewsUncounted)
	var b store.Batch
	if !s.views.reminded(count) {
		remind.Write(&b, remind.Reminder{Due: end.Add(countAfter), ID: id, Step: remind.Count, Reason: "the story has views"})
		b.Then() // so that every view is counted in the end (L15)
	}
	b.Put(Seen, SeenKey(viewer, id), value, stored)
	b.Then() // so that a row in Views implies one in Seen
	b.Put(Views, key, value, stored)
	if err := s.o.Writer.Commit(ctx, &b); err != nil {
		return err
	}
	s.views.add(count)
	if storing := s.storing.Load(); storing != nil {
		storing.Wake()
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
	}
	if count, err = s.viewCount(ctx, id); err != nil {
		return 0, nil, "", fmt.Errorf("viewers of %s: %w", id, err)
	}
	views, more, err := s.viewsFrom(ctx, id, &c, pageOf(limit), now)
	if err != nil {
		return 0, nil, "", fmt.Errorf("viewers of %s: %w", id, err)
	}
	if more {
		next = c.String()
	} else if after == "" { // all of them: counts of other nodes may be a second old, the rows are not
		count = max(count, len(views))
	}
	return count, views, next, nil
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

// viewCursor is where a page of views begins.
type viewCursor struct {
	slice int
	from  string // the first viewer of the page
}

func (c viewCursor) String() string {
	return base64.RawURLEncoding.EncodeToString(append([]byte{byte(c.slice)}, c.from...))
}

func readViewCursor(text string) (viewCursor, error) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) != 1+len(mayfly.UserID{})+1 || b[0] >= ViewSlices {
		return viewCursor{}, mayfly.Errorf(mayfly.Invalid, "%.40q is no cursor", text).WithHint("use next of the page before")
	}
	return viewCursor{slice: int(b[0]), from: string(b[1:])}, nil
}
