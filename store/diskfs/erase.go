package diskfs

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"strings"

	"github.com/cockroachdb/pebble/v2"
)

// compactBytes is about how much of the last level one compaction rewrites, so that
// other compactions get their turn in between.
const compactBytes = 128 << 20

// EraseDeleted makes Pebble give up the bytes of everything that was deleted or
// overwritten in db before the call: db is open on g, in the folder dir. One call at a
// time. It may not return when the fuse has blown. It costs no
// more than rewriting the database once, and nothing where nothing was written.
//
// A deleted value is in three places. Write-ahead logs: a flush makes them obsolete,
// and they are removed instead of being kept to be written over. Tables of upper levels:
// they are compacted into the last one, together with the tables below them, and a
// deleted value does not come through that. Tables of the last level alone:
// nothing in them is deleted, but a table that overlaps no other is moved there as it
// is, with tombstones that hold the keys of what was deleted. Such tables are rewritten.
func (g *GuardFS) EraseDeleted(ctx context.Context, db *pebble.DB, dir string) error {
	if err := g.compactAll(ctx, db, dir); err != nil {
		return err
	}
	moved, err := overlapTombstones(db)
	if err != nil || !moved {
		return err
	}
	return g.compactAll(ctx, db, dir)
}

// compactAll moves everything to the last level.
func (g *GuardFS) compactAll(ctx context.Context, db *pebble.DB, dir string) error {
	if err := g.eraseLogs(ctx, db, dir); err != nil {
		return err
	}
	levels, err := db.SSTables()
	if err != nil {
		return err
	}
	for _, s := range compactions(levels) {
		if err := db.Compact(ctx, s.from, s.to, false); err != nil {
			return err
		}
	}
	return nil
}

// overlapTombstones writes the deletion of a range key over each table of the last level
// that has tombstones: the next compaction then rewrites the table instead of leaving it
// where it is. Nothing uses range keys, so that it deletes nothing, whatever is written
// meanwhile. It reports whether there are such tables.
func overlapTombstones(db *pebble.DB) (found bool, err error) {
	levels, err := db.SSTables(pebble.WithProperties())
	if err != nil {
		return false, err
	}
	for _, t := range levels[len(levels)-1] {
		if t.Properties.NumDeletions == 0 { // those of ranges are counted too
			continue
		}
		if err := db.RangeKeyDelete(t.Smallest.UserKey, append(bytes.Clone(t.Largest.UserKey), 0), pebble.NoSync); err != nil {
			return false, err
		}
		found = true
	}
	return found, nil
}

// eraseLogs flushes db and removes the write-ahead logs that this makes obsolete.
// Pebble would keep some of them, with their bytes, for the next logs to be written over.
func (g *GuardFS) eraseLogs(ctx context.Context, db *pebble.DB, dir string) error {
	g.startFresh(true) // a log that is begun from now on is not written over an old one
	defer g.startFresh(false)
	names, err := g.FS.List(dir)
	if err != nil {
		return err
	}
	flushed, err := db.AsyncFlush()
	if err != nil {
		return err
	}
	select {
	case <-flushed:
	case <-ctx.Done():
		return ctx.Err()
	}
	for _, name := range names {
		if !strings.HasSuffix(name, ".log") {
			continue
		}
		g.alive()
		if err := g.FS.Remove(g.PathJoin(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (g *GuardFS) startFresh(fresh bool) {
	g.reuse.Lock()
	defer g.reuse.Unlock()
	g.fresh = fresh
}

// span is a range of keys, both ends included.
type span struct{ from, to []byte }

// compactions cuts the keys of all tables above the last level into spans, each with
// about compactBytes of the last level, and leaves out those without such a table.
func compactions(levels [][]pebble.SSTableInfo) (spans []span) {
	last := len(levels) - 1
	var upper []span
	var all span
	for _, level := range levels[:last] {
		for _, t := range level {
			s := span{t.Smallest.UserKey, t.Largest.UserKey}
			upper = append(upper, s)
			if all.from == nil || bytes.Compare(s.from, all.from) < 0 {
				all.from = s.from
			}
			if bytes.Compare(s.to, all.to) > 0 {
				all.to = s.to
			}
		}
	}
	if len(upper) == 0 {
		return nil
	}
	all.to = append(bytes.Clone(all.to), 0) // a span of one key is refused
	add := func(to []byte) {
		s := span{all.from, to}
		for _, u := range upper {
			if bytes.Compare(u.from, s.to) <= 0 && bytes.Compare(u.to, s.from) >= 0 {
				spans = append(spans, s)
				break
			}
		}
		all.from = to
	}
	size := uint64(0)
	for _, t := range levels[last] {
		key := t.Smallest.UserKey
		if size >= compactBytes && bytes.Compare(key, all.from) > 0 && bytes.Compare(key, all.to) < 0 {
			add(key)
			size = 0
		}
		size += t.Size
	}
	add(all.to)
	return spans
}
