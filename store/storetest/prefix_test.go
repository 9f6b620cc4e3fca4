package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// birthBatch returns a batch of three stages with two writes each, and a function that
// tells which of them are in the model.
func birthBatch() (*store.Batch, func(m *Model) [][2]bool) {
	a, b, first, second := freshBirth(), freshBirth(), freshKey("first"), freshKey("second")
	created, other := news(a.Item, mayfly.WasCreated), news(b.Item, mayfly.WasCreated)
	var batch store.Batch
	batch.Put(PlainTable, first, []byte("v"), 0)
	batch.Put(PlainTable, second, []byte("v"), 0)
	batch.Then()
	batch.Insert(a, b)
	batch.Then()
	batch.Append(created, other)
	return &batch, func(m *Model) [][2]bool {
		has := func(id mayfly.ID) bool { return m.items[id].State != 0 }
		return [][2]bool{
			{m.rows[PlainTable][first] != nil, m.rows[PlainTable][second] != nil},
			{has(a.Item.ID), has(b.Item.ID)},
			{slices.Contains(m.events[mayfly.Births], created), slices.Contains(m.events[mayfly.Births], other)},
		}
	}
}

func TestAStoppedCommitLeavesAPrefixAndTheRestOfItsStageComesLater(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	left := map[string]bool{}
	call := Call{N: 1, Op: Commit, Stages: []int{2, 2, 2}}
	for _, f := range Faults(call) {
		m := NewModel()
		set, late := Prefix(m.Set(), FailNth(1, f))
		batch, look := birthBatch()
		err := set.Writer.Commit(t.Context(), batch)
		var staged *store.StageError
		switch {
		case !errors.Is(err, f.Kind):
			t.Fatalf("%+v: error %v", f, err)
		case errors.As(err, &staged) == f.Silent:
			t.Errorf("%+v: error %v", f, err)
		case staged != nil && staged.Stage != f.Stage:
			t.Errorf("%+v: stage %d", f, staged.Stage)
		}
		want := make([][2]bool, 3)
		for s := range want {
			switch {
			case s < f.Stage:
				want[s] = [2]bool{true, true}
			case s == f.Stage:
				want[s] = [2]bool{f.Written&1 != 0, f.Written&2 != 0}
			}
		}
		if got := look(m); !slices.Equal(got, want) {
			t.Errorf("%+v: left %v, want %v", f, got, want)
		}
		left[fmt.Sprint(look(m))] = true
		if _, err := late.LandAll(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if f.Stage < 3 {
			want[f.Stage] = [2]bool{true, true}
		}
		if got := look(m); !slices.Equal(got, want) {
			t.Errorf("%+v: after the late writes %v, want %v", f, got, want)
		}
		if got := late.Calls(); len(got) != 1 || !slices.Equal(got[0].Stages, call.Stages) || late.Failed() != 1 || late.Pending() != nil {
			t.Errorf("calls %+v, %d failed, pending %q", got, late.Failed(), late.Pending())
		}
	}
	if len(left) != 10 { // three of the four subsets of each stage, and the complete batch
		t.Errorf("%d distinct states were left, want 10", len(left))
	}
}

func land(t *testing.T, l *LateWrites, want int) {
	t.Helper()
	if n, err := l.LandAll(t.Context(), rand.New(rand.NewPCG(1, 1))); err != nil || n != want {
		t.Fatalf("%d late writes were done, want %d: %v", n, want, err)
	}
}

func TestALateInsertKeepsARowThatHasChanged(t *testing.T) {
	m := NewModel()
	set, late := Prefix(m.Set(), FailNth(1, Fault{}))
	c := &trial{T: t, ctx: t.Context(), set: m.Set()}
	birth := freshBirth()
	var b store.Batch
	b.Insert(birth)
	if err := set.Writer.Commit(t.Context(), &b); !errors.Is(err, mayfly.Unknown) {
		t.Fatal(err)
	}
	c.wantNoRow(birth.Item.ID)
	c.insert(birth) // the retry
	deleted := c.move(birth.Item, mayfly.Deleted)
	land(t, late, 1)
	c.wantRow(deleted)
}

func TestALatePutOverwrites(t *testing.T) {
	m := NewModel()
	set, late := Prefix(m.Set(), FailNth(1, Fault{}))
	c := &trial{T: t, ctx: t.Context(), set: m.Set()}
	key := freshKey("s")
	var b store.Batch
	b.Put(PlainTable, key, []byte("late"), 0)
	if err := set.Writer.Commit(t.Context(), &b); err == nil {
		t.Fatal("no error")
	}
	c.put(PlainTable, key, "in time")
	land(t, late, 1)
	c.wantValue(PlainTable, key, "late")
}

func TestALateTransitionAppliesOnlyIfItsRowStillMatches(t *testing.T) {
	for _, moved := range []bool{false, true} {
		m := NewModel()
		set, late := Prefix(m.Set(), FailNth(1, Fault{Written: 0b10}))
		c := &trial{T: t, ctx: t.Context(), set: m.Set()}
		a, b := freshBirth(), freshBirth()
		c.insert(a, b)
		changes := []mayfly.Change{step(a.Item, mayfly.ExpiredHot), step(b.Item, mayfly.ExpiredHot)}
		out, err := set.Ledger.Transition(t.Context(), changes)
		if err != nil || out[0].Result != store.InDoubt || out[0].Current != (mayfly.Item{}) || out[1].Result != store.Applied {
			t.Fatalf("%+v, %v", out, err)
		}
		c.wantRow(a.Item)
		want, _ := mayfly.Advance(a.Item, changes[0])
		if moved {
			want = c.move(a.Item, mayfly.Deleted)
		}
		land(t, late, 1)
		c.wantRow(want)
	}
}

func TestATransitionThatReturnsAnErrorMayHaveBeenApplied(t *testing.T) {
	for _, f := range Faults(Call{Op: Transition, Stages: []int{1}}) {
		m := NewModel()
		set, late := Prefix(m.Set(), FailNth(1, f))
		c := &trial{T: t, ctx: t.Context(), set: m.Set()}
		b := freshBirth()
		c.insert(b)
		change := step(b.Item, mayfly.Deleted)
		out, err := set.Ledger.Transition(t.Context(), []mayfly.Change{change})
		if f.Silent != (err != nil) || err == nil && out[0].Result != store.InDoubt {
			t.Errorf("%+v: %+v, %v", f, out, err)
		}
		// The caller reads back: the change is its own only if the row has its nonce.
		if mine := c.rows(b.Item.ID)[0].Item.Nonce == change.Nonce; mine != (f.Stage == 1) {
			t.Errorf("%+v: the row shows the nonce: %t", f, mine)
		}
		land(t, late, 1-f.Stage)
		if row := c.rows(b.Item.ID)[0].Item; row.Nonce != change.Nonce {
			t.Errorf("%+v: the late change was not applied", f)
		}
	}
}

func TestALateSwapAppliesOnlyIfItsRowStillHasTheOldValue(t *testing.T) {
	for _, f := range []Fault{{}, {Written: 1}, {Stage: 1}, {Kind: mayfly.Unavailable}} {
		m := NewModel()
		set, late := Prefix(m.Set(), FailNth(1, f))
		c := &trial{T: t, ctx: t.Context(), set: m.Set()}
		key := freshKey("s")
		_, _, err := set.Rows.Swap(t.Context(), SwappedTable, key, nil, []byte("mine"), 0)
		written, never := f.Written == 1 || f.Stage == 1, f.Kind == mayfly.Unavailable
		if errors.Is(err, mayfly.Unknown) == never {
			t.Errorf("%+v: %v", f, err)
		}
		if got := c.get(SwappedTable, key)[0]; (got != nil) != written {
			t.Errorf("%+v: the row is %q", f, got)
		}
		if written || never {
			land(t, late, 0)
			continue
		}
		c.wantSwap(key, nil, []byte("other"), true, nil)
		land(t, late, 1)
		c.wantValue(SwappedTable, key, "other")
	}
}

func TestAStoppedAppendLeavesASubsetAndTheRestComesLater(t *testing.T) {
	m := NewModel()
	set, late := Prefix(m.Set(), FailNth(1, Fault{Written: 0b101}))
	events := life(3)
	if err := set.Log.Append(t.Context(), events...); !errors.Is(err, mayfly.Unknown) {
		t.Fatal(err)
	}
	if got := m.events[mayfly.Ends]; !slices.Equal(got, []mayfly.Event{events[0], events[2]}) {
		t.Errorf("the log holds %v", got)
	}
	land(t, late, 1)
	if got := m.events[mayfly.Ends]; len(got) != 3 || got[2] != events[1] {
		t.Errorf("after the late write the log holds %v", got)
	}
}

func TestAHaltedStoreRefusesEveryCallUntilResumed(t *testing.T) {
	m := NewModel()
	set, late := Prefix(m.Set(), FailNth(2, Fault{Halts: true}))
	key := freshKey("s")
	swap := func(old, next string) error {
		_, _, err := set.Rows.Swap(t.Context(), SwappedTable, key, []byte(old), []byte(next), 0)
		return err
	}
	if _, _, err := set.Rows.Swap(t.Context(), SwappedTable, key, nil, []byte("a"), 0); err != nil {
		t.Fatal(err)
	}
	if err := swap("a", "b"); !errors.Is(err, mayfly.Unknown) {
		t.Fatal(err)
	}
	_, readErr := set.Rows.Get(t.Context(), SwappedTable, key)
	_, walkErr := set.Ledger.Walk(t.Context(), store.Stretch{}, 1)
	for _, err := range []error{swap("a", "c"), readErr, walkErr, set.Writer.Commit(t.Context(), batchOf(life(1)...))} {
		if !errors.Is(err, mayfly.Unavailable) {
			t.Errorf("a halted store returns %v", err)
		}
	}
	late.Resume()
	if err := swap("a", "c"); err != nil {
		t.Fatal(err)
	}
}

func TestASeedAlwaysGivesTheSamePlan(t *testing.T) {
	run := func(seed uint64) string {
		plan, said := Seeded(seed, 3), ""
		for n := range 200 {
			said += fmt.Sprintf("%+v\n", plan(Call{N: n + 1, Op: Commit, Stages: []int{1, 40, 3}}))
		}
		return said
	}
	if first, again := run(7), run(7); first != again || first == run(8) {
		t.Error("a seed does not decide the plan")
	}
}

// The wrapper itself breaks no contract.
func TestPrefixWithoutFaultsPassesTheConformanceSuites(t *testing.T) {
	t.Setenv(reportFolder, "")
	open := func(t *testing.T) store.Set {
		set, late := Prefix(NewModel().Set(), Pass)
		t.Cleanup(func() {
			if late.Failed() != 0 || len(late.Calls()) == 0 {
				t.Errorf("%d of %d calls failed", late.Failed(), len(late.Calls()))
			}
		})
		return set
	}
	for _, suite := range []func(*testing.T, string, Open){Writer, Ledger, Rows, Log, Lease} {
		suite(t, "prefix", open)
	}
}
