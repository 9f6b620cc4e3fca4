package kvpebble

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/diskfs"
)

// Apply implements store.KV.
func (s *Store) Apply(ctx context.Context, space store.KVSpace, now mayfly.Instant, g store.KVGroup) ([]store.KVResult, error) {
	if err := g.Check(&space); err != nil {
		return nil, err
	}
	if len(g.Ops)+len(g.Watch) == 0 {
		return nil, ctx.Err()
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	if err := s.checkFree(&g); err != nil {
		s.leave()
		return nil, err
	}
	w := &writing{Store: s, durable: s.opts.Sync == Always}
	results, err := w.compose(ctx, &space, now, &g)
	if err != nil {
		w.release()
		s.leave()
		return nil, err
	}
	if w.batch == nil {
		w.release()
		s.leave()
		return results, nil
	}
	if err := w.write(ctx); err != nil {
		return nil, err
	}
	return results, nil
}

// checkFree refuses a group that writes values while less than the floor is free,
// because the write-ahead log must never meet a full disk (trap 21).
func (s *Store) checkFree(g *store.KVGroup) error {
	grows := false
	for i := range g.Ops {
		grows = grows || g.Ops[i].Action == store.KVSet || g.Ops[i].Action == store.KVUpdate
	}
	if !grows {
		return nil
	}
	return s.base.CheckFree(s.opts.Floor, "free some space or enlarge the disk; entries are still served and deleted")
}

// writing is a batch being written, with what its caller holds.
type writing struct {
	*Store
	batch   *pebble.Batch // nil if there is nothing to write
	space   *space
	slots   []slot
	counts  changes // of space; the batch does not have them yet
	held    []uint16
	side    int
	entered bool
	durable bool // write waits until the batch is durable
	visible atomic.Bool
	done    chan error
}

// release gives back the locks and the guard, once.
func (w *writing) release() {
	w.stripes.free(w.held)
	if w.entered {
		w.guard.leave(w.side)
	}
}

// slot is what a group knows of one key.
type slot struct {
	stored []byte // its key in the database
	hash   uint64 // of that
	before store.KVEntry
	size   int64         // of before, which may have expired
	now    store.KVEntry // after the operations so far
	wrote  bool
}

// fewKeys is up to how many operations their keys are compared with each other.
const fewKeys = 32

// compose takes the locks of the group, decides its operations and writes them into a
// batch, with the changes of the counts and of the index of expiries.
func (w *writing) compose(ctx context.Context, space *store.KVSpace, now mayfly.Instant, g *store.KVGroup) ([]store.KVResult, error) {
	keys := make([][]byte, 0, len(g.Ops)+len(g.Watch))
	needed, values := neededValues(g.Ops)
	size := 0
	for i := range g.Ops {
		size += 2 + len(space.Name) + len(g.Ops[i].Key)
	}
	stored := make([]byte, 0, size) // the keys of the operations one after the other
	for i := range g.Ops {
		o := &g.Ops[i]
		at := len(stored)
		stored = append(appendSpace(stored, entryPrefix, space.Name), o.Key...)
		keys = append(keys, stored[at:len(stored):len(stored)])
	}
	for i := range g.Watch {
		keys = append(keys, entryKey(space.Name, g.Watch[i].Key))
	}
	side, err := w.guard.enter(ctx, w.fuse, keys)
	if err != nil {
		return nil, err
	}
	w.side, w.entered = side, true
	w.space = w.spaces.find(space.Name)
	wanted, hashes := make([]uint16, len(keys)), make([]uint64, len(keys))
	for i, key := range keys {
		hashes[i] = w.stripes.hash(key)
		wanted[i] = uint16(hashes[i] % stripeCount)
	}
	if w.held, err = w.stripes.take(ctx, w.fuse, wanted); err != nil {
		return nil, err
	}
	for i := range g.Watch {
		e, _, err := w.read(keys[len(g.Ops)+i], hashes[len(g.Ops)+i], g.Watch[i].Key, nil)
		if err != nil {
			return nil, err
		}
		if !e.At(now).Same(g.Watch[i]) {
			return nil, mayfly.Errorf(mayfly.Conflict, "watched key %q has changed", g.Watch[i].Key)
		}
	}
	version, err := w.versions.take(w.db, len(g.Ops))
	if err != nil {
		return nil, diskfs.InDoubt(err)
	}
	results := make([]store.KVResult, len(g.Ops))
	copied, answered := answer{space: space}, answer{space: space}
	slots := make([]slot, 0, len(g.Ops))
	var index map[string]int // of slots, if there are many
	if len(g.Ops) > fewKeys {
		index = make(map[string]int, len(g.Ops))
	}
	for i := range g.Ops {
		o := &g.Ops[i]
		n, there := index[o.Key]
		if index == nil { // few keys are found sooner without it
			n = slices.IndexFunc(slots, func(s slot) bool { return s.hash == hashes[i] && s.before.Key == o.Key })
			there = n >= 0
		}
		if !there {
			var wants *answer
			if values && (needed == nil || needed[o.Key]) {
				wants = &copied
			}
			before, size, err := w.read(keys[i], hashes[i], o.Key, wants)
			if err != nil {
				return nil, err
			}
			n = len(slots)
			slots = append(slots, slot{stored: keys[i], hash: hashes[i], before: before, size: size, now: before.At(now)})
			if index != nil {
				index[o.Key] = n
			}
		}
		one := &slots[n]
		next, r := o.Do(one.now, now, version+uint64(i)+1)
		if err := answered.add(r.Values()); err != nil {
			return nil, err
		}
		if results[i] = r; r.Done && o.Action != store.KVRead {
			one.now, one.wrote = next, true
			if o.Action == store.KVUpdate { // the caller may change what it gets
				results[i].New.Value = bytes.Clone(next.Value)
			}
		}
	}
	return results, w.fill(space, now, slots)
}

// answer counts the bytes of values that a call copies or answers with.
type answer struct {
	space *store.KVSpace
	size  int
}

// add returns an error if with so many bytes more they are too many.
func (a *answer) add(size int) error {
	a.size += size
	return a.space.CheckAnswer(a.size)
}

// neededValues returns whether operations need the old value of their entry, and of
// which keys, if that is not of all.
func neededValues(ops []store.KVOp) (keys map[string]bool, need bool) {
	all := true
	for i := range ops {
		if ops[i].NeedsValue() {
			need = true
		} else {
			all = false
		}
	}
	if all || !need {
		return nil, need
	}
	keys = map[string]bool{}
	for i := range ops {
		if ops[i].NeedsValue() {
			keys[ops[i].Key] = true
		}
	}
	return keys, need
}

// fill writes the slots that have changed into the batch.
func (w *writing) fill(space *store.KVSpace, now mayfly.Instant, slots []slot) error {
	batch := w.db.NewBatch()
	for i := range slots {
		one := &slots[i]
		if !one.wrote || !one.before.Found && !one.now.Found {
			continue
		}
		if err := one.write(batch, space, now, &w.counts); err != nil {
			return errors.Join(err, batch.Close())
		}
	}
	if batch.Empty() {
		if !w.durable || w.stripes.durable(w.held) {
			return batch.Close()
		}
		w.batch = batch // the caller must not learn of a write that a crash could still undo
		return nil
	}
	w.space = w.spaces.get(space.Name)
	if err := w.space.take(w.counts, space.Quota, now); err != nil {
		return errors.Join(err, batch.Close())
	}
	w.batch, w.slots = batch, slots
	return nil
}

// write writes one changed entry, and notes the change of the counts.
func (one *slot) write(batch *pebble.Batch, space *store.KVSpace, now mayfly.Instant, counts *changes) error {
	if one.before.Found {
		counts.add(periodEnd(one.before.Written, one.before.Expiry), count{-1, -one.size})
	}
	was, is := one.before.At(now).Expiry, one.now.Expiry
	if space.Events && was != is && was != 0 {
		if err := batch.Delete(appendDueKey(nil, space.Name, was, one.now.Key), nil); err != nil {
			return err
		}
	}
	if space.Events && was != is && is != 0 {
		if err := batch.Set(appendDueKey(nil, space.Name, is, one.now.Key), nil, nil); err != nil {
			return err
		}
	}
	if !one.now.Found {
		return batch.Delete(one.stored, nil)
	}
	counts.add(periodEnd(one.now.Written, one.now.Expiry), count{1, one.now.Size()})
	op := batch.SetDeferred(len(one.stored), entryHead+len(one.now.Value))
	copy(op.Key, one.stored)
	putEntry(op.Value, &one.now)
	return op.Finish()
}

// read reads a stored entry, expired or not, and its size; with a copy of its value if
// it is wanted and fits. The caller holds the lock of the key.
func (w *writing) read(stored []byte, hash uint64, key string, wants *answer) (store.KVEntry, int64, error) {
	var buf [256]byte
	if w.space != nil {
		if row, _, _ := w.rows.get(buf[:0], hash, w.space.id, key); row != nil {
			return readRow(key, row, wants)
		}
	}
	b, closer, err := w.db.Get(stored)
	if errors.Is(err, pebble.ErrNotFound) {
		return store.KVEntry{Key: key}, 0, nil
	}
	if err != nil {
		return store.KVEntry{}, 0, readError("read", err)
	}
	e, size, err := readRow(key, b, wants)
	return e, size, readError("read", errors.Join(err, closer.Close()))
}

func readRow(key string, b []byte, wants *answer) (store.KVEntry, int64, error) {
	e, err := parseEntry(key, b)
	size := e.Size()
	if wants == nil || err != nil {
		e.Value = nil
		return e, size, err
	}
	if err = wants.add(len(e.Value)); err == nil {
		e.Value = append([]byte{}, e.Value...)
	}
	return e, size, err
}

// note notes the entries that the batch has changed.
func (w *writing) note() {
	for i := range w.slots {
		if one := &w.slots[i]; one.wrote {
			w.rows.note(one.hash, w.space.id, &one.now, one.before.Key)
		}
	}
}

// syncAll makes durable what EverySec has left.
func (s *Store) syncAll(context.Context) error {
	if !s.dirty.Swap(false) {
		return nil
	}
	return s.db.LogData(nil, pebble.Sync)
}
