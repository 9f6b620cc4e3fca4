package cassandrastore

import (
	"context"
	"errors"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

var _ store.Ledger = ledger{}

// Get implements store.Ledger: one read for each pigeonhole that the ids lie in.
func (s ledger) Get(ctx context.Context, ids ...mayfly.ID) ([]store.Found, error) {
	if err := begin(ctx); err != nil {
		return nil, err
	}
	parts := partition(ids, placeOf)
	in := make([]map[mayfly.ID]mayfly.Item, len(parts))
	err := each(ctx, len(parts), func(ctx context.Context, i int) (err error) {
		in[i], err = s.readPlaces(ctx, readLedger, parts[i].hole, parts[i].places)
		return err
	})
	if err != nil {
		return nil, readError("rows", err)
	}
	found := make([]store.Found, len(ids))
	for n, part := range parts {
		for _, i := range part.of {
			found[i].Item, found[i].Found = in[n][ids[i]]
		}
	}
	return found, nil
}

// part is what a call has to do in one partition: which of its entries, in
// order, and the places that they name, each once.
type part struct {
	hole   hole
	of     []int
	places []place
}

func partition[T any](entries []T, at func(T) place) []part {
	var parts []part
	index := map[hole]int{}
	seen := map[mayfly.ID]bool{}
	for i, e := range entries {
		p := at(e)
		n, known := index[p.hole]
		if !known {
			n = len(parts)
			index[p.hole] = n
			parts = append(parts, part{hole: p.hole})
		}
		parts[n].of = append(parts[n].of, i)
		if !seen[p.id] {
			seen[p.id] = true
			parts[n].places = append(parts[n].places, p)
		}
	}
	return parts
}

// readSizes are how many keys one read may name: few texts to prepare, and a
// short one is filled up by naming its last key again.
func readSizes() []int { return []int{1, 8, 64, 512} }

func readSize(n int) int {
	sizes := readSizes()
	for _, size := range sizes {
		if n <= size {
			return size
		}
	}
	return sizes[len(sizes)-1]
}

// readPlaces reads rows of one partition by their keys.
func (s *Store) readPlaces(ctx context.Context, d operation, h hole, places []place) (map[mayfly.ID]mayfly.Item, error) {
	found := make(map[mayfly.ID]mayfly.Item, len(places))
	for len(places) > 0 {
		size := readSize(len(places))
		page := places[:min(size, len(places))]
		places = places[len(page):]
		values := h.values()
		for i := range size {
			p := page[min(i, len(page)-1)]
			values = append(values, p.at, p.id[:])
		}
		items, err := readItems(s.query(d, s.forms.of(h).read(size), values...).IterContext(ctx))
		if err != nil {
			return nil, err
		}
		for _, item := range items {
			found[item.ID] = item
		}
	}
	return found, nil
}

// readItems reads (at, id, row) to the end of the answer, page by page.
func readItems(iter *gocql.Iter) ([]mayfly.Item, error) {
	var (
		items   []mayfly.Item
		at      int64
		id, row []byte
		corrupt error
	)
	for iter.Scan(&at, &id, &row) {
		item, err := readRow(at, id, row)
		if err != nil {
			corrupt = err
			break
		}
		items = append(items, item)
	}
	return items, errors.Join(corrupt, iter.Close())
}

// Walk implements store.Ledger. It reads (After, To] of one partition and
// nothing before it: what was removed there is not passed again.
func (s ledger) Walk(ctx context.Context, stretch store.Stretch, limit int) ([]mayfly.Item, error) {
	// Rows of a pigeonhole end with its minute, whatever To says.
	end := min(stretch.To, (stretch.Minute+1).Start()-1)
	if limit <= 0 || end < stretch.Minute.Start() || end < stretch.After.Deadline {
		return nil, nil
	}
	if err := begin(ctx); err != nil {
		return nil, err
	}
	h := hole{minute: int64(stretch.Minute), shard: stretch.Shard}
	items, err := s.page(ctx, h, int64(stretch.After.Deadline), stretch.After.ID, int64(end), limit)
	if err != nil {
		return nil, readError("walk "+h.String(), err)
	}
	return items, nil
}

// page reads the rows behind (at, id) up to end, in order.
func (s *Store) page(ctx context.Context, h hole, at int64, id mayfly.ID, end int64, limit int) ([]mayfly.Item, error) {
	values := append(h.values(), at, id[:], end, limit)
	return readItems(s.query(readLedger, s.forms.of(h).walk, values...).PageSize(min(limit, pageSize)).IterContext(ctx))
}
