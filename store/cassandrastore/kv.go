package cassandrastore

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

var _ store.KV = kv{}

// kv is the store as a store.KV. Its entries are in the table kv, one partition for
// each slot of a namespace (K5, decision 0020).
//
// Every write of a slot of a compare-and-set namespace is conditional on the head of the
// slot and replaces it, so that a group is decided from the entries as they were when
// it is applied. A slot of a last-write-wins namespace is only written plainly (trap 13).
type kv struct{ *Store }

// KV is the store as a store.KV.
func (s *Store) KV() store.KV { return kv{s} }

// The statements of the table kv.
const (
	kvRead     = "SELECT key, meta, value FROM kv WHERE space = ? AND slot = ? AND key IN ?"
	kvReadMeta = "SELECT key, meta FROM kv WHERE space = ? AND slot = ? AND key IN ?"
	kvRange    = "SELECT key, meta FROM kv WHERE space = ? AND slot = ? AND key >= ? AND key < ? LIMIT ?"
	kvAll      = "SELECT key, meta FROM kv WHERE space = ? AND slot = ? AND key > 0x00"
	kvNewest   = "SELECT max(writetime(meta)) FROM kv WHERE space = ? AND slot = ?"

	kvBegin   = "UPDATE kv SET meta = ? WHERE space = ? AND slot = ? AND key = 0x00 IF meta = null"
	kvReplace = "UPDATE kv SET meta = ? WHERE space = ? AND slot = ? AND key = 0x00 IF meta = ?"
	kvEnd     = "UPDATE kv USING TTL ? SET meta = ? WHERE space = ? AND slot = ? AND key = 0x00 IF meta = ?"
	kvPut     = "UPDATE kv USING TTL ? SET meta = ?, value = ? WHERE space = ? AND slot = ? AND key = ?"
	kvClear   = "DELETE FROM kv WHERE space = ? AND slot = ? AND key > 0x00"

	kvPlainPut  = "UPDATE kv USING TIMESTAMP ? AND TTL ? SET meta = ?, value = ? WHERE space = ? AND slot = ? AND key = ?"
	kvPlainDrop = "DELETE FROM kv USING TIMESTAMP ? WHERE space = ? AND slot = ?"

	kvList   = "UPDATE kv USING TIMESTAMP ? SET meta = 0x WHERE space = ? AND slot = ? AND key = ?"
	kvUnlist = "UPDATE kv USING TIMESTAMP ? AND TTL ? SET meta = 0x WHERE space = ? AND slot = ? AND key = ?"
	kvListed = "SELECT key FROM kv WHERE space = ? AND slot = ? AND key >= ? LIMIT ?"
)

// A clustering key is one byte and what it is of: the head of the slot, or an entry.
const (
	kvHead  = "\x00"
	kvEntry = "\x01" // and the key
)

// kvIndex is the slot number of the partition that lists the slots of a namespace.
const kvIndex = int16(-1)

// The limits of a group: the server holds a conditional batch in memory several times,
// and writes it to its log as one.
const (
	kvGroupKeys  = 1000
	kvGroupBytes = 4 << 20
)

// kvSpace returns the first column of the partition key: the mode of the namespace and
// its name, so that plain and conditional writes never meet in a partition.
func kvSpace(s *store.KVSpace) []byte {
	mode := byte('c')
	if s.LastWriteWins {
		mode = 'l'
	}
	return append([]byte{mode}, s.Name...)
}

// kvMeta is all of an entry but its key and its value. It and the value are two cells
// that are always written together. Both begin with the nonce of their write, so that
// of two plain writes with the same timestamp the server keeps both cells of the same one.
type kvMeta struct {
	nonce           [8]byte
	deleted         bool
	version         uint64
	written, expiry mayfly.Instant
	size            uint32 // of the value
}

const (
	kvFormat  = 1
	kvDeleted = 2
	kvMetaLen = 37
)

func (m kvMeta) bytes() []byte {
	b := make([]byte, kvMetaLen)
	copy(b, m.nonce[:])
	if b[8] = kvFormat; m.deleted {
		b[8] = kvDeleted
	}
	binary.BigEndian.PutUint64(b[9:], m.version)
	binary.BigEndian.PutUint64(b[17:], uint64(m.written))
	binary.BigEndian.PutUint64(b[25:], uint64(m.expiry))
	binary.BigEndian.PutUint32(b[33:], m.size)
	return b
}

func readKVMeta(b []byte) (kvMeta, error) {
	if len(b) != kvMetaLen || b[8] != kvFormat && b[8] != kvDeleted {
		return kvMeta{}, mayfly.Errorf(mayfly.Corrupt, "the data of an entry has %d bytes that cannot be read", len(b))
	}
	return kvMeta{
		nonce: [8]byte(b), deleted: b[8] == kvDeleted, version: binary.BigEndian.Uint64(b[9:]),
		written: mayfly.Instant(binary.BigEndian.Uint64(b[17:])), expiry: mayfly.Instant(binary.BigEndian.Uint64(b[25:])), size: binary.BigEndian.Uint32(b[33:]),
	}, nil
}

// entry returns the entry without its value; not found if it was deleted.
func (m kvMeta) entry(key string) store.KVEntry {
	if m.deleted {
		return store.KVEntry{Key: key}
	}
	return store.KVEntry{Key: key, Found: true, Version: m.version, Expiry: m.expiry, Written: m.written}
}

const (
	// kvSlack is added to the expiry of an entry for the TTL of the server: its clock may
	// differ from ours, and ours may have taken a step that is taken back (L7).
	kvSlack = 24 * time.Hour
	// kvDeletedFor is how long a deleted entry is kept as such, at least: in that time a
	// node that was away gets it by a repair.
	kvDeletedFor = 10 * 24 * time.Hour
)

// hiding returns m as the deletion of what it replaces. It keeps the expiry of that, also
// over further deletions.
func (m kvMeta) hiding(before kvMeta) kvMeta {
	m.deleted, m.expiry, m.size = true, before.expiry, 0
	return m
}

// ttl returns the TTL in seconds; 0 is none. It only frees space (trap 11). What was
// deleted outlives the expiry of what it hides.
func (m kvMeta) ttl(now mayfly.Instant) int {
	end, more := m.expiry, kvSlack
	if m.deleted {
		end, more = max(now, m.expiry), kvDeletedFor
	}
	longest := longestTTL.Milliseconds()
	if end == 0 || int64(end)-longest > int64(now) { // the sum below may overflow
		return 0
	}
	left := int64(end-now) + more.Milliseconds()
	if left > longest {
		return 0
	}
	return int((left + 999) / 1000)
}

// kvRow is a row of a slot.
type kvRow struct {
	kvMeta
	value []byte // only if it was asked for
}

// slotState is the head of a slot and some of its rows, by key.
type slotState struct {
	head    []byte // nil: the slot was never written
	version uint64
	rows    map[string]kvRow
}

// slotPlace is a slot of a namespace.
type slotPlace struct {
	space []byte
	slot  int16
}

func placeOfSlot(s *store.KVSpace, slot uint16) slotPlace { return slotPlace{kvSpace(s), int16(slot)} }

func (p slotPlace) index() slotPlace { return slotPlace{p.space, kvIndex} }

// lane is the name of the slot among the lanes.
func (p slotPlace) lane() string {
	return string(binary.BigEndian.AppendUint16(p.space[:len(p.space):len(p.space)], uint16(p.slot)))
}

// readSlot reads entries of one slot and its head, as they were at one instant.
func (s *Store) readSlot(ctx context.Context, d operation, p slotPlace, keys []string, values bool) (slotState, error) {
	wanted := make([][]byte, 0, len(keys)+1)
	wanted = append(wanted, []byte(kvHead))
	for _, key := range keys {
		wanted = append(wanted, []byte(kvEntry+key))
	}
	text := kvReadMeta
	if values {
		text = kvRead
	}
	iter := s.query(d, text, p.space, p.slot, wanted).PageSize(len(wanted) + 1).IterContext(ctx)
	state := slotState{rows: make(map[string]kvRow, len(keys))}
	var failed error
	for failed == nil {
		var key, meta, value []byte
		to := []any{&key, &meta}
		if values {
			to = append(to, &value)
		}
		if !iter.Scan(to...) {
			break
		}
		if meta == nil {
			continue // a row without data does not exist
		}
		row := kvRow{}
		if row.kvMeta, failed = readKVMeta(meta); failed != nil {
			break
		}
		if string(key) == kvHead {
			state.head, state.version = meta, row.version
			continue
		}
		if values && (len(value) != len(row.nonce)+int(row.size) || [8]byte(value) != row.nonce) {
			failed = mayfly.Errorf(mayfly.Corrupt, "the value of an entry has %d bytes of another write", len(value))
		} else if values {
			row.value = value[len(row.nonce):]
		}
		state.rows[string(key[1:])] = row
	}
	if err := errors.Join(failed, iter.Close()); err != nil {
		return slotState{}, err
	}
	return state, nil
}

// at returns an entry as it is at now.
func (st slotState) at(key string, now mayfly.Instant) store.KVEntry {
	row, there := st.rows[key]
	if !there {
		return store.KVEntry{Key: key}
	}
	e := row.entry(key)
	e.Value = row.value
	return e.At(now)
}

// Get implements store.KV. Errors beside those of the contract: Unsupported (keys of
// several slots).
func (s kv) Get(ctx context.Context, space store.KVSpace, now mayfly.Instant, keys ...string) ([]store.KVEntry, error) {
	if err := space.Check(keys...); err != nil {
		return nil, err
	}
	slot, err := store.KVOneSlot(keys...)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(begin(ctx), tooMany(len(keys))); err != nil || len(keys) == 0 {
		return nil, err
	}
	ops := reads(keys)
	if err := s.checkSizes(ctx, placeOfSlot(&space, slot), &space, ops); err != nil {
		return nil, err
	}
	state, err := s.readSlot(ctx, readRows, placeOfSlot(&space, slot), (&store.KVGroup{Ops: ops}).Keys(), true)
	if err != nil {
		return nil, readError("get keys", err)
	}
	s.seen(&space, state)
	found, answered := make([]store.KVEntry, len(keys)), 0
	for i, key := range keys {
		found[i] = state.at(key, now)
		answered += len(found[i].Value)
	}
	if err := space.CheckAnswer(answered); err != nil {
		return nil, err
	}
	return found, nil
}

// unaskedKeys is how many keys are read without asking for the sizes of their values.
const unaskedKeys = 16

// checkSizes asks for the sizes of the values that operations on many keys need, and
// returns an error if they are more than the caller wants: the rows of one query are in
// memory together.
func (s *Store) checkSizes(ctx context.Context, p slotPlace, space *store.KVSpace, ops []store.KVOp) error {
	if space.MaxAnswer == 0 || len(ops) <= unaskedKeys {
		return nil
	}
	var needed []store.KVOp
	for i := range ops {
		if ops[i].NeedsValue() {
			needed = append(needed, ops[i])
		}
	}
	if len(needed) == 0 {
		return nil
	}
	state, err := s.readSlot(ctx, readRows, p, (&store.KVGroup{Ops: needed}).Keys(), false)
	if err != nil {
		return readError("read the sizes of keys", err)
	}
	size := 0
	for _, row := range state.rows {
		size += int(row.size)
	}
	return space.CheckAnswer(size)
}

// seen makes the writes of this process later than those that it has read in a
// last-write-wins namespace, also if the clock of their node is ahead of ours.
func (s *Store) seen(space *store.KVSpace, state slotState) {
	if !space.LastWriteWins {
		return
	}
	for _, row := range state.rows {
		s.keyspace.stamps.see(int64(row.version))
	}
}

func reads(keys []string) []store.KVOp {
	ops := make([]store.KVOp, len(keys))
	for i, key := range keys {
		ops[i].Key = key
	}
	return ops
}

func tooMany(keys int) error {
	if keys > kvGroupKeys {
		return mayfly.Errorf(mayfly.TooLarge, "%d keys at once; on a cluster the most are %d", keys, kvGroupKeys).WithHint("send them in parts")
	}
	return nil
}

// Due implements store.KV: a cluster keeps no index of expiries.
func (s kv) Due(_ context.Context, space store.KVSpace, _ mayfly.Instant, after store.KVDue, limit int) ([]store.KVDue, error) {
	if err := errors.Join(space.Check(after.Key), checkKVLimit(limit)); err != nil {
		return nil, err
	}
	return nil, (&store.KVGroup{}).CheckCluster(&store.KVSpace{Events: true})
}

func checkKVLimit(limit int) error {
	if limit < 1 {
		return mayfly.Errorf(mayfly.Invalid, "the limit is %d; it must be positive", limit)
	}
	return nil
}

// Reclaim implements store.KV: the TTL of the server does it.
func (s kv) Reclaim(context.Context, mayfly.Instant) (store.KVReclaimed, error) {
	return store.KVReclaimed{}, nil
}

// Usage implements store.KV. What the servers store they report themselves.
func (s kv) Usage(context.Context, mayfly.Instant) (store.KVUsage, error) {
	return store.KVUsage{Sync: "always"}, nil
}

// kvState is what a process remembers of namespaces, by kvSpace.
type kvState struct {
	lanes  *lanes
	stamps *stamps // of last-write-wins namespaces

	mu     sync.Mutex
	spaces map[string]*kvKnown
}

// kvKnown is what a process remembers of one namespace.
type kvKnown struct {
	mu       sync.Mutex
	listed   [store.KVSlots / 8]byte // slots that are in the index
	stats    store.KVStats
	counted  mayfly.Instant // when that ended, by the node's clock; 0 is never
	counting chan struct{}  // closed when the count under way has ended; nil if there is none
	failed   error          // of the last count
}

func newKVState(now func() mayfly.Instant) *kvState {
	return &kvState{lanes: newLanes(), stamps: &stamps{now: now}, spaces: map[string]*kvKnown{}}
}

func (k *kvState) of(space []byte) *kvKnown {
	k.mu.Lock()
	defer k.mu.Unlock()
	known := k.spaces[string(space)]
	if known == nil {
		known = &kvKnown{}
		k.spaces[string(space)] = known
	}
	return known
}

func (k *kvState) forget(space []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.spaces, string(space))
}

func newKVNonce() (nonce [8]byte) {
	_, _ = rand.Read(nonce[:]) // never fails
	return nonce
}
