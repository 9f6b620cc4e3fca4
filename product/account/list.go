package account

import (
	"context"
	"encoding/base64"
	"fmt"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

const (
	listDefault = 100
	listMost    = 500
	listPage    = 500
	listPages   = 20 // that one answer looks at, so that a list costs no more for who has many in another relation (I17)
)

const cursorFormat = 1

// List is a page of those whom owner blocks or has as close friends, in order of their
// numbers; next, if it is not empty, is after of the next page. A page may be
// short of limit, or empty, and have a next. Errors: Invalid (the cursor),
// Unavailable.
func (a *Accounts) List(ctx context.Context, owner mayfly.UserID, rel mayfly.Relation, after string, limit int) (users []mayfly.UserID, next string, err error) {
	from, err := readCursor(after)
	if err != nil {
		return nil, "", err
	}
	if owner.IsZero() || rel == 0 || rel&^granted != 0 {
		return nil, "", mayfly.Errorf(mayfly.Invalid, "list relations %#b", rel).WithHint("name a user, and a relation")
	}
	if limit <= 0 {
		limit = listDefault
	}
	limit = min(limit, listMost)
	for range listPages {
		page, err := a.o.Rows.Range(ctx, Relations, store.Range{Partition: string(owner[:]), From: from, Limit: listPage})
		if err != nil {
			return nil, "", fmt.Errorf("list relations: %w", err)
		}
		for _, row := range page {
			if len(row.Clustering) != len(mayfly.UserID{}) {
				return nil, "", mayfly.Errorf(mayfly.Corrupt, "relations: a key of %d bytes", len(row.Clustering))
			}
			if len(users) == limit {
				return users, cursor(from), nil
			}
			has, err := readRelation(row.Value)
			if err != nil {
				return nil, "", err
			}
			if has.Has(rel) {
				users = append(users, mayfly.UserID([]byte(row.Clustering)))
			}
			from = row.Clustering + "\x00"
		}
		if len(page) < listPage {
			return users, "", nil
		}
	}
	return users, cursor(from), nil
}

// cursor is opaque: the place in the partition behind a format.
func cursor(from string) string {
	return base64.RawURLEncoding.EncodeToString(append([]byte{cursorFormat}, from[:len(mayfly.UserID{})]...))
}

func readCursor(text string) (from string, err error) {
	if text == "" {
		return "", nil
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) != 1+len(mayfly.UserID{}) || b[0] != cursorFormat {
		return "", mayfly.Errorf(mayfly.Invalid, "%.40q is no cursor", text).WithHint("send next of the page before as it was, or nothing")
	}
	return string(b[1:]) + "\x00", nil
}
