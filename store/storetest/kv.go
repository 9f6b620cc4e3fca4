package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// KV checks a driver against the contract of store.KV.
func KV(t *testing.T, driver string, open Open) { run(t, driver, "kv", open, kvCases()) }

func kvCases() []testCase {
	return []testCase{
		{"an absent key is not found", kvAbsent},
		{"a written entry is read back with all its parts", kvReadBack},
		{"an entry is absent from the millisecond of its expiry on", kvExact},
		{"an expired entry is absent for every operation", kvExpiredForAll},
		{"an entry without expiry never expires", kvNever},
		{"an expiry that is not after now deletes the entry", kvPastExpiry},
		{"an operation is done only if its condition holds", kvConditions},
		{"a touch changes the expiry and keeps the value", kvTouch},
		{"an entry that is present keeps its expiry if asked", kvKeepExpiry},
		{"a deleted entry stays deleted", kvDelete},
		{"the version grows with every write and over a delete", kvVersions},
		{"an update makes the new value from the old one", kvUpdate},
		{"an update that fails changes nothing and tells why", kvUpdateFails},
		{"operations on one key in one group see each other", kvSeveral},
		{"the old value is answered if asked for", kvOld},
		{"a call answers with no more values than it is allowed", kvMaxAnswer},
		{"a watched key that has changed stops the whole group", kvWatch},
		{"a group over the quota writes nothing", kvQuota},
		{"concurrent writers do not exceed the quota", kvQuotaTogether},
		{"other callers see all of a group or nothing", kvAtomic},
		{"concurrent updates of one key are all applied", kvUpdatesTogether},
		{"of concurrent writers of an absent key one wins", kvAbsentTogether},
		{"groups on the same keys in different orders do not block each other", kvOrders},
		{"a scan returns every entry with the prefix once", kvScan},
		{"a scan returns entries that stay while others change", kvScanUnderChange},
		{"namespaces and keys of any bytes do not mix", kvNames},
		{"due keys are returned once in order of their expiry", kvDue},
		{"a key is due only when it has died of its expiry", kvDueOnlyExpired},
		{"a dropped namespace holds nothing", kvDrop},
		{"an older version with a later expiry never reappears", kvOlderVersion},
		{"reclaim keeps every entry that has not expired", kvReclaim},
		{"statistics count entries and their bytes", kvStats},
		{"usage counts live and expired bytes", kvUsage},
		{"the largest key and the largest value are stored", kvLargest},
		{"what cannot be stored is refused", kvInvalid},
		{"a caller may change what it was given and what it gave", kvCopies},
		{"a cancelled call returns an error and writes nothing", kvCancelled},
	}
}

// kvTrial is a case with a namespace of its own and a time to begin at.
type kvTrial struct {
	*trial
	s   store.KVSpace
	now mayfly.Instant
}

func (c *trial) kv() *kvTrial {
	return &kvTrial{trial: c, s: store.KVSpace{Name: freshName("space")}, now: wall()}
}

func (c *kvTrial) get(now mayfly.Instant, keys ...string) []store.KVEntry {
	c.Helper()
	found, err := c.set.KV.Get(c.ctx, c.s, now, keys...)
	c.must(err)
	if len(found) != len(keys) {
		c.Fatalf("Get of %d keys returns %d entries", len(keys), len(found))
	}
	for i := range found {
		if found[i].Key != keys[i] {
			c.Fatalf("entry %d is of key %q, want %q", i, found[i].Key, keys[i])
		}
	}
	return found
}

func (c *kvTrial) apply(now mayfly.Instant, ops ...store.KVOp) []store.KVResult {
	c.Helper()
	results, err := c.set.KV.Apply(c.ctx, c.s, now, store.KVGroup{Ops: ops})
	c.must(err)
	if len(results) != len(ops) {
		c.Fatalf("Apply of %d operations returns %d results", len(ops), len(results))
	}
	return results
}

func (c *kvTrial) put(key, value string, expiry mayfly.Instant) store.KVEntry {
	c.Helper()
	r := c.apply(c.now, store.KVOp{Key: key, Action: store.KVSet, Value: []byte(value), Expiry: expiry})[0]
	if !r.Done || !r.New.Found {
		c.Fatalf("set of %q: %+v", key, r)
	}
	return r.New
}

// want checks an entry; the empty value means absence.
func (c *kvTrial) want(now mayfly.Instant, key, value string) {
	c.Helper()
	if e := c.get(now, key)[0]; e.Found != (value != "") || string(e.Value) != value {
		c.Errorf("%q at %d is %q (found: %t), want %q", key, now-c.now, e.Value, e.Found, value)
	}
}

func (c *kvTrial) scan(now mayfly.Instant, prefix string, limit int, each func()) []string {
	c.Helper()
	var keys []string
	for after, pages := "", 0; ; pages++ {
		page, next, err := c.set.KV.Scan(c.ctx, c.s, now, prefix, after, limit)
		c.must(err)
		if len(page) > limit || pages > 10_000 {
			c.Fatalf("page %d has %d entries, the limit is %d", pages, len(page), limit)
		}
		for _, e := range page {
			if !e.Found || e.Value != nil {
				c.Errorf("scan returns %+v", e)
			}
			keys = append(keys, e.Key)
		}
		if next == "" {
			return keys
		}
		after = next
		each()
	}
}

// wantKeys checks that keys are those wanted, each once, in any order.
func (c *kvTrial) wantKeys(got []string, want ...string) {
	c.Helper()
	count := map[string]int{}
	for _, key := range got {
		count[key]++
	}
	for _, key := range want {
		count[key]--
	}
	for key, n := range count {
		if n != 0 {
			c.Errorf("key %q comes %d times too often", key, n)
		}
	}
}

func kvAbsent(t *trial) {
	c := t.kv()
	c.put("there", "v", 0)
	found := c.get(c.now, "a", "there", "b", "there")
	for i, want := range []bool{false, true, false, true} {
		if found[i].Found != want {
			c.Errorf("entry %d: %+v", i, found[i])
		}
	}
	if len(c.get(c.now)) != 0 {
		c.Error("Get of no key returns entries")
	}
}

func kvReadBack(t *trial) {
	c := t.kv()
	for _, e := range []store.KVEntry{{Key: "k", Value: []byte("v")}, {Key: "empty", Value: []byte{}}, {Key: "ends", Value: []byte{0, 0xff}, Expiry: c.now + 5}} {
		r := c.apply(c.now, store.KVOp{Key: e.Key, Action: store.KVSet, Value: e.Value, Expiry: e.Expiry})[0]
		got := c.get(c.now, e.Key)[0]
		if !got.Found || !bytes.Equal(got.Value, e.Value) || got.Expiry != e.Expiry || got.Written != c.now || got.Version == 0 {
			c.Errorf("got %+v, want %+v written at %d", got, e, c.now)
		}
		if !r.Done || r.Old.Found || !r.New.Same(got) || r.New.Expiry != e.Expiry || r.New.Written != c.now || r.New.Value != nil {
			c.Errorf("result %+v for %+v", r, got)
		}
	}
}

func kvExact(t *trial) {
	c := t.kv()
	for _, life := range []mayfly.Instant{1, 2, 1000, 86_400_000} {
		key := fmt.Sprint("lives ", life)
		c.put(key, "v", c.now+life)
		c.want(c.now, key, "v")
		c.want(c.now+life-1, key, "v")
		c.want(c.now+life, key, "")
		c.want(c.now+life+1, key, "")
	}
}

func kvExpiredForAll(t *trial) {
	c := t.kv()
	end := c.now + 10
	put := func() { c.put("k", "v", end) }
	put()
	if keys := c.scan(end, "", 10, func() {}); len(keys) != 0 {
		c.Errorf("scan returns the expired %q", keys)
	}
	c.wantKeys(c.scan(end-1, "", 10, func() {}), "k")
	for _, o := range []store.KVOp{
		{Action: store.KVTouch},
		{Action: store.KVDelete},
		{Action: store.KVSet, If: store.KVIfPresent},
		{Action: store.KVRead, If: store.KVIfHasExpiry},
		{Action: store.KVTouch, If: store.KVIfLater},
	} {
		put()
		o.Key = "k"
		if r := c.apply(end, o)[0]; r.Done || r.Old.Found || r.New.Found {
			c.Errorf("%+v on an expired entry: %+v", o, r)
		}
		if r := c.apply(end-1, o)[0]; !r.Done && o.If != store.KVIfLater || !r.Old.Found {
			c.Errorf("%+v a millisecond before: %+v", o, r)
		}
	}
	put()
	r := c.apply(end, store.KVOp{Key: "k", Action: store.KVSet, If: store.KVIfAbsent, Value: []byte("new"), Old: true, KeepExpiry: true})[0]
	if !r.Done || r.Old.Found || r.Old.Value != nil || r.New.Expiry != 0 {
		c.Errorf("set over an expired entry: %+v", r)
	}
	c.want(end+100, "k", "new")
	put()
	r = c.apply(end, store.KVOp{Key: "k", Action: store.KVUpdate, Update: func(old store.KVEntry) ([]byte, error) {
		return fmt.Appendf(nil, "%t", old.Found), nil
	}})[0]
	if string(r.New.Value) != "false" {
		c.Errorf("update of an expired entry sees it: %+v", r)
	}
}

func kvNever(t *trial) {
	c := t.kv()
	c.put("k", "v", 0)
	c.want(math.MaxInt64, "k", "v")
	c.put("k", "v", math.MaxInt64)
	c.want(math.MaxInt64-1, "k", "v")
	c.want(math.MaxInt64, "k", "")
}

func kvPastExpiry(t *trial) {
	c := t.kv()
	for _, action := range []store.KVAction{store.KVSet, store.KVTouch, store.KVUpdate} {
		for _, expiry := range []mayfly.Instant{c.now, c.now - 1, 1, -1, math.MinInt64} {
			c.put("k", "v", c.now+1000)
			r := c.apply(c.now, store.KVOp{
				Key: "k", Action: action, Expiry: expiry, Value: []byte("w"),
				Update: func(store.KVEntry) ([]byte, error) { return []byte("w"), nil },
			})[0]
			if !r.Done || !r.Old.Found || r.New.Found {
				c.Errorf("action %d with expiry %d: %+v", action, expiry-c.now, r)
			}
			c.want(c.now, "k", "")
			c.want(c.now-2, "k", "")
		}
	}
}

func kvLargest(t *trial) {
	c := t.kv()
	key := strings.Repeat("k", store.MaxKVKey)
	value := bytes.Repeat([]byte("0123456789abcdef"), store.MaxKVValue/16)
	c.s.Name += strings.Repeat("n", store.MaxKVSpace-len(c.s.Name))
	c.apply(c.now, store.KVOp{Key: key, Action: store.KVSet, Value: value})
	if got := c.get(c.now, key)[0]; !bytes.Equal(got.Value, value) {
		c.Errorf("the largest value comes back with %d bytes", len(got.Value))
	}
	c.reclaim(c.now)
	c.must(c.set.KV.Drop(c.ctx, c.s))
	c.want(c.now, key, "")
}

func kvInvalid(t *trial) {
	c := t.kv()
	long := strings.Repeat("k", store.MaxKVKey+1)
	set := store.KVOp{Key: "k", Action: store.KVSet, Value: []byte("v")}
	for i, g := range []store.KVGroup{
		{Ops: []store.KVOp{set, {Key: long, Action: store.KVSet}}},
		{Ops: []store.KVOp{set, {Key: "x", Action: store.KVSet, Value: make([]byte, store.MaxKVValue+1)}}},
		{Ops: []store.KVOp{set, {Key: "x", Action: store.KVUpdate + 1}}},
		{Ops: []store.KVOp{set, {Key: "x", If: store.KVIfSooner + 1}}},
		{Ops: []store.KVOp{set, {Key: "x", Action: store.KVUpdate}}},
		{Ops: []store.KVOp{set}, Watch: []store.KVEntry{{Key: long}}},
	} {
		if _, err := c.set.KV.Apply(c.ctx, c.s, c.now, g); !errors.Is(err, mayfly.Invalid) {
			c.Errorf("group %d: %v", i, err)
		}
	}
	huge := store.KVGroup{Ops: []store.KVOp{set}}
	for range store.MaxKVGroup / store.MaxKVValue {
		huge.Ops = append(huge.Ops, store.KVOp{Key: "x", Action: store.KVSet, Value: make([]byte, store.MaxKVValue)})
	}
	_, err := c.set.KV.Apply(c.ctx, c.s, c.now, huge)
	c.wantKind(mayfly.Invalid, err)
	c.want(c.now, "k", "")
	_, err = c.set.KV.Get(c.ctx, c.s, c.now, "k", long)
	c.wantKind(mayfly.Invalid, err)
	_, _, err = c.set.KV.Scan(c.ctx, c.s, c.now, "", "", 0)
	c.wantKind(mayfly.Invalid, err)
	_, err = c.set.KV.Due(c.ctx, c.s, c.now, store.KVDue{}, 0)
	c.wantKind(mayfly.Invalid, err)
	for _, name := range []string{"", strings.Repeat("n", store.MaxKVSpace+1)} {
		s := store.KVSpace{Name: name}
		_, err = c.set.KV.Get(c.ctx, s, c.now, "k")
		c.wantKind(mayfly.Invalid, err)
		_, err = c.set.KV.Apply(c.ctx, s, c.now, store.KVGroup{Ops: []store.KVOp{set}})
		c.wantKind(mayfly.Invalid, err)
		c.wantKind(mayfly.Invalid, c.set.KV.Drop(c.ctx, s))
		_, err = c.set.KV.Stats(c.ctx, s, c.now)
		c.wantKind(mayfly.Invalid, err)
	}
	if results := c.apply(c.now); len(results) != 0 {
		c.Errorf("an empty group has %d results", len(results))
	}
}

func kvCopies(t *trial) {
	c := t.kv()
	value := []byte("value")
	c.apply(c.now, store.KVOp{Key: "k", Action: store.KVSet, Value: value})
	value[0] = 'X'
	c.want(c.now, "k", "value")
	c.get(c.now, "k")[0].Value[0] = 'Y'
	c.want(c.now, "k", "value")
	c.apply(c.now, store.KVOp{Key: "k", Action: store.KVRead})[0].Old.Value[0] = 'Z'
	c.want(c.now, "k", "value")
	r := c.apply(c.now, store.KVOp{Key: "k", Action: store.KVUpdate, Update: func(old store.KVEntry) ([]byte, error) {
		old.Value[0] = 'V'
		return old.Value, nil
	}})[0]
	r.New.Value[0] = 'W'
	c.want(c.now, "k", "Value")
}

func kvCancelled(t *trial) {
	c := t.kv()
	ctx, cancel := context.WithCancel(c.ctx)
	cancel()
	if _, err := c.set.KV.Apply(ctx, c.s, c.now, store.KVGroup{Ops: []store.KVOp{{Key: "k", Action: store.KVSet}}}); err == nil {
		c.Error("a cancelled Apply returns no error")
	}
	if _, err := c.set.KV.Get(ctx, c.s, c.now, "k"); err == nil {
		c.Error("a cancelled Get returns no error")
	}
	if c.get(c.now, "k")[0].Found {
		c.Error("a cancelled Apply has written")
	}
}
