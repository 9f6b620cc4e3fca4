package cassandrastore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/conn"
	"github.com/mayflyhq/mayfly/store/loop"
)

// kvAttempts is how often a group is decided again because other processes have written
// its slot; the pauses in between are short.
const (
	kvAttempts   = 40
	kvPauseFirst = 2 * time.Millisecond
	kvPauseLast  = 100 * time.Millisecond
)

// Apply implements store.KV. Errors beside those of the contract: TooLarge (more keys or
// bytes than one conditional batch holds).
func (s kv) Apply(ctx context.Context, space store.KVSpace, now mayfly.Instant, g store.KVGroup) ([]store.KVResult, error) {
	if err := g.Check(&space); err != nil {
		return nil, err
	}
	if err := g.CheckCluster(&space); err != nil {
		return nil, err
	}
	keys := g.Keys()
	slot, err := store.KVOneSlot(keys...)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(begin(ctx), tooMany(len(keys))); err != nil || len(keys) == 0 {
		return nil, err
	}
	t := kvTurn{Store: s.Store, place: placeOfSlot(&space, slot), space: &space, begun: now, elapsed: loop.Stopwatch(), now: now, group: &g, keys: keys}
	if space.Quota > 0 && grows(g.Ops) {
		if t.used, err = s.used(ctx, &space, now); err != nil {
			return nil, err
		}
	}
	if space.LastWriteWins {
		return t.plain(ctx)
	}
	return t.agreed(ctx)
}

// grows reports whether operations may need more space.
func grows(ops []store.KVOp) bool {
	for i := range ops {
		if ops[i].Action == store.KVSet || ops[i].Action == store.KVUpdate {
			return true
		}
	}
	return false
}

// kvTurn is a group being applied to its slot.
type kvTurn struct {
	*Store
	place slotPlace
	space *store.KVSpace
	group *store.KVGroup
	keys  []string
	used  int64 // bytes of the namespace, about

	begun   mayfly.Instant // when the group came
	elapsed func() time.Duration
	now     mayfly.Instant // at which it is decided
}

// waited moves now on by the time that the group has waited, if that is long: an entry
// that has expired meanwhile is absent for it.
func (t *kvTurn) waited() {
	if waited := t.elapsed(); waited > t.opts.kvFresh {
		t.now = t.begun.Add(waited)
	}
}

// kvWrite is a new row of a slot.
type kvWrite struct {
	key   string
	meta  kvMeta
	value []byte
}

// decide returns the results of the group on the rows of its slot, and the rows that it
// changes. versions are those of the operations.
func (t *kvTurn) decide(state slotState, nonce [8]byte, version func(op int) uint64) ([]store.KVResult, []kvWrite, error) {
	for i := range t.group.Watch {
		if w := &t.group.Watch[i]; !state.at(w.Key, t.now).Same(*w) {
			return nil, nil, mayfly.Errorf(mayfly.Conflict, "watched key %q has changed", w.Key)
		}
	}
	results := make([]store.KVResult, len(t.group.Ops))
	after := make(map[string]store.KVEntry, len(t.keys))
	last := make(map[string]uint64, len(t.keys)) // version of the last operation that wrote
	answered := 0                                // bytes of values
	for i := range t.group.Ops {
		o := &t.group.Ops[i]
		old, again := after[o.Key]
		if !again {
			old = state.at(o.Key, t.now)
		}
		next, r := o.Do(old, t.now, version(i))
		answered += r.Values()
		if err := t.space.CheckAnswer(answered); err != nil {
			return nil, nil, err
		}
		if results[i] = r; r.Done && o.Action != store.KVRead {
			next.Key = o.Key
			after[o.Key], last[o.Key] = next, version(i)
			if o.Action == store.KVUpdate { // the caller may change what it gets
				results[i].New.Value = bytes.Clone(next.Value)
			}
		}
	}
	var writes []kvWrite
	var size, growth int64
	for _, key := range t.keys {
		next, changed := after[key]
		before, there := state.rows[key]
		if !changed || !next.Found && !t.space.LastWriteWins && (!there || before.deleted) {
			continue
		}
		meta := kvMeta{nonce: nonce, version: last[key], written: t.now, expiry: next.Expiry, size: uint32(len(next.Value))}
		if !next.Found {
			meta = meta.hiding(before.kvMeta)
		}
		writes = append(writes, kvWrite{key, meta, next.Value})
		size += int64(len(key) + len(next.Value))
		if next.Found {
			growth += int64(len(key) + len(next.Value))
		}
		if before.entry(key).At(t.now).Found && there {
			growth -= int64(len(key)) + int64(before.size)
		}
	}
	switch {
	case size > kvGroupBytes:
		return nil, nil, mayfly.Errorf(mayfly.TooLarge, "the group writes %d bytes; on a cluster the most are %d", size, kvGroupBytes).WithHint("send it in parts, or smaller values")
	case t.space.Quota > 0 && growth > 0 && t.used+growth > t.space.Quota:
		return nil, nil, mayfly.Errorf(mayfly.Full, "the namespace would have about %d bytes, its quota is %d; delete entries or raise the quota", t.used+growth, t.space.Quota)
	}
	return results, writes, nil
}

// agreed applies the group to a compare-and-set namespace: it reads the slot, decides,
// and writes on condition that the slot has not changed. A group that changes nothing is
// decided at SERIAL, so that no earlier write of unknown outcome comes after it.
func (t *kvTurn) agreed(ctx context.Context) ([]store.KVResult, error) {
	leave, err := t.keyspace.lanes.enter(ctx, t.place.lane())
	if err != nil {
		return nil, err
	}
	defer leave()
	t.waited()
	values := false // whether a result or a new value needs an old value
	for i := range t.group.Ops {
		values = values || t.group.Ops[i].NeedsValue()
	}
	if err := t.checkSizes(ctx, t.place, t.space, t.group.Ops); err != nil {
		return nil, err
	}
	level := readRows
	for n := 1; n <= kvAttempts; n++ {
		state, err := t.readSlot(ctx, level, t.place, t.keys, values)
		if err != nil {
			return nil, readError("apply to keys", err)
		}
		nonce := newKVNonce()
		results, writes, err := t.decide(state, nonce, func(op int) uint64 { return state.version + uint64(op) + 1 })
		if err != nil {
			return nil, err
		}
		if len(writes) == 0 {
			if level == settleDoubt {
				return results, nil
			}
			level = settleDoubt
			continue
		}
		if err := t.list(ctx, t.place); err != nil {
			return nil, err
		}
		head := kvMeta{nonce: nonce, version: state.version + uint64(len(t.group.Ops)), written: t.now}
		switch outcome, err := t.write(ctx, state.head, head, writes); {
		case err != nil:
			return nil, err
		case outcome == landed:
			return results, nil
		}
		if err := loop.Rest(ctx, conn.Backoff{First: kvPauseFirst, Longest: kvPauseLast}.After(n)); err != nil {
			return nil, readError("apply to keys", err)
		}
		t.waited()
	}
	return nil, mayfly.Errorf(mayfly.Unavailable, "cassandra: slot %d is written by too many at once", t.place.slot).WithHint("try again")
}

// write writes the rows and the new head of the slot if its head is before, all or
// nothing, and returns landed or notLanded. Errors: Unavailable (nothing was written),
// Unknown.
func (t *kvTurn) write(ctx context.Context, before []byte, head kvMeta, writes []kvWrite) (settled, error) {
	yes, err := t.replaceHead(ctx, before, head, writes)
	switch {
	case err == nil && yes:
		return landed, nil
	case err == nil:
		return notLanded, nil
	case unsent(change, err):
		return notLanded, writeError(change, "apply to keys", err)
	}
	outcome, settleErr := settleSlot(before, head, writes, lostBatch{
		readBack: func() (slotState, error) { return t.readSlotBack(ctx, writes) },
		replaceHead: func(head kvMeta) error {
			_, err := t.replaceHead(ctx, before, head, nil)
			return err
		},
	})
	if outcome != inDoubt {
		return outcome, nil
	}
	return inDoubt, writeError(change, "apply to keys", errors.Join(err, settleErr))
}

// replaceHead writes a new head of the slot, and rows with it, if the head is before.
func (t *kvTurn) replaceHead(ctx context.Context, before []byte, head kvMeta, writes []kvWrite) (bool, error) {
	b, p := t.batch(change), t.place
	if before == nil {
		add(b, change, kvBegin, head.bytes(), p.space, p.slot)
	} else {
		add(b, change, kvReplace, head.bytes(), p.space, p.slot, before)
	}
	for _, w := range writes {
		add(b, change, kvPut, w.meta.ttl(t.now), w.meta.bytes(), w.cell(), p.space, p.slot, []byte(kvEntry+w.key))
	}
	return applied(b.IterContext(ctx))
}

// applied reads the response to a conditional batch.
func applied(iter *gocql.Iter) (bool, error) {
	column := map[string]any{}
	there := iter.MapScan(column)
	if err := iter.Close(); err != nil {
		return false, err
	}
	yes, is := column["[applied]"].(bool)
	if !there || !is {
		return false, fmt.Errorf("a conditional batch has no answer")
	}
	return yes, nil
}

// cell returns the bytes of the value.
func (w kvWrite) cell() []byte {
	return append(bytes.Clone(w.meta.nonce[:]), w.value...)
}

// readSlotBack reads the rows of a batch whose answer was lost, as readBack does.
func (t *kvTurn) readSlotBack(ctx context.Context, writes []kvWrite) (now slotState, err error) {
	keys := make([]string, len(writes))
	for i, w := range writes {
		keys[i] = w.key
	}
	for n := 1; n <= readBacks; n++ {
		if now, err = t.readSlot(ctx, settleDoubt, t.place, keys, false); err == nil {
			return now, nil
		}
		if err := loop.Rest(ctx, conn.Backoff{First: readBackFirst, Longest: readBackLast}.After(n)); err != nil {
			return now, err
		}
	}
	return now, err
}

// lostBatch has the requests that find out what became of a batch whose answer was lost.
type lostBatch struct {
	readBack    func() (slotState, error) // reads the head and the rows of the batch at SERIAL
	replaceHead func(head kvMeta) error   // writes a head on the condition of the batch
}

// settleSlot returns what became of a batch whose answer was lost. As long as the head of
// the slot is the one that the batch replaces, the batch may still be on its way in a server
// that hangs: another head is written in its place first, and no server does the batch any
// more. An error says why it is in doubt.
func settleSlot(before []byte, head kvMeta, writes []kvWrite, lost lostBatch) (settled, error) {
	var failed error
	for range readBacks {
		now, err := lost.readBack()
		if err != nil {
			return inDoubt, err
		}
		if !bytes.Equal(now.head, before) {
			return settleWrites(head, writes, now), failed
		}
		failed = lost.replaceHead(kvMeta{nonce: newKVNonce(), version: now.version, written: head.written})
	}
	return inDoubt, failed
}

// settleWrites decides from the rows whether a batch was applied that cannot be any more.
// The head and every row of a batch have its nonce, and the versions of a slot only grow: a
// row that is older than the one of the batch shows that the batch was not applied.
func settleWrites(head kvMeta, writes []kvWrite, now slotState) settled {
	if bytes.Equal(now.head, head.bytes()) {
		return landed
	}
	for _, w := range writes {
		row, there := now.rows[w.key]
		switch {
		case there && row.nonce == w.meta.nonce:
			return landed
		case !there || row.version < w.meta.version:
			return notLanded
		}
	}
	return inDoubt
}

// plain applies the group to a last-write-wins namespace. The timestamps are ours, so
// that a write that is sent again is the same write. A deletion is also written if there
// is nothing to delete: an earlier write of unknown outcome must not come after it.
func (t *kvTurn) plain(ctx context.Context) ([]store.KVResult, error) {
	var needed []string
	values, seen := false, map[string]bool{}
	for i := range t.group.Ops {
		o := &t.group.Ops[i]
		values = values || o.Action == store.KVRead
		if (o.Action != store.KVSet || o.Expiry != 0 && o.Expiry <= t.now) && !seen[o.Key] {
			seen[o.Key] = true
			needed = append(needed, o.Key)
		}
	}
	var state slotState
	var err error
	if err := t.checkSizes(ctx, t.place, t.space, t.group.Ops); err != nil {
		return nil, err
	}
	if len(needed) > 0 {
		if state, err = t.readSlot(ctx, readRows, t.place, needed, values); err != nil {
			return nil, readError("apply to keys", err)
		}
		t.seen(t.space, state)
	}
	versions := make([]uint64, len(t.group.Ops))
	for i := range versions {
		versions[i] = uint64(t.keyspace.stamps.next())
	}
	results, writes, err := t.decide(state, newKVNonce(), func(op int) uint64 { return versions[op] })
	if err != nil {
		return nil, err
	}
	for i := range t.group.Ops { // what was not there is deleted all the same
		if o := &t.group.Ops[i]; o.Action == store.KVDelete && !results[i].Done {
			writes = t.alsoDelete(writes, state, o.Key, versions[i])
		}
	}
	if len(writes) == 0 {
		return results, nil
	}
	if err := t.list(ctx, t.place); err != nil {
		return nil, err
	}
	b := t.batch(writePlain)
	for _, w := range writes {
		add(b, writePlain, kvPlainPut, int64(w.meta.version), w.meta.ttl(t.now), w.meta.bytes(), w.cell(), t.place.space, t.place.slot, []byte(kvEntry+w.key))
	}
	if err := b.ExecContext(ctx); err != nil {
		return nil, writeError(writePlain, "apply to keys", err)
	}
	return results, nil
}

// alsoDelete adds the deletion of a key that no write is of.
func (t *kvTurn) alsoDelete(writes []kvWrite, state slotState, key string, version uint64) []kvWrite {
	for _, w := range writes {
		if w.key == key {
			return writes
		}
	}
	meta := kvMeta{nonce: newKVNonce(), version: version, written: t.now}.hiding(state.rows[key].kvMeta)
	return append(writes, kvWrite{key: key, meta: meta})
}
