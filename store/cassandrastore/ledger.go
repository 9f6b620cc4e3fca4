package cassandrastore

import (
	"context"
	"errors"
	"fmt"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

var _ store.Ledger = ledger{}

// Get implements store.Ledger with one read for each pigeonhole.
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

// part is the work of a call in one partition: which of the call's entries, in order,
// and their places, each once.
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

// readSizes are the numbers of keys that a read can have. They are few, so that few
// statements are prepared; a shorter read repeats its last key.
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

// readItems reads all (at, id, row) of the response, page by page.
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

// Walk implements store.Ledger. It reads only (After, To] of one partition, so that it
// does not pass the tombstones of removed rows before it again.
func (s ledger) Walk(ctx context.Context, stretch store.Stretch, limit int) ([]mayfly.Item, error) {
	// A pigeonhole ends with its minute, also when To is later.
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

// page reads the rows after (at, id) up to end, in order.
func (s *Store) page(ctx context.Context, h hole, at int64, id mayfly.ID, end int64, limit int) ([]mayfly.Item, error) {
	values := append(h.values(), at, id[:], end, limit)
	return readItems(s.query(readLedger, s.forms.of(h).walk, values...).PageSize(min(limit, pageSize)).IterContext(ctx))
}

// A body is inserted with timestamp 1, emptied with 2 and removed with 3, so that the
// later step wins, also if an earlier one arrives late and whatever the clocks say.

const readBody = "SELECT body FROM bodies WHERE id = ?"

func insertBody() string {
	return fmt.Sprintf("INSERT INTO bodies (id, body) VALUES (?, ?) USING TIMESTAMP %d", stampBorn)
}

// emptyBody writes an empty value, not a tombstone, so that a birth that is inserted
// again loses against it also after a compaction.
func emptyBody() string {
	return fmt.Sprintf("INSERT INTO bodies (id, body) VALUES (?, 0x) USING TIMESTAMP %d", stampErased)
}

func removeBody() string {
	return fmt.Sprintf("DELETE FROM bodies USING TIMESTAMP %d WHERE id = ?", stampRemoved)
}

// Body implements store.Ledger.
func (s ledger) Body(ctx context.Context, ids ...mayfly.ID) ([]store.FoundBody, error) {
	if err := begin(ctx); err != nil {
		return nil, err
	}
	found := make([]store.FoundBody, len(ids))
	err := each(ctx, len(ids), func(ctx context.Context, i int) error {
		var body []byte
		id := ids[i] // a copy: a speculative request may outlive the call
		err := s.query(readLedger, readBody, id[:]).ScanContext(ctx, &body)
		if errors.Is(err, gocql.ErrNotFound) || err == nil && len(body) == 0 { // never existed, or was erased
			return nil
		}
		if err == nil {
			found[i].Body, err = store.ReadBody(body)
			found[i].Found = err == nil
		}
		if err != nil {
			return readError("body of "+ids[i].String(), err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}
