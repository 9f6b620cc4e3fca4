package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

func kvConditions(t *trial) {
	c := t.kv()
	const absent, never, ends = "absent", "never", "ends"
	for _, one := range []struct {
		entry  string
		If     store.KVCondition
		expiry mayfly.Instant // of the operation, from now; 0 is never
		want   bool
	}{
		{absent, store.KVAlways, 0, true},
		{never, store.KVAlways, 0, true},
		{absent, store.KVIfAbsent, 0, true},
		{never, store.KVIfAbsent, 0, false},
		{absent, store.KVIfPresent, 0, false},
		{never, store.KVIfPresent, 0, true},
		{absent, store.KVIfVersion, 0, false},
		{never, store.KVIfVersion, 0, true},
		{absent, store.KVIfNoExpiry, 5, false},
		{never, store.KVIfNoExpiry, 5, true},
		{ends, store.KVIfNoExpiry, 5, false},
		{absent, store.KVIfHasExpiry, 5, false},
		{never, store.KVIfHasExpiry, 5, false},
		{ends, store.KVIfHasExpiry, 5, true},
		{absent, store.KVIfLater, 2000, false},
		{never, store.KVIfLater, 2000, false},
		{never, store.KVIfLater, 0, false},
		{ends, store.KVIfLater, 999, false},
		{ends, store.KVIfLater, 1000, false},
		{ends, store.KVIfLater, 1001, true},
		{ends, store.KVIfLater, 0, true},
		{absent, store.KVIfSooner, 5, false},
		{never, store.KVIfSooner, 5, true},
		{never, store.KVIfSooner, 0, false},
		{ends, store.KVIfSooner, 999, true},
		{ends, store.KVIfSooner, 1000, false},
		{ends, store.KVIfSooner, 1001, false},
		{ends, store.KVIfSooner, 0, false},
	} {
		var e store.KVEntry
		switch one.entry {
		case absent:
			c.apply(c.now, store.KVOp{Key: "k", Action: store.KVDelete})
		case never:
			e = c.put("k", "v", 0)
		case ends:
			e = c.put("k", "v", c.now+1000)
		}
		o := store.KVOp{Key: "k", Action: store.KVSet, If: one.If, Version: e.Version, Value: []byte("w")}
		if one.expiry != 0 {
			o.Expiry = c.now + one.expiry
		}
		r := c.apply(c.now, o)[0]
		if r.Done != one.want || r.Err != nil || r.Old.Found != (one.entry != absent) {
			c.Errorf("%+v: %+v", one, r)
		}
		got := c.get(c.now, "k")[0]
		if wrote := string(got.Value) == "w"; wrote != one.want || !r.New.Same(got) {
			c.Errorf("%+v: the entry is %+v, the result %+v", one, got, r)
		}
	}
	e := c.put("k", "v", 0)
	for _, version := range []uint64{0, e.Version - 1, e.Version + 1} {
		if r := c.apply(c.now, store.KVOp{Key: "k", Action: store.KVSet, If: store.KVIfVersion, Version: version})[0]; r.Done {
			c.Errorf("a set of version %d is done on version %d", version, e.Version)
		}
	}
}

func kvTouch(t *trial) {
	c := t.kv()
	before := c.put("k", "value", c.now+10)
	r := c.apply(c.now+5, store.KVOp{Key: "k", Action: store.KVTouch, Expiry: c.now + 100})[0]
	got := c.get(c.now+99, "k")[0]
	if !r.Done || string(got.Value) != "value" || got.Expiry != c.now+100 || got.Version <= before.Version || got.Written != c.now+5 {
		c.Errorf("touched: %+v, %+v", r, got)
	}
	c.want(c.now+100, "k", "")
	c.put("k", "value", c.now+10)
	c.apply(c.now, store.KVOp{Key: "k", Action: store.KVTouch})
	c.want(c.now+10_000, "k", "value")
	c.apply(c.now, store.KVOp{Key: "k", Action: store.KVTouch, Expiry: c.now + 3})
	c.want(c.now+2, "k", "value")
	c.want(c.now+3, "k", "")
	if r := c.apply(c.now, store.KVOp{Key: "none", Action: store.KVTouch, Expiry: c.now + 3})[0]; r.Done {
		c.Error("a touch of nothing is done")
	}
	c.want(c.now, "none", "")
}

func kvKeepExpiry(t *trial) {
	c := t.kv()
	set := store.KVOp{Key: "k", Action: store.KVSet, Value: []byte("w"), KeepExpiry: true}
	c.put("k", "v", c.now+10)
	if r := c.apply(c.now, set)[0]; r.New.Expiry != c.now+10 {
		c.Errorf("the expiry was not kept: %+v", r)
	}
	c.want(c.now+9, "k", "w")
	c.want(c.now+10, "k", "")
	set.Key, set.Expiry = "new", c.now+20
	if r := c.apply(c.now, set)[0]; r.New.Expiry != c.now+20 {
		c.Errorf("a new entry has another expiry: %+v", r)
	}
	c.put("never", "v", 0)
	set.Key = "never"
	if r := c.apply(c.now, set)[0]; r.New.Expiry != 0 {
		c.Errorf("an entry that never expires does now: %+v", r)
	}
	set.Key = "k" // it has expired
	if r := c.apply(c.now+10, set)[0]; r.New.Expiry != c.now+20 {
		c.Errorf("the expiry of an expired entry was kept: %+v", r)
	}
	c.put("n", "1", c.now+10)
	r := c.apply(c.now, store.KVOp{Key: "n", Action: store.KVUpdate, KeepExpiry: true, Update: plusOne})[0]
	if string(r.New.Value) != "2" || r.New.Expiry != c.now+10 {
		c.Errorf("an update has not kept the expiry: %+v", r)
	}
}

func plusOne(old store.KVEntry) ([]byte, error) {
	n := 0
	if old.Found {
		var err error
		if n, err = strconv.Atoi(string(old.Value)); err != nil {
			return nil, err
		}
	}
	return strconv.AppendInt(nil, int64(n+1), 10), nil
}

func kvDelete(t *trial) {
	c := t.kv()
	c.put("k", "old", 0)
	c.put("k", "v", c.now+1000)
	r := c.apply(c.now, store.KVOp{Key: "k", Action: store.KVDelete, Old: true})[0]
	if !r.Done || string(r.Old.Value) != "v" || r.New.Found {
		c.Errorf("delete: %+v", r)
	}
	c.want(c.now, "k", "")
	c.want(c.now+2000, "k", "")
	if r := c.apply(c.now, store.KVOp{Key: "k", Action: store.KVDelete})[0]; r.Done || r.Old.Found {
		c.Errorf("a second delete: %+v", r)
	}
}

func kvVersions(t *trial) {
	c := t.kv()
	last := uint64(0)
	for i := range 5 {
		for _, o := range []store.KVOp{
			{Action: store.KVSet, Value: []byte("v"), Expiry: c.now + 1000},
			{Action: store.KVTouch, Expiry: c.now + 1000},
			{Action: store.KVUpdate, Update: func(store.KVEntry) ([]byte, error) { return nil, nil }},
			{Action: store.KVSet, Value: []byte("v")},
		} {
			o.Key = "k"
			v := c.apply(c.now, o)[0].New.Version
			if v <= last || c.get(c.now, "k")[0].Version != v {
				c.Errorf("round %d: version %d after %d, read back as %d", i, v, last, c.get(c.now, "k")[0].Version)
			}
			last = v
		}
		c.apply(c.now, store.KVOp{Key: "k", Action: store.KVDelete})
		_, err := c.set.KV.Reclaim(c.ctx, c.now)
		c.must(err)
	}
}

func kvUpdate(t *trial) {
	c := t.kv()
	for want := 1; want <= 3; want++ {
		r := c.apply(c.now, store.KVOp{Key: "n", Action: store.KVUpdate, Update: plusOne, Expiry: c.now + 10, Old: true})[0]
		if !r.Done || r.Old.Found != (want > 1) || string(r.New.Value) != fmt.Sprint(want) || r.New.Expiry != c.now+10 {
			c.Errorf("update %d: %+v", want, r)
		}
		c.want(c.now, "n", fmt.Sprint(want))
	}
	if r := c.apply(c.now, store.KVOp{Key: "n", Action: store.KVUpdate, If: store.KVIfAbsent, Update: plusOne})[0]; r.Done || r.New.Value != nil {
		c.Errorf("an update whose condition does not hold: %+v", r)
	}
}

func kvUpdateFails(t *trial) {
	c := t.kv()
	before := c.put("n", "text", 0)
	results := c.apply(c.now,
		store.KVOp{Key: "n", Action: store.KVUpdate, Update: plusOne},
		store.KVOp{Key: "other", Action: store.KVSet, Value: []byte("v")},
		store.KVOp{Key: "n", Action: store.KVUpdate, Update: func(store.KVEntry) ([]byte, error) { return make([]byte, store.MaxKVValue+1), nil }})
	if r := results[0]; r.Done || !errors.Is(r.Err, strconv.ErrSyntax) || !r.New.Same(before) {
		c.Errorf("a failed update: %+v", r)
	}
	if r := results[2]; r.Done || !errors.Is(r.Err, mayfly.Invalid) {
		c.Errorf("an update that is too large: %+v", r)
	}
	if got := c.get(c.now, "n")[0]; !got.Same(before) || string(got.Value) != "text" {
		c.Errorf("the entry is %+v after failed updates", got)
	}
	c.want(c.now, "other", "v")
}

func kvSeveral(t *trial) {
	c := t.kv()
	set := func(value string, expiry mayfly.Instant) store.KVOp {
		return store.KVOp{Key: "k", Action: store.KVSet, Value: []byte(value), Expiry: expiry, Old: true}
	}
	results := c.apply(c.now,
		set("1", c.now+5),
		store.KVOp{Key: "k", Action: store.KVUpdate, Update: plusOne, KeepExpiry: true},
		store.KVOp{Key: "k", Action: store.KVRead},
		store.KVOp{Key: "k", Action: store.KVDelete},
		store.KVOp{Key: "k", Action: store.KVRead},
		set("3", c.now+9),
		store.KVOp{Key: "k", Action: store.KVSet, Value: []byte("no"), If: store.KVIfAbsent},
		store.KVOp{Key: "k", Action: store.KVTouch, Expiry: c.now + 7},
	)
	for i, want := range []bool{true, true, true, true, true, true, false, true} {
		if results[i].Done != want {
			c.Errorf("operation %d: %+v", i, results[i])
		}
	}
	if r := results[2]; string(r.Old.Value) != "2" || r.Old.Expiry != c.now+5 {
		c.Errorf("the read in the group: %+v", r)
	}
	if results[4].Old.Found || results[5].Old.Found {
		c.Errorf("the entry is there after the delete: %+v", results[4:6])
	}
	last := uint64(0)
	for _, i := range []int{0, 1, 5, 7} {
		if results[i].New.Version <= last {
			c.Errorf("operation %d has version %d after %d", i, results[i].New.Version, last)
		}
		last = results[i].New.Version
	}
	got := c.get(c.now, "k")[0]
	if string(got.Value) != "3" || got.Expiry != c.now+7 || !got.Same(results[7].New) {
		c.Errorf("the entry is %+v", got)
	}
	if st := c.stats(c.now); st.Keys != 1 || st.Bytes != 2 {
		c.Errorf("the namespace has %+v", st)
	}
	c.apply(c.now, set("4", 0), store.KVOp{Key: "k", Action: store.KVDelete})
	c.want(c.now, "k", "")
	if st := c.stats(c.now); st != (store.KVStats{}) {
		c.Errorf("the namespace has %+v", st)
	}
}

func kvOld(t *trial) {
	c := t.kv()
	for _, action := range []store.KVAction{store.KVSet, store.KVTouch, store.KVUpdate, store.KVDelete} {
		for _, ask := range []bool{false, true} {
			before := c.put("k", "v", c.now+9)
			r := c.apply(c.now, store.KVOp{Key: "k", Action: action, Old: ask, Update: plusText})[0]
			if !r.Old.Same(before) || r.Old.Expiry != c.now+9 || (r.Old.Value != nil) != ask {
				c.Errorf("action %d, asked %t: %+v", action, ask, r)
			}
		}
	}
	c.put("k", "v", 0)
	r := c.apply(c.now, store.KVOp{Key: "k", Action: store.KVSet, If: store.KVIfAbsent, Old: true})[0]
	if r.Done || string(r.Old.Value) != "v" {
		c.Errorf("the old value of an operation that is not done: %+v", r)
	}
}

func plusText(old store.KVEntry) ([]byte, error) { return append(bytes.Clone(old.Value), '+'), nil }

func kvMaxAnswer(t *trial) {
	c := t.kv()
	value := strings.Repeat("v", 100)
	for _, key := range []string{"a", "b", "c"} {
		c.put(key, value, 0)
	}
	limited := c.s
	limited.MaxAnswer = 200
	refused := func(what string, err error) {
		c.Helper()
		var cause store.KVLargeAnswer
		if !errors.Is(err, mayfly.TooLarge) || !errors.As(err, &cause) || cause.Most != 200 || cause.Size <= 200 {
			c.Errorf("%s: %v, %+v", what, err, cause)
		}
	}
	found, err := c.set.KV.Get(c.ctx, limited, c.now, "a", "none", "b")
	c.must(err)
	if string(found[0].Value)+string(found[2].Value) != value+value {
		c.Errorf("within the limit: %+v", found)
	}
	_, err = c.set.KV.Get(c.ctx, limited, c.now, "a", "b", "c")
	refused("Get of 300 bytes", err)
	_, err = c.set.KV.Get(c.ctx, limited, c.now, "a", "a", "a")
	refused("Get of one key three times", err)

	set := store.KVOp{Key: "d", Action: store.KVSet, Value: []byte("new")}
	more := store.KVOp{Key: "a", Action: store.KVUpdate, Update: plusText}
	for what, ops := range map[string][]store.KVOp{
		"a write and three reads":        {set, {Key: "a"}, {Key: "b"}, {Key: "c"}},
		"a write and one entry repeated": {set, {Key: "a"}, {Key: "a"}, {Key: "a"}},
		"old values of writes": {
			set,
			{Key: "a", Action: store.KVDelete, Old: true},
			{Key: "b", Action: store.KVTouch, Expiry: c.now + 1000, Old: true},
			{Key: "c", Action: store.KVSet, Old: true},
		},
		"new values of updates": {set, more, more},
	} {
		_, err := c.set.KV.Apply(c.ctx, limited, c.now, store.KVGroup{Ops: ops})
		refused(what, err)
		c.want(c.now, "d", "")
	}
	for _, key := range []string{"a", "b", "c"} {
		c.want(c.now, key, value)
	}
	// Values that are not answered do not count.
	results, err := c.set.KV.Apply(c.ctx, limited, c.now, store.KVGroup{Ops: []store.KVOp{
		{Key: "a", Action: store.KVDelete}, {Key: "b", Action: store.KVSet, Value: []byte("w")}, {Key: "c", Old: true}, {Key: "c", Action: store.KVDelete, Old: true}, set,
	}})
	c.must(err)
	if string(results[2].Old.Value)+string(results[3].Old.Value) != value+value {
		c.Errorf("within the limit: %+v", results)
	}
	c.want(c.now, "d", "new")
}

func kvWatch(t *trial) {
	c := t.kv()
	for _, one := range []struct {
		name   string
		before func()
		change func()
		at     mayfly.Instant
		stops  bool
	}{
		{"nothing", func() { c.put("w", "v", 0) }, func() {}, 0, false},
		{"another key", func() { c.put("w", "v", 0) }, func() { c.put("x", "v", 0) }, 0, false},
		{"set", func() { c.put("w", "v", 0) }, func() { c.put("w", "v", 0) }, 0, true},
		{"touch", func() { c.put("w", "v", 0) }, func() { c.apply(c.now, store.KVOp{Key: "w", Action: store.KVTouch}) }, 0, true},
		{"delete", func() { c.put("w", "v", 0) }, func() { c.apply(c.now, store.KVOp{Key: "w", Action: store.KVDelete}) }, 0, true},
		{"delete and set", func() { c.put("w", "v", 0) }, func() {
			c.apply(c.now, store.KVOp{Key: "w", Action: store.KVDelete})
			c.put("w", "v", 0)
		}, 0, true},
		{"created", func() { c.apply(c.now, store.KVOp{Key: "w", Action: store.KVDelete}) }, func() { c.put("w", "v", 0) }, 0, true},
		{"still absent", func() { c.apply(c.now, store.KVOp{Key: "w", Action: store.KVDelete}) }, func() {}, 0, false},
		{"not yet expired", func() { c.put("w", "v", c.now+10) }, func() {}, 9, false},
		{"expired", func() { c.put("w", "v", c.now+10) }, func() {}, 10, true},
	} {
		one.before()
		watched := c.get(c.now, "w", "never written")
		one.change()
		name := freshName("k")
		_, err := c.set.KV.Apply(c.ctx, c.s, c.now+one.at, store.KVGroup{Watch: watched, Ops: []store.KVOp{
			{Key: name, Action: store.KVSet, Value: []byte("v")},
		}})
		want := "v"
		if one.stops {
			want = ""
			c.wantKind(mayfly.Conflict, err)
		} else {
			c.must(err)
		}
		if c.want(c.now, name, want); c.Failed() {
			c.Fatalf("after a change: %s", one.name)
		}
	}
}

func kvQuota(t *trial) {
	c := t.kv()
	const a, b = "{q}a", "{q}b" // in one slot
	c.s.Quota = 100
	c.put(a, strings.Repeat("x", 46), 0) // 50 bytes
	before := c.stats(c.now)
	_, err := c.set.KV.Apply(c.ctx, c.s, c.now, store.KVGroup{Ops: []store.KVOp{
		{Key: a, Action: store.KVSet, Value: []byte("changed")},
		{Key: b, Action: store.KVSet, Value: make([]byte, 93)},
	}})
	c.wantKind(mayfly.Full, err)
	c.want(c.now, a, strings.Repeat("x", 46))
	c.want(c.now, b, "")
	if st := c.stats(c.now); st != before {
		c.Errorf("a refused group changed %+v to %+v", before, st)
	}
	c.put(b, strings.Repeat("y", 46), 0) // 100 in all
	_, err = c.set.KV.Apply(c.ctx, c.s, c.now, store.KVGroup{Ops: []store.KVOp{{Key: "{q}", Action: store.KVSet, Value: []byte("z")}}})
	c.wantKind(mayfly.Full, err)
	c.apply(c.now, // one byte more and one less
		store.KVOp{Key: a, Action: store.KVSet, Value: make([]byte, 47)},
		store.KVOp{Key: b, Action: store.KVSet, Value: make([]byte, 45)})
	c.s.Quota = 10 // a group that does not grow the namespace passes, though it is over
	c.apply(c.now, store.KVOp{Key: a, Action: store.KVTouch}, store.KVOp{Key: b, Action: store.KVSet, Value: make([]byte, 40)})
	c.apply(c.now, store.KVOp{Key: a, Action: store.KVDelete})
	if st := c.stats(c.now); st.Keys != 1 || st.Bytes != 44 {
		c.Errorf("the namespace has %+v", st)
	}
}

func kvQuotaTogether(t *trial) {
	c := t.kv()
	c.s.Quota = 1000
	c.put("b", strings.Repeat("x", 40), 0)
	refused := 0
	var mu sync.Mutex
	together(20, func(i int) {
		_, err := c.set.KV.Apply(c.ctx, c.s, c.now, store.KVGroup{Ops: []store.KVOp{{Key: fmt.Sprintf("%03d", i), Action: store.KVSet, Value: make([]byte, 97)}}})
		mu.Lock()
		defer mu.Unlock()
		if errors.Is(err, mayfly.Full) {
			refused++
		} else if err != nil {
			c.Error(err)
		}
	})
	if st := c.stats(c.now); st.Bytes != 941 || refused != 11 {
		c.Errorf("concurrent writers brought the namespace to %+v with %d refusals", st, refused)
	}
}

func kvAtomic(t *trial) {
	c := t.kv()
	const keys, rounds = 8, 40
	pair := func(value int) []store.KVOp {
		var ops []store.KVOp
		for i := range keys {
			ops = append(ops, store.KVOp{Key: fmt.Sprint(i), Action: store.KVSet, Value: []byte(fmt.Sprint(value))})
		}
		return ops
	}
	c.apply(c.now, pair(0)...)
	var names []string
	var reads []store.KVOp
	for i := range keys {
		names = append(names, fmt.Sprint(i))
		reads = append(reads, store.KVOp{Key: fmt.Sprint(i), Action: store.KVRead})
	}
	together(4, func(i int) {
		for n := range rounds {
			var got []store.KVEntry
			switch i {
			case 0, 1:
				if _, err := c.set.KV.Apply(c.ctx, c.s, c.now, store.KVGroup{Ops: pair(n*2 + i)}); err != nil {
					c.Error(err)
				}
				continue
			case 2:
				found, err := c.set.KV.Get(c.ctx, c.s, c.now, names...)
				if err != nil {
					c.Error(err)
				}
				got = found
			case 3:
				results, err := c.set.KV.Apply(c.ctx, c.s, c.now, store.KVGroup{Ops: reads})
				if err != nil {
					c.Error(err)
				}
				for _, r := range results {
					got = append(got, r.Old)
				}
			}
			for _, e := range got {
				if string(e.Value) != string(got[0].Value) {
					c.Errorf("reader %d sees a part of a group: %q and %q", i, got[0].Value, e.Value)
				}
			}
		}
	})
}

func kvUpdatesTogether(t *trial) {
	c := t.kv()
	const writers, each = 8, 20
	together(writers, func(int) {
		for range each {
			if _, err := c.set.KV.Apply(c.ctx, c.s, c.now, store.KVGroup{Ops: []store.KVOp{{Key: "n", Action: store.KVUpdate, Update: plusOne}}}); err != nil {
				c.Error(err)
			}
		}
	})
	c.want(c.now, "n", fmt.Sprint(writers*each))
}

func kvAbsentTogether(t *trial) {
	c := t.kv()
	for round := range 10 {
		var mu sync.Mutex
		winners := 0
		together(6, func(i int) {
			r, err := c.set.KV.Apply(c.ctx, c.s, c.now, store.KVGroup{Ops: []store.KVOp{
				{Key: fmt.Sprint(round), Action: store.KVSet, If: store.KVIfAbsent, Value: []byte(fmt.Sprint(i))},
			}})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				c.Error(err)
			} else if r[0].Done {
				winners++
			}
		})
		if winners != 1 {
			c.Errorf("round %d has %d winners", round, winners)
		}
	}
}

func kvOrders(t *trial) {
	c := t.kv()
	together(6, func(i int) {
		for n := range 20 {
			var ops []store.KVOp
			for k := range 5 {
				ops = append(ops, store.KVOp{Key: fmt.Sprint((k*(i+1) + n) % 7), Action: store.KVUpdate, Update: plusOne})
			}
			if _, err := c.set.KV.Apply(c.ctx, c.s, c.now, store.KVGroup{Ops: ops}); err != nil {
				c.Error(err)
			}
		}
	})
	sum := 0
	for i := range 7 {
		n, _ := strconv.Atoi(string(c.get(c.now, fmt.Sprint(i))[0].Value))
		sum += n
	}
	if sum != 6*20*5 {
		c.Errorf("%d updates are counted, want %d", sum, 6*20*5)
	}
}
