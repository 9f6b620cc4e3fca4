package walk

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/loop"
)

// page is what was read at once, in order of the instant it is due at: items of
// the ledger, or rows of a table.
type page struct {
	items []mayfly.Item
	rows  []store.Row
}

func (p page) len() int { return len(p.items) + len(p.rows) }

// due returns when entry i is due, without the offset of the walk.
func (p page) due(i int) mayfly.Instant {
	if p.rows == nil {
		return p.items[i].ID.Deadline()
	}
	return dueOf(p.rows[i])
}

// key tells entries apart.
func (p page) key(i int) string {
	if p.rows == nil {
		return string(p.items[i].ID[:])
	}
	return p.rows[i].Clustering
}

func (p page) slice(from, to int) page {
	if p.rows == nil {
		return page{items: p.items[from:to]}
	}
	return page{rows: p.rows[from:to]}
}

// failed returns the failures of a page of one entry.
func (p page) failed(err error) []Failure {
	f := Failure{Err: err}
	if p.rows == nil {
		f.Item = p.items[0]
	} else {
		f.Row = p.rows[0]
	}
	return []Failure{f}
}

// dueOf reads the instant that a clustering key begins with.
func dueOf(row store.Row) mayfly.Instant {
	if len(row.Clustering) < 8 {
		return 0
	}
	return mayfly.Instant(binary.BigEndian.Uint64([]byte(row.Clustering)))
}

func instantKey(at mayfly.Instant) string {
	return string(binary.BigEndian.AppendUint64(nil, uint64(at)))
}

// stretch is what is left to read of one minute.
type stretch struct {
	items store.Stretch
	rows  store.Range
	last  mayfly.Instant // when the last entry that was read is due
}

// stretch returns what is due in (from, to] of a minute.
func (w *Walker) stretch(minute mayfly.Minute, from, to mayfly.Instant) stretch {
	if over := w.walk.Over; over != nil {
		return stretch{rows: store.Range{Partition: over.Partition(minute, w.shard.number), From: instantKey(from + 1), To: instantKey(to + 1)}}
	}
	s := store.Stretch{Minute: minute, Shard: w.shard.number, To: to}
	s.After = store.Position{Deadline: from, ID: lastID()}
	return stretch{items: s}
}

// read reads the next page of s, at most limit entries.
func (w *Walker) read(ctx context.Context, s *stretch, limit int) (p page, err error) {
	ctx, cancel := context.WithTimeout(ctx, w.o.Timeout)
	defer cancel()
	if over := w.walk.Over; over != nil {
		s.rows.Limit = limit
		w.spent.time += loop.Measure(func() { p.rows, err = w.set.Rows.Range(ctx, over.Table, s.rows) })
		if n := len(p.rows); n > 0 {
			s.rows.From, s.last = p.rows[n-1].Clustering+"\x00", dueOf(p.rows[n-1])
		}
	} else {
		w.spent.time += loop.Measure(func() { p.items, err = w.set.Ledger.Walk(ctx, s.items, limit) })
		if n := len(p.items); n > 0 {
			s.items.After, s.last = store.PositionOf(p.items[n-1]), p.items[n-1].ID.Deadline()
		}
	}
	if err != nil {
		return page{}, fmt.Errorf("read a page: %w", err)
	}
	for _, item := range p.items {
		if item.ID.Deadline() > s.items.To { // L3, trap 5
			panic(fmt.Sprintf("walk: %s was handed out before its deadline", item.ID))
		}
	}
	return p, nil
}

// lastID returns the id that sorts after all others of a deadline.
func lastID() (id mayfly.ID) {
	for i := range id {
		id[i] = math.MaxUint8
	}
	return id
}
