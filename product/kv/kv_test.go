package kv_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/clock"
	"github.com/mayflyhq/mayfly/product/kv"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/memstore"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/fixture"
)

const start = fixture.Start

// env is a KV on the embedded rows and the model of the store.
type env struct {
	*fixture.Engine
	kv      *kv.KV
	entries *storetest.KVModel
}

func open(t *testing.T, change ...func(*kv.Options)) *env {
	t.Helper()
	e := &env{Engine: fixture.Open(t), entries: storetest.NewKVModel()}
	o := kv.Options{Rows: e.Set.Rows, Store: e.entries, Limits: memstore.NewLimits(100)}
	for _, c := range change {
		c(&o)
	}
	var err error
	e.kv, err = kv.New(o)
	e.Must(err)
	return e
}

func at(now mayfly.Instant) clock.Reading {
	return clock.Reading{Now: now, Steady: now, Confirmed: true}
}

// create makes a namespace of ana and opens it with its key.
func (e *env) create(name string, change ...func(*kv.Settings)) (*kv.Space, mayfly.Secret) {
	e.Helper()
	s := e.kv.Defaults()
	for _, c := range change {
		c(&s)
	}
	_, key, err := e.kv.Create(e.Context(), fixture.Ana(), name, s, start)
	e.Must(err)
	space, _, err := e.kv.Open(e.Context(), name, key.Reveal())
	e.Must(err)
	return space, key
}

func (e *env) put(s *kv.Space, key, value string) {
	e.Helper()
	_, err := s.Apply(e.Context(), at(start), kv.Group{Ops: []kv.Op{{Key: key, Action: kv.Set, Value: []byte(value)}}})
	e.Must(err)
}

func (e *env) want(s *kv.Space, key, value string) {
	e.Helper()
	found, err := s.Get(e.Context(), at(start), key)
	e.Must(err)
	if string(found[0].Value) != value || found[0].Found != (value != "") {
		e.Errorf("%s of %s is %q, want %q", key, s.Name, found[0].Value, value)
	}
}

func wantKind(t *testing.T, err error, kind mayfly.Kind) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("got %v, want an error of kind %s", err, kind)
	}
}

func TestANamespaceIsOpenedByItsKeyAndByItsOwnerOnly(t *testing.T) {
	e := open(t)
	s, key := e.create("cache")
	e.put(s, "k", "v")
	if !strings.HasPrefix(key.Reveal(), "mfkv_") || key.String() == key.Reveal() {
		t.Errorf("the key is %s", key)
	}
	for _, c := range []struct{ name, key string }{{"cache", "mfkv_x"}, {"cache", ""}, {"other", key.Reveal()}, {"", ""}, {"UPPER", key.Reveal()}} {
		_, _, err := e.kv.Open(e.Context(), c.name, c.key)
		wantKind(t, err, mayfly.Unauthenticated)
	}
	owned, err := e.kv.OpenOwned(e.Context(), fixture.Ana(), "cache")
	e.Must(err)
	e.want(owned, "k", "v")
	for _, other := range []mayfly.UserID{fixture.Ben(), {}} {
		_, err = e.kv.OpenOwned(e.Context(), other, "cache")
		wantKind(t, err, mayfly.NotFound)
		wantKind(t, e.kv.Remove(e.Context(), other, "cache"), mayfly.NotFound)
		_, _, err = e.kv.AddKey(e.Context(), other, "cache", start)
		wantKind(t, err, mayfly.NotFound)
		wantKind(t, e.kv.RemoveKey(e.Context(), other, "cache", "x"), mayfly.NotFound)
	}
}

func TestOnlyHashesOfKeysAreStored(t *testing.T) {
	e := open(t)
	_, key := e.create("cache")
	for n := range byte(16) {
		rows, err := e.Set.Rows.Range(e.Context(), kv.Namespaces, store.Range{Partition: string([]byte{'n', n}), Limit: 10})
		e.Must(err)
		for _, row := range rows {
			if strings.Contains(string(row.Value), strings.TrimPrefix(key.Reveal(), "mfkv_")) {
				t.Error("the row holds the key")
			}
		}
	}
}

func TestKeysAreRotatedWithTwo(t *testing.T) {
	e := open(t)
	s, first := e.create("cache")
	_, firstID, err := e.kv.Open(e.Context(), "cache", first.Reveal())
	e.Must(err)
	second, c, err := e.kv.AddKey(e.Context(), fixture.Ana(), "cache", start)
	e.Must(err)
	_, _, err = e.kv.AddKey(e.Context(), fixture.Ana(), "cache", start)
	wantKind(t, err, mayfly.Conflict)
	e.Must(s.StillOpen(e.Context(), firstID))
	e.Must(e.kv.RemoveKey(e.Context(), fixture.Ana(), "cache", firstID))
	wantKind(t, s.StillOpen(e.Context(), firstID), mayfly.Unauthenticated)
	e.Must(s.StillOpen(e.Context(), c.ID))
	_, _, err = e.kv.Open(e.Context(), "cache", first.Reveal())
	wantKind(t, err, mayfly.Unauthenticated)
	_, _, err = e.kv.Open(e.Context(), "cache", second.Reveal())
	e.Must(err)
	wantKind(t, e.kv.RemoveKey(e.Context(), fixture.Ana(), "cache", firstID), mayfly.NotFound)
}

func TestANameIsTakenOnceAndItsEntriesAreNotThoseOfTheNextNamespace(t *testing.T) {
	e := open(t)
	old, _ := e.create("cache")
	e.put(old, "k", "v")
	_, _, err := e.kv.Create(e.Context(), fixture.Ben(), "cache", e.kv.Defaults(), start)
	wantKind(t, err, mayfly.Conflict)
	_, _, err = e.kv.Create(e.Context(), fixture.Ana(), "cache", e.kv.Defaults(), start)
	wantKind(t, err, mayfly.Conflict)
	if left, err := e.kv.LeftOf(e.Context(), fixture.Ben()); err != nil || left != 0 {
		t.Errorf("a refused creation left %d rows of ben, %v", left, err)
	}
	e.Must(e.kv.Remove(e.Context(), fixture.Ana(), "cache"))
	if stats, err := e.entries.Stats(e.Context(), store.KVSpace{Name: old.ID()}, start); err != nil || stats.Keys != 0 {
		t.Errorf("the removed namespace has %d entries, %v", stats.Keys, err)
	}
	_, err = old.Apply(e.Context(), at(start), kv.Group{Ops: []kv.Op{{Key: "late", Action: kv.Set, Value: []byte("v")}}})
	wantKind(t, err, mayfly.NotFound)
	wantKind(t, old.StillOpen(e.Context(), ""), mayfly.Unauthenticated)
	next, _ := e.create("cache")
	if next.ID() == old.ID() {
		t.Error("the next namespace has the store name of the removed one")
	}
	e.want(next, "k", "")
	wantKind(t, old.StillOpen(e.Context(), ""), mayfly.Unauthenticated)
}

func TestOfManyCreationsOfOneNameOneSucceeds(t *testing.T) {
	e := open(t)
	var wg sync.WaitGroup
	made := make(chan mayfly.UserID, 8)
	for i := range 8 {
		owner := fixture.User(string(rune('a' + i)))
		wg.Go(func() {
			if _, _, err := e.kv.Create(context.Background(), owner, "cache", e.kv.Defaults(), start); err == nil {
				made <- owner
			} else if !errors.Is(err, mayfly.Conflict) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(made) != 1 {
		t.Fatalf("%d creations succeeded", len(made))
	}
	_, err := e.kv.OpenOwned(e.Context(), <-made, "cache")
	e.Must(err)
}

func TestErasingAUserRemovesTheNamespaces(t *testing.T) {
	e := open(t)
	s, key := e.create("cache")
	e.put(s, "k", "v")
	e.create("sessions")
	_, _, err := e.kv.Create(e.Context(), fixture.Ben(), "bens", e.kv.Defaults(), start)
	e.Must(err)
	erased, err := e.kv.EraseUser(e.Context(), fixture.Ana(), start)
	e.Must(err)
	left, err := e.kv.LeftOf(e.Context(), fixture.Ana())
	e.Must(err)
	if erased != 2 || left != 0 {
		t.Errorf("%d were erased, %d are left", erased, left)
	}
	if stats, err := e.entries.Stats(e.Context(), store.KVSpace{Name: s.ID()}, start); err != nil || stats.Keys != 0 {
		t.Errorf("%d entries are left, %v", stats.Keys, err)
	}
	_, _, err = e.kv.Open(e.Context(), "cache", key.Reveal())
	wantKind(t, err, mayfly.Unauthenticated)
	_, err = e.kv.OpenOwned(e.Context(), fixture.Ben(), "bens")
	e.Must(err)
}

// failingDrop fails to drop once.
type failingDrop struct {
	store.KV
	failed bool
}

func (f *failingDrop) Drop(ctx context.Context, s store.KVSpace) error {
	if !f.failed {
		f.failed = true
		return mayfly.Errorf(mayfly.Unavailable, "cut off")
	}
	return f.KV.Drop(ctx, s)
}

func TestAnInterruptedRemovalIsFinishedLater(t *testing.T) {
	var failing *failingDrop
	e := open(t, func(o *kv.Options) {
		failing = &failingDrop{KV: o.Store}
		o.Store = failing
	})
	s, key := e.create("cache")
	e.put(s, "k", "v")
	wantKind(t, e.kv.Remove(e.Context(), fixture.Ana(), "cache"), mayfly.Unavailable)
	_, _, err := e.kv.Open(e.Context(), "cache", key.Reveal())
	wantKind(t, err, mayfly.Unauthenticated)
	if all, err := e.kv.List(e.Context(), fixture.Ana()); err != nil || len(all) != 0 {
		t.Errorf("a namespace that ends is listed: %v, %v", all, err)
	}
	after, err := kv.New(kv.Options{Rows: e.Set.Rows, Store: failing}) // a restart
	e.Must(err)
	e.Must(after.Resume(e.Context(), start))
	if stats, err := e.entries.Stats(e.Context(), store.KVSpace{Name: s.ID()}, start); err != nil || stats.Keys != 0 {
		t.Errorf("%d entries are left, %v", stats.Keys, err)
	}
	_, _, err = after.Create(e.Context(), fixture.Ana(), "cache", after.Defaults(), start)
	e.Must(err)
}

func TestWhileTheClockIsInDoubtNothingIsWrittenAndReadsUseTheSteppedTime(t *testing.T) {
	e := open(t)
	s, _ := e.create("cache")
	_, err := s.Apply(e.Context(), at(start), kv.Group{Ops: []kv.Op{{Key: "k", Action: kv.Set, Value: []byte("v"), Expiry: start.Add(time.Minute)}}})
	e.Must(err)
	doubt := clock.Reading{Now: start.Add(time.Hour), Steady: start, Err: mayfly.Errorf(mayfly.Unavailable, "the clock is in doubt")}
	for _, action := range []store.KVAction{kv.Set, kv.Delete, kv.Touch} {
		_, err = s.Apply(e.Context(), doubt, kv.Group{Ops: []kv.Op{{Key: "k", Action: action}}})
		wantKind(t, err, mayfly.Unavailable)
	}
	wantKind(t, s.Clear(e.Context(), doubt), mayfly.Unavailable)
	found, err := s.Get(e.Context(), doubt, "k")
	e.Must(err)
	if found[0].Found {
		t.Error("an entry that has expired by the stepped time is served")
	}
	r, err := s.Apply(e.Context(), doubt, kv.Group{Ops: []kv.Op{{Key: "k"}}})
	e.Must(err)
	if r[0].Old.Found {
		t.Error("an entry that has expired by the stepped time is read")
	}
	off := doubt
	off.Off = true
	_, err = s.Get(e.Context(), off, "k")
	wantKind(t, err, mayfly.Unavailable)
	e.want(s, "k", "v") // the step was taken back
}

func TestLimitsOfANamespaceHold(t *testing.T) {
	e := open(t, func(o *kv.Options) { o.Defaults = kv.Settings{Quota: 1000, MaxKey: 10, MaxValue: 100} })
	s, _ := e.create("cache", func(s *kv.Settings) {
		s.LongestTTL, s.DefaultTTL, s.Quota, s.Rate = time.Hour, time.Minute, 50, kv.Rate{Count: 2, Per: time.Hour}
	})
	set := func(key, value string, expiry mayfly.Instant) error {
		_, err := s.Apply(e.Context(), at(start), kv.Group{Ops: []kv.Op{{Key: key, Action: kv.Set, Value: []byte(value), Expiry: expiry}}})
		return err
	}
	wantKind(t, set(strings.Repeat("k", 11), "v", 0), mayfly.TooLarge)
	wantKind(t, set("k", strings.Repeat("v", 101), 0), mayfly.TooLarge)
	wantKind(t, set("k", strings.Repeat("v", 60), 0), mayfly.Full)
	wantKind(t, set("k", "v", start.Add(time.Hour+1e6)), mayfly.Invalid)
	e.Must(set("k", "v", start.Add(time.Hour)))
	e.Must(set("d", "v", 0))
	found, err := s.Get(e.Context(), at(start), "d")
	e.Must(err)
	if found[0].Expiry != start.Add(time.Minute) {
		t.Errorf("the default expiry is %s", found[0].Expiry)
	}
	_, err = s.Apply(e.Context(), at(start), kv.Group{Ops: []kv.Op{{Key: "k", Action: kv.Touch}}})
	wantKind(t, err, mayfly.Invalid) // it would never expire
	e.Must(s.Take(e.Context(), 2, start))
	wantKind(t, s.Take(e.Context(), 1, start), mayfly.Limited)
	for _, change := range []func(*kv.Settings){
		func(s *kv.Settings) { s.Quota = 1001 },
		func(s *kv.Settings) { s.Quota = 0 },
		func(s *kv.Settings) { s.MaxValue = 101 },
		func(s *kv.Settings) { s.MaxKey = 5000 },
		func(s *kv.Settings) { s.LongestTTL, s.DefaultTTL = time.Second, time.Minute },
	} {
		wrong := e.kv.Defaults()
		change(&wrong)
		_, _, err := e.kv.Create(e.Context(), fixture.Ana(), "wrong", wrong, start)
		wantKind(t, err, mayfly.Invalid)
	}
}

func TestAnOwnerHasSoManyNamespaces(t *testing.T) {
	e := open(t, func(o *kv.Options) { o.PerOwner = 2 })
	e.create("a")
	e.create("b")
	_, _, err := e.kv.Create(e.Context(), fixture.Ana(), "c", e.kv.Defaults(), start)
	wantKind(t, err, mayfly.Conflict)
	if all, err := e.kv.List(e.Context(), fixture.Ana()); err != nil || len(all) != 2 || all[0].Name != "a" {
		t.Errorf("the list is %v, %v", all, err)
	}
}

func TestTheNamespacesOfAnOwnerShareAQuota(t *testing.T) {
	e := open(t, func(o *kv.Options) { o.OwnerQuota = 1000 })
	e.create("a", func(s *kv.Settings) { s.Quota = 600 })
	s := e.kv.Defaults()
	for _, c := range []struct {
		owner mayfly.UserID
		name  string
		quota int64
		want  error
	}{
		{fixture.Ana(), "b", 401, mayfly.Conflict},
		{fixture.Ana(), "b", 0, mayfly.Invalid},
		{fixture.Ana(), "b", 1001, mayfly.Invalid},
		{fixture.Ben(), "bens", 1000, nil},
		{fixture.Ana(), "b", 400, nil},
		{fixture.Ana(), "c", 1, mayfly.Conflict},
	} {
		s.Quota = c.quota
		_, _, err := e.kv.Create(e.Context(), c.owner, c.name, s, start)
		if !errors.Is(err, c.want) {
			t.Errorf("%s with %d: %v, want %v", c.name, c.quota, err, c.want)
		}
	}
	e.Must(e.kv.Remove(e.Context(), fixture.Ana(), "a"))
	e.create("c", func(s *kv.Settings) { s.Quota = 600 })
}

func TestNamespacesOfTheConfigurationHaveNoOwner(t *testing.T) {
	e := open(t)
	s := e.kv.Defaults()
	e.Must(e.kv.Configure(e.Context(), "cache", s, start))
	key, _, err := e.kv.AddKey(e.Context(), mayfly.UserID{}, "cache", start)
	e.Must(err)
	space, _, err := e.kv.Open(e.Context(), "cache", key.Reveal())
	e.Must(err)
	s.Quota = 500
	e.Must(e.kv.Configure(e.Context(), "cache", s, start))
	e.Must(space.StillOpen(e.Context(), ""))
	if got := space.Settings().Quota; got != 500 {
		t.Errorf("the quota is %d after it was changed", got)
	}
	s.LastWriteWins = true
	wantKind(t, e.kv.Configure(e.Context(), "cache", s, start), mayfly.Conflict)
	_, _, err = e.kv.Create(e.Context(), fixture.Ana(), "cache", e.kv.Defaults(), start)
	wantKind(t, err, mayfly.Conflict)
	e.create("anas")
	wantKind(t, e.kv.Configure(e.Context(), "anas", e.kv.Defaults(), start), mayfly.Conflict)
	_, _, err = e.kv.AddKey(e.Context(), mayfly.UserID{}, "anas", start)
	wantKind(t, err, mayfly.NotFound)
}

func TestClearDeletesEverything(t *testing.T) {
	e := open(t)
	s, _ := e.create("cache")
	for _, key := range []string{"a", "b", "c"} {
		e.put(s, key, "v")
	}
	e.Must(s.Clear(e.Context(), at(start)))
	for _, key := range []string{"a", "b", "c"} {
		e.want(s, key, "")
	}
}

func TestClearDeletesEverythingInEverySlotOfACluster(t *testing.T) {
	e := open(t, func(o *kv.Options) {
		o.Cluster = true
		o.Store = storetest.KVClusterModel{KVModel: o.Store.(*storetest.KVModel)}
	})
	s, _ := e.create("cache")
	for _, key := range []string{"a", "b", "c", "{a}1", "{b}1"} {
		e.put(s, key, "v")
	}
	e.Must(s.Clear(t.Context(), at(start)))
	if st, err := s.Stats(t.Context(), at(start)); err != nil || st.Keys != 0 {
		t.Errorf("%+v, %v", st, err)
	}
	if err := s.OneSlot("a", "b"); !errors.Is(err, mayfly.Unsupported) {
		t.Errorf("keys of two slots: %v", err)
	}
	if _, _, err := e.kv.Create(t.Context(), fixture.Ana(), "events", kv.Settings{MaxKey: 10, MaxValue: 10, Events: true}, start); !errors.Is(err, mayfly.Unsupported) {
		t.Errorf("a namespace with events: %v", err)
	}
}

func TestWrongNamesAreRefused(t *testing.T) {
	for _, name := range []string{"", "-a", ".a", "A", "a b", "a/b", "a\x00", strings.Repeat("a", 65), "ä"} {
		wantKind(t, kv.CheckName(name), mayfly.Invalid)
	}
	for _, name := range []string{"a", "0", "a-b_c.d", strings.Repeat("a", 64)} {
		if err := kv.CheckName(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
