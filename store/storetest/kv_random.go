package storetest

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/pace"
)

// RandomKV does the same random operations on the driver and on the KVModel, while time
// passes, and compares all results. It logs its seed, which -rapid.seed takes. reopen
// closes the driver and opens it again; nil if that is not possible.
func RandomKV(t *testing.T, driver string, open Open, reopen func(store.Set) store.Set) {
	t.Helper()
	randomKV(t, driver, &kvHistory{set: open(t), reopenWith: reopen}, seedRapid(t))
}

// RandomKVCluster is RandomKV for a driver of a cluster, with all keys in one slot.
func RandomKVCluster(t *testing.T, driver string, open Open) {
	t.Helper()
	seed := seedRapid(t)
	if !pace.Long() { // each operation is several requests
		if err := flag.Set("rapid.checks", "16"); err != nil {
			t.Fatal(err)
		}
	}
	randomKV(t, driver, &kvHistory{set: store.Set{KV: oneSlot{open(t).KV}}, cluster: true}, seed)
}

func randomKV(t *testing.T, driver string, h *kvHistory, seed uint64) {
	t.Helper()
	tried := map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		h.start(rt, t.Context())
		kinds := map[string]func(*rapid.T){}
		for name, act := range h.kinds() {
			kinds[name] = func(rt *rapid.T) {
				h.t = rt
				act()
				tried[name]++
			}
		}
		rt.Repeat(kinds)
		h.t = rt
		h.finish()
	})
	total := 0
	for _, name := range slices.Sorted(maps.Keys(tried)) {
		total += tried[name]
		t.Logf("%6d × %s", tried[name], name)
	}
	for name := range h.kinds() {
		if tried[name] < pace.Least(leastTried) {
			t.Errorf("%s was tried %d times, want at least %d", name, tried[name], pace.Least(leastTried))
		}
	}
	Proof(t, "random groups on "+driver, "steps", total)
	Proof(t, "random groups on "+driver, "operations", h.ops)
	Proof(t, "random groups on "+driver, "reclaimed", h.reclaimed)
	Proof(t, "random groups on "+driver, "seed", seed)
	if !h.cluster && h.reclaimed < int64(pace.Least(100)) {
		t.Errorf("only %d entries were reclaimed", h.reclaimed)
	}
}

// kvHistory is one run of random operations, in namespaces of its own.
type kvHistory struct {
	set        store.Set
	reopenWith func(store.Set) store.Set
	cluster    bool // no events
	ops        int
	reclaimed  int64

	t      *rapid.T
	ctx    context.Context
	model  *KVModel
	now    mayfly.Instant
	spaces []store.KVSpace
}

func (h *kvHistory) start(t *rapid.T, ctx context.Context) {
	h.t, h.ctx, h.model, h.now = t, ctx, NewKVModel(), wall()
	name := freshName("random")
	h.spaces = []store.KVSpace{{Name: name}, {Name: name + "\x00", Events: !h.cluster}, {Name: name + "q", Quota: 400}}
	if h.cluster {
		h.spaces[2].Quota = 0 // tags count, and others may be late
	}
}

func (h *kvHistory) kinds() map[string]func() {
	kinds := map[string]func(){
		"one operation":       func() { h.apply(h.space(), 1, false) },
		"group":               func() { h.apply(h.space(), h.number("operations", 2, 8), false) },
		"group with a watch":  func() { h.apply(h.space(), h.number("operations", 1, 3), true) },
		"fill many keys":      h.fill,
		"get":                 h.get,
		"scan":                func() { h.scan(h.space()) },
		"due":                 h.due,
		"drop":                h.drop,
		"reclaim":             h.reclaim,
		"some time passes":    func() { h.now += h.duration() },
		"a long time passes":  func() { h.now = h.now.Add(time.Duration(h.number("hours", 1, 30)) * time.Hour) },
		"operation that ends": h.ends,
	}
	if h.cluster {
		delete(kinds, "due")
	}
	if h.reopenWith != nil {
		kinds["reopen"] = func() { h.set = h.reopenWith(h.set) }
	}
	return kinds
}

func (h *kvHistory) number(name string, least, most int) int {
	return rapid.IntRange(least, most).Draw(h.t, name)
}

func (h *kvHistory) space() store.KVSpace { return rapid.SampledFrom(h.spaces).Draw(h.t, "space") }

func (h *kvHistory) key() string {
	return rapid.SampledFrom([]string{"", "\x00", "a", "a\x00", "aa", "b", "\xff", "key000", "key007", "key020", "key039"}).Draw(h.t, "key")
}

// duration returns a time on one of several scales.
func (h *kvHistory) duration() mayfly.Instant {
	scale := rapid.SampledFrom([]mayfly.Instant{1, 1000, 60_000, 3_600_000}).Draw(h.t, "scale")
	return mayfly.Instant(h.number("duration", 1, 20)) * scale
}

// expiry returns an expiry from the past to the far future, or never.
func (h *kvHistory) expiry() mayfly.Instant {
	switch h.number("expiry", 0, 7) {
	case 0:
		return h.now - mayfly.Instant(h.number("past", 0, 2))
	case 1, 2:
		return 0
	default:
		return h.now + h.duration()
	}
}

// op returns a random operation. Those that the driver gets differ from those that the
// model gets in the version only.
func (h *kvHistory) op(s store.KVSpace) (driver, model store.KVOp) {
	o := store.KVOp{
		Key: h.key(), Action: store.KVAction(h.number("action", 0, 4)), If: store.KVCondition(h.number("condition", 0, 9)), Expiry: h.expiry(),
		Value: []byte(strings.Repeat(rapid.StringN(0, 3, -1).Draw(h.t, "value"), h.number("times", 0, 10))),
		Old:   rapid.Bool().Draw(h.t, "old"), KeepExpiry: rapid.Bool().Draw(h.t, "keep"),
		Update: func(old store.KVEntry) ([]byte, error) {
			if len(old.Value) > 40 {
				return nil, mayfly.Errorf(mayfly.Invalid, "too long")
			}
			return append(old.Value, '+'), nil
		},
	}
	if o.If > store.KVIfSooner { // most have no condition
		o.If = store.KVAlways
	}
	if s.Quota > 0 && o.Expiry > h.now { // a driver may count what has expired
		o.Expiry = 0
	}
	driver, model = o, o
	if o.If == store.KVIfVersion {
		// A wrong version is one that no operation earlier in the same group can make.
		wrong := uint64(h.number("wrong", 0, 1)) << 50
		driver.Version = h.read(h.set.KV, s, o.Key)[0].Version + wrong
		model.Version = h.read(h.model, s, o.Key)[0].Version + wrong
	}
	return driver, model
}

func (h *kvHistory) read(kv store.KV, s store.KVSpace, keys ...string) []store.KVEntry {
	h.t.Helper()
	entries, err := kv.Get(h.ctx, s, h.now, keys...)
	if err != nil {
		h.t.Fatal(err)
	}
	return entries
}

func (h *kvHistory) apply(s store.KVSpace, n int, watch bool) {
	var driver, model store.KVGroup
	if watch {
		keys := []string{h.key(), h.key()}
		driver.Watch, model.Watch = h.read(h.set.KV, s, keys...), h.read(h.model, s, keys...)
		if rapid.Bool().Draw(h.t, "time passes") {
			h.now += h.duration()
		}
		if rapid.Bool().Draw(h.t, "a write comes between") {
			h.apply(s, 1, false)
		}
	}
	for range n {
		d, m := h.op(s)
		driver.Ops, model.Ops = append(driver.Ops, d), append(model.Ops, m)
	}
	h.both(s, driver, model)
}

// both applies a group to the driver and the model, and compares what they answer and
// then hold.
func (h *kvHistory) both(s store.KVSpace, driver, model store.KVGroup) {
	h.t.Helper()
	h.ops += len(driver.Ops)
	got, gotErr := h.set.KV.Apply(h.ctx, s, h.now, driver)
	want, wantErr := h.model.Apply(h.ctx, s, h.now, model)
	if kindOf(gotErr) != kindOf(wantErr) {
		h.t.Fatalf("group %+v\ndriver %v\n model %v", model, gotErr, wantErr)
	}
	for i := range want {
		g, w := got[i], want[i]
		if g.Done != w.Done || kindOf(g.Err) != kindOf(w.Err) || shown(g.Old) != shown(w.Old) || shown(g.New) != shown(w.New) {
			h.t.Fatalf("operation %d %+v\ndriver %+v\n model %+v", i, model.Ops[i], g, w)
		}
	}
	for _, o := range model.Ops {
		h.compare(s, o.Key)
	}
}

// shown returns an entry without its version, in which drivers differ.
func shown(e store.KVEntry) string {
	return fmt.Sprintf("%q %t %t %q %d %d", e.Key, e.Found, e.Version != 0, e.Value, e.Expiry, e.Written)
}

func (h *kvHistory) compare(s store.KVSpace, keys ...string) {
	h.t.Helper()
	got, want := h.read(h.set.KV, s, keys...), h.read(h.model, s, keys...)
	for i := range want {
		if shown(got[i]) != shown(want[i]) {
			h.t.Fatalf("%q\ndriver %s\n model %s", s.Name, shown(got[i]), shown(want[i]))
		}
	}
}

func (h *kvHistory) get() { h.compare(h.space(), h.key(), h.key(), h.key()) }

// fill writes many keys, so that there is something to reclaim.
func (h *kvHistory) fill() {
	s := h.spaces[h.number("space", 0, 1)]
	var g store.KVGroup
	for i := range h.number("keys", 20, 60) {
		g.Ops = append(g.Ops, store.KVOp{Key: fmt.Sprintf("key%03d", i), Action: store.KVSet, Value: []byte(fmt.Sprint(i, h.now)), Expiry: h.expiry()})
	}
	h.both(s, g, g)
}

// ends touches a key so that it expires next, and looks at it around that millisecond.
func (h *kvHistory) ends() {
	s, key, life := h.spaces[h.number("space", 0, 1)], h.key(), h.duration()
	g := store.KVGroup{Ops: []store.KVOp{{Key: key, Action: store.KVTouch, Expiry: h.now + life}}}
	h.both(s, g, g)
	h.now += life - 1
	h.compare(s, key)
	h.now++
	h.compare(s, key)
	if !h.cluster {
		h.due()
	}
}

func (h *kvHistory) scan(s store.KVSpace) {
	prefix := rapid.SampledFrom([]string{"", "a", "key", "key00", "\xff"}).Draw(h.t, "prefix")
	limit := h.number("limit", 1, 50)
	all := func(kv store.KV) (text []string) {
		for after := ""; ; {
			page, next, err := kv.Scan(h.ctx, s, h.now, prefix, after, limit)
			if err != nil || len(page) > limit {
				h.t.Fatalf("a page of %d for a limit of %d: %v", len(page), limit, err)
			}
			for _, e := range page {
				text = append(text, shown(e))
			}
			if after = next; next == "" {
				slices.Sort(text)
				return text
			}
		}
	}
	if got, want := all(h.set.KV), all(h.model); !slices.Equal(got, want) {
		h.t.Fatalf("scan of %q\ndriver %q\n model %q", prefix, got, want)
	}
}

// due compares what the driver must still remember.
func (h *kvHistory) due() {
	s := h.spaces[1]
	after := store.KVDue{At: h.now.Add(-store.KVRemembers)}
	limit := h.number("limit", 1, 50)
	got, gotErr := h.set.KV.Due(h.ctx, s, h.now, after, limit)
	want, wantErr := h.model.Due(h.ctx, s, h.now, after, limit)
	if gotErr != nil || wantErr != nil || !slices.Equal(got, want) {
		h.t.Fatalf("due\ndriver %q %v\n model %q %v", got, gotErr, want, wantErr)
	}
}

func (h *kvHistory) drop() {
	if s := h.space(); h.set.KV.Drop(h.ctx, s) != nil || h.model.Drop(h.ctx, s) != nil {
		h.t.Fatal("drop fails")
	}
}

func (h *kvHistory) reclaim() {
	for range h.number("calls", 1, 5) {
		r, err := h.set.KV.Reclaim(h.ctx, h.now)
		if err != nil {
			h.t.Fatal(err)
		}
		h.reclaimed += r.Entries
	}
	if _, err := h.model.Reclaim(h.ctx, h.now); err != nil {
		h.t.Fatal(err)
	}
}

// finish compares all entries, and the counts when every expiry has long passed.
func (h *kvHistory) finish() {
	for range 2 {
		h.reclaim()
		for _, s := range h.spaces {
			h.scan(s)
		}
		h.now = h.now.Add(100 * time.Hour)
	}
	h.reclaim()
	for _, s := range h.spaces {
		got, gotErr := h.set.KV.Stats(h.ctx, s, h.now)
		want, wantErr := h.model.Stats(h.ctx, s, h.now)
		if gotErr != nil || wantErr != nil || got != want {
			h.t.Fatalf("counts\ndriver %+v %v\n model %+v %v", got, gotErr, want, wantErr)
		}
	}
}
