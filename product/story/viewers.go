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

// Viewed is one who has seen a story.
type Viewed struct {
	User mayfly.UserID
	At   mayfly.Instant
}

// The bounds of a page.
const (
	pageUnsaid = 50
	pageMost   = 200
	viewPage   = 1_000 // rows read at once while counting
)

func pageOf(limit int) int {
	if limit <= 0 {
		return pageUnsaid
	}
	return min(limit, pageMost)
}

// Viewers is a page of who has seen the story, in no order that means anything,
// and how many there are in all. It is for its author and for moderators; anybody
// else gets the gate's refusal. Next is where the next page begins; empty on the
// last. Errors: the gate's, Invalid (the cursor), Unavailable.
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

// countViews counts slice by slice, in pages: whatever the count, it takes the
// memory of one page.
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

// viewsFrom reads at most limit views from the cursor on, moves it behind them,
// and says whether there may be more. Rows past their time are left out.
func (s *Stories) viewsFrom(ctx context.Context, id mayfly.ID, c *viewCursor, limit int, now mayfly.Instant) ([]Viewed, bool, error) {
	var all []Viewed
	for c.slice < store.ViewSlices {
		r := store.Range{Partition: store.ViewPartition(id, c.slice), From: c.from, Limit: limit - len(all)}
		page, err := s.o.Rows.Range(ctx, store.Views, r)
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

// viewCursor is where a page of views begins. The count of the first page goes
// with it, so that paging does not count again and again.
type viewCursor struct {
	count int
	slice int
	from  string // of the viewer that begins the page
}

func (c viewCursor) String() string {
	b := binary.BigEndian.AppendUint64(nil, uint64(c.count))
	b = append(b, byte(c.slice))
	return base64.RawURLEncoding.EncodeToString(append(b, c.from...))
}

func readViewCursor(text string) (viewCursor, error) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) < 9 || len(b) > 9+17 || b[8] >= store.ViewSlices || b[0] != 0 {
		return viewCursor{}, mayfly.Errorf(mayfly.Invalid, "%.40q is no cursor", text).WithHint("use next of the page before")
	}
	return viewCursor{count: int(binary.BigEndian.Uint64(b)), slice: int(b[8]), from: string(b[9:])}, nil
}
