package walk_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// poison fails every batch that holds one of the ids.
func poison(err error, ids ...mayfly.ID) func(context.Context, walk.Batch) ([]walk.Failure, error) {
	return func(_ context.Context, b walk.Batch) ([]walk.Failure, error) {
		if slices.ContainsFunc(b.Items, func(item mayfly.Item) bool { return slices.Contains(ids, item.ID) }) {
			return nil, err
		}
		return nil, nil
	}
}

var errPoison = errors.New("cannot be read")

func TestAPoisonItemIsParkedAndTheOthersGoOn(t *testing.T) {
	for _, bad := range [][]int{{0}, {57}, {99}, {10, 11}, {0, 50, 99}} {
		set, k := open(t), &recorder{}
		ids := due(t, set, spread(start, time.Millisecond, 100)...)
		var poisoned, healthy []mayfly.ID
		for i, id := range ids {
			if slices.Contains(bad, i) {
				poisoned = append(poisoned, id)
			} else {
				healthy = append(healthy, id)
			}
		}
		k.then = poison(errPoison, poisoned...)
		now := start.Add(time.Hour)
		w := walker(t, set, k.walk(), walk.Options{Unpaced: true})
		pass(t, w, now)
		same(t, "done", k.done, healthy)
		same(t, "parked", parked(t, set, now.Add(2*time.Minute)), poisoned)
		if p := w.Progress(); p.Parked != uint64(len(bad)) || p.Done != 100 || p.Watermark < ids[99].Deadline() {
			t.Errorf("%+v", p)
		}
		if tries := len(k.batches); tries > 20*len(bad)+20 {
			t.Errorf("%d tries for %d poison items in 100", tries, len(bad))
		}
	}
}

func TestAnItemThatTheActReportsIsParkedAlone(t *testing.T) {
	set, k := open(t), &recorder{}
	ids := due(t, set, spread(start, time.Millisecond, 10)...)
	k.then = func(_ context.Context, b walk.Batch) ([]walk.Failure, error) {
		return []walk.Failure{{Item: b.Items[3], Err: errPoison}}, nil
	}
	now := start.Add(time.Hour)
	w := walker(t, set, k.walk(), walk.Options{Unpaced: true, RemindAfter: 5 * time.Minute})
	pass(t, w, now)
	same(t, "parked", parked(t, set, now.Add(5*time.Minute)), ids[3:4])
	if len(k.batches) != 1 {
		t.Errorf("%d batches, want one", len(k.batches))
	}
}

func TestWhenParkingFailsThePassFailsAndTheWatermarkStays(t *testing.T) {
	set, k := open(t), &recorder{}
	ids := due(t, set, spread(start, time.Second, 4)...)
	k.then = poison(errPoison, ids[2])
	w := &writes{Writer: set.Writer}
	set.Writer = w
	walker := walker(t, set, k.walk(), walk.Options{Unpaced: true})
	w.err = mayfly.Errorf(mayfly.Unavailable, "away")
	now := start.Add(time.Hour)
	for range 3 {
		more, err := walker.Pass(t.Context(), now)
		if more || !errors.Is(err, mayfly.Unavailable) {
			t.Fatalf("more %t, %v", more, err)
		}
		if got := stored(t, set); got >= ids[2].Deadline() {
			t.Fatalf("watermark at %s, past an item that is neither done nor parked", got)
		}
		now = now.Add(time.Second)
	}
	w.err = nil
	pass(t, walker, now)
	same(t, "parked", parked(t, set, now.Add(2*time.Minute)), ids[2:3])
	if got := stored(t, set); got < ids[3].Deadline() {
		t.Errorf("watermark at %s", got)
	}
}

// A batch may end between two items of one millisecond: what the next pass takes
// up begins with that millisecond, not behind it.
func TestAFailureInsideAMillisecondLosesNoItem(t *testing.T) {
	set, k := open(t), &recorder{}
	w := &writes{Writer: set.Writer}
	set.Writer = w
	walker := walker(t, set, k.walk(), walk.Options{Unpaced: true, Page: 5, Batch: 2})
	due(t, set, start.Add(-time.Second))
	now := start.Add(time.Second)            // within the lease
	pass(t, walker, start.Add(-time.Second)) // begins the run, which is a write of its own
	ids := due(t, set, spread(start, 0, 10)...)
	k.done = nil
	for fail := range 5 {
		k.then = poison(errPoison, ids[2*fail])
		w.err = mayfly.Errorf(mayfly.Unavailable, "away")
		if _, err := walker.Pass(t.Context(), now); err == nil {
			t.Fatal("went well")
		}
		same(t, "done", distinct(k.done), ids[:2*fail])
	}
	w.err, k.then = nil, nil
	pass(t, walker, now)
	same(t, "done", distinct(k.done), ids)
}

// writes is a writer that is away while err is set.
type writes struct {
	store.Writer
	err error
}

func (w *writes) Commit(ctx context.Context, b *store.Batch) error {
	if w.err != nil {
		return w.err
	}
	return w.Writer.Commit(ctx, b)
}

// A try that failed may have moved rows whose events are missing: all of them
// are tried again as a repeat, in whichever half they are.
func TestAFailedBatchIsTriedAgainAsARepeatInAllItsParts(t *testing.T) {
	set, k := open(t), &recorder{}
	w := walker(t, set, k.walk(), walk.Options{Unpaced: true, Page: 16, Batch: 8})
	pass(t, w, start)
	due(t, set, spread(start.Add(-10*time.Second), time.Millisecond, 16)...) // for the second look only
	failed := false
	k.then = func(context.Context, walk.Batch) ([]walk.Failure, error) {
		if !failed {
			failed = true
			return nil, errPoison
		}
		return nil, nil
	}
	pass(t, w, start.Add(10*time.Second))
	var repeats []bool
	for _, b := range k.batches {
		for range b.Items {
			repeats = append(repeats, b.Repeat)
		}
	}
	failing, again, rest := repeats[:8], repeats[8:16], repeats[17:] // the 17th may share a batch with the last of the 8
	if slices.Contains(failing, true) || slices.Contains(again, false) || slices.Contains(rest, true) {
		t.Errorf("repeats %v, want no, 8 times, then yes, 8 times, then no", repeats)
	}
}

func TestASecondLookThatFailedIsRepeated(t *testing.T) {
	set, k := open(t), &recorder{}
	wr := &writes{Writer: set.Writer}
	set.Writer = wr
	w := walker(t, set, k.walk(), walk.Options{Unpaced: true})
	pass(t, w, start)
	due(t, set, start.Add(-10*time.Second))
	k.then = poison(errPoison, due(t, set, start.Add(-9*time.Second))...)
	wr.err = errPoison
	if _, err := w.Pass(t.Context(), start.Add(10*time.Second)); err == nil {
		t.Fatal("went well")
	}
	wr.err, k.then, k.batches = nil, nil, nil
	pass(t, w, start.Add(10*time.Second))
	if len(k.batches) == 0 || !k.batches[0].Repeat {
		t.Errorf("%+v: want a repeat", k.batches)
	}
}

func TestBatchSizeHalvesOnTimeOutsAndRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, k := open(t), &recorder{}
		due(t, set, spread(start, time.Millisecond, 6000)...)
		slow := true
		k.then = func(ctx context.Context, b walk.Batch) ([]walk.Failure, error) {
			if slow && len(b.Items) > 100 {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return nil, nil
		}
		w := walker(t, set, k.walk(), walk.Options{Unpaced: true, Page: 6000})
		now := start.Add(time.Hour)
		for _, want := range []int{500, 250, 125} { // each time-out ends its pass: the lease must be kept alive
			if _, err := w.Pass(t.Context(), now); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("want a time-out, got %v", err)
			}
			if got := k.sizes(); len(got) != 1 || got[0] != want {
				t.Fatalf("batches of %v, want one of %d", got, want)
			}
		}
		slow = false
		pass(t, w, now)
		sizes := k.sizes()
		if sizes[0] != 62 || !slices.IsSorted(sizes[:len(sizes)-1]) || slices.Max(sizes) != 500 {
			t.Errorf("batches of %v, want them to grow from 62 towards 500", sizes)
		}
	})
}

func TestAPassIsCutInsideAPageAndTheNextGoesOnBehindIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, k := open(t), &recorder{}
		ids := due(t, set, spread(start, time.Millisecond, 100)...)
		k.then = func(context.Context, walk.Batch) ([]walk.Failure, error) {
			time.Sleep(300 * time.Millisecond)
			return nil, nil
		}
		w := walker(t, set, k.walk(), walk.Options{Batch: 5})
		for passes := 1; len(distinct(k.done)) < len(ids); passes++ {
			began := time.Now()
			more, err := w.Pass(t.Context(), start.Add(time.Hour))
			if err != nil || !more && len(distinct(k.done)) < len(ids) {
				t.Fatalf("pass %d: more %t, %v", passes, more, err)
			}
			if took := time.Since(began); took > 1500*time.Millisecond {
				t.Fatalf("pass %d took %s: its lease runs out and its now gets old", passes, took)
			}
		}
		if once := distinct(k.done); !slices.Equal(once, ids) || len(k.done) > len(ids)+10 {
			t.Errorf("%d items of %d, %d of them again", len(once), len(ids), len(k.done)-len(once))
		}
	})
}

func TestSlotsBoundHowManyActsRunAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := open(t)
		due(t, set, spread(start, time.Millisecond, 200)...)
		slots := walk.NewSlots(2)
		var running, most, acts atomic.Int32
		k := &recorder{then: func(context.Context, walk.Batch) ([]walk.Failure, error) {
			most.Store(max(most.Load(), running.Add(1)))
			acts.Add(1)
			time.Sleep(100 * time.Millisecond)
			running.Add(-1)
			return nil, nil
		}}
		origin, err := walk.Origin(t.Context(), set.Rows, start)
		if err != nil {
			t.Fatal(err)
		}
		one := walk.NewShard(set.Rows, shard, "one", time.Minute, origin) // one lease for all its walks
		longest := make([]time.Duration, 8)
		done := make(chan error)
		for i := range longest {
			step := k.walk()
			step.Name = string(rune('a' + i))
			w, err := walk.New(set, step, one, walk.Options{Holder: "one", Unpaced: true, Batch: 20, Slots: slots})
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				for more, err := true, error(nil); more; {
					began := time.Now()
					if more, err = w.Pass(t.Context(), start.Add(time.Hour)); err != nil {
						done <- err
						return
					}
					longest[i] = max(longest[i], time.Since(began))
				}
				done <- nil
			}()
		}
		for range longest {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		if most.Load() != 2 || acts.Load() < 80 {
			t.Errorf("%d acts, up to %d at once, want 2", acts.Load(), most.Load())
		}
		if worst := slices.Max(longest); worst > 1500*time.Millisecond {
			t.Errorf("a pass took %s: waiting for a slot counts as time spent, or its lease runs out", worst)
		}
	})
}

func TestAWalkOnTimeRestsAndALateOneDoesNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tc := range []struct {
			name     string
			late     time.Duration
			from, to time.Duration // how long 10 batches of 1 ms take
		}{
			{"on time: a fifth of a core over all shards", 0, 700 * time.Millisecond, 900 * time.Millisecond},
			{"half of its budget used up", 10 * time.Second, 15 * time.Millisecond, 25 * time.Millisecond},
			{"its budget used up", 20 * time.Second, 10 * time.Millisecond, 10 * time.Millisecond},
			{"an hour late", time.Hour, 10 * time.Millisecond, 10 * time.Millisecond},
		} {
			set, k := open(t), &recorder{}
			k.then = func(context.Context, walk.Batch) ([]walk.Failure, error) {
				time.Sleep(time.Millisecond)
				return nil, nil
			}
			w := walker(t, set, k.walk(), walk.Options{Batch: 1})
			pass(t, w, start)
			due(t, set, spread(start+1, 0, 10)...)
			began := time.Now()
			if _, err := w.Pass(t.Context(), start.Add(tc.late)+1); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took < tc.from || took > tc.to || len(k.done) != 10 {
				t.Errorf("%s: %d items took %s, want %s to %s", tc.name, len(k.done), took, tc.from, tc.to)
			}
		}
	})
}

func TestAPassEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, k := open(t), &recorder{}
		due(t, set, spread(start, time.Millisecond, 10)...)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		k.then = func(ctx context.Context, _ walk.Batch) ([]walk.Failure, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		w := walker(t, set, k.walk(), walk.Options{Unpaced: true})
		if more, err := w.Pass(ctx, start.Add(time.Hour)); more || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("more %t, %v", more, err)
		}
		if sizes := k.sizes(); len(sizes) != 1 {
			t.Errorf("tried again in batches of %v, though no slot is free", sizes)
		}
	})
}

// An act that says of one item alone that something is away speaks of more than
// the item: the walk waits, and parks nothing (L10).
func TestWhatIsAwayHoldsTheWalkUpAndParksNothing(t *testing.T) {
	set, k := open(t), &recorder{}
	ids := due(t, set, spread(start, time.Second, 5)...)
	away := mayfly.Errorf(mayfly.Unavailable, "the bucket is away")
	k.then = poison(away, ids[2])
	w := walker(t, set, k.walk(), walk.Options{Unpaced: true})
	now := start.Add(time.Hour)
	for range 3 {
		if _, err := w.Pass(t.Context(), now); !errors.Is(err, away) {
			t.Fatal(err)
		}
		if got := stored(t, set); got >= ids[2].Deadline() || w.Progress().Parked > 0 {
			t.Fatalf("watermark at %s, %d parked", got, w.Progress().Parked)
		}
	}
	k.then = nil
	pass(t, w, now)
	same(t, "done", distinct(k.done), ids)
}

// A store that does not answer is waited for, whatever time the act has used up with
// it: no half of the batch would fare better, and none is parked (L10).
func TestAStoreThatHangsHoldsTheWalkUpAndParksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, k := open(t), &recorder{}
		ids := due(t, set, spread(start, time.Second, 5)...)
		k.then = func(ctx context.Context, _ walk.Batch) ([]walk.Failure, error) {
			<-ctx.Done()
			return nil, walk.Down(ctx.Err())
		}
		w := walker(t, set, k.walk(), walk.Options{Unpaced: true})
		now := start.Add(time.Hour)
		for range 10 { // as often as it takes to be down to one
			if _, err := w.Pass(t.Context(), now); !errors.Is(err, mayfly.Unavailable) {
				t.Fatal(err)
			}
			if got := stored(t, set); got >= ids[0].Deadline() || w.Progress().Parked > 0 {
				t.Fatalf("watermark at %s, %d parked", got, w.Progress().Parked)
			}
		}
		if sizes := k.sizes(); len(sizes) != 10 || slices.Min(sizes) != slices.Max(sizes) {
			t.Errorf("batches of %v, want one a pass and all alike", sizes)
		}
		k.then = nil
		pass(t, w, now)
		same(t, "done", distinct(k.done), ids)
	})
}

func TestAnErrorOfTheLogIsWaitedForUnlessItIsInvalid(t *testing.T) {
	for _, err := range []error{mayfly.Unknown, mayfly.Unavailable, context.DeadlineExceeded, errors.New("?")} {
		if err := walk.Away(err); !errors.Is(err, mayfly.Unavailable) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v would be parked", err)
		}
	}
	if err := walk.Away(mayfly.Errorf(mayfly.Invalid, "no event")); !errors.Is(err, mayfly.Invalid) || errors.Is(err, mayfly.Unavailable) {
		t.Errorf("%v would be waited for", err)
	}
	if walk.Away(nil) != nil || walk.Down(nil) != nil {
		t.Error("nothing is away")
	}
}

func TestDownAndAwayAreDifferent(t *testing.T) {
	err := walk.Down(mayfly.Wrap(mayfly.Full, context.DeadlineExceeded, ""))
	if !errors.Is(err, mayfly.Unavailable) || !errors.Is(err, mayfly.Full) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v would be parked", err)
	}
	if !walk.IsDown(err) || walk.IsAway(err) || walk.IsDown(walk.Away(mayfly.Unavailable)) || walk.IsDown(mayfly.Unavailable) {
		t.Errorf("%v is taken for another", err)
	}
}
