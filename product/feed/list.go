package feed

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

const (
	// listScan is how many entries one page reads at most: a list with many entries that
	// the viewer may not see gets short pages instead of slow ones (I17).
	listScan = 2_000
	listPage = 64
	// maxMonths is how many months of an author are read at once.
	maxMonths = 1_200
)

// listed is an entry of an author's list.
type listed struct {
	id     mayfly.ID
	author mayfly.UserID
	entry
}

// authored reads the entries of an author, newest first, page by page.
type authored struct {
	rows   store.Rows
	author mayfly.UserID
	size   int // of a page

	months []month // that are not read to their end, the newest last
	before string  // in the newest of them: the entry read last; empty at its end
	page   []listed
}

// authoredBefore returns the entries of an author that are older than an id; of the
// zero ID all.
func (f *Feed) authoredBefore(ctx context.Context, author mayfly.UserID, before mayfly.ID, size int) (*authored, error) {
	a := &authored{rows: f.o.Rows, author: author, size: size}
	r := store.Range{Partition: string(author[:]), Limit: maxMonths}
	if !before.IsZero() {
		a.before = string(before[:])
		r.To = (monthOf(before.Birth()) + 1).bytes()
	}
	rows, err := f.o.Rows.Range(ctx, Posts, r)
	if err != nil {
		return nil, fmt.Errorf("months of %s: %w", author, err)
	}
	for _, row := range rows {
		if len(row.Clustering) != 2 {
			return nil, mayfly.Errorf(mayfly.Corrupt, "a month of the author index cannot be read: %x", row.Clustering)
		}
		a.months = append(a.months, month(binary.BigEndian.Uint16([]byte(row.Clustering))))
	}
	return a, nil
}

// next returns the next entry; false when there is none.
func (a *authored) next(ctx context.Context) (listed, bool, error) {
	for len(a.page) == 0 {
		if len(a.months) == 0 {
			return listed{}, false, nil
		}
		newest := a.months[len(a.months)-1]
		rows, err := a.rows.Range(ctx, Posts, store.Range{Partition: monthPartition(a.author, newest), To: a.before, Reverse: true, Limit: a.size})
		if err != nil {
			return listed{}, false, fmt.Errorf("posts of %s: %w", a.author, err)
		}
		for _, row := range rows {
			e, err := readEntry(row.Value)
			if err != nil || len(row.Clustering) != len(mayfly.ID{}) {
				return listed{}, false, mayfly.Errorf(mayfly.Corrupt, "an entry of the author index cannot be read: %x", row.Clustering)
			}
			a.page = append(a.page, listed{mayfly.ID([]byte(row.Clustering)), a.author, e})
			a.before = row.Clustering
		}
		if len(rows) < a.size {
			a.months, a.before = a.months[:len(a.months)-1], ""
		}
	}
	e := a.page[0]
	a.page = a.page[1:]
	return e, true, nil
}

// Page is a page of posts.
type Page struct {
	Posts []Post
	Next  string // cursor of the next page; empty on the last
}

// ByAuthor returns a page of an author's posts that viewer may see, newest first. A
// page may be short without being the last. Of an author of whom viewer may see
// nothing it is empty, as of one who never was. Errors: Invalid (the cursor), Corrupt,
// Unavailable.
func (f *Feed) ByAuthor(ctx context.Context, author mayfly.UserID, viewer mayfly.Viewer, cursor string, limit int, now mayfly.Instant) (Page, error) {
	list := "author" + string(author[:])
	before, err := f.readCursor(list, cursor)
	if err != nil {
		return Page{}, err
	}
	entries, err := f.authoredBefore(ctx, author, before, listPage)
	if err != nil {
		return Page{}, err
	}
	return f.fill(ctx, list, entries.next, viewer, limit, now)
}

// fill makes a page of the first entries of a list that viewer may see.
func (f *Feed) fill(ctx context.Context, list string, next func(context.Context) (listed, bool, error), viewer mayfly.Viewer, limit int, now mayfly.Instant) (page Page, err error) {
	var last mayfly.ID
	for scanned, more := 0, true; more; {
		if scanned >= listScan {
			page.Next = f.cursor(list, last)
			return page, nil
		}
		var ids []mayfly.ID
		for more && len(ids) < limit-len(page.Posts)+1 { // one more, to see whether there is one
			var e listed
			if e, more, err = next(ctx); err != nil {
				return Page{}, err
			}
			if more {
				last = e.id
				scanned++
				ids = append(ids, e.id)
			}
			if scanned >= listScan {
				break
			}
		}
		posts, err := f.openAll(ctx, ids, viewer, now)
		if err == nil {
			posts, err = f.complete(ctx, posts, viewer, now)
		}
		if err != nil {
			return Page{}, fmt.Errorf("list posts: %w", err)
		}
		page.Posts = append(page.Posts, posts...)
		if len(page.Posts) > limit {
			page.Posts = page.Posts[:limit]
			page.Next = f.cursor(list, page.Posts[limit-1].Item.ID)
			return page, nil
		}
	}
	return page, nil
}

// macSize is how many bytes of a signature a cursor has.
const macSize = 16

// cursor returns a position in a list as a text that only this list goes on with.
func (f *Feed) cursor(list string, at mayfly.ID) string {
	return base64.RawURLEncoding.EncodeToString(append(f.mac(list, at), at[:]...))
}

// readCursor reads what cursor wrote; the zero ID is the beginning. Errors: Invalid.
func (f *Feed) readCursor(list, cursor string) (at mayfly.ID, err error) {
	if cursor == "" {
		return at, nil
	}
	if b, err := base64.RawURLEncoding.Strict().DecodeString(cursor); err == nil && len(b) == macSize+len(at) {
		at = mayfly.ID(b[macSize:])
		if hmac.Equal(b[:macSize], f.mac(list, at)) {
			return at, nil
		}
	}
	return at, mayfly.Errorf(mayfly.Invalid, "the cursor is not one of this list").WithHint("send next of the page before, unchanged, or begin again without a cursor")
}

func (f *Feed) mac(list string, at mayfly.ID) []byte {
	sum := hmac.New(sha256.New, f.o.Secret)
	_ = binary.Write(sum, binary.BigEndian, uint64(len(list)))
	sum.Write([]byte(list))
	sum.Write(at[:])
	return sum.Sum(nil)[:macSize]
}
