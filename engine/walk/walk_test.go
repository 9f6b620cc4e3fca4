package walk_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

func TestNothingIsHandedOutBeforeItIsDue(t *testing.T) {
	for _, offset := range []time.Duration{0, 90 * time.Minute, 31 * 24 * time.Hour} {
		t.Run(offset.String(), func(t *testing.T) {
			set, k := open(t), &recorder{}
			step := k.walk()
			step.Offset = offset
			w := walker(t, set, step, walk.Options{Unpaced: true})
			pass(t, w, start) // takes the shard

			at := start.Add(time.Second)
			ids := due(t, set, at-1, at, at+1, at.Add(time.Minute))
			for _, tc := range []struct {
				now  mayfly.Instant
				seen int
			}{
				{at - 2, 0}, {at - 1, 1}, {at, 2}, {at + 1, 3}, {at.Add(time.Minute) - 1, 3}, {at.Add(time.Minute), 4},
			} {
				pass(t, w, tc.now.Add(offset))
				same(t, tc.now.String(), distinct(k.done), ids[:tc.seen])
			}
			for _, b := range k.batches {
				for _, item := range b.Items {
					if item.ID.Deadline().Add(offset) > b.Now {
						t.Errorf("%s was handed out at %s", item.ID, b.Now)
					}
				}
			}
		})
	}
}

func TestOnlyTheWalkersShardIsWalked(t *testing.T) {
	set, k := open(t), &recorder{}
	w := walker(t, set, k.walk(), walk.Options{Unpaced: true})
	ids := due(t, set, start)
	hour, _ := mayfly.LifetimeOf(time.Hour)
	other, err := mayfly.NewID(start.Add(-time.Hour), hour, 0, uint64(shard+1))
	if err != nil {
		t.Fatal(err)
	}
	var b store.Batch
	b.Insert(store.Birth{Item: mayfly.Item{
		ID: other, Product: mayfly.Story, Fate: mayfly.Archive, Audience: mayfly.Everyone, State: mayfly.Active, Generation: mayfly.Born, Nonce: 1,
	}})
	if err := set.Writer.Commit(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	pass(t, w, start)
	same(t, "seen", k.done, ids)
}

func TestPagesThatEndInsideAMillisecondLoseNoItem(t *testing.T) {
	for _, tc := range []struct{ page, batch int }{{4, 3}, {1, 1}, {5, 500}, {23, 7}, {24, 24}, {500, 500}} {
		set, k := open(t), &recorder{}
		w := walker(t, set, k.walk(), walk.Options{Unpaced: true, Page: tc.page, Batch: tc.batch})
		deadlines := slices.Concat(spread(start, 0, 23), spread(start+1, 0, 9), spread(start.Add(time.Minute), 0, 8), spread(start.Add(time.Minute), time.Millisecond, 3))
		ids := due(t, set, deadlines...)
		pass(t, w, start.Add(2*time.Minute))
		if same(t, "seen", k.done, ids); t.Failed() {
			t.Fatalf("with pages of %d and batches of %d", tc.page, tc.batch)
		}
	}
}

func TestARowThatLandsLateIsFoundByTheSecondLook(t *testing.T) {
	set, k := open(t), &recorder{}
	w := walker(t, set, k.walk(), walk.Options{Unpaced: true})
	early := due(t, set, start)
	pass(t, w, start.Add(10*time.Second)) // the cursor is at +10 s
	same(t, "first look", k.done, early)

	late := due(t, set, start.Add(2*time.Second)) // behind the cursor, ahead of the watermark
	pass(t, w, start.Add(2*time.Second+settle-1))
	if slices.Contains(k.done, late[0]) {
		t.Fatal("the second look came before the row had settled: then one that lands later still is lost")
	}
	pass(t, w, start.Add(2*time.Second+settle))
	if !slices.Contains(k.done, late[0]) {
		t.Fatal("the second look missed the row")
	}
	if got := stored(t, set); got != start.Add(2*time.Second) {
		t.Errorf("watermark at %s, want it at the row, %s", got, start.Add(2*time.Second))
	}
}

func TestTheSecondLookDoesNotRepeatWhatThisTenureDid(t *testing.T) {
	set, k := open(t), &recorder{}
	w := walker(t, set, k.walk(), walk.Options{Unpaced: true})
	due(t, set, start)
	pass(t, w, start)
	pass(t, w, start.Add(settle))
	if len(k.batches) != 2 || !k.batches[0].Repeat || k.batches[1].Repeat {
		t.Fatalf("want a first look that may repeat an earlier tenure and a second that repeats nothing: %+v", k.batches)
	}
	if k.batches[0].Run != k.batches[1].Run || k.batches[0].Run == 0 {
		t.Errorf("runs %d and %d, want one for the tenure", k.batches[0].Run, k.batches[1].Run)
	}
}

func TestTheWatermarkTrailsByTheSettlingTime(t *testing.T) {
	set, k := open(t), &recorder{}
	w := walker(t, set, k.walk(), walk.Options{Unpaced: true})
	due(t, set, spread(start, time.Second, 60)...)
	for i := range 120 {
		now := start.Add(time.Duration(i) * time.Second)
		pass(t, w, now)
		p := w.Progress()
		if p.Cursor != now || p.Watermark != now.Add(-settle) || p.Lag != 0 || p.ETA != 0 {
			t.Fatalf("at +%d s: %+v", i, p)
		}
		if got := stored(t, set); got > p.Watermark || got < p.Watermark.Add(-10*time.Second) {
			t.Fatalf("at +%d s the stored watermark is %s, done is %s", i, got, p.Watermark)
		}
	}
}

// The stored watermark is behind an item for as long as its act has not
// succeeded, whatever look it is in.
func TestTheWatermarkMovesOnlyAfterTheAct(t *testing.T) {
	for name, now := range map[string]mayfly.Instant{"on time": start.Add(settle), "in a backlog": start.Add(time.Hour)} {
		t.Run(name, func(t *testing.T) {
			set, k := open(t), &recorder{}
			checked := 0
			k.then = func(_ context.Context, b walk.Batch) ([]walk.Failure, error) {
				if mark := stored(t, set); mark >= b.Items[0].ID.Deadline() {
					t.Errorf("the watermark is at %s before the act for %s", mark, b.Items[0].ID.Deadline())
				}
				checked++
				return nil, nil
			}
			w := walker(t, set, k.walk(), walk.Options{Unpaced: true, Page: 4, Batch: 4})
			due(t, set, spread(start.Add(-30*time.Second), 2*time.Second, 30)...)
			for range 3 {
				pass(t, w, now)
				now = now.Add(time.Second)
			}
			if checked < 8 || stored(t, set) < start {
				t.Errorf("%d batches, watermark at %s: nothing was shown", checked, stored(t, set))
			}
		})
	}
}

// A crash anywhere is a walker that is never heard of again. The next one
// starts at the stored watermark.
func TestACrashRepeatsWorkAndLosesNone(t *testing.T) {
	for crash := 1; ; crash++ {
		set, k := open(t), &recorder{}
		ids := due(t, set, spread(start, 700*time.Millisecond, 40)...)
		ctx, kill := context.WithCancel(t.Context())
		acts := 0
		k.then = func(context.Context, walk.Batch) ([]walk.Failure, error) {
			if acts++; acts == crash {
				kill()
				return nil, ctx.Err()
			}
			return nil, nil
		}
		first := walker(t, set, k.walk(), walk.Options{Unpaced: true, Page: 5, Batch: 3, Holder: "one"})
		now := start
		for ; ctx.Err() == nil && now < start.Add(time.Minute); now = now.Add(time.Second) {
			if _, err := first.Pass(ctx, now); err != nil && ctx.Err() == nil {
				t.Fatal(err)
			}
		}
		if ctx.Err() == nil {
			if crash < 20 {
				t.Fatalf("only %d acts in a whole run", crash-1)
			}
			kill()
			return
		}
		before := len(k.batches)
		second := walker(t, set, k.walk(), walk.Options{Unpaced: true, Page: 5, Batch: 3, Holder: "two"})
		for end := now.Add(time.Minute); now < end; now = now.Add(time.Second) {
			pass(t, second, now)
		}
		once := distinct(k.done)
		slices.SortFunc(once, func(a, b mayfly.ID) int { return a.Compare(b) })
		if same(t, "done", once, ids); t.Failed() {
			t.Fatalf("crash in act %d", crash)
		}
		if !k.batches[before].Repeat || k.batches[before].Run == k.batches[0].Run {
			t.Fatalf("after a crash the first batch is %+v: want a repeat, in a run of its own", k.batches[before])
		}
	}
}

func TestBacklogIsWalkedOldestFirstInBoundedPasses(t *testing.T) {
	set, k := open(t), &recorder{}
	w := walker(t, set, k.walk(), walk.Options{Unpaced: true})
	ids := due(t, set, spread(start, 300*time.Millisecond, 15_000)...) // more than an hour
	now, passes := start.Add(2*time.Hour), 0
	for more := true; more; passes++ {
		before := len(k.done)
		mark := stored(t, set)
		var err error
		if more, err = w.Pass(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		if got := len(k.done) - before; got > 10_500 {
			t.Fatalf("a pass handed out %d items", got)
		}
		if more && stored(t, set) <= mark {
			t.Fatal("a pass did not move the watermark on")
		}
		now = now.Add(time.Second)
	}
	if passes < 2 {
		t.Errorf("%d passes", passes)
	}
	if once := distinct(k.done); !slices.Equal(once, ids) {
		t.Errorf("%d of %d items, or not oldest first", len(once), len(ids))
	}
	if extra := len(k.done) - len(ids); extra > passes {
		t.Errorf("%d items were handed out again in %d passes", extra, passes)
	}
}

func TestEmptyMinutesArePassedInBoundedPassesAndFewWrites(t *testing.T) {
	set, k := open(t), &recorder{}
	w := walker(t, set, k.walk(), walk.Options{Unpaced: true})
	now, passes := start.Add(3*24*time.Hour), 0 // 4,320 empty minutes
	for more := true; more; passes++ {
		var err error
		if more, err = w.Pass(t.Context(), now); err != nil {
			t.Fatal(err)
		}
	}
	if p := w.Progress(); passes < 4 || p.Cursor != now || p.Watermark != now.Add(-settle) {
		t.Fatalf("%d passes, %+v", passes, p)
	}
	writes := 0
	for i, mark := 0, stored(t, set); i < 60; i++ {
		now = now.Add(time.Second)
		pass(t, w, now)
		if next := stored(t, set); next != mark {
			mark = next
			writes++
		}
	}
	if writes < 5 || writes > 7 {
		t.Errorf("the watermark was written %d times in an idle minute, want every 10 s", writes)
	}
}

// A walk that falls behind in the middle of a tenure moves its watermark while
// it catches up, and looks at nothing twice but the stretch that was not settled.
func TestABacklogInsideATenureMovesTheWatermarkToo(t *testing.T) {
	set, k := open(t), &recorder{}
	w := walker(t, set, k.walk(), walk.Options{Unpaced: true})
	pass(t, w, start)
	due(t, set, spread(start.Add(-10*time.Second), time.Second, 10)...)
	pass(t, w, start.Add(time.Second)) // 10 s are not settled
	due(t, set, spread(start.Add(2*time.Second), 300*time.Millisecond, 15_000)...)

	now := start.Add(2 * time.Hour)
	for more := true; more; now = now.Add(time.Second) {
		mark := stored(t, set)
		var err error
		if more, err = w.Pass(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		if more && stored(t, set) <= mark {
			t.Fatalf("the pass at %s left the watermark at %s", now, mark)
		}
	}
	if extra := len(k.done) - len(distinct(k.done)); extra > 20 {
		t.Errorf("%d items were looked at twice", extra)
	}
}

func TestWhatIsDoneIsSavedThoughALaterMinuteCannotBeRead(t *testing.T) {
	set, k := open(t), &recorder{}
	ids := due(t, set, start, start.Add(5*time.Minute))
	away := mayfly.Errorf(mayfly.Unavailable, "away")
	set.Ledger = &pages{Ledger: set.Ledger, read: func(s store.Stretch) error {
		if s.Minute == ids[1].Minute() {
			return away
		}
		return nil
	}}
	w := walker(t, set, k.walk(), walk.Options{Unpaced: true})
	more, err := w.Pass(t.Context(), start.Add(time.Hour))
	if more || !errors.Is(err, mayfly.Unavailable) {
		t.Fatalf("more %t, %v", more, err)
	}
	if got := stored(t, set); got < start || got >= ids[1].Deadline() {
		t.Errorf("watermark at %s, want it behind what is done and before what is not", got)
	}
	away = nil
	set.Ledger.(*pages).read = func(store.Stretch) error { return nil }
	pass(t, w, start.Add(time.Hour))
	same(t, "done", k.done, ids)
}

// pages is a ledger whose pages may fail.
type pages struct {
	store.Ledger
	read func(store.Stretch) error
}

func (p *pages) Walk(ctx context.Context, s store.Stretch, limit int) ([]mayfly.Item, error) {
	if err := p.read(s); err != nil {
		return nil, err
	}
	return p.Ledger.Walk(ctx, s, limit)
}

func TestAWalkThatIsNotWholeIsRefused(t *testing.T) {
	set, k := open(t), &recorder{}
	whole := k.walk()
	s := walk.NewShard(set.Rows, shard, "one", time.Second, start)
	for name, tc := range map[string]struct {
		walk walk.Walk
		o    walk.Options
	}{
		"no holder":         {whole, walk.Options{}},
		"no name":           {walk.Walk{Act: whole.Act, Park: whole.Park}, walk.Options{Holder: "one"}},
		"no act":            {walk.Walk{Name: "x", Park: whole.Park}, walk.Options{Holder: "one"}},
		"no park":           {walk.Walk{Name: "x", Act: whole.Act}, walk.Options{Holder: "one"}},
		"a negative offset": {walk.Walk{Name: "x", Act: whole.Act, Park: whole.Park, Offset: -1}, walk.Options{Holder: "one"}},
		"a negative settle": {whole, walk.Options{Holder: "one", Settle: -1}},
		"a negative page":   {whole, walk.Options{Holder: "one", Page: -1}},
		"a negative batch":  {whole, walk.Options{Holder: "one", Batch: -1}},
		"a negative load":   {whole, walk.Options{Holder: "one", Load: -1}},
		"a negative lease":  {whole, walk.Options{Holder: "one", Lease: -1}},
		"no time-out":       {whole, walk.Options{Holder: "one", Timeout: -1}},
	} {
		if _, err := walk.New(set, tc.walk, s, tc.o); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAStoreThatHandsOutEarlyIsNotBelieved(t *testing.T) {
	set, k := open(t), &recorder{}
	early := due(t, set, start.Add(10*time.Second))
	set.Ledger = hasty{set.Ledger}
	w := walker(t, set, k.walk(), walk.Options{Unpaced: true})
	defer func() {
		if r := recover(); r == nil || !strings.Contains(r.(string), early[0].String()) {
			t.Errorf("recovered %v", r)
		}
	}()
	_, _ = w.Pass(t.Context(), start)
}

// hasty is a ledger that forgets to compare the deadline (trap 5).
type hasty struct{ store.Ledger }

func (h hasty) Walk(ctx context.Context, s store.Stretch, limit int) ([]mayfly.Item, error) {
	s.To = (s.Minute + 1).Start()
	return h.Ledger.Walk(ctx, s, limit)
}
