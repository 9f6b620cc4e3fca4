package gate_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflyhq/mayfly"
	rowtables "github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/gate"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/fixture"
	"github.com/mayflyhq/mayfly/test/pace"
)

func TestARestoreCostsNoLoadOfTheRestoredSet(t *testing.T) {
	h := open(t, gate.Options{})
	gone, item := newID(t, ana, 7), restoredStory(h)
	h.want(gone, mayfly.Viewer{}, deadline, gate.Gone)
	h.want(item.ID, mayfly.ViewerOf(ben), deadline, gate.Gone)
	h.look("range")
	for n := range uint64(100) {
		id := newID(t, ben, 1_000+n)
		h.restore(id)
		h.signal(store.RestoredSet, id)
		h.want(gone, mayfly.Viewer{}, deadline, gate.Gone)
	}
	h.restore(item.ID)
	h.signal(store.RestoredSet, item.ID)
	h.want(item.ID, mayfly.ViewerOf(ben), deadline, gate.Serve)
	if n := h.look("range"); n != 0 {
		t.Errorf("101 restores cost %d range reads on this node", n)
	}
	if ids, err := h.gate.RestoredOf(t.Context(), ben, deadline); len(ids) != 100 || err != nil {
		t.Errorf("%d restored ids of ben, %v", len(ids), err)
	}
}

func TestCallersShareOneLoadOfTheRestoredSet(t *testing.T) {
	for name, leased := range map[string]bool{"under a lease": true, "without a lease": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := open(t, gate.Options{})
				h.wire.SetCut(!leased)
				h.onRows(func(context.Context) error { time.Sleep(time.Millisecond); return nil })
				var all sync.WaitGroup
				for range 50 {
					all.Go(func() {
						if _, err := h.gate.RestoredOf(t.Context(), ana, deadline); err != nil {
							t.Error(err)
						}
					})
				}
				all.Wait()
				if n := h.look("range"); n > 2 { // without a lease: the first, and one for all the others
					t.Errorf("50 callers cost %d range reads", n)
				}
			})
		})
	}
}

func TestACallerThatGivesUpDoesNotEndTheLoadOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, gate.Options{})
		hang := make(chan struct{})
		h.onRows(func(ctx context.Context) error {
			select {
			case <-hang:
				return nil
			case <-ctx.Done():
				return mayfly.Wrap(mayfly.Unavailable, ctx.Err(), "")
			}
		})
		id := newID(t, ana, 7)
		ctx, giveUp := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := h.gate.Open(ctx, id, mayfly.Viewer{}, deadline); !errors.Is(err, mayfly.Unavailable) {
				t.Errorf("the caller that gave up: %v", err)
			}
		})
		synctest.Wait()
		all.Go(func() { h.want(id, mayfly.Viewer{}, deadline, gate.Gone) })
		synctest.Wait()
		giveUp()
		synctest.Wait()
		close(hang)
		all.Wait()
		if n := h.look("range"); n != 1 {
			t.Errorf("%d range reads", n)
		}
	})
}

func TestAListAsksForRestoredIDsOnce(t *testing.T) {
	h := open(t, gate.Options{})
	ids := h.many(20)
	h.restore(ids[3])
	h.wire.SetCut(true)
	if _, err := h.gate.OpenAll(t.Context(), ids, mayfly.ViewerOf(ben), deadline); err != nil {
		t.Fatal(err)
	}
	if gets, ranges := h.look("rows get"), h.look("range"); gets != 1 || ranges != 0 {
		t.Errorf("without a lease a list of 20 costs %d reads of rows and %d of ranges", gets, ranges)
	}
}

func TestASetThatIsGettingOldIsLoadedWhileItIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var elapsed atomic.Int64
		h := open(t, gate.Options{Elapsed: func() time.Duration { return time.Duration(elapsed.Load()) }})
		item := restoredStory(h)
		h.want(item.ID, mayfly.ViewerOf(ben), deadline, gate.Gone)
		h.restore(item.ID) // its signal is lost
		h.onRows(func(context.Context) error { time.Sleep(time.Second); return nil })
		elapsed.Store(int64(6 * store.CacheAge))
		began := time.Now()
		h.want(item.ID, mayfly.ViewerOf(ben), deadline, gate.Gone)
		if took := time.Since(began); took != 0 {
			t.Errorf("waited %s", took)
		}
		time.Sleep(time.Minute)
		h.want(item.ID, mayfly.ViewerOf(ben), deadline, gate.Serve)
	})
}

// The answers are the same below and above the bound.
func TestAboveItsBoundTheRestoredSetIsLookedUp(t *testing.T) {
	for name, most := range map[string]int{"loaded above": 2, "grown above": 5} {
		t.Run(name, func(t *testing.T) {
			h := open(t, gate.Options{MaxRestored: most})
			item, gone := restoredStory(h), newID(t, ana, 7)
			for id := range map[mayfly.ID]bool{item.ID: true, gone: true} {
				h.indexed(ana, id)
			}
			var others []mayfly.ID
			for n := range uint64(6) {
				others = append(others, newID(t, ben, 1_000+n))
			}
			h.restore(others[:3]...)
			h.want(gone, mayfly.Viewer{}, deadline, gate.Gone)
			for _, id := range append(others[3:], item.ID) {
				h.restore(id)
				h.signal(store.RestoredSet, id)
			}
			h.want(item.ID, mayfly.ViewerOf(ben), deadline, gate.Serve)
			h.want(gone, mayfly.Viewer{}, deadline, gate.Gone)
			ids, err := h.gate.RestoredOf(t.Context(), ana, deadline)
			if err != nil || !slices.Equal(ids, []mayfly.ID{item.ID}) {
				t.Errorf("restored of ana: %v, %v", ids, err)
			}
			all, err := h.gate.OpenAll(t.Context(), []mayfly.ID{gone, item.ID}, mayfly.ViewerOf(ben), deadline)
			if err != nil || len(all) != 1 || all[0].Item.ID != item.ID {
				t.Errorf("OpenAll: %v, %v", all, err)
			}
			if h.look("rows get") == 0 {
				t.Error("nothing was looked up")
			}
		})
	}
}

// On Cassandra each entry that was deleted is a tombstone, which a read goes over.
func TestLoadsReadNoRestoresThatHaveEnded(t *testing.T) {
	h := open(t, gate.Options{})
	graves := fixture.NewGraves(&h.Set)
	g, err := gate.New(t.Context(), h.Set, gate.Options{})
	h.Must(err)
	defer func() { h.Must(g.Close()) }()
	const now = deadline + 40*24*3600*1000
	live := newID(t, ana, 7)
	h.restoreUntil(now.Add(time.Hour), live)
	h.restoreUntil(now.Add(25*time.Hour), live) // prolonged
	for n := range uint64(500) {                // over forty days, and half of them today
		id := newID(t, ben, 1_000+n)
		until := now.Add(-time.Duration(n+2) * time.Minute)
		if n%2 == 0 {
			until = now.Add(-time.Duration(n*110) * time.Minute)
		}
		h.restoreUntil(until, id)
		_, _, err := h.Set.Rows.Swap(t.Context(), rowtables.Restored, rowtables.RestoredKey(id), []byte{1}, nil, 0)
		h.Must(err)
	}
	rows := 0
	h.Hooks.Range = func(_ context.Context, _ store.Table, do func() ([]store.Row, error)) ([]store.Row, error) {
		page, err := do()
		rows += len(page)
		return page, err
	}
	h.look("range")
	ids, err := g.RestoredOf(t.Context(), ana, now)
	if err != nil || !slices.Equal(ids, []mayfly.ID{live}) {
		t.Errorf("%v, %v", ids, err)
	}
	// The days of today and tomorrow, and an entry of the live one in each.
	if ranges := h.look("range"); graves.Read() != 0 || rows > 2+mayfly.Shards+2 || ranges > 2+mayfly.Shards {
		t.Errorf("500 restores that have ended cost %d tombstones, %d rows and %d ranges", graves.Read(), rows, ranges)
	}
}

// A clock that was ahead comes back: what was loaded by it has too few ids.
func TestASetThatWasLoadedByALaterClockIsLoadedAgain(t *testing.T) {
	for name, cut := range map[string]bool{"under a lease": false, "without a lease": true} {
		t.Run(name, func(t *testing.T) {
			h := open(t, gate.Options{})
			h.wire.SetCut(cut)
			item := restoredStory(h)
			h.restoreUntil(deadline+1000, item.ID)
			gone, later := newID(t, ana, 7), deadline.Add(time.Hour)
			h.want(gone, mayfly.Viewer{}, later, gate.Gone)
			if ids, err := h.gate.RestoredOf(t.Context(), ana, later); len(ids) != 0 || err != nil {
				t.Errorf("%v, %v", ids, err)
			}
			h.want(item.ID, mayfly.ViewerOf(ben), deadline, gate.Serve)
			if ids, err := h.gate.RestoredOf(t.Context(), ana, deadline); len(ids) != 1 || err != nil {
				t.Errorf("%v, %v", ids, err)
			}
		})
	}
}

// indexed puts an item into the owner index.
func (e *engine) indexed(owner mayfly.UserID, id mayfly.ID) {
	e.Helper()
	var b store.Batch
	b.Put(rowtables.Owners, rowtables.OwnerKey(owner, id), []byte{byte(mayfly.Story)}, 0)
	e.Must(e.Real.Writer.Commit(context.Background(), &b))
}

// TestReadersDoNotFeelAStormOfRestores measures readers of gone ids and of rings
// with 10,000 restored ids, in turn without and with 500 restores a second.
func TestReadersDoNotFeelAStormOfRestores(t *testing.T) {
	pace.Heavy(t, "measures for seconds")
	h := open(t, gate.Options{})
	ids := make([]mayfly.ID, 30_000) // the last 20,000 are restored meanwhile
	for n := range ids {
		ids[n] = newID(t, mayfly.UserID{byte(n), byte(n >> 8), 1}, uint64(n))
	}
	h.restore(ids[:10_000]...)
	gone, stranger := newID(t, mayfly.UserID{9, 9, 9}, 1<<40), mayfly.ViewerOf(mayfly.UserID{7})
	rounds, window := 5, 400*time.Millisecond
	if pace.Long() {
		window = 4 * time.Second
	}
	fresh := ids[10_000:]
	measure := func(signals int) time.Duration {
		ctx, cancel := context.WithTimeout(t.Context(), window)
		defer cancel()
		var all sync.WaitGroup
		if signals > 0 {
			all.Go(func() {
				tick := time.NewTicker(time.Second / time.Duration(signals))
				defer tick.Stop()
				for ; ctx.Err() == nil && len(fresh) > 0; fresh = fresh[1:] {
					<-tick.C
					h.signal(store.RestoredSet, fresh[0])
				}
			})
		}
		took := make([][]time.Duration, 32)
		for reader := range took {
			all.Go(func() {
				tick := time.NewTicker(time.Millisecond)
				defer tick.Stop()
				for ctx.Err() == nil {
					<-tick.C
					began := time.Now()
					_, err := h.gate.Open(t.Context(), gone, stranger, deadline+1)
					_, listErr := h.gate.RestoredOf(t.Context(), ana, deadline)
					took[reader] = append(took[reader], time.Since(began))
					if err != mayfly.Gone || listErr != nil {
						t.Error(err, listErr)
						return
					}
				}
			})
		}
		all.Wait()
		joined := slices.Concat(took...)
		slices.Sort(joined)
		return joined[len(joined)*99/100]
	}
	measure(0) // the first load
	var quiet, storm []time.Duration
	for range rounds {
		quiet, storm = append(quiet, measure(0)), append(storm, measure(500))
	}
	slices.Sort(quiet)
	slices.Sort(storm)
	ratio := float64(storm[rounds/2]) / float64(quiet[rounds/2])
	t.Logf("p99 of 32 readers, median of %d windows of %s: quiet %s, with 500 restores a second %s, ratio %.2f; %d range reads", rounds, window, quiet[rounds/2], storm[rounds/2], ratio, h.look("range"))
	if ratio > 2 {
		t.Errorf("ratio %.2f, want at most 2", ratio)
	}
}
