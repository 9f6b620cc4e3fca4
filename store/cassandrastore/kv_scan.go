package cassandrastore

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/conn"
	"github.com/mayflyhq/mayfly/store/loop"
)

const (
	// scanSlots is how many slots one page of a scan reads, at once.
	scanSlots = 32
	// scanRows is how many rows of a slot one page reads at most.
	scanRows = 1000
	// defaultStatsAge is how old the statistics of a namespace may be.
	defaultStatsAge = time.Minute
)

// list adds a slot to the index of its namespace, once in a process. A slot is listed
// before its first row is written, so that scans and drops find it.
func (s *Store) list(ctx context.Context, p slotPlace) error {
	known, at, bit := s.keyspace.of(p.space), p.slot/8, byte(1)<<(p.slot%8)
	known.mu.Lock()
	there := known.listed[at]&bit != 0
	known.mu.Unlock()
	if there {
		return nil
	}
	index := p.index()
	if err := s.query(writePlain, kvList, s.stamps.next(), index.space, index.slot, slotKey(p.slot)).ExecContext(ctx); err != nil {
		return readError("list a slot", err) // no entry was written
	}
	known.mu.Lock()
	known.listed[at] |= bit
	known.mu.Unlock()
	return nil
}

func slotKey(slot int16) []byte { return binary.BigEndian.AppendUint16(nil, uint16(slot)) }

// slots returns at most limit listed slots, from the given one on, in order.
func (s *Store) slots(ctx context.Context, space []byte, from uint16, limit int) (found []int16, err error) {
	iter := s.query(readRows, kvListed, space, kvIndex, slotKey(int16(from)), limit).IterContext(ctx)
	for key := []byte(nil); iter.Scan(&key); {
		if len(key) != 2 || binary.BigEndian.Uint16(key) >= store.KVSlots {
			return nil, errors.Join(mayfly.Errorf(mayfly.Corrupt, "the index of slots has the key %x", key), iter.Close())
		}
		found = append(found, int16(binary.BigEndian.Uint16(key)))
	}
	return found, iter.Close()
}

// Scan implements store.KV: slot by slot, and by key in a slot. A position is a slot and
// the least key of it that the page may have.
func (s kv) Scan(ctx context.Context, space store.KVSpace, now mayfly.Instant, prefix, after string, limit int) ([]store.KVEntry, string, error) {
	if err := errors.Join(space.Check(prefix), checkKVLimit(limit), begin(ctx)); err != nil {
		return nil, "", err
	}
	first, least := uint16(0), ""
	if after != "" {
		if len(after) < 2 || binary.BigEndian.Uint16([]byte(after)) >= store.KVSlots {
			return nil, "", mayfly.Errorf(mayfly.Invalid, "%q is no position of a scan", after)
		}
		first, least = binary.BigEndian.Uint16([]byte(after)), after[2:]
	}
	slots, err := s.slots(ctx, kvSpace(&space), first, scanSlots)
	if err != nil {
		return nil, "", readError("scan keys", err)
	}
	most := min(limit+1, scanRows)
	pages := make([][]store.KVEntry, len(slots))
	cut := make([]string, len(slots)) // where the rest of a slot begins; "" if there is none
	err = each(ctx, len(slots), func(ctx context.Context, i int) (err error) {
		from := prefix
		if slots[i] == int16(first) {
			from = max(prefix, least)
		}
		pages[i], cut[i], err = s.scanSlot(ctx, slotPlace{kvSpace(&space), slots[i]}, now, prefix, from, most)
		return err
	})
	if err != nil {
		return nil, "", readError("scan keys", err)
	}
	var page []store.KVEntry
	for i, entries := range pages {
		for _, e := range entries {
			if len(page) == limit {
				return page, string(slotKey(slots[i])) + e.Key, nil
			}
			page = append(page, e)
		}
		if cut[i] != "" {
			return page, string(slotKey(slots[i])) + cut[i], nil
		}
	}
	if len(slots) < scanSlots || slots[len(slots)-1] == store.KVSlots-1 {
		return page, "", nil
	}
	return page, string(slotKey(slots[len(slots)-1] + 1)), nil
}

// scanSlot reads most rows of a slot, and returns those that are entries at now, and the
// key from which to go on if there may be more.
func (s *Store) scanSlot(ctx context.Context, p slotPlace, now mayfly.Instant, prefix, from string, most int) (page []store.KVEntry, rest string, err error) {
	iter := s.query(readRows, kvRange, p.space, p.slot, []byte(kvEntry+from), behind(kvEntry+prefix), most).IterContext(ctx)
	rows := 0
	for key, meta := []byte(nil), []byte(nil); iter.Scan(&key, &meta); rows++ {
		rest = string(key[1:]) + "\x00"
		if meta == nil {
			continue
		}
		m, err := readKVMeta(meta)
		if err != nil {
			return nil, "", errors.Join(err, iter.Close())
		}
		if e := m.entry(string(key[1:])).At(now); e.Found {
			page = append(page, e)
		}
	}
	if rows < most {
		rest = ""
	}
	return page, rest, iter.Close()
}

// behind returns the least key that is greater than all that begin with prefix, which
// does not begin with 0xff.
func behind(prefix string) []byte {
	b := []byte(prefix)
	for b[len(b)-1] == 0xff {
		b = b[:len(b)-1]
	}
	b[len(b)-1]++
	return b
}

// Stats implements store.KV: an estimate. When it is older than half of Options.StatsAge
// it is counted again in the background; a caller waits for that if it is older than
// Options.StatsAge.
func (s kv) Stats(ctx context.Context, space store.KVSpace, now mayfly.Instant) (store.KVStats, error) {
	if err := errors.Join(space.Check(), begin(ctx)); err != nil {
		return store.KVStats{}, err
	}
	known := s.keyspace.of(kvSpace(&space))
	stats, done := s.renewStats(ctx, &space, known, now)
	if done == nil {
		return stats, nil
	}
	select {
	case <-done:
		return known.last()
	case <-ctx.Done():
		return store.KVStats{}, readError("count keys", ctx.Err())
	}
}

const (
	// countWithin is how long a count may take.
	countWithin = time.Hour
	// countWait is how long a write waits for a count. Then it is held against the last
	// one, whatever its age: to count many millions of keys takes minutes.
	countWait = 2 * time.Second
)

// used returns about how many bytes a namespace has, for its quota: 0 while the first
// count takes longer than countWait.
func (s *Store) used(ctx context.Context, space *store.KVSpace, now mayfly.Instant) (int64, error) {
	known := s.keyspace.of(kvSpace(space))
	stats, done := s.renewStats(ctx, space, known, now)
	if done == nil {
		return stats.Bytes, nil
	}
	wait := time.NewTimer(countWait)
	defer wait.Stop()
	select {
	case <-done:
		stats, err := known.last()
		return stats.Bytes, err
	case <-wait.C:
		return stats.Bytes, nil
	case <-ctx.Done():
		return 0, readError("count keys", ctx.Err())
	}
}

// renewStats returns the last count, and starts another one if that is due. done is
// closed when the count has ended for which the caller has to wait; nil if the last one
// is new enough.
func (s *Store) renewStats(ctx context.Context, space *store.KVSpace, known *kvKnown, now mayfly.Instant) (stats store.KVStats, done <-chan struct{}) {
	known.mu.Lock()
	defer known.mu.Unlock()
	renew, usable := known.fresh(s.opts.Now(), s.opts.StatsAge)
	if renew && known.counting == nil {
		counting := make(chan struct{})
		known.counting = counting
		space := *space
		go func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), countWithin)
			defer cancel()
			total, err := s.count(ctx, &space, now)
			known.mu.Lock()
			defer known.mu.Unlock()
			if known.counting, known.failed = nil, err; err == nil {
				// The age counts from the end: a count that takes longer than that is of use too.
				known.stats, known.counted = total, s.opts.Now()
			}
			close(counting)
		}()
	}
	if usable {
		return known.stats, nil
	}
	return known.stats, known.counting
}

// fresh reports whether the last count is to be renewed, and whether it is usable until
// then.
func (k *kvKnown) fresh(now mayfly.Instant, age time.Duration) (renew, usable bool) {
	since := now.Sub(k.counted)
	if k.counted == 0 || since < 0 || since >= age {
		return true, false
	}
	return since > age/2, true
}

// last returns the last count. Errors: that of a failed one if there was none before.
func (k *kvKnown) last() (store.KVStats, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.counted == 0 {
		return store.KVStats{}, k.failed
	}
	return k.stats, nil
}

// count counts the entries of a namespace: it reads all of it but the values.
func (s *Store) count(ctx context.Context, space *store.KVSpace, now mayfly.Instant) (total store.KVStats, err error) {
	slots, err := s.slots(ctx, kvSpace(space), 0, store.KVSlots)
	counted := make([]store.KVStats, len(slots))
	if err == nil {
		err = each(ctx, len(slots), func(ctx context.Context, i int) error {
			iter := s.query(readRows, kvAll, kvSpace(space), slots[i]).IterContext(ctx)
			for key, meta := []byte(nil), []byte(nil); iter.Scan(&key, &meta); {
				if meta == nil {
					continue
				}
				m, err := readKVMeta(meta)
				if err != nil {
					return errors.Join(err, iter.Close())
				}
				if m.entry("").At(now).Found {
					counted[i].Keys++
					counted[i].Bytes += int64(len(key)-1) + int64(m.size)
				}
			}
			return iter.Close()
		})
	}
	for _, one := range counted {
		total.Keys, total.Bytes = total.Keys+one.Keys, total.Bytes+one.Bytes
	}
	if err != nil {
		return store.KVStats{}, readError("count keys", err)
	}
	return total, nil
}

// Drop implements store.KV: slot by slot. The index lists a dropped slot for as long as a
// deleted entry is kept: another process that knows the slot as listed may write to it
// again, and the next Drop must find that.
func (s kv) Drop(ctx context.Context, space store.KVSpace) error {
	if err := errors.Join(space.Check(), begin(ctx)); err != nil {
		return err
	}
	name := kvSpace(&space)
	slots, err := s.slots(ctx, name, 0, store.KVSlots)
	if err != nil {
		return readError("drop keys", err)
	}
	err = each(ctx, len(slots), func(ctx context.Context, i int) error {
		p := slotPlace{name, slots[i]}
		drop := s.dropAgreed
		if space.LastWriteWins {
			drop = s.dropPlain
		}
		if err := drop(ctx, p); err != nil {
			return err
		}
		index := p.index()
		return s.query(writePlain, kvUnlist, s.stamps.next(), int(kvDeletedFor/time.Second), index.space, index.slot, slotKey(p.slot)).ExecContext(ctx)
	})
	s.keyspace.forget(name)
	if err != nil {
		return writeError(change, "drop keys", err)
	}
	return nil
}

// dropPlain removes a slot of a last-write-wins namespace, also what a node whose clock
// is ahead has written.
func (s *Store) dropPlain(ctx context.Context, p slotPlace) error {
	var newest *int64
	if err := s.query(readRows, kvNewest, p.space, p.slot).ScanContext(ctx, &newest); err != nil {
		return err
	}
	if newest != nil {
		s.keyspace.stamps.see(*newest)
	}
	return s.query(writePlain, kvPlainDrop, s.keyspace.stamps.next(), p.space, p.slot).ExecContext(ctx)
}

// dropAgreed removes the entries of a slot of a compare-and-set namespace. Its head
// stays as long as a deleted entry, so that a group that was decided before fails.
func (s *Store) dropAgreed(ctx context.Context, p slotPlace) error {
	leave, err := s.keyspace.lanes.enter(ctx, p.lane())
	if err != nil {
		return err
	}
	defer leave()
	for n := 1; n <= kvAttempts; n++ {
		state, err := s.readSlot(ctx, settleDoubt, p, nil, false)
		if err != nil || state.head == nil {
			return err
		}
		head := kvMeta{nonce: newKVNonce(), version: state.version + 1}
		b := s.batch(change)
		add(b, change, kvEnd, int(kvDeletedFor/time.Second), head.bytes(), p.space, p.slot, state.head)
		add(b, change, kvClear, p.space, p.slot)
		done, err := applied(b.IterContext(ctx))
		if err != nil || done {
			return err
		}
		if err := loop.Rest(ctx, conn.Backoff{First: kvPauseFirst, Longest: kvPauseLast}.After(n)); err != nil {
			return err
		}
	}
	return mayfly.Errorf(mayfly.Unavailable, "slot %d is still being written", p.slot).WithHint("try again")
}
