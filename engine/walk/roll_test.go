package walk_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

const lease = 5 * time.Second

// roll is the process holder of the node name.
func roll(set store.Set, name, holder string) *walk.Roll {
	return walk.NewRoll(set.Rows, walk.Turn{Name: name, Holder: holder, Lease: lease, Origin: start.Add(-time.Minute)})
}

func renew(t *testing.T, r *walk.Roll, now mayfly.Instant) {
	t.Helper()
	if err := r.Renew(t.Context(), now); err != nil {
		t.Fatal(err)
	}
}

// held are the shards that r holds at now.
func held(r *walk.Roll, now mayfly.Instant) (all []mayfly.Shard) {
	for shard := range mayfly.Shard(mayfly.Shards) {
		if r.Holds(shard, now) {
			all = append(all, shard)
		}
	}
	return all
}

func TestTheRollSaysWhoseAShardIs(t *testing.T) {
	set := open(t)
	one, two, three := roll(set, "a", "1"), roll(set, "b", "2"), roll(set, "c", "3")
	for range 3 {
		for _, r := range []*walk.Roll{three, one, two} {
			renew(t, r, start)
		}
	}
	for i, r := range []*walk.Roll{one, two, three} {
		for _, shard := range held(r, start) {
			if int(shard)%3 != i {
				t.Errorf("walker %d holds shard %d", i, shard)
			}
		}
		if got, want := len(held(r, start)), []int{6, 5, 5}[i]; got != want {
			t.Errorf("walker %d holds %d shards, want %d", i, got, want)
		}
	}
}

func TestAGrantRunsOutWithThePlace(t *testing.T) {
	set := open(t)
	one, two := roll(set, "a", "1"), roll(set, "b", "2")
	renew(t, one, start)
	if got := held(one, start.Add(lease)-1); len(got) != mayfly.Shards {
		t.Errorf("held %v", got)
	}
	if got := held(one, start.Add(lease)); len(got) != 0 {
		t.Errorf("after its place has run out it holds %v", got)
	}
	renew(t, two, start.Add(lease)-1)
	if got := held(two, start.Add(lease)-1); len(got) != 0 {
		t.Errorf("two hold %v", got)
	}
	renew(t, two, start.Add(lease)) // the shards' own leases last longer: their holder is gone
	if got := held(two, start.Add(lease)); len(got) != mayfly.Shards {
		t.Errorf("held %v", got)
	}
}

func TestAShardIsGivenUpWhenNothingPassesOverIt(t *testing.T) {
	set := open(t)
	one, two := roll(set, "a", "1"), roll(set, "b", "2")
	renew(t, one, start)
	leave := one.Shards()[1].Enter()
	renew(t, two, start)
	renew(t, one, start) // sees the second, gives up the odd shards but for the one under way
	if one.Holds(1, start) {
		t.Error("it goes on in a shard that is not its own")
	}
	renew(t, two, start)
	if got := held(two, start); slices.Contains(got, 1) || len(got) != 7 {
		t.Errorf("the second took %v while the first was in shard 1", got)
	}
	leave()
	renew(t, one, start)
	renew(t, two, start)
	if !two.Holds(1, start) {
		t.Error("it was not given up")
	}
}

func TestAPassEndsAfterTheBatchInWhichTheShardWasLost(t *testing.T) {
	set, k := open(t), &recorder{}
	one, two := roll(set, "a", "1"), roll(set, "b", "2")
	renew(t, one, start)
	due(t, set, spread(start.Add(-30*time.Second), time.Second, 20)...)
	k.then = func(context.Context, walk.Batch) ([]walk.Failure, error) {
		renew(t, two, start)
		renew(t, one, start)
		return nil, nil
	}
	w, err := walk.New(set, k.walk(), one.Shards()[shard], walk.Options{Holder: "1", Unpaced: true, Batch: 3})
	if err != nil {
		t.Fatal(err)
	}
	leave := one.Shards()[shard].Enter()
	more, err := w.Pass(t.Context(), start)
	leave()
	if err != nil || more || len(k.done) != 3 {
		t.Errorf("%d items done, more %t, %v: want the batch under way and no more", len(k.done), more, err)
	}
	if more, err := w.Pass(t.Context(), start); more || err != nil || len(k.done) != 3 || w.Progress().Held {
		t.Errorf("%d items done, more %t, %v", len(k.done), more, err)
	}
}

// A shard that another process held meanwhile is walked from the watermark that it left.
func TestAShardHeldByAnotherProcessMeanwhileIsANewTenure(t *testing.T) {
	set := open(t)
	one := roll(set, "a", "1")
	renew(t, one, start)
	before, _, _ := one.Shards()[shard].Hold(t.Context(), start)
	renew(t, one, start.Add(lease-1))
	if same, _, _ := one.Shards()[shard].Hold(t.Context(), start.Add(lease-1)); same != before {
		t.Error("a renewal began another tenure")
	}
	late := start.Add(3 * lease) // stopped meanwhile
	two := roll(set, "b", "2")
	renew(t, two, late)
	if err := two.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	renew(t, one, late)
	if after, ok, _ := one.Shards()[shard].Hold(t.Context(), late); !ok || after == before {
		t.Errorf("held %t, in tenure %d as before", ok, after)
	}
}

func TestAPlaceHasOneProcess(t *testing.T) {
	set := open(t)
	one, twin := roll(set, "a", "1"), roll(set, "a", "2")
	renew(t, one, start)
	renew(t, twin, start) // it may be the place of one that has died
	renew(t, twin, start.Add(lease/2))
	if got := held(twin, start.Add(lease/2)); len(got) != 0 {
		t.Errorf("both hold %v", got)
	}
	renew(t, one, start.Add(lease/2))
	var hinted *mayfly.Error
	if err := twin.Renew(t.Context(), start.Add(lease/2)); !errors.Is(err, mayfly.Conflict) || !errors.As(err, &hinted) || hinted.Hint == "" {
		t.Errorf("%v", err)
	}
	if got := held(twin, start.Add(lease/2)); len(got) != 0 {
		t.Errorf("both hold %v", got)
	}
	late := start.Add(lease*3/2 + time.Millisecond) // the first died
	renew(t, twin, late)
	if got := held(twin, late); len(got) != mayfly.Shards {
		t.Errorf("it holds %v", got)
	}
}

func TestALeftRollIsNotJoinedAgain(t *testing.T) {
	set := open(t)
	one := roll(set, "a", "1")
	renew(t, one, start)
	if err := one.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	renew(t, one, start)
	walkers, err := walk.Members(t.Context(), set.Rows, start)
	if err != nil || len(walkers) != 0 || len(held(one, start)) != 0 {
		t.Errorf("%v, %v", walkers, err)
	}
}

// The walk that another stays behind is walked by the same process, which knows
// how far it is; a watermark that another process has moved is read.
func TestHowFarTheOtherWalkIsNeedsNoRead(t *testing.T) {
	set, first, second := open(t), &recorder{}, &recorder{}
	reads := &gets{Rows: set.Rows}
	set.Rows = reads
	s := walk.NewShard(set.Rows, shard, "one", time.Hour, start.Add(-time.Minute))
	ahead, err := walk.New(set, first.walk(), s, walk.Options{Holder: "one", Unpaced: true})
	if err != nil {
		t.Fatal(err)
	}
	behind, err := walk.New(set, walk.Walk{Name: "behind", Offset: time.Minute, Behind: name, Act: second.act, Park: park}, s, walk.Options{Holder: "one", Unpaced: true})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		now := start.Add(time.Duration(i) * time.Second)
		pass(t, ahead, now)
		pass(t, behind, now)
	}
	if reads.marks != 2 {
		t.Errorf("watermarks were read %d times, want once for each walk", reads.marks)
	}
	mark, err := walk.LoadWatermark(t.Context(), set.Rows, name, s)
	if err != nil {
		t.Fatal(err)
	}
	back := start.Add(-30 * time.Second)
	if err := mark.Move(t.Context(), set.Rows, back, 7); err != nil { // as an undo does
		t.Fatal(err)
	}
	now, before := start.Add(4*time.Minute), behind.Progress().Cursor
	due(t, set, start.Add(150*time.Second))
	if _, err := ahead.Pass(t.Context(), now); !errors.Is(err, mayfly.Conflict) {
		t.Fatalf("%v", err)
	}
	pass(t, behind, now)
	if got := behind.Progress().Cursor; got != before {
		t.Errorf("it went on from %s to %s, and the other was moved back to %s", before, got, back)
	}
}

type gets struct {
	store.Rows
	marks int
}

func (g *gets) Get(ctx context.Context, t store.Table, keys ...store.Key) ([][]byte, error) {
	if t == walk.Watermarks {
		g.marks += len(keys)
	}
	return g.Rows.Get(ctx, t, keys...)
}
