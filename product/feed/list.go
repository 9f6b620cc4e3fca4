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
	muted  mayfly.Relation // what the reader of a home mutes of the author
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
		m, err := readMonth(row)
		if err != nil {
			return nil, err
		}
		a.months = append(a.months, m)
	}
	return a, nil
}

// readMonth reads a row of the months of an author, and readListed one of the posts of
// a month. Errors: Corrupt.
func readMonth(row store.Row) (month, error) {
	if len(row.Clustering) != 2 {
		return 0, mayfly.Errorf(mayfly.Corrupt, "a month of the author index cannot be read: %x", row.Clustering)
	}
	return month(row.Clustering[0])<<8 | month(row.Clustering[1]), nil
}

func readListed(author mayfly.UserID, row store.Row) (listed, error) {
	e, err := readEntry(row.Value)
	if err != nil || len(row.Clustering) != len(mayfly.ID{}) {
		return listed{}, mayfly.Errorf(mayfly.Corrupt, "an entry of the author index cannot be read: %x", row.Clustering)
	}
	return listed{id: mayfly.ID([]byte(row.Clustering)), author: author, entry: e}, nil
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
			e, err := readListed(a.author, row)
			if err != nil {
				return listed{}, false, err
			}
			a.page, a.before = append(a.page, e), row.Clustering
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
	name := "author" + string(author[:])
	before, err := f.readCursor(name, cursor)
	if err != nil {
		return Page{}, err
	}
	// The relation is judged first: the page of an author of whom viewer may see nothing
	// costs what that of a user costs who never was (I18).
	from := author
	if may, err := f.o.Gate.Permits(ctx, author, mayfly.Everyone, viewer); err != nil {
		return Page{}, err
	} else if !may {
		from = mayfly.UserID{} // who has no posts
	}
	entries, err := f.authoredBefore(ctx, from, before, listPage)
	if err != nil {
		return Page{}, err
	}
	return f.fill(ctx, list{name: name, next: entries.next, scan: listScan}, viewer, limit, now)
}

// list is where fill takes the posts of a page from.
type list struct {
	name   string                                                     // that its cursors are signed for
	next   func(ctx context.Context) (e listed, more bool, err error) // in the order of the list
	wanted func(listed) bool                                          // by its entry; nil: every one
	keeps  func(*Post) bool                                           // of what viewer may see; it may take out what a post quotes; nil: every one
	scan   int                                                        // how many entries one page reads at most
}

// fill makes a page of the first entries of a list that viewer may see.
func (f *Feed) fill(ctx context.Context, l list, viewer mayfly.Viewer, limit int, now mayfly.Instant) (page Page, err error) {
	var last mayfly.ID
	for scanned, more := 0, true; more; {
		if scanned >= l.scan {
			page.Next = f.cursor(l.name, last)
			return page, nil
		}
		var ids []mayfly.ID
		for more && len(ids) < limit-len(page.Posts)+1 { // one more, to see whether there is one
			var e listed
			if e, more, err = l.next(ctx); err != nil {
				return Page{}, err
			}
			if more {
				last = e.id
				scanned++
				if l.wanted == nil || l.wanted(e) {
					ids = append(ids, e.id)
				}
			}
			if scanned >= l.scan {
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
		for i := range posts {
			if l.keeps == nil || l.keeps(&posts[i]) {
				page.Posts = append(page.Posts, posts[i])
			}
		}
		if len(page.Posts) > limit {
			page.Posts = page.Posts[:limit]
			page.Next = f.cursor(l.name, page.Posts[limit-1].Item.ID)
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
