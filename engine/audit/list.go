package audit

import (
	"cmp"
	"context"
	"fmt"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Filter says which records to show; what is zero does not matter.
type Filter struct {
	Actor    string
	Verb     Verb
	Item     mayfly.ID
	User     mayfly.UserID
	Run      mayfly.Run
	From, To mayfly.Instant // at or after From, before To
}

// Matches says whether the filter lets r through.
func (f Filter) Matches(r Record) bool {
	e := r.Entry
	return (f.Actor == "" || f.Actor == e.Actor) && (f.Verb == 0 || f.Verb == e.Verb) &&
		(f.Item.IsZero() || f.Item == e.Subject.Item) && (f.User.IsZero() || f.User == e.Subject.User) &&
		(f.Run == 0 || f.Run == e.Subject.Run) && (f.From == 0 || f.From <= r.At) && (f.To == 0 || r.At < f.To)
}

// Place is where a record stands among those of all chains: by time, then by
// chain and number. The zero Place is behind the newest.
type Place struct {
	At mayfly.Instant
	Ref
}

// PlaceOf is where r stands.
func PlaceOf(r Record) Place { return Place{At: r.At, Ref: r.Ref} }

func (p Place) compare(q Place) int {
	return cmp.Or(cmp.Compare(p.At, q.At), cmp.Compare(p.Chain, q.Chain), cmp.Compare(p.Number, q.Number))
}

// Page is a page of a list.
type Page struct {
	Records []Record // newest first
	Next    Place    // where the next page goes on
	More    bool     // whether there may be one; a page may be short, or empty, and not the last
}

// scanned is how many records one page looks at, at most: a filter that lets
// little through answers in several short pages.
const scanned = 4096

// List answers a page of the records that the filter lets through, newest first
// over all chains, from before a place. It reads the end of every chain first.
// Anchors are left out.
// It verifies nothing but each record's own hash: one that cannot be read is an
// error of kind Corrupt, and Verify tells more.
func List(ctx context.Context, rows store.Rows, f Filter, before Place, limit int) (Page, error) {
	if limit <= 0 {
		return Page{}, mayfly.Errorf(mayfly.Invalid, "audit: a page of %d records", limit)
	}
	if f.To != 0 && (before == Place{} || f.To < before.At) {
		before = Place{At: f.To} // no chain's name is empty: this is before all of that instant
	}
	m, err := merged(ctx, rows, before)
	if err != nil {
		return Page{}, err
	}
	p := Page{Next: before}
	for range scanned {
		r, ok, err := m.pop(ctx)
		if err != nil || !ok || r.At < f.From {
			return p, err
		}
		p.Next = PlaceOf(r)
		if f.Matches(r) {
			p.Records = append(p.Records, r)
		}
		if len(p.Records) == limit {
			break
		}
	}
	p.More = true
	return p, nil
}

// unreadable is the error of a list that meets a record that is not whole.
func unreadable(ref Ref, err error) error {
	return mayfly.Wrap(mayfly.Corrupt, fmt.Errorf("audit: list: %s: %w", ref, err), "mayfly audit verify reports what is wrong")
}
