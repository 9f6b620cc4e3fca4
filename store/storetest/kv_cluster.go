package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// KVCluster checks a driver of a cluster against the contract of store.KV: all cases of
// KV with the keys in one slot, but for those that a cluster refuses, and cases of what it
// does in their place. Its statistics must always be counted anew.
func KVCluster(t *testing.T, driver string, open Open) {
	set := open(t)
	cases := kvCases()
	for _, name := range []string{
		"a group over the quota writes nothing", // below, as the tags count too
		"concurrent writers do not exceed the quota",
		"due keys are returned once in order of their expiry",
		"a key is due only when it has died of its expiry",
		"usage counts live and expired bytes",
		"the largest key and the largest value are stored",
	} {
		n := slices.IndexFunc(cases, func(c testCase) bool { return c.name == name })
		cases = slices.Delete(cases, n, n+1)
	}
	run(t, driver, "kv in one slot", func(*testing.T) store.Set { return store.Set{KV: oneSlot{set.KV}} }, cases)
	run(t, driver, "kv on a cluster", func(*testing.T) store.Set { return store.Set{KV: set.KV} }, kvClusterCases())
}

func kvClusterCases() []testCase {
	return []testCase{
		{"keys of several slots are refused in one call", kvCrossSlot},
		{"keys with one hash tag are applied as one", kvHashTag},
		{"a scan returns the entries of all slots once", kvScan},
		{"a scan of all slots returns entries that stay while others change", kvScanUnderChange},
		{"namespaces and keys of all slots do not mix", kvNames},
		{"a dropped namespace holds nothing in any slot", kvDrop},
		{"a last-write-wins namespace writes, reads, expires and deletes", kvPlain},
		{"a group of a last-write-wins namespace is applied in order", kvPlainGroup},
		{"a last-write-wins namespace refuses what needs agreement", kvPlainRefuses},
		{"a dropped last-write-wins namespace holds nothing", kvPlainDrop},
		{"events are refused with a hint", kvNoEvents},
		{"a group that is too large is refused", kvTooLarge},
		{"a group over the quota writes nothing", kvQuota},
		{"a namespace over its quota refuses to grow", kvOverQuota},
		{"usage says only when a write is durable", kvNoUsage},
	}
}

// oneSlot puts all keys into one slot by a hash tag.
type oneSlot struct{ store.KV }

const slotTag = "{t}"

func untagged(e store.KVEntry) store.KVEntry {
	e.Key = strings.TrimPrefix(e.Key, slotTag)
	return e
}

func (o oneSlot) Get(ctx context.Context, s store.KVSpace, now mayfly.Instant, keys ...string) ([]store.KVEntry, error) {
	tagged := make([]string, len(keys))
	for i, key := range keys {
		tagged[i] = slotTag + key
	}
	found, err := o.KV.Get(ctx, s, now, tagged...)
	for i := range found {
		found[i] = untagged(found[i])
	}
	return found, err
}

func (o oneSlot) Apply(ctx context.Context, s store.KVSpace, now mayfly.Instant, g store.KVGroup) ([]store.KVResult, error) {
	g.Watch, g.Ops = slices.Clone(g.Watch), slices.Clone(g.Ops)
	for i := range g.Watch {
		g.Watch[i].Key = slotTag + g.Watch[i].Key
	}
	for i := range g.Ops {
		g.Ops[i].Key = slotTag + g.Ops[i].Key
	}
	results, err := o.KV.Apply(ctx, s, now, g)
	for i := range results {
		results[i].Old, results[i].New = untagged(results[i].Old), untagged(results[i].New)
	}
	return results, err
}

func (o oneSlot) Scan(ctx context.Context, s store.KVSpace, now mayfly.Instant, prefix, after string, limit int) ([]store.KVEntry, string, error) {
	page, next, err := o.KV.Scan(ctx, s, now, slotTag+prefix, after, limit)
	for i := range page {
		page[i] = untagged(page[i])
	}
	return page, next, err
}

func (o oneSlot) Stats(ctx context.Context, s store.KVSpace, now mayfly.Instant) (store.KVStats, error) {
	st, err := o.KV.Stats(ctx, s, now)
	st.Bytes -= st.Keys * int64(len(slotTag))
	return st, err
}

// KVClusterModel is the KVModel with what a cluster refuses.
type KVClusterModel struct{ *KVModel }

// Get implements store.KV.
func (m KVClusterModel) Get(ctx context.Context, s store.KVSpace, now mayfly.Instant, keys ...string) ([]store.KVEntry, error) {
	if _, err := store.KVOneSlot(keys...); err != nil {
		return nil, err
	}
	return m.KVModel.Get(ctx, s, now, keys...)
}

// Apply implements store.KV.
func (m KVClusterModel) Apply(ctx context.Context, s store.KVSpace, now mayfly.Instant, g store.KVGroup) ([]store.KVResult, error) {
	_, err := store.KVOneSlot(g.Keys()...)
	if err := errors.Join(g.CheckCluster(&s), err); err != nil {
		return nil, err
	}
	return m.KVModel.Apply(ctx, s, now, g)
}

// hasEvents reports whether the driver keeps an index for Due.
func (c *kvTrial) hasEvents() bool {
	_, err := c.set.KV.Due(c.ctx, c.s, c.now, store.KVDue{}, 1)
	return !errors.Is(err, mayfly.Unsupported)
}

func (c *kvTrial) wantCrossSlot(err error) {
	c.Helper()
	var cause store.KVCrossSlot
	if !errors.Is(err, mayfly.Unsupported) || !errors.As(err, &cause) {
		c.Errorf("keys of several slots: %v", err)
	}
}

func kvCrossSlot(t *trial) {
	c := t.kv()
	for _, mode := range []bool{false, true} {
		c.s = store.KVSpace{Name: freshName("slots"), LastWriteWins: mode}
		set := func(key string) store.KVOp {
			return store.KVOp{Key: key, Action: store.KVSet, Value: []byte("v")}
		}
		_, err := c.set.KV.Apply(c.ctx, c.s, c.now, store.KVGroup{Ops: []store.KVOp{set("{x}1"), set("{x}2"), set("{y}1")}})
		c.wantCrossSlot(err)
		_, err = c.set.KV.Get(c.ctx, c.s, c.now, "{x}1", "{y}1")
		c.wantCrossSlot(err)
		if !mode {
			_, err = c.set.KV.Apply(c.ctx, c.s, c.now, store.KVGroup{Ops: []store.KVOp{set("{x}1")}, Watch: []store.KVEntry{{Key: "{y}1"}}})
			c.wantCrossSlot(err)
		}
		if keys := c.scan(c.now, "", 10, func() {}); len(keys) != 0 {
			c.Errorf("refused groups have written %q", keys)
		}
	}
}

func kvHashTag(t *trial) {
	c := t.kv()
	set := func(key, value string) store.KVOp {
		return store.KVOp{Key: key, Action: store.KVSet, Value: []byte(value)}
	}
	c.apply(c.now, set("{x}1", "1"), set("a{x}b{y}", "2"), set("x", "3"))
	found := c.get(c.now, "{x}1", "a{x}b{y}", "x", "{x}none")
	if !found[0].Found || !found[1].Found || !found[2].Found || found[3].Found {
		c.Errorf("the entries are %+v", found)
	}
	changed := c.put("{x}1", "changed", 0)
	_, err := c.set.KV.Apply(c.ctx, c.s, c.now, store.KVGroup{Watch: found[:1], Ops: []store.KVOp{set("x", "4")}})
	c.wantKind(mayfly.Conflict, err)
	_, err = c.set.KV.Apply(c.ctx, c.s, c.now, store.KVGroup{Watch: []store.KVEntry{changed}, Ops: []store.KVOp{set("x", "5")}})
	c.must(err)
	c.want(c.now, "x", "5")
}

func (t *trial) plain() *kvTrial {
	c := t.kv()
	c.s.LastWriteWins = true
	return c
}

func kvPlain(t *trial) {
	c := t.plain()
	last := uint64(0)
	for i := range 5 {
		e := c.put("k", fmt.Sprint("v", i), c.now+10)
		if e.Version <= last {
			c.Errorf("version %d after %d", e.Version, last)
		}
		last = e.Version
		c.want(c.now, "k", fmt.Sprint("v", i))
		if got := c.get(c.now, "k")[0]; !got.Same(e) || got.Expiry != c.now+10 || got.Written != c.now {
			c.Errorf("got %+v, want %+v", got, e)
		}
		if i%2 == 1 {
			if r := c.apply(c.now, store.KVOp{Key: "k", Action: store.KVDelete})[0]; !r.Done || r.New.Found {
				c.Errorf("delete: %+v", r)
			}
			c.want(c.now, "k", "")
			if r := c.apply(c.now, store.KVOp{Key: "k", Action: store.KVDelete})[0]; r.Done {
				c.Errorf("a second delete: %+v", r)
			}
		}
	}
	c.want(c.now+9, "k", "v4")
	c.want(c.now+10, "k", "")
	c.put("late", "older", c.now.Add(time.Hour))
	c.put("late", "newer", c.now+1)
	c.want(c.now+1, "late", "")
	if r := c.apply(c.now, store.KVOp{Key: "late", Action: store.KVSet, Value: []byte("v"), Expiry: c.now})[0]; !r.Done || r.New.Found {
		c.Errorf("an expiry that is not after now: %+v", r)
	}
	c.want(c.now-1, "late", "")
	c.put("stays", "v", 0)
	c.wantKeys(c.scan(c.now+10, "", 2, func() {}), "stays")
	if st := c.stats(c.now); st != (store.KVStats{Keys: 2, Bytes: 9}) { // k is there until now+10
		c.Errorf("the namespace has %+v", st)
	}
}

func kvPlainGroup(t *trial) {
	c := t.plain()
	set := func(value string) store.KVOp {
		return store.KVOp{Key: "k", Action: store.KVSet, Value: []byte(value)}
	}
	r := c.apply(c.now, set("1"), store.KVOp{Key: "k", Action: store.KVRead}, store.KVOp{Key: "k", Action: store.KVDelete}, store.KVOp{Key: "k", Action: store.KVRead}, set("2"))
	if string(r[1].Old.Value) != "1" || !r[2].Done || r[3].Old.Found || r[4].New.Version <= r[0].New.Version {
		c.Errorf("the group answers %+v", r)
	}
	if got := c.get(c.now, "k")[0]; !got.Same(r[4].New) {
		c.Errorf("got %+v, the group wrote %+v", got, r[4].New)
	}
	c.want(c.now, "k", "2")
	c.apply(c.now, set("3"), store.KVOp{Key: "k", Action: store.KVDelete})
	c.want(c.now, "k", "")
}

func kvPlainRefuses(t *trial) {
	c := t.plain()
	c.put("k", "v", 0)
	ops := []store.KVOp{
		{Action: store.KVTouch},
		{Action: store.KVUpdate, Update: plusOne},
		{Action: store.KVSet, KeepExpiry: true},
		{Action: store.KVSet, Old: true},
		{Action: store.KVDelete, Old: true},
	}
	for condition := store.KVIfAbsent; condition <= store.KVIfSooner; condition++ {
		ops = append(ops, store.KVOp{Action: store.KVSet, If: condition})
	}
	for _, o := range ops {
		o.Key = "k"
		_, err := c.set.KV.Apply(c.ctx, c.s, c.now, store.KVGroup{Ops: []store.KVOp{{Key: "k", Action: store.KVSet, Value: []byte("w")}, o}})
		c.wantKind(mayfly.Unsupported, err)
	}
	_, err := c.set.KV.Apply(c.ctx, c.s, c.now, store.KVGroup{Watch: c.get(c.now, "k"), Ops: []store.KVOp{{Key: "k", Action: store.KVDelete}}})
	c.wantKind(mayfly.Unsupported, err)
	c.want(c.now, "k", "v")
}

func kvPlainDrop(t *trial) {
	c := t.plain()
	for i := range 20 {
		c.put(fmt.Sprint(i), "v", 0)
	}
	c.must(c.set.KV.Drop(c.ctx, c.s))
	if keys := c.scan(c.now, "", 100, func() {}); len(keys) != 0 {
		c.Errorf("%q are left", keys)
	}
	c.want(c.now, "7", "")
	c.put("7", "again", 0)
	c.wantKeys(c.scan(c.now, "", 100, func() {}), "7")
}

func kvNoEvents(t *trial) {
	c := t.kv()
	c.s.Events = true
	_, err := c.set.KV.Apply(c.ctx, c.s, c.now, store.KVGroup{Ops: []store.KVOp{{Key: "k", Action: store.KVSet}}})
	_, due := c.set.KV.Due(c.ctx, c.s, c.now, store.KVDue{}, 1)
	for _, err := range []error{err, due} {
		var ours *mayfly.Error
		if !errors.Is(err, mayfly.Unsupported) || !errors.As(err, &ours) || ours.Hint == "" {
			c.Errorf("a namespace with events: %v", err)
		}
	}
	c.want(c.now, "k", "")
}

func kvTooLarge(t *trial) {
	c := t.kv()
	for _, mode := range []bool{false, true} {
		c.s = store.KVSpace{Name: freshName("large"), LastWriteWins: mode}
		large := store.KVOp{Key: "large", Action: store.KVSet, Value: make([]byte, store.MaxKVValue)}
		_, err := c.set.KV.Apply(c.ctx, c.s, c.now, store.KVGroup{Ops: []store.KVOp{large}})
		c.wantKind(mayfly.TooLarge, err)
		c.want(c.now, "large", "")
		key := strings.Repeat("k", store.MaxKVKey)
		c.put(key, strings.Repeat("v", 3<<20), 0)
		c.want(c.now, key, strings.Repeat("v", 3<<20))
	}
	many := make([]string, 2000)
	for i := range many {
		many[i] = fmt.Sprintf("{x}%d", i)
	}
	_, err := c.set.KV.Get(c.ctx, c.s, c.now, many...)
	c.wantKind(mayfly.TooLarge, err)
}

func kvOverQuota(t *trial) {
	c := t.kv()
	c.s.Quota = 1000
	var refused atomic.Int64
	write := func(i int) {
		_, err := c.set.KV.Apply(c.ctx, c.s, c.now, store.KVGroup{Ops: []store.KVOp{{Key: fmt.Sprintf("%03d", i), Action: store.KVSet, Value: make([]byte, 97)}}})
		if errors.Is(err, mayfly.Full) {
			refused.Add(1)
		} else if err != nil {
			c.Error(err)
		}
	}
	for i := range 20 {
		write(i)
	}
	if st := c.stats(c.now); st.Bytes != 1000 || refused.Load() != 10 {
		c.Errorf("the namespace has %+v with %d refusals", st, refused.Load())
	}
	together(10, func(i int) { write(100 + i) })
	if refused.Load() != 20 {
		c.Errorf("%d of 20 writers of a full namespace were refused", refused.Load())
	}
	c.apply(c.now, store.KVOp{Key: "000", Action: store.KVDelete})
	together(10, func(i int) { write(200 + i) })
	if st := c.stats(c.now); st.Bytes < 1000 || refused.Load() == 30 {
		c.Errorf("after a delete the namespace has %+v, and %d of 30 writers were refused", st, refused.Load())
	}
}

func kvNoUsage(t *trial) {
	c := t.kv()
	c.put("k", "v", 0)
	if u, err := c.set.KV.Usage(c.ctx, c.now); err != nil || u != (store.KVUsage{Sync: "always"}) {
		c.Errorf("usage %+v, %v", u, err)
	}
	if r, err := c.set.KV.Reclaim(c.ctx, c.now); err != nil || r != (store.KVReclaimed{}) {
		c.Errorf("reclaim %+v, %v", r, err)
	}
}
