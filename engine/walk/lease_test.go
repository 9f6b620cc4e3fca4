package walk_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

func TestASecondHolderGetsNothingUntilTheLeaseRunsOut(t *testing.T) {
	set, first, second := open(t), &recorder{}, &recorder{}
	one := walker(t, set, first.walk(), walk.Options{Unpaced: true, Holder: "one"})
	two := walker(t, set, second.walk(), walk.Options{Unpaced: true, Holder: "two"})
	pass(t, one, start) // until +5 s
	ids := due(t, set, start.Add(time.Second))
	for _, late := range []time.Duration{time.Second, 4 * time.Second, 4999 * time.Millisecond} {
		pass(t, two, start.Add(late))
		if len(second.done) > 0 || two.Progress().Held {
			t.Fatalf("the second holder walked at +%s", late)
		}
	}
	pass(t, two, start.Add(5*time.Second))
	same(t, "the second holder", second.done, ids)
	if !two.Progress().Held {
		t.Error("the second holder does not say that it holds the shard")
	}
	pass(t, one, start.Add(6*time.Second))
	if len(first.done) > 0 || one.Progress().Held {
		t.Error("the first holder walked on")
	}
}

func TestALeaseIsRenewedWhileItIsUsed(t *testing.T) {
	set, first, second := open(t), &recorder{}, &recorder{}
	one := walker(t, set, first.walk(), walk.Options{Unpaced: true, Holder: "one"})
	two := walker(t, set, second.walk(), walk.Options{Unpaced: true, Holder: "two"})
	due(t, set, spread(start, time.Second, 60)...)
	for i := range 60 {
		pass(t, one, start.Add(time.Duration(i)*time.Second))
		pass(t, two, start.Add(time.Duration(i)*time.Second))
	}
	if len(distinct(first.done)) != 60 || len(second.done) != 0 {
		t.Errorf("the first did %d, the second %d", len(distinct(first.done)), len(second.done))
	}
	run := first.batches[0].Run
	for _, b := range first.batches {
		if b.Run != run {
			t.Fatal("a tenure that was never interrupted had two runs")
		}
	}
}

func TestAReleasedShardIsTakenAtOnce(t *testing.T) {
	set, k := open(t), &recorder{}
	origin, err := walk.Origin(t.Context(), set.Rows, start)
	if err != nil {
		t.Fatal(err)
	}
	s := walk.NewShard(set.Rows, shard, "one", time.Hour, origin)
	one, err := walk.New(set, (&recorder{}).walk(), s, walk.Options{Holder: "one", Unpaced: true})
	if err != nil {
		t.Fatal(err)
	}
	pass(t, one, start)
	if err := s.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	ids := due(t, set, start)
	pass(t, walker(t, set, k.walk(), walk.Options{Unpaced: true, Holder: "two"}), start)
	same(t, "done", k.done, ids)

	if err := s.Release(t.Context()); err != nil { // not ours any more: frees nothing
		t.Fatal(err)
	}
	pass(t, one, start)
	if one.Progress().Held {
		t.Error("a release freed the lease of another process (trap 4)")
	}
}

// The lease is a hint: a walker that has lost it without noticing does no harm,
// because the watermark is swapped and not set.
func TestAStaleWalkerCannotMoveTheWatermark(t *testing.T) {
	set, stale, k := open(t), &recorder{}, &recorder{}
	two := walker(t, set, k.walk(), walk.Options{Unpaced: true, Holder: "two"})
	ids := due(t, set, start, start.Add(10*time.Minute))
	stale.then = func(_ context.Context, b walk.Batch) ([]walk.Failure, error) {
		if b.Items[0].ID == ids[0] { // in the middle of its work the first is overtaken
			pass(t, two, start.Add(time.Hour))
		}
		return nil, nil
	}
	one := walker(t, set, stale.walk(), walk.Options{Unpaced: true, Holder: "one", Page: 1})
	_, err := one.Pass(t.Context(), start.Add(time.Minute))
	if !errors.Is(err, mayfly.Conflict) {
		t.Fatalf("want a conflict, got %v", err)
	}
	if got := stored(t, set); got != start.Add(time.Hour).Add(-settle) {
		t.Errorf("watermark at %s, want it where the second left it", got)
	}
	pass(t, one, start.Add(time.Minute+time.Second)) // has noticed, and begins anew from what is stored
	if got := stored(t, set); got != start.Add(time.Hour).Add(-settle) {
		t.Errorf("the watermark went back to %s", got)
	}
}

func TestAWatermarkOfUnknownOutcomeIsReadAgain(t *testing.T) {
	for name, lands := range map[string]bool{"it landed": true, "it did not land": false} {
		t.Run(name, func(t *testing.T) {
			set, k := open(t), &recorder{}
			ids := due(t, set, start)
			rows := &swaps{Rows: set.Rows, table: walk.Watermarks, lands: lands}
			set.Rows = rows
			w := walker(t, set, k.walk(), walk.Options{Unpaced: true})
			rows.lose = 1
			if _, err := w.Pass(t.Context(), start.Add(time.Minute)); !errors.Is(err, mayfly.Unknown) {
				t.Fatalf("want unknown, got %v", err)
			}
			run := k.batches[0].Run
			pass(t, w, start.Add(2*time.Minute))
			if got := stored(t, set); got != start.Add(2*time.Minute).Add(-settle) {
				t.Errorf("watermark at %s", got)
			}
			want := 2
			if lands {
				want = 1
			}
			if len(k.done) != want || distinct(k.done)[0] != ids[0] {
				t.Errorf("%d items done, want %d", len(k.done), want)
			}
			if !lands && (!k.batches[1].Repeat || k.batches[1].Run != run) {
				t.Errorf("%+v: want a repeat, in the run of the hour", k.batches[1])
			}
		})
	}
}

// swaps loses the answers of the next swaps of a table.
type swaps struct {
	store.Rows
	table store.Table
	lose  int
	lands bool // they happen all the same
}

func (s *swaps) Swap(ctx context.Context, t store.Table, key store.Key, old, new []byte, at mayfly.Instant) (bool, []byte, error) {
	if t != s.table || s.lose == 0 {
		return s.Rows.Swap(ctx, t, key, old, new, at)
	}
	s.lose--
	if s.lands {
		if _, _, err := s.Rows.Swap(ctx, t, key, old, new, at); err != nil {
			return false, nil, err
		}
	}
	return false, nil, mayfly.Errorf(mayfly.Unknown, "the answer was lost")
}

func TestALeaseOfUnknownOutcomeHoldsNothing(t *testing.T) {
	for name, lands := range map[string]bool{"it landed": true, "it did not land": false} {
		t.Run(name, func(t *testing.T) {
			set, k := open(t), &recorder{}
			ids := due(t, set, start)
			rows := &swaps{Rows: set.Rows, table: walk.Leases, lands: lands, lose: 1}
			set.Rows = rows
			w := walker(t, set, k.walk(), walk.Options{Unpaced: true})
			if _, err := w.Pass(t.Context(), start); !errors.Is(err, mayfly.Unknown) || len(k.done) > 0 || w.Progress().Held {
				t.Fatalf("%v, %d done", err, len(k.done))
			}
			pass(t, w, start+1)
			same(t, "done", k.done, ids)
		})
	}
}

func TestOriginIsAMinuteBeforeTheFirstNodeForEver(t *testing.T) {
	for name, tc := range map[string]struct {
		lose  int
		lands bool
	}{"all goes well": {}, "the answer is lost": {lose: 1, lands: true}, "the write is lost": {lose: 1}} {
		t.Run(name, func(t *testing.T) {
			set := open(t)
			rows := &swaps{Rows: set.Rows, table: walk.Watermarks, lose: tc.lose, lands: tc.lands}
			for i := range 3 {
				got, err := walk.Origin(t.Context(), rows, start.Add(time.Duration(i)*time.Hour))
				if err != nil || got != start.Add(-time.Minute) {
					t.Fatalf("node %d: %s, %v", i, got, err)
				}
			}
		})
	}
	rows := &swaps{Rows: open(t).Rows, table: walk.Watermarks, lose: 1_000}
	if _, err := walk.Origin(t.Context(), rows, start); !errors.Is(err, mayfly.Unavailable) {
		t.Errorf("an origin that was not written: %v", err)
	}
}

func TestAWalkBeginsAtTheOrigin(t *testing.T) {
	set, k := open(t), &recorder{}
	ids := due(t, set, start.Add(-59*time.Second))
	pass(t, walker(t, set, k.walk(), walk.Options{Unpaced: true}), start)
	same(t, "done", k.done, ids)
}

func TestAWatermarkThatCannotBeReadStopsTheWalk(t *testing.T) {
	set, k := open(t), &recorder{}
	key := store.Key{Partition: name, Clustering: string([]byte{byte(shard)})}
	if _, _, err := set.Rows.Swap(t.Context(), walk.Watermarks, key, nil, []byte("?"), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := walker(t, set, k.walk(), walk.Options{Unpaced: true}).Pass(t.Context(), start); !errors.Is(err, mayfly.Corrupt) {
		t.Errorf("want corrupt, got %v", err)
	}
}
