package paste

import (
	"context"
	"fmt"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/store"
)

const (
	// listScan is how many entries of the owner index one page reads at most: a user
	// with many other items gets short pages instead of slow ones (I17).
	listScan = 2_000
	listPage = 64
)

// List returns a page of the author's own live pastes, newest first. cursor is next
// of the page before; next is empty on the last page, and a page may be short
// without being the last. Errors: Unauthenticated, Invalid (the cursor), Corrupt,
// Unavailable.
func (p *Pastes) List(ctx context.Context, author mayfly.UserID, cursor string, limit int, now mayfly.Instant) (pastes []Paste, next string, err error) {
	if author.IsZero() {
		return nil, "", mayfly.Errorf(mayfly.Unauthenticated, "a list of pastes belongs to a user").WithHint("ask with a user's token")
	}
	r := store.Range{Partition: string(author[:]), Reverse: true, Limit: listPage}
	if cursor != "" {
		id, err := mayfly.ParseID(cursor)
		if err != nil {
			return nil, "", mayfly.Errorf(mayfly.Invalid, "%.40q is no cursor", cursor).WithHint("use next of the page before")
		}
		r.To = string(id[:])
	}
	for scanned := 0; scanned < listScan; scanned += listPage {
		page, err := p.o.Rows.Range(ctx, engine.Owners, r)
		if err != nil {
			return nil, "", fmt.Errorf("list pastes: read the owner index: %w", err)
		}
		found, err := p.openAll(ctx, author, page, now)
		if err != nil {
			return nil, "", fmt.Errorf("list pastes: %w", err)
		}
		pastes = append(pastes, found...)
		if len(pastes) > limit {
			return pastes[:limit], pastes[limit-1].Item.ID.Short(), nil
		}
		if len(page) < r.Limit {
			return pastes, "", nil
		}
		r.To = page[len(page)-1].Clustering
	}
	return pastes, mayfly.ID([]byte(r.To)).Short(), nil
}

// openAll returns the pastes among entries of the owner index that serve.
func (p *Pastes) openAll(ctx context.Context, author mayfly.UserID, page []store.Row, now mayfly.Instant) ([]Paste, error) {
	var ids []mayfly.ID
	for _, row := range page {
		if len(row.Clustering) != len(mayfly.ID{}) || len(row.Value) != 1 {
			return nil, mayfly.Errorf(mayfly.Corrupt, "an entry of the owner index cannot be read: %x", row.Clustering)
		}
		if id := mayfly.ID([]byte(row.Clustering)); mayfly.Product(row.Value[0]) == mayfly.Paste && !id.ExpiredAt(now) {
			ids = append(ids, id)
		}
	}
	opened, err := p.o.Gate.OpenAll(ctx, ids, mayfly.ViewerOf(author), now)
	if err != nil {
		return nil, err
	}
	var pastes []Paste
	for _, o := range opened {
		paste, err := pasteOf(o)
		if err != nil {
			return nil, err
		}
		if paste.Reads > 0 {
			used, err := p.used(ctx, paste)
			if err != nil {
				return nil, err
			}
			if paste.Left = paste.Reads - used; paste.Left <= 0 {
				continue
			}
		}
		pastes = append(pastes, paste)
	}
	return pastes, nil
}
