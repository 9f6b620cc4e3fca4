package kvpebble

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// The limits of a call of Reclaim, and when it does something.
const (
	spanRead    = mebibyte     // bytes that are looked at in one call
	spanWrite   = 256 << 10    // bytes of live entries that are written again in one call
	spanGap     = 32 << 10     // bytes of live entries in a row that are not written again, but end a range tombstone
	minShare    = 16           // a span is rewritten if one part in so many has expired
	wantedShare = 10           // a namespace is walked if more than one part in so many of its live bytes has expired
	flushAfter  = 8 * mebibyte // reclaimed bytes after which memtables are flushed at the end of a walk
	flushWithin = 8            // and in a walk after so many times as many

	emptyPeriods = 1024 // rows of counts of a namespace without entries, after which they are deleted

	// Tables are compacted while what range tombstones have deleted in others takes more
	// than maxGarbage and one part in garbageShare of what is live.
	maxGarbage   = 16 * mebibyte
	garbageShare = 16
)

// reclaims is where the reclaim is. Only one Reclaim or Drop runs at a time.
type reclaims struct {
	garbage int64 // maxGarbage; less in tests

	mu      sync.Mutex
	name    string        // the namespace that is being walked; "" is none
	from    []byte        // up to where it has been walked
	pending int64         // bytes whose tombstones are in a memtable
	trimmed mayfly.Minute // when the index of expiries was last trimmed
}

// Reclaim implements store.KV. It walks the namespaces in which enough has expired, one
// span of keys in a call. A span of which enough has expired is replaced: one range
// tombstone deletes all of it, and its live entries are written again as they were, in
// one batch, while writers of the span wait.
func (s *Store) Reclaim(ctx context.Context, now mayfly.Instant) (store.KVReclaimed, error) {
	if err := s.enter(ctx); err != nil {
		return store.KVReclaimed{}, err
	}
	defer s.leave()
	r := &s.reclaims
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.trimmed != now.Minute() {
		if err := s.trim(now.Add(-store.KVRemembers)); err != nil {
			return store.KVReclaimed{}, readError("trim", err)
		}
		for _, sp := range s.spaces.list() {
			if !sp.trim() {
				continue
			}
			if err := s.trimCounts(sp, now); err != nil {
				return store.KVReclaimed{}, readError("trim", err)
			}
		}
		r.trimmed = now.Minute()
	}
	if r.name == "" {
		if r.name = s.worst(now); r.name == "" {
			more, err := s.settle(ctx, now)
			return store.KVReclaimed{More: more}, readError("reclaim", err)
		}
		r.from = appendSpace(nil, entryPrefix, r.name)
	}
	done, err := s.step(now)
	done.More = true
	if r.pending += done.Bytes; err == nil && r.pending > flushWithin*flushAfter {
		err = s.flush(ctx)
	}
	return done, readError("reclaim", err)
}

// worst returns the namespace with the most expired bytes, among those of which
// wantedShare or more has expired.
func (s *Store) worst(now mayfly.Instant) (name string) {
	most := int64(0)
	for _, sp := range s.spaces.list() {
		live, expired, _ := sp.at(now)
		if expired.bytes > most && worthReclaiming(live.bytes, expired.bytes) {
			most, name = expired.bytes, sp.name
		}
	}
	return name
}

// settle makes Pebble free the space that tombstones have deleted: its own compactions
// leave as much of that as the level above the last may hold. It reports whether it has
// compacted something.
func (s *Store) settle(ctx context.Context, now mayfly.Instant) (more bool, err error) {
	if s.reclaims.pending > min(flushAfter, s.reclaims.garbage) {
		if err := s.flush(ctx); err != nil {
			return false, err
		}
	}
	m := s.db.Metrics()
	live := int64(0)
	for _, sp := range s.spaces.list() {
		one, _, _ := sp.at(now)
		live += one.bytes
	}
	if int64(m.Table.Garbage.RangeDeletionsBytesEstimate) < s.reclaims.garbage+live/garbageShare {
		return false, nil
	}
	levels, err := s.db.SSTables()
	if err != nil {
		return false, err
	}
	var most pebble.SSTableInfo
	for _, level := range levels[:len(levels)-1] {
		for _, t := range level {
			if t.TableStats.RangeDeletionsBytesEstimate > most.TableStats.RangeDeletionsBytesEstimate {
				most = t
			}
		}
	}
	if most.TableStats.RangeDeletionsBytesEstimate == 0 {
		return false, nil
	}
	return true, s.db.Compact(ctx, most.Smallest.UserKey, next(most.Largest.UserKey), false)
}

// flush moves tombstones out of the memtable, so that their space comes back also if
// nothing more is written.
func (s *Store) flush(ctx context.Context) error {
	s.reclaims.pending = 0
	flushed, err := s.db.AsyncFlush()
	if err != nil {
		return err
	}
	select {
	case <-flushed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.fuse.Blown():
		return s.fuse.Err()
	}
}

// EraseDeleted makes the database give up the bytes of entries that were deleted,
// replaced, dropped or reclaimed before the call: after it they are in no file but those
// that Pebble is about to remove. It rewrites up to the whole database, so call it rarely.
func (s *Store) EraseDeleted(ctx context.Context, _ mayfly.Instant) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	return readError("erase deleted entries", s.base.EraseDeleted(ctx))
}

// step looks at the next span of the walk, and rewrites it if that is worth it.
func (s *Store) step(now mayfly.Instant) (done store.KVReclaimed, err error) {
	r := &s.reclaims
	lo, upper := r.from, after(appendSpace(nil, entryPrefix, r.name))
	look := span{now: now}
	hi, err := s.walk(&look, lo, upper)
	if err != nil {
		return done, err
	}
	if look.expired > 0 && look.expired >= (look.live+look.expired)/minShare {
		if done, err = s.rewrite(now, lo, hi); err != nil {
			return done, err
		}
	}
	if r.from = hi; bytes.Equal(hi, upper) {
		if sp := s.spaces.find(r.name); sp != nil {
			err = s.trimCounts(sp, now)
		}
		r.name, r.from = "", nil
	}
	return done, err
}

// trimCounts deletes the counts of a namespace for periods that ended more than an hour
// ago, up to the first that has an entry left. No entry can come to such a period.
func (s *Store) trimCounts(sp *space, now mayfly.Instant) error {
	all := appendSpace(nil, entryPrefix, sp.name)
	if err := s.guard.take(s.fuse, all, after(all)); err != nil { // no change is under way
		return err
	}
	defer s.guard.free()
	end := now.Add(-time.Hour)
	if _, expired, oldest := sp.at(end); expired != (count{}) {
		end = oldest
	}
	if end <= 1 {
		return nil
	}
	return s.db.DeleteRange(appendCountKey(nil, sp.name, 1), appendCountKey(nil, sp.name, end), pebble.NoSync)
}

// rewrite replaces the span [lo, hi) by its live entries.
func (s *Store) rewrite(now mayfly.Instant, lo, hi []byte) (done store.KVReclaimed, err error) {
	if err := s.guard.take(s.fuse, lo, hi); err != nil {
		return done, err
	}
	defer s.guard.free()
	batch := s.db.NewBatch()
	defer func() { err = errors.Join(err, batch.Close()) }()
	var gone []uint64 // hashes
	w := span{now: now, batch: batch, gone: func(key []byte) { gone = append(gone, s.stripes.hash(key)) }}
	if _, err := s.walk(&w, lo, hi); err != nil {
		return done, err
	}
	if err := w.cut(); err != nil {
		return done, err
	}
	sp := s.spaces.get(s.reclaims.name)
	if err := sp.merge(batch, w.counts); err != nil {
		return done, err
	}
	// It need not be durable: a crash leaves all of it or nothing.
	all := allStripes()
	s.rows.begin(all)
	err = s.db.Apply(batch, pebble.NoSync)
	for _, hash := range gone {
		s.rows.remove(hash)
	}
	s.rows.end(all)
	if err != nil {
		return done, err
	}
	total := w.counts.sum()
	return store.KVReclaimed{Entries: -total.keys, Bytes: -total.bytes, Written: w.written}, sp.take(w.counts, 0, now)
}

// span is a walk over a span of keys. With a batch it replaces what has expired.
type span struct {
	now           mayfly.Instant
	live, expired int64 // bytes

	batch   *pebble.Batch
	gone    func(key []byte) // is called with the key of each entry that is replaced by nothing
	counts  changes
	written int64

	// The range tombstone being made begins at first and ends after last, the last
	// entry that has expired. kept are live entries between them; late are those after
	// last, which belong to it only if another expired one follows soon.
	first, last []byte
	kept, late  []pair
	lateBytes   int64
}

type pair struct{ key, value []byte }

// walk walks the entries of [lo, hi) until there is enough for one call, and returns
// where it ended: hi at the latest.
func (s *Store) walk(w *span, lo, hi []byte) ([]byte, error) {
	iter, err := s.db.NewIter(&pebble.IterOptions{LowerBound: lo, UpperBound: hi})
	if err != nil {
		return nil, err
	}
	end := hi
	for ok := iter.First(); ok; ok = iter.Next() {
		if w.batch == nil && (w.live >= spanWrite || w.live+w.expired >= spanRead) {
			end = bytes.Clone(iter.Key())
			break
		}
		value, err := iter.ValueAndErr()
		if err == nil {
			err = w.add(iter.Key(), value)
		}
		if err != nil {
			return nil, errors.Join(err, iter.Close())
		}
	}
	return end, iter.Close()
}

// add looks at one entry.
func (w *span) add(key, value []byte) error {
	n, err := spaceHead(key)
	if err != nil {
		return err
	}
	e, err := parseEntry(string(key[n:]), value)
	if err != nil {
		return err
	}
	if e.At(w.now).Found {
		w.live += e.Size()
		if w.batch == nil || w.first == nil {
			return nil
		}
		w.late = append(w.late, pair{bytes.Clone(key), bytes.Clone(value)})
		if w.lateBytes += int64(len(key) + len(value)); w.lateBytes > spanGap {
			return w.cut()
		}
		return nil
	}
	w.expired += e.Size()
	if w.batch == nil {
		return nil
	}
	w.gone(key)
	w.counts.add(periodEnd(e.Written, e.Expiry), count{-1, -e.Size()})
	if w.first == nil {
		w.first = bytes.Clone(key)
	}
	w.last = append(w.last[:0], key...)
	w.kept, w.late, w.lateBytes = append(w.kept, w.late...), w.late[:0], 0
	return nil
}

// cut writes the range tombstone and the live entries in it.
func (w *span) cut() error {
	if w.first == nil {
		return nil
	}
	if err := w.batch.DeleteRange(w.first, next(w.last), nil); err != nil {
		return err
	}
	for _, one := range w.kept {
		w.written += int64(len(one.key) + len(one.value))
		if err := w.batch.Set(one.key, one.value, nil); err != nil {
			return err
		}
	}
	w.first, w.kept, w.late, w.lateBytes = nil, nil, nil, 0
	return nil
}

// trim forgets keys that expired before the given instant, by one range tombstone for
// each namespace that has some.
func (s *Store) trim(before mayfly.Instant) error {
	iter, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{duePrefix}, UpperBound: []byte{duePrefix + 1}})
	if err != nil {
		return err
	}
	batch := s.db.NewBatch()
	for ok := iter.First(); ok; {
		n, err := spaceHead(iter.Key())
		if err != nil || len(iter.Key()) < n+8 {
			return errors.Join(mayfly.Errorf(mayfly.Corrupt, "the key %x is of no expiry", iter.Key()), batch.Close(), iter.Close())
		}
		head := bytes.Clone(iter.Key()[:n])
		if mayfly.Instant(binary.BigEndian.Uint64(iter.Key()[n:])) < before {
			if err := batch.DeleteRange(head, binary.BigEndian.AppendUint64(head[:n:n], uint64(before)), nil); err != nil {
				return errors.Join(err, batch.Close(), iter.Close())
			}
		}
		ok = iter.SeekGE(after(head))
	}
	if err := iter.Close(); err != nil || batch.Empty() {
		return errors.Join(err, batch.Close())
	}
	return errors.Join(s.db.Apply(batch, pebble.NoSync), batch.Close())
}

// Drop implements store.KV.
func (s *Store) Drop(ctx context.Context, space store.KVSpace) (err error) {
	if err := space.Check(); err != nil {
		return err
	}
	if err := s.enter(ctx); err != nil {
		return err
	}
	s.reclaims.mu.Lock()
	defer s.reclaims.mu.Unlock()
	lo := appendSpace(nil, entryPrefix, space.Name)
	if err := s.guard.take(s.fuse, lo, after(lo)); err != nil {
		s.leave()
		return err
	}
	defer s.guard.free()
	w := &writing{Store: s, batch: s.db.NewBatch(), durable: true}
	for _, kind := range []byte{duePrefix, countPrefix, entryPrefix} {
		head := appendSpace(nil, kind, space.Name)
		if err := w.batch.DeleteRange(head, after(head), nil); err != nil {
			s.leave()
			return errors.Join(err, w.batch.Close())
		}
	}
	// Not even a cancelled call leaves before the batch is visible, for writers wait for it.
	if err := w.write(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	if sp := s.spaces.find(space.Name); sp != nil {
		live, expired, _ := sp.at(0)
		s.reclaims.pending += live.bytes + expired.bytes
		s.spaces.forget(space.Name)
	}
	if s.reclaims.name == space.Name {
		s.reclaims.name, s.reclaims.from = "", nil
	}
	return nil
}
