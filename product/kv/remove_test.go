package kv_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/product/kv"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/fixture"
)

// watchedRows calls a function before one of its calls, and is cut off after another.
type watchedRows struct {
	store.Rows
	calls, at int
	do        func()
	cut       int // 0: never
	afterGet  func()
}

func (w *watchedRows) call() error {
	w.calls++
	if w.calls == w.at && w.do != nil {
		do := w.do
		w.do = nil
		do()
	}
	if w.cut > 0 && w.calls >= w.cut {
		return mayfly.Errorf(mayfly.Unavailable, "cut off")
	}
	return nil
}

func (w *watchedRows) Get(ctx context.Context, t store.Table, keys ...store.Key) ([][]byte, error) {
	if err := w.call(); err != nil {
		return nil, err
	}
	found, err := w.Rows.Get(ctx, t, keys...)
	if do := w.afterGet; t == kv.Namespaces && do != nil {
		w.afterGet = nil
		do()
	}
	return found, err
}

func (w *watchedRows) Range(ctx context.Context, t store.Table, r store.Range) ([]store.Row, error) {
	if err := w.call(); err != nil {
		return nil, err
	}
	return w.Rows.Range(ctx, t, r)
}

func (w *watchedRows) Swap(ctx context.Context, t store.Table, key store.Key, old, new []byte, at mayfly.Instant) (bool, []byte, error) {
	if err := w.call(); err != nil {
		return false, nil, err
	}
	return w.Rows.Swap(ctx, t, key, old, new, at)
}

// other returns another node on the same store.
func (e *env) other(change ...func(*kv.Options)) *kv.KV {
	e.Helper()
	o := kv.Options{Rows: e.Set.Rows, Store: e.entries}
	for _, c := range change {
		c(&o)
	}
	k, err := kv.New(o)
	e.Must(err)
	return k
}

func (e *env) erase(owner mayfly.UserID) {
	e.Helper()
	_, err := e.kv.EraseUser(e.Context(), owner, start)
	e.Must(err)
}

func (e *env) wantLeft(owner mayfly.UserID, want int) {
	e.Helper()
	if left, err := e.kv.LeftOf(e.Context(), owner); err != nil || left != want {
		e.Errorf("%d are left, want %d; %v", left, want, err)
	}
}

// wantFree checks that no namespace has the name.
func (e *env) wantFree(name string) {
	e.Helper()
	if _, _, err := e.kv.Create(e.Context(), fixture.Ben(), name, e.kv.Defaults(), start.Add(2*time.Hour)); err != nil {
		e.Errorf("the name %s is still taken: %v", name, err)
	}
	e.erase(fixture.Ben())
}

func (e *env) entriesOf(s *kv.Space) int64 {
	e.Helper()
	stats, err := e.entries.Stats(e.Context(), store.KVSpace{Name: s.ID()}, start)
	e.Must(err)
	return stats.Keys
}

func TestOfEqualCreationsAtOnceEveryoneThatSucceedsHasItsOwner(t *testing.T) {
	e := open(t, func(o *kv.Options) { o.PerOwner = 1000 })
	made := 0
	for i := range 200 {
		name := fmt.Sprint("n", i)
		keys, errs := make([]mayfly.Secret, 3), make([]error, 3)
		var wg sync.WaitGroup
		for n := range keys {
			wg.Go(func() {
				_, keys[n], errs[n] = e.kv.Create(context.Background(), fixture.Ana(), name, e.kv.Defaults(), start)
			})
		}
		wg.Wait()
		for n, err := range errs {
			if err != nil {
				wantKind(t, err, mayfly.Conflict)
				continue
			}
			made++
			if _, err := e.kv.Describe(e.Context(), fixture.Ana(), name); err != nil {
				t.Errorf("%s was made and has no owner: %v", name, err)
			}
			if _, _, err := e.kv.Open(e.Context(), name, keys[n].Reveal()); err != nil {
				t.Errorf("%s was made and its key does not open it: %v", name, err)
			}
		}
	}
	if made < 200 {
		t.Errorf("%d of 200 names were made", made)
	}
	e.erase(fixture.Ana())
	e.wantLeft(fixture.Ana(), 0)
	e.wantFree("n7")
}

func TestCreationsAtOnceAreNotMoreThanAnOwnerMayHave(t *testing.T) {
	e := open(t)
	var wg sync.WaitGroup
	for i := range 60 {
		wg.Go(func() {
			if _, _, err := e.kv.Create(context.Background(), fixture.Ana(), fmt.Sprint("n", i), e.kv.Defaults(), start); err != nil {
				wantKind(t, err, mayfly.Conflict)
			}
		})
	}
	wg.Wait()
	if all, err := e.kv.List(e.Context(), fixture.Ana()); err != nil || len(all) > 16 {
		t.Errorf("%d namespaces, %v", len(all), err)
	}
}

// An erasure comes before each call of a creation in turn.
func TestAnErasureDuringACreationLeavesNothing(t *testing.T) {
	tried := 0
	for at := 1; ; at++ {
		rows := &watchedRows{at: at}
		e := open(t, func(o *kv.Options) { rows.Rows, o.Rows = o.Rows, rows })
		other := e.other()
		rows.do = func() {
			_, err := other.EraseUser(e.Context(), fixture.Ana(), start)
			e.Must(err)
		}
		_, key, err := e.kv.Create(e.Context(), fixture.Ana(), "cache", e.kv.Defaults(), start)
		if rows.do != nil {
			e.Must(err)
			break
		}
		tried++
		if err == nil {
			if _, err := e.kv.Describe(e.Context(), fixture.Ana(), "cache"); err != nil {
				t.Errorf("call %d: the namespace was made and has no owner: %v", at, err)
			}
		}
		e.erase(fixture.Ana())
		e.wantLeft(fixture.Ana(), 0)
		if _, _, err := e.kv.Open(e.Context(), "cache", key.Reveal()); !errors.Is(err, mayfly.Unauthenticated) {
			t.Errorf("call %d: the key opens the namespace after the erasure: %v", at, err)
		}
		e.wantFree("cache")
	}
	if tried < 5 {
		t.Errorf("only %d calls of a creation were tried", tried)
	}
}

// A node fails at each call of a creation in turn, and the next one is asked for the same.
func TestACreationThatACrashInterruptedBlocksNothing(t *testing.T) {
	tried := 0
	for at := 1; ; at++ {
		rows := &watchedRows{cut: at}
		e := open(t, func(o *kv.Options) { rows.Rows, o.Rows = o.Rows, rows })
		_, _, err := e.kv.Create(e.Context(), fixture.Ana(), "cache", e.kv.Defaults(), start)
		if err == nil {
			break
		}
		tried++
		rows.cut = 0
		e.kv = e.other()
		later := start.Add(2 * time.Minute)
		if _, _, err := e.kv.Create(e.Context(), fixture.Ana(), "cache", e.kv.Defaults(), later); err != nil && at%2 == 0 {
			// The creation was complete but for its answer: the owner removes it.
			e.Must(e.kv.Remove(e.Context(), fixture.Ana(), "cache"))
		}
		e.erase(fixture.Ana())
		e.wantLeft(fixture.Ana(), 0)
		e.wantFree("cache")
	}
	if tried < 5 {
		t.Errorf("only %d calls of a creation were tried", tried)
	}
}

func TestANamespaceThatWasMadeInPartGivesItsNameBackAfterAnHour(t *testing.T) {
	rows := &watchedRows{}
	e := open(t, func(o *kv.Options) { rows.Rows, o.Rows = o.Rows, rows })
	rows.at = 5 // the row of the namespace is there
	rows.do = func() {
		rows.cut = rows.at
		_, err := e.other().EraseUser(e.Context(), fixture.Ben(), start)
		e.Must(err)
	}
	if _, _, err := e.kv.Create(e.Context(), fixture.Ana(), "cache", e.kv.Defaults(), start); err == nil {
		t.Fatal("the creation was not interrupted")
	}
	node := e.other()
	taken := func() bool {
		_, _, err := node.Create(e.Context(), fixture.Ben(), "cache", node.Defaults(), start)
		return errors.Is(err, mayfly.Conflict)
	}
	e.Must(node.Tidy(e.Context(), start.Add(59*time.Minute)))
	node = e.other() // which resumes at once
	if !taken() {
		t.Error("a creation that may be under way lost its name")
	}
	e.Must(node.Tidy(e.Context(), start.Add(time.Hour)))
	if taken() {
		t.Error("the name is taken for ever")
	}
}

func TestAWriteOfAnotherNodeAfterARemovalIsRefusedOrRemovedBySecondPass(t *testing.T) {
	for name, pass := range map[string]func(e *env){
		"second pass of an erasure": func(e *env) { e.erase(fixture.Ana()) },
		"tidying": func(e *env) {
			e.Must(e.kv.Tidy(e.Context(), start))
			e.Must(e.kv.Tidy(e.Context(), start.Add(59*time.Second)))
			e.wantLeft(fixture.Ana(), 1)
			e.Must(e.kv.Tidy(e.Context(), start.Add(time.Minute)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := open(t)
			_, key := e.create("cache")
			late, _, err := e.other(func(o *kv.Options) { o.Recheck = time.Hour }).Open(e.Context(), "cache", key.Reveal())
			e.Must(err)
			checking, _, err := e.other(func(o *kv.Options) { o.Recheck = 1 }).Open(e.Context(), "cache", key.Reveal())
			e.Must(err)
			e.erase(fixture.Ana())
			e.wantLeft(fixture.Ana(), 0)
			_, err = checking.Apply(e.Context(), at(start), kv.Group{Ops: []kv.Op{{Key: "k", Action: kv.Set, Value: []byte("v")}}})
			wantKind(t, err, mayfly.NotFound)
			e.put(late, "k", "personal")
			e.wantLeft(fixture.Ana(), 1) // the proof of the erasure sees it
			pass(e)
			e.wantLeft(fixture.Ana(), 0)
			if n := e.entriesOf(late); n != 0 {
				t.Errorf("%d entries are left", n)
			}
		})
	}
}

func TestTheRowOfARemovedNamespaceGoesAfterTheSecondPass(t *testing.T) {
	e := open(t)
	e.create("cache")
	e.Must(e.kv.Remove(e.Context(), fixture.Ana(), "cache"))
	rows := func() int {
		all, err := e.Set.Rows.Range(e.Context(), kv.Removed, store.Range{Partition: "r", Limit: 10})
		e.Must(err)
		return len(all)
	}
	if rows() != 1 {
		t.Errorf("%d rows after the removal", rows())
	}
	e.Must(e.kv.Tidy(e.Context(), start))
	e.Must(e.kv.Tidy(e.Context(), start.Add(time.Minute)))
	if rows() != 0 {
		t.Errorf("%d rows after the second pass", rows())
	}
}

func TestWhatIsWrittenToANamespaceThatWasRemovedWhileItWasOpenedIsRemoved(t *testing.T) {
	rows := &watchedRows{}
	e := open(t, func(o *kv.Options) { rows.Rows, o.Rows = o.Rows, rows })
	_, key := e.create("cache")
	rows.afterGet = func() { e.erase(fixture.Ana()) }
	s, _, err := e.kv.Open(e.Context(), "cache", key.Reveal())
	e.Must(err)
	if _, err := s.Apply(e.Context(), at(start), kv.Group{Ops: []kv.Op{{Key: "k", Action: kv.Set, Value: []byte("personal")}}}); err == nil {
		e.wantLeft(fixture.Ana(), 1)
	}
	e.erase(fixture.Ana())
	e.wantLeft(fixture.Ana(), 0)
	if n := e.entriesOf(s); n != 0 {
		t.Errorf("%d entries are left", n)
	}
}
