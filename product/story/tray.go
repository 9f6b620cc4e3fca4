package story

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/gate"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/store"
)

// Following returns a page of the authors whom a reader follows.
type Following func(ctx context.Context, reader mayfly.UserID, after string, limit int) (page []account.Edge, next string, err error)

const (
	// trayAuthors is of how many authors a tray has the rings, so that it is bounded
	// for a reader who follows any number of them (I17).
	trayAuthors = 2_000
	// trayPages is how many pages of follow edges a tray chooses them from.
	trayPages = 5
)

// Tray is who of the authors that a reader follows has live stories (ST4).
type Tray struct {
	Slots []Slot // those with something unseen first, then by their newest story, newest first
	// Partial says that the reader follows so many authors that only the rings of those
	// whom the reader followed last are in it.
	Partial bool
}

// Slot is the place of an author in a tray. What it says is of the stories that serve
// for the reader.
type Slot struct {
	Author mayfly.UserID
	Newest mayfly.ID      // the newest story
	Seen   mayfly.ID      // the newest that the reader has seen; zero without
	Ends   mayfly.Instant // when the last story ends, and the slot with it
	Until  mayfly.Instant // when the first of Newest and Seen ends: then the slot is another
}

// Unseen reports whether the reader has not seen the newest story.
func (s Slot) Unseen() bool { return s.Seen != s.Newest }

// Tray returns the tray of a reader. It has no author of whom the reader mutes posts or
// whom the reader blocks, and nothing that the gate would not open. The reader's own
// stories are not in it. Errors: Corrupt, Unavailable.
func (s *Stories) Tray(ctx context.Context, reader mayfly.UserID, now mayfly.Instant) (t Tray, err error) {
	authors, partial, err := s.trayAuthors(ctx, reader)
	if err != nil {
		return Tray{}, fmt.Errorf("tray: %w", err)
	}
	rings, err := s.o.Gate.Rings(ctx, authors, now.Add(-s.o.Longest), mayfly.ViewerOf(reader), now)
	if err != nil {
		return Tray{}, fmt.Errorf("tray: %w", err)
	}
	seen, err := s.seenAmong(ctx, reader, rings.IDs)
	if err != nil {
		return Tray{}, fmt.Errorf("tray: %w", err)
	}
	rows, err := decisive(ctx, rings, seen, now)
	if err != nil {
		return Tray{}, fmt.Errorf("tray: %w", err)
	}
	t = Tray{Slots: make([]Slot, 0, len(authors)), Partial: partial}
	for i, ids := range rings.IDs {
		if slot, ok := slotOf(authors[i], ids, rows, seen); ok {
			t.Slots = append(t.Slots, slot)
		}
	}
	slices.SortFunc(t.Slots, func(a, b Slot) int {
		if a.Unseen() != b.Unseen() {
			if a.Unseen() {
				return -1
			}
			return 1
		}
		return b.Newest.Compare(a.Newest)
	})
	return t, nil
}

// slotOf makes the slot of an author by the rows that decide it; false when no story
// serves.
func slotOf(author mayfly.UserID, ids []mayfly.ID, rows map[mayfly.ID]mayfly.Item, seen map[mayfly.ID]bool) (Slot, bool) {
	slot := Slot{Author: author}
	for _, id := range ids { // oldest first
		item := rows[id]
		if item.Owner != author || item.Product != mayfly.Story { // also one that does not serve
			continue
		}
		slot.Newest, slot.Ends = id, max(slot.Ends, item.End())
		if seen[id] {
			slot.Seen = id
		}
	}
	if slot.Newest.IsZero() {
		return Slot{}, false
	}
	newest, last := rows[slot.Newest], rows[cmp.Or(slot.Seen, slot.Newest)]
	slot.Until = min(newest.End(), last.End())
	return slot, true
}

// decisive returns the rows that decide what slots say: of each ring the newest story
// that serves, the newest of those that were seen, and the one that ends last, with
// those that were tried before them. Few rows of a ring are read, however many stories
// it has.
func decisive(ctx context.Context, rings *gate.Rings, seen map[mayfly.ID]bool, now mayfly.Instant) (map[mayfly.ID]mayfly.Item, error) {
	lists := make([][]mayfly.ID, 0, 3*len(rings.IDs)) // of each the first that serves is wanted
	for _, ids := range rings.IDs {
		var newest, seenNewest []mayfly.ID
		for _, id := range slices.Backward(ids) {
			if id.ExpiredAt(now) { // it was restored: its row says until when it serves
				lists = append(lists, []mayfly.ID{id})
				continue
			}
			newest = append(newest, id)
			if seen[id] {
				seenNewest = append(seenNewest, id)
			}
		}
		ending := slices.Clone(newest)
		slices.SortFunc(ending, func(a, b mayfly.ID) int { return byDeadline(b, a) })
		lists = append(lists, newest, seenNewest, ending)
	}
	rows := make(map[mayfly.ID]mayfly.Item, 2*len(rings.IDs))
	for width := 1; ; width *= 8 {
		lists = slices.DeleteFunc(lists, func(list []mayfly.ID) bool { return len(list) == 0 })
		if len(lists) == 0 {
			return rows, nil
		}
		asked := make([]mayfly.ID, 0, len(lists))
		for _, list := range lists {
			for _, id := range list[:min(width, len(list))] {
				if _, known := rows[id]; !known {
					rows[id] = mayfly.Item{}
					asked = append(asked, id)
				}
			}
		}
		items, err := rings.Serving(ctx, asked)
		if err != nil {
			return nil, err
		}
		for i, id := range asked {
			rows[id] = items[i]
		}
		for i, list := range lists {
			first := list[:min(width, len(list))]
			lists[i] = list[len(first):]
			if slices.ContainsFunc(first, func(id mayfly.ID) bool { return !rows[id].ID.IsZero() }) {
				lists[i] = nil
			}
		}
	}
}

// trayAuthors returns the authors whose rings are in the reader's tray, and whether
// there are more.
func (s *Stories) trayAuthors(ctx context.Context, reader mayfly.UserID) (authors []mayfly.UserID, more bool, err error) {
	var edges []account.Edge
	after := ""
	for range trayPages {
		var page []account.Edge
		if page, after, err = s.o.Following(ctx, reader, after, trayAuthors); err != nil {
			return nil, false, err
		}
		for _, e := range page {
			if !e.Muted.Has(mayfly.MutesPosts) {
				edges = append(edges, e)
			}
		}
		if after == "" {
			break
		}
	}
	more = after != "" || len(edges) > trayAuthors
	if len(edges) > trayAuthors {
		slices.SortFunc(edges, func(a, b account.Edge) int { return cmp.Compare(b.Since, a.Since) })
		edges = edges[:trayAuthors]
	}
	authors = make([]mayfly.UserID, len(edges))
	for i, e := range edges {
		authors[i] = e.User
	}
	return authors, more, nil
}

// seenPage is how many rows of what a reader has seen are read at once.
const seenPage = 1_000

// seenAmong returns which of the ids in rings the reader has seen. It reads the rows of
// the reader from the oldest of them on: views are few and in one partition.
func (s *Stories) seenAmong(ctx context.Context, reader mayfly.UserID, rings [][]mayfly.ID) (map[mayfly.ID]bool, error) {
	seen := make(map[mayfly.ID]bool, 2*len(rings))
	var first, last mayfly.ID
	for _, ids := range rings {
		for _, id := range ids {
			seen[id] = false
		}
		if len(ids) == 0 {
			continue
		}
		if first.IsZero() || ids[0].Compare(first) < 0 {
			first = ids[0]
		}
		if newest := ids[len(ids)-1]; newest.Compare(last) > 0 {
			last = newest
		}
	}
	if len(seen) == 0 {
		return seen, nil
	}
	r := store.Range{Partition: string(reader[:]), From: string(first[:]), To: string(last[:]) + "\x00", Limit: seenPage}
	for {
		page, err := s.o.Rows.Range(ctx, Seen, r)
		if err != nil {
			return nil, fmt.Errorf("what %s has seen: %w", reader, err)
		}
		for _, row := range page {
			if len(row.Clustering) != len(mayfly.ID{}) {
				return nil, mayfly.Errorf(mayfly.Corrupt, "seen: a key of %d bytes", len(row.Clustering))
			}
			id := mayfly.ID([]byte(row.Clustering))
			if _, listed := seen[id]; listed {
				seen[id] = true
			}
		}
		if len(page) < r.Limit {
			return seen, nil
		}
		r.From = page[len(page)-1].Clustering + "\x00"
	}
}
