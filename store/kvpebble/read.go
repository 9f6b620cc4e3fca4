package kvpebble

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Get implements store.KV.
func (s *Store) Get(ctx context.Context, space store.KVSpace, now mayfly.Instant, keys ...string) ([]store.KVEntry, error) {
	if err := space.Check(keys...); err != nil {
		return nil, err
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	entries := make([]store.KVEntry, len(keys))
	done, err := s.getRows(entries, &space, now, keys)
	switch {
	case err != nil:
		return nil, readError("get", err)
	case done:
		return entries, nil
	}
	all := make([]lookup, len(keys))
	for i := range all {
		all[i].at = i
	}
	answered := answer{space: &space}
	return entries, readError("get", s.getSorted(entries, &space, now, keys, all, &answered, nil))
}

// lookup is a key that is not in the cache.
type lookup struct {
	at      int // in the keys of the call
	hash    uint64
	changes uint64 // of its part of the cache
	quiet   bool   // no writer was changing entries of that
}

// fewLookups is up to how many look-ups cost less one by one than with an iterator.
const fewLookups = 4

// getRows reads entries from the cache and the rest from the database. It is done if no
// writer has changed a stripe of the keys from when its first entry was read until the
// last was: then all are of one point in the order of groups.
func (s *Store) getRows(entries []store.KVEntry, space *store.KVSpace, now mayfly.Instant, keys []string) (done bool, err error) {
	sp := s.spaces.find(space.Name)
	if sp == nil {
		return false, nil
	}
	type version struct {
		part    *rowPart
		changes uint64
	}
	var few [16]version
	versions := few[:0]
	var fewMissing [fewLookups]lookup
	missing := fewMissing[:0]
	var buf [256]byte
	stored := appendSpace(buf[:0], entryPrefix, space.Name)
	answered := answer{space: space}
	for i, key := range keys {
		stored = append(stored[:2+len(space.Name)], key...)
		hash := s.stripes.hash(stored)
		row, changes, quiet := s.rows.get(nil, hash, sp.id, key)
		switch {
		case row != nil:
			e, err := parseEntry(key, row)
			if err != nil {
				return false, err
			}
			if entries[i] = e.At(now); entries[i].Found {
				err = answered.add(len(e.Value))
			}
			if err != nil {
				return false, err
			}
		case !quiet && len(keys) > 1:
			return false, nil
		default:
			missing = append(missing, lookup{i, hash, changes, quiet})
		}
		versions = append(versions, version{s.rows.part(hash), changes})
	}
	fill := func(l lookup, b []byte) {
		if l.quiet {
			s.rows.fill(l.hash, sp.id, keys[l.at], b, l.changes)
		}
	}
	if len(missing) > fewLookups {
		err = s.getSorted(entries, space, now, keys, missing, &answered, fill)
	} else {
		for _, l := range missing {
			stored = append(stored[:2+len(space.Name)], keys[l.at]...)
			err = errors.Join(err, s.getEntry(&entries[l.at], stored, now, keys[l.at], l, &answered, fill))
		}
	}
	if err != nil {
		return false, err
	}
	if len(keys) > 1 {
		for _, v := range versions {
			if v.part.changes.Load() != v.changes {
				return false, nil
			}
		}
	}
	return true, nil
}

// getSorted reads entries from the database as they are at now, all at one point in the
// order of groups. It looks the keys up in their order, so that a block is read once.
func (s *Store) getSorted(entries []store.KVEntry, space *store.KVSpace, now mayfly.Instant, keys []string, lookups []lookup, answered *answer, fill func(lookup, []byte)) (err error) {
	slices.SortFunc(lookups, func(a, b lookup) int { return strings.Compare(keys[a.at], keys[b.at]) })
	stored := appendSpace(nil, entryPrefix, space.Name)
	head := len(stored)
	iter, err := s.db.NewIter(&pebble.IterOptions{LowerBound: stored, UpperBound: after(stored)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, iter.Close()) }()
	for _, l := range lookups {
		key := keys[l.at]
		entries[l.at] = store.KVEntry{Key: key}
		stored = append(stored[:head:head], key...)
		if !iter.SeekPrefixGE(stored) { // the whole key is the prefix; Close returns an error
			continue
		}
		b, err := iter.ValueAndErr()
		if err == nil {
			err = use(&entries[l.at], b, now, key, l, answered, fill)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// getEntry reads one entry from the database as it is at now.
func (s *Store) getEntry(e *store.KVEntry, stored []byte, now mayfly.Instant, key string, l lookup, answered *answer, fill func(lookup, []byte)) error {
	b, closer, err := s.db.Get(stored)
	if errors.Is(err, pebble.ErrNotFound) {
		*e = store.KVEntry{Key: key}
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(use(e, b, now, key, l, answered, fill), closer.Close())
}

// use makes e of what is stored, as it is at now, if it fits into the answer, and passes
// what is stored to fill if it has not expired.
func use(e *store.KVEntry, b []byte, now mayfly.Instant, key string, l lookup, answered *answer, fill func(lookup, []byte)) error {
	one, err := parseEntry(key, b)
	if one = one.At(now); one.Found && err == nil {
		err = answered.add(len(one.Value))
	}
	if one.Found && err == nil {
		one.Value = append([]byte{}, one.Value...)
		if fill != nil {
			fill(l, b)
		}
	}
	*e = one
	return err
}

// scanned is how many bytes of entries a page of Scan reads at most, before it
// returns what it has.
const scanned = 4 * mebibyte

// Scan implements store.KV, in the order of keys. The position is the least key that
// the page may hold.
func (s *Store) Scan(ctx context.Context, space store.KVSpace, now mayfly.Instant, prefix, position string, limit int) ([]store.KVEntry, string, error) {
	if err := errors.Join(space.Check(prefix), checkLimit(limit)); err != nil {
		return nil, "", err
	}
	if err := s.enter(ctx); err != nil {
		return nil, "", err
	}
	defer s.leave()
	head := appendSpace(nil, entryPrefix, space.Name)
	lower, upper := append(head[:len(head):len(head)], max(prefix, position)...), after(entryKey(space.Name, prefix))
	if string(lower) >= string(upper) {
		return nil, "", nil
	}
	iter, err := s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return nil, "", readError("scan", err)
	}
	var page []store.KVEntry
	size := 0
	for ok := iter.First(); ok; ok = iter.Next() {
		key := string(iter.Key()[len(head):])
		if len(page) == limit || size > scanned {
			return page, key, readError("scan", iter.Close())
		}
		value, err := iter.ValueAndErr()
		if err != nil {
			return nil, "", errors.Join(readError("scan", err), iter.Close())
		}
		size += len(key) + len(value)
		e, err := parseEntry(key, value)
		if err != nil {
			return nil, "", errors.Join(err, iter.Close())
		}
		if e = e.At(now); e.Found {
			e.Value = nil
			page = append(page, e)
		}
	}
	return page, "", readError("scan", iter.Close())
}

func checkLimit(limit int) error {
	if limit < 1 {
		return mayfly.Errorf(mayfly.Invalid, "the limit is %d; it must be positive", limit)
	}
	return nil
}

// Due implements store.KV.
func (s *Store) Due(ctx context.Context, space store.KVSpace, now mayfly.Instant, position store.KVDue, limit int) ([]store.KVDue, error) {
	if err := errors.Join(space.Check(position.Key), checkLimit(limit)); err != nil {
		return nil, err
	}
	if now < 0 || now <= position.At-1 {
		return nil, nil
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	lower := appendSpace(nil, duePrefix, space.Name)
	head := len(lower)
	if (position != store.KVDue{}) {
		lower = next(appendDueKey(nil, space.Name, position.At, position.Key))
	}
	upper := after(appendDueKey(nil, space.Name, min(now, math.MaxInt64-1), ""))
	iter, err := s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return nil, readError("due", err)
	}
	var due []store.KVDue
	for ok := iter.First(); ok && len(due) < limit; ok = iter.Next() {
		key := iter.Key()[head:]
		due = append(due, store.KVDue{At: mayfly.Instant(binary.BigEndian.Uint64(key)), Key: strings.Clone(string(key[8:]))})
	}
	return due, readError("due", iter.Close())
}

// Stats implements store.KV. It counts an entry until the period has ended in which it
// expired.
func (s *Store) Stats(ctx context.Context, space store.KVSpace, now mayfly.Instant) (store.KVStats, error) {
	if err := space.Check(); err != nil {
		return store.KVStats{}, err
	}
	if err := s.enter(ctx); err != nil {
		return store.KVStats{}, err
	}
	defer s.leave()
	sp := s.spaces.find(space.Name)
	if sp == nil {
		return store.KVStats{}, nil
	}
	live, _, _ := sp.at(now)
	return store.KVStats{Keys: live.keys, Bytes: live.bytes}, nil
}

// Usage implements store.KV.
func (s *Store) Usage(ctx context.Context, now mayfly.Instant) (store.KVUsage, error) {
	if err := s.enter(ctx); err != nil {
		return store.KVUsage{}, err
	}
	defer s.leave()
	u := store.KVUsage{Disk: int64(s.db.Metrics().DiskSpaceUsage()), Sync: s.opts.Sync.String()}
	for _, sp := range s.spaces.list() {
		live, expired, oldest := sp.at(now)
		u.Live, u.Expired = u.Live+live.bytes, u.Expired+expired.bytes
		if oldest != 0 && (u.Oldest == 0 || oldest < u.Oldest) {
			u.Oldest = oldest
		}
		if due := sp.due(now); due != 0 && (u.Due == 0 || due < u.Due) {
			u.Due = due
		}
	}
	return u, nil
}

// Flushes returns how often a memtable was flushed since the database was opened.
func (s *Store) Flushes() int64 { return s.db.Metrics().Flush.Count }
