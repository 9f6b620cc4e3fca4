package storetest

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// KVModel implements store.KV on maps: short, slow, and the reference that RandomKV
// compares drivers with. It shares store.KVOp.Do with them, as all drivers do; the
// cases of the suite check that.
type KVModel struct {
	mu      sync.Mutex
	version uint64
	spaces  map[string]*modelSpace
}

type modelSpace struct {
	entries map[string]store.KVEntry
	due     map[store.KVDue]bool
}

// NewKVModel returns an empty store.
func NewKVModel() *KVModel { return &KVModel{spaces: map[string]*modelSpace{}} }

func (m *KVModel) space(name string) *modelSpace {
	if m.spaces[name] == nil {
		m.spaces[name] = &modelSpace{entries: map[string]store.KVEntry{}, due: map[store.KVDue]bool{}}
	}
	return m.spaces[name]
}

func (sp *modelSpace) get(key string, now mayfly.Instant) store.KVEntry {
	e := sp.entries[key]
	e.Key, e.Value = key, bytes.Clone(e.Value)
	return e.At(now)
}

func (sp *modelSpace) bytes() (n int64) {
	for _, e := range sp.entries {
		n += e.Size()
	}
	return n
}

// Get implements store.KV.
func (m *KVModel) Get(ctx context.Context, s store.KVSpace, now mayfly.Instant, keys ...string) ([]store.KVEntry, error) {
	if err := cmp.Or(ctx.Err(), s.Check(keys...)); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []store.KVEntry
	answered := 0
	for _, key := range keys {
		e := m.space(s.Name).get(key, now)
		if answered += len(e.Value); s.CheckAnswer(answered) != nil {
			return nil, s.CheckAnswer(answered)
		}
		found = append(found, e)
	}
	return found, nil
}

// Apply implements store.KV.
func (m *KVModel) Apply(ctx context.Context, s store.KVSpace, now mayfly.Instant, g store.KVGroup) ([]store.KVResult, error) {
	if err := cmp.Or(ctx.Err(), g.Check(&s)); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	sp := m.space(s.Name)
	for _, w := range g.Watch {
		if !sp.get(w.Key, now).Same(w) {
			return nil, mayfly.Errorf(mayfly.Conflict, "key %q has changed", w.Key)
		}
	}
	after := &modelSpace{entries: maps.Clone(sp.entries), due: maps.Clone(sp.due)}
	results := make([]store.KVResult, len(g.Ops))
	answered := 0
	for i := range g.Ops {
		o := &g.Ops[i]
		old := after.get(o.Key, now)
		m.version++
		next, r := o.Do(old, now, m.version)
		if answered += r.Values(); s.CheckAnswer(answered) != nil {
			return nil, s.CheckAnswer(answered)
		}
		if results[i] = r; !r.Done || o.Action == store.KVRead {
			continue
		}
		delete(after.due, store.KVDue{At: old.Expiry, Key: o.Key})
		delete(after.entries, o.Key)
		if next.Found {
			next.Value = bytes.Clone(next.Value)
			after.entries[o.Key] = next
		}
		if next.Expiry != 0 && s.Events {
			after.due[store.KVDue{At: next.Expiry, Key: o.Key}] = true
		}
	}
	if total := after.bytes(); s.Quota > 0 && total > s.Quota && total > sp.bytes() {
		return nil, mayfly.Errorf(mayfly.Full, "the namespace would have %d bytes, its quota is %d", total, s.Quota).WithHint("delete entries or raise the quota")
	}
	m.spaces[s.Name] = after
	return results, nil
}

// Scan implements store.KV, in the order of keys. The position is the least key that
// the page may hold.
func (m *KVModel) Scan(ctx context.Context, s store.KVSpace, now mayfly.Instant, prefix, after string, limit int) ([]store.KVEntry, string, error) {
	if err := cmp.Or(ctx.Err(), s.Check(prefix), positive(limit)); err != nil {
		return nil, "", err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var page []store.KVEntry
	for _, key := range slices.Sorted(maps.Keys(m.space(s.Name).entries)) {
		e := m.space(s.Name).get(key, now)
		if !e.Found || !strings.HasPrefix(key, prefix) || key < after {
			continue
		}
		if len(page) == limit {
			return page, page[limit-1].Key + "\x00", nil
		}
		e.Value = nil
		page = append(page, e)
	}
	return page, "", nil
}

func positive(limit int) error {
	if limit < 1 {
		return mayfly.Errorf(mayfly.Invalid, "the limit is %d", limit)
	}
	return nil
}

// Due implements store.KV. It forgets nothing.
func (m *KVModel) Due(ctx context.Context, s store.KVSpace, now mayfly.Instant, after store.KVDue, limit int) ([]store.KVDue, error) {
	if err := cmp.Or(ctx.Err(), s.Check(after.Key), positive(limit)); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	order := func(a, b store.KVDue) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Key, b.Key)) }
	var due []store.KVDue
	for d := range m.space(s.Name).due {
		if d.At <= now && (after == store.KVDue{} || order(d, after) > 0) {
			due = append(due, d)
		}
	}
	slices.SortFunc(due, order)
	return due[:min(limit, len(due))], nil
}

// Drop implements store.KV.
func (m *KVModel) Drop(ctx context.Context, s store.KVSpace) error {
	if err := cmp.Or(ctx.Err(), s.Check()); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.spaces, s.Name)
	return nil
}

// Reclaim implements store.KV.
func (m *KVModel) Reclaim(ctx context.Context, now mayfly.Instant) (r store.KVReclaimed, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, sp := range m.spaces {
		for key, e := range sp.entries {
			if !e.At(now).Found {
				delete(sp.entries, key)
				r.Entries, r.Bytes = r.Entries+1, r.Bytes+e.Size()
			}
		}
	}
	return r, ctx.Err()
}

// Stats implements store.KV.
func (m *KVModel) Stats(ctx context.Context, s store.KVSpace, _ mayfly.Instant) (store.KVStats, error) {
	if err := cmp.Or(ctx.Err(), s.Check()); err != nil {
		return store.KVStats{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	sp := m.space(s.Name)
	return store.KVStats{Keys: int64(len(sp.entries)), Bytes: sp.bytes()}, nil
}

// Usage implements store.KV.
func (m *KVModel) Usage(ctx context.Context, now mayfly.Instant) (store.KVUsage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := store.KVUsage{Sync: "always"}
	for _, sp := range m.spaces {
		for _, e := range sp.entries {
			u.Disk += e.Size()
			if e.At(now).Found {
				u.Live += e.Size()
				continue
			}
			u.Expired += e.Size()
			if u.Oldest == 0 || e.Expiry < u.Oldest {
				u.Oldest = e.Expiry
			}
		}
	}
	return u, ctx.Err()
}
