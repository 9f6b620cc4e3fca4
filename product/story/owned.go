package story

import (
	"context"
	"fmt"
	"slices"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// ownedPage is how many entries of the owner index are read at once.
const ownedPage = 500

// serving are the ids of author's stories that may serve at now: by arithmetic,
// and the restored ones (ST11), oldest first. The gate says which of them do.
func (s *Stories) serving(ctx context.Context, author mayfly.UserID, now mayfly.Instant) ([]mayfly.ID, error) {
	restored, err := s.o.Gate.RestoredOf(ctx, author.Trace())
	if err != nil {
		return nil, err
	}
	ids := slices.DeleteFunc(restored, func(id mayfly.ID) bool { return !id.ExpiredAt(now) }) // those are in the index
	r := store.Range{Partition: string(author[:]), From: bornFrom(now.Add(-s.o.Longest)), Limit: ownedPage}
	for {
		page, err := s.o.Rows.Range(ctx, store.Owners, r)
		if err != nil {
			return nil, fmt.Errorf("read the owner index: %w", err)
		}
		for _, row := range page {
			id, ok, err := storyOf(row)
			if err != nil {
				return nil, err
			}
			if ok && !id.ExpiredAt(now) {
				ids = append(ids, id)
			}
		}
		if len(page) < r.Limit {
			slices.SortFunc(ids, mayfly.ID.Compare)
			return ids, nil
		}
		r.From = page[len(page)-1].Clustering + "\x00"
	}
}

// bornFrom is where the ids that were born at an instant begin.
func bornFrom(at mayfly.Instant) string {
	at = min(max(at, 0), mayfly.MaxBirth)
	return string([]byte{byte(at >> 40), byte(at >> 32), byte(at >> 24), byte(at >> 16), byte(at >> 8), byte(at)})
}

// storyOf is the id that an entry of the owner index names, if it is a story's.
func storyOf(row store.Row) (mayfly.ID, bool, error) {
	if len(row.Clustering) != len(mayfly.ID{}) || len(row.Value) != 1 {
		return mayfly.ID{}, false, mayfly.Errorf(mayfly.Corrupt, "an entry of the owner index cannot be read: %x", row.Clustering)
	}
	return mayfly.ID([]byte(row.Clustering)), mayfly.Product(row.Value[0]) == mayfly.Story, nil
}
