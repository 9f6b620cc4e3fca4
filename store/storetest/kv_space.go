package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

func kvScan(t *trial) {
	c := t.kv()
	var all, some []string
	for i := range 57 {
		key := fmt.Sprintf("%c%02d", "ab"[i%2], i)
		c.put(key, "v", 0)
		if all = append(all, key); i%2 == 1 {
			some = append(some, key)
		}
		c.put("expired "+key, "v", c.now+1)
	}
	for _, limit := range []int{1, 7, 57, 1000} {
		c.wantKeys(c.scan(c.now+1, "", limit, func() {}), all...)
		c.wantKeys(c.scan(c.now+1, "b", limit, func() {}), some...)
	}
	c.wantKeys(c.scan(c.now+1, "c", 10, func() {}))
	c.wantKeys(c.scan(c.now+1, "a0", 10, func() {}), "a00", "a02", "a04", "a06", "a08")
	page, _, err := c.set.KV.Scan(c.ctx, c.s, c.now, "a00", "", 1)
	if got := c.get(c.now, "a00")[0]; err != nil || len(page) == 1 && (!page[0].Same(got) || page[0].Written != got.Written) {
		c.Errorf("scan returns %+v, %v; get %+v", page, err, got)
	}
}

func kvScanUnderChange(t *trial) {
	c := t.kv()
	var stay []string
	for i := range 40 {
		key := fmt.Sprintf("stays %02d", i)
		c.put(key, "v", 0)
		stay = append(stay, key)
	}
	n := 0
	seen := map[string]int{}
	for _, key := range c.scan(c.now, "", 3, func() {
		n++
		c.put(fmt.Sprintf("stays %02d+", 39-n), "new", 0)
		c.put(fmt.Sprintf("comes %02d", n), "new", 0)
		c.apply(c.now, store.KVOp{Key: fmt.Sprintf("comes %02d", n-1), Action: store.KVDelete})
		c.put(stay[n], "changed", 0)
	}) {
		seen[key]++
	}
	for _, key := range stay {
		if seen[key] != 1 {
			c.Errorf("%q was returned %d times", key, seen[key])
		}
	}
}

func kvNames(t *trial) {
	c := t.kv()
	base := c.s.Name
	keys := []string{"", "\x00", "a", "a\x00", "\xff", "\xff\xff", base, "a/b:{c}\r\n", "ü"}
	var spaces []store.KVSpace
	for _, tail := range []string{"", "\x00", "a", "a\x00", "\xff", "/"} {
		spaces = append(spaces, store.KVSpace{Name: base + tail})
	}
	for _, c.s = range spaces {
		for _, key := range keys {
			c.put(key, c.s.Name+key+"!", 0)
		}
	}
	for _, c.s = range spaces {
		for _, key := range keys {
			c.want(c.now, key, c.s.Name+key+"!")
		}
		c.wantKeys(c.scan(c.now, "", 2, func() {}), keys...)
		c.wantKeys(c.scan(c.now, "\xff", 1, func() {}), "\xff", "\xff\xff")
	}
	c.s = spaces[0]
	c.must(c.set.KV.Drop(c.ctx, c.s))
	for i, space := range spaces {
		c.s = space
		if got := c.scan(c.now, "", 100, func() {}); len(got) != len(keys)*min(i, 1) {
			c.Errorf("after the drop of space 0 space %d has %d keys", i, len(got))
		}
	}
}

func (c *kvTrial) due(now mayfly.Instant, after store.KVDue, limit int) []store.KVDue {
	c.Helper()
	due, err := c.set.KV.Due(c.ctx, c.s, now, after, limit)
	c.must(err)
	return due
}

func (c *kvTrial) wantDue(got []store.KVDue, want ...store.KVDue) {
	c.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		c.Errorf("due %q, want %q", got, want)
	}
}

func kvDue(t *trial) {
	c := t.kv()
	c.s.Events = true
	var want []store.KVDue
	for i := range 9 {
		d := store.KVDue{At: c.now + mayfly.Instant(1+i/2), Key: string(rune('a' + i))}
		c.put(d.Key, "v", d.At)
		want = append(want, d)
	}
	c.put("never", "v", 0)
	c.put("later", "v", c.now+50)
	c.wantDue(c.due(c.now, store.KVDue{}, 100))
	c.wantDue(c.due(c.now+1, store.KVDue{}, 100), want[:2]...)
	c.wantDue(c.due(c.now+49, store.KVDue{}, 100), want...)
	for _, limit := range []int{1, 2, 4} {
		var got []store.KVDue
		for after := (store.KVDue{}); ; after = got[len(got)-1] {
			page := c.due(c.now+20, after, limit)
			if len(page) > limit {
				c.Fatalf("a page of %d keys, the limit is %d", len(page), limit)
			}
			if got = append(got, page...); len(page) == 0 {
				break
			}
		}
		c.wantDue(got, want...)
	}
	_, err := c.set.KV.Reclaim(c.ctx, c.now+20)
	c.must(err)
	c.wantDue(c.due(c.now.Add(store.KVRemembers), want[3], 2), want[4:6]...)
	other := store.KVSpace{Name: c.s.Name + "a", Events: true}
	if due, err := c.set.KV.Due(c.ctx, other, c.now+100, store.KVDue{}, 10); err != nil || len(due) != 0 {
		c.Errorf("another namespace has %v due, %v", due, err)
	}
}

func kvDueOnlyExpired(t *trial) {
	c := t.kv()
	c.s.Events = true
	at := c.now + 10
	for _, key := range []string{"deleted", "replaced", "persisted", "touched", "kept", "again", "twice"} {
		c.put(key, "v", at)
	}
	c.apply(c.now+9,
		store.KVOp{Key: "deleted", Action: store.KVDelete},
		store.KVOp{Key: "replaced", Action: store.KVSet},
		store.KVOp{Key: "persisted", Action: store.KVTouch},
		store.KVOp{Key: "touched", Action: store.KVTouch, Expiry: at + 5},
		store.KVOp{Key: "kept", Action: store.KVSet, KeepExpiry: true},
		store.KVOp{Key: "group", Action: store.KVSet, Expiry: at},
		store.KVOp{Key: "group", Action: store.KVSet, Expiry: at + 1})
	c.apply(at, store.KVOp{Key: "again", Action: store.KVSet}, store.KVOp{Key: "twice", Action: store.KVSet, Expiry: at + 3})
	c.wantDue(c.due(at+100, store.KVDue{}, 100),
		store.KVDue{At: at, Key: "again"}, store.KVDue{At: at, Key: "kept"}, store.KVDue{At: at, Key: "twice"},
		store.KVDue{At: at + 1, Key: "group"}, store.KVDue{At: at + 3, Key: "twice"}, store.KVDue{At: at + 5, Key: "touched"})
}

func kvDrop(t *trial) {
	c := t.kv()
	c.s.Events = c.hasEvents()
	other := freshName("other")
	for i := range 30 {
		c.put(fmt.Sprint(i), "v", c.now+mayfly.Instant(1+i%3))
	}
	mine := c.s
	c.s = store.KVSpace{Name: other}
	c.put("k", "v", 0)
	c.s = mine
	for range 2 {
		c.must(c.set.KV.Drop(c.ctx, c.s))
		if keys := c.scan(c.now-1, "", 10, func() {}); len(keys) != 0 {
			c.Errorf("%q are left", keys)
		}
		c.want(c.now-1, "1", "")
		if c.s.Events {
			c.wantDue(c.due(c.now+10, store.KVDue{}, 100))
		}
		if st := c.stats(c.now); st != (store.KVStats{}) {
			c.Errorf("a dropped namespace has %+v", st)
		}
	}
	c.put("1", "again", 0)
	c.want(c.now, "1", "again")
	c.s.Name = other
	c.want(c.now, "k", "v")
}

// reclaim calls Reclaim until there is nothing more to do.
func (c *kvTrial) reclaim(now mayfly.Instant) (total store.KVReclaimed) {
	c.Helper()
	for range 100_000 {
		r, err := c.set.KV.Reclaim(c.ctx, now)
		c.must(err)
		total.Entries += r.Entries
		if !r.More {
			return total
		}
	}
	c.Fatal("reclaim does not end")
	return total
}

func kvOlderVersion(t *trial) {
	c := t.kv()
	for i := range 20 {
		c.put(fmt.Sprint(i), "never expires", 0)
		c.put(fmt.Sprint(i), "expires late", c.now.Add(24*time.Hour))
		if i%2 == 0 {
			c.reclaim(c.now)
		}
		c.put(fmt.Sprint(i), "expires soon", c.now+10)
		c.put("deleted", "expires late", c.now.Add(24*time.Hour))
		c.put("deleted", "expires soon", c.now+10)
		c.apply(c.now, store.KVOp{Key: "deleted", Action: store.KVDelete})
	}
	check := func(now mayfly.Instant) {
		for i := range 20 {
			c.want(now, fmt.Sprint(i), "")
		}
		c.want(now, "deleted", "")
		if keys := c.scan(now, "", 100, func() {}); len(keys) != 0 {
			c.Errorf("%q have come back", keys)
		}
	}
	check(c.now + 10)
	c.reclaim(c.now + 10)
	check(c.now + 10)
	c.reclaim(c.now.Add(time.Hour))
	check(c.now.Add(time.Hour))
}

func kvReclaim(t *trial) {
	c := t.kv()
	const n = 400
	value := func(i int) string { return strings.Repeat(fmt.Sprint(i), 50) }
	for from := 0; from < n; from += 100 {
		var ops []store.KVOp
		for i := from; i < from+100; i++ {
			o := store.KVOp{Key: fmt.Sprintf("%04d", i), Action: store.KVSet, Value: []byte(value(i))}
			if i%3 != 0 {
				o.Expiry = c.now.Add(time.Duration(10+i%3*10) * time.Minute)
			}
			ops = append(ops, o)
		}
		c.apply(c.now, ops...)
	}
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("%04d", i)
	}
	versions := c.get(c.now, "0000", "0002")
	for _, after := range []int{0, 19, 20, 25, 30, 35} {
		now := c.now.Add(time.Duration(after) * time.Minute)
		c.reclaim(now)
		for i, e := range c.get(now, keys...) {
			want := value(i)
			if i%3 != 0 && 10+i%3*10 <= after {
				want = ""
			}
			if e.Found != (want != "") || string(e.Value) != want {
				c.Errorf("after %d minutes %q is %q (found: %t), want %q", after, e.Key, e.Value, e.Found, want)
			}
		}
	}
	if got := c.get(c.now.Add(time.Hour), "0000", "0002"); !got[0].Same(versions[0]) || got[0].Written != versions[0].Written {
		c.Errorf("reclaim changed %+v to %+v", versions, got)
	}
	if st := c.stats(c.now.Add(time.Hour)); st.Keys != n/3+1 {
		c.Errorf("%d of %d keys are left, want every third", st.Keys, n)
	}
	c.put("0001", "again", 0)
	c.reclaim(c.now.Add(time.Hour))
	c.want(c.now.Add(time.Hour), "0001", "again")
}

func (c *kvTrial) stats(now mayfly.Instant) store.KVStats {
	c.Helper()
	st, err := c.set.KV.Stats(c.ctx, c.s, now)
	c.must(err)
	return st
}

func kvStats(t *trial) {
	c := t.kv()
	check := func(keys, size int64) {
		c.Helper()
		if st := c.stats(c.now); st.Keys != keys || st.Bytes != size {
			c.Errorf("the namespace has %+v, want %d keys and %d bytes", st, keys, size)
		}
	}
	check(0, 0)
	c.put("a", "12345", 0)
	check(1, 6)
	c.put("a", "123", c.now+10)
	check(1, 4)
	c.put("bb", "", c.now+10)
	check(2, 6)
	c.apply(c.now, store.KVOp{Key: "a", Action: store.KVTouch, Expiry: c.now + 5}, store.KVOp{Key: "none", Action: store.KVDelete})
	check(2, 6)
	c.put("old", "expires", c.now+1)
	if r := c.apply(c.now+1, store.KVOp{Key: "old", Action: store.KVSet, Value: []byte("v"), If: store.KVIfAbsent})[0]; !r.Done {
		c.Errorf("set over an expired entry: %+v", r)
	}
	check(3, 10)
	c.apply(c.now, store.KVOp{Key: "a", Action: store.KVDelete}, store.KVOp{Key: "bb", Action: store.KVTouch, Expiry: 1}, store.KVOp{Key: "old", Action: store.KVDelete})
	check(0, 0)
}

func kvUsage(t *trial) {
	c := t.kv()
	usage := func(now mayfly.Instant) store.KVUsage {
		c.Helper()
		u, err := c.set.KV.Usage(c.ctx, now)
		c.must(err)
		if u.Live < 0 || u.Expired < 0 || u.Disk < 0 || (u.Oldest != 0) != (u.Expired != 0) || u.Sync != "always" && u.Sync != "everysec" {
			c.Errorf("usage %+v", u)
		}
		return u
	}
	before := usage(c.now)
	c.put("never", strings.Repeat("v", 995), 0)
	c.put("soon", strings.Repeat("v", 1996), c.now.Add(time.Minute))
	at := usage(c.now)
	if at.Live-before.Live != 3000 || at.Expired != before.Expired {
		c.Errorf("usage went from %+v to %+v, want 3000 more live", before, at)
	}
	later := usage(c.now.Add(10 * time.Minute))
	if later.Expired < 2000 || later.Oldest == 0 || later.Oldest > c.now.Add(10*time.Minute) {
		c.Errorf("10 minutes later: %+v", later)
	}
}
