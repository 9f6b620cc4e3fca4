package erase_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/erase"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/engine/sweep"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
)

// states are ways to bring a fresh story to every state of L1.
func states() map[mayfly.State]func(*house, mayfly.Item) {
	return map[mayfly.State]func(*house, mayfly.Item){
		mayfly.Active:     func(*house, mayfly.Item) {},
		mayfly.ExpiredHot: func(h *house, item mayfly.Item) { h.sweep(item) },
		mayfly.Archiving: func(h *house, item mayfly.Item) {
			h.sweep(item)
			h.change(item.ID, mayfly.Change{To: mayfly.Archiving, Cause: mayfly.ByArchive})
		},
		mayfly.Cold: func(h *house, item mayfly.Item) { h.archive(item) },
	}
}

func TestADeleteAtAnyStateLeavesNothingInEitherTier(t *testing.T) {
	for state, reach := range states() {
		t.Run(state.String(), func(t *testing.T) {
			h := open(t)
			mine, other := h.story(3), h.story(1)
			reach(h, mine)
			if got := h.row(mine.ID).State; got != state {
				t.Fatalf("it is %s", got)
			}
			// What a restore and a claim that crashed may have left.
			row := h.row(mine.ID)
			h.put(h.real.Hot, row.MediaKey(row.Generation+1, 0))
			h.put(h.real.Cold, row.MediaKey(row.Generation+1, 1))
			h.put(h.real.Hot, mayfly.RawKey(row.Upload, 2)) // by a presigned URL
			deleted, err := h.eraser().Delete(t.Context(), mine.ID, mayfly.ByUser, h.now)
			h.must(err)
			if deleted.State != mayfly.Deleted || h.row(mine.ID) != deleted || deleted.Cause != mayfly.ByUser {
				t.Fatalf("%+v", deleted)
			}
			if h.told(mayfly.WasDeleted)[mine.ID] != 1 {
				t.Fatal("the log was not told")
			}
			h.now = h.now.Add(soon)
			h.must(h.reminders(h.eraser(), h.now))
			if left := h.traces(mine); len(left) > 0 {
				t.Fatalf("left: %v", left)
			}
			if len(h.traces(other)) != 4 {
				t.Fatalf("of another item only %v is left", h.traces(other))
			}
			if h.told(mayfly.WasDeleted)[other.ID] != 0 {
				t.Fatal("another item was told deleted")
			}
		})
	}
}

func TestDeletingTwiceIsDeletingOnce(t *testing.T) {
	h := open(t)
	item := h.story(1)
	first, err := h.eraser().Delete(t.Context(), item.ID, mayfly.ByUser, h.now)
	h.must(err)
	second, err := h.eraser().Delete(t.Context(), item.ID, mayfly.BySupport, h.now+5)
	if err != nil || first != second {
		t.Fatalf("%+v, %v", second, err)
	}
}

func TestWhatIsNotThereOrNobodysCauseIsRefused(t *testing.T) {
	h := open(t)
	item := h.story(0)
	other := item.ID
	other[15] ^= 0xf0
	if _, err := h.eraser().Delete(t.Context(), other, mayfly.ByUser, h.now); !errors.Is(err, mayfly.NotFound) {
		t.Fatal(err)
	}
	for _, cause := range []mayfly.Cause{mayfly.NoCause, mayfly.ByExpiry, mayfly.ByRetention, mayfly.ByArchive} {
		if _, err := h.eraser().Delete(t.Context(), item.ID, cause, h.now); !errors.Is(err, mayfly.Invalid) {
			t.Fatalf("by %s: %v", cause, err)
		}
	}
	if h.row(item.ID).State != mayfly.Active {
		t.Fatal("it was deleted")
	}
}

func TestWhatIsHeldAndDeletedByItsAuthorKeepsItsBytesUntilReleased(t *testing.T) {
	h := open(t)
	item := h.story(2)
	h.archive(item)
	h.hold(item.ID)
	before := len(h.traces(item))
	for _, cause := range []mayfly.Cause{mayfly.ByAccount, mayfly.BySupport} {
		var e *mayfly.Error
		if _, err := h.eraser().Delete(t.Context(), item.ID, cause, h.now); !errors.Is(err, mayfly.Conflict) || !errors.As(err, &e) || e.Hint == "" {
			t.Fatalf("by %s: %v", cause, err)
		}
	}
	row, err := h.eraser().Delete(t.Context(), item.ID, mayfly.ByUser, h.now)
	if err != nil || row.State != mayfly.Deleted || !row.Held {
		t.Fatalf("%+v, %v", row, err)
	}
	h.act(row)
	h.now = h.now.Add(soon)
	h.must(h.reminders(h.eraser(), h.now))
	if len(h.traces(item)) != before || before != 5 {
		t.Fatalf("%d of %d traces are left", len(h.traces(item)), before)
	}
	h.release(item.ID)
	h.act(row) // as it was before its release: the row is read again
	if left := h.traces(item); len(left) > 0 {
		t.Fatalf("released, and left: %v", left)
	}
}

func TestAnActOnWhatIsNotDeletedErasesNothing(t *testing.T) {
	for state, reach := range states() {
		h := open(t)
		item := h.story(2)
		reach(h, item)
		before := len(h.traces(item))
		lie := h.row(item.ID)
		lie.State = mayfly.Deleted // whoever hands it over is wrong: I12
		h.act(lie)
		if len(h.traces(item)) != before || len(h.told(mayfly.WasDeleted)) != 0 {
			t.Fatalf("%s: %v is left", state, h.traces(item))
		}
	}
}

func TestWhatExpiryPurgedIsErasedAndNotToldDeleted(t *testing.T) {
	h := open(t)
	item, other := h.publish(intake.Draft{Owner: ben(), Fate: mayfly.Purge}, 2), h.story(1)
	h.now = item.ID.Deadline()
	s, err := sweep.New(h.real, sweep.Options{Erase: h.eraser().Act})
	h.must(err)
	h.acted(s.Act(t.Context(), walk.Batch{Items: []mayfly.Item{item, other}, Now: h.now, Run: 1}))
	h.act(item, other)
	if left := h.traces(item); len(left) > 0 || len(h.told(mayfly.WasDeleted)) > 0 || len(h.traces(other)) != 4 {
		t.Fatalf("left %v and %v, told %v", left, h.traces(other), h.told(mayfly.WasDeleted))
	}
	if row := h.row(item.ID); row.State != mayfly.Deleted || row.Cause != mayfly.ByExpiry {
		t.Fatalf("%+v", row)
	}
}

func TestARestoredItemLeavesTheRestoredSet(t *testing.T) {
	h := open(t)
	item := h.story(1)
	h.sweep(item)
	h.change(item.ID, mayfly.Change{To: mayfly.Active, ServesUntil: h.now.Add(time.Hour), Cause: mayfly.BySupport})
	var b store.Batch
	b.Put(store.Restored, store.RestoredKey(item.ID), []byte{1}, 0)
	h.must(h.real.Writer.Commit(t.Context(), &b))
	topics := map[store.Topic]int{}
	sub, err := h.real.Signals.Subscribe(t.Context(), func(s store.Signal) { topics[s.Topic]++ })
	h.must(err)
	row, err := h.eraser().Delete(t.Context(), item.ID, mayfly.ByUser, h.now)
	h.must(errors.Join(err, sub.Close()))
	if topics[store.RowChanged] != 1 || topics[store.RestoredSet] != 1 {
		t.Fatalf("told: %v", topics)
	}
	h.act(row)
	found, err := h.real.Rows.Get(t.Context(), store.Restored, store.RestoredKey(item.ID))
	if err != nil || found[0] != nil {
		t.Fatal("it is still in the restored set")
	}
}

// deaf are signals that reach nobody.
type deaf struct{ store.Signals }

func (deaf) Publish(context.Context, store.Signal) error {
	return mayfly.Errorf(mayfly.Unavailable, "nobody hears")
}

func TestWhoCannotTellTheCachesWaitsUntilTheyHaveForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t)
		item := h.story(0)
		h.set.Signals = deaf{h.real.Signals}
		e := h.eraserWith(erase.Options{Timeout: 100 * time.Millisecond}) // of the deed: to tell has its own
		for range 2 {                                                     // also when it is deleted: the first try may have ended before it told
			begun := time.Now()
			if _, err := e.Delete(t.Context(), item.ID, mayfly.ByUser, h.now); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begun); took < store.CacheWait {
				t.Errorf("a cache may show it, and it is answered after %s", took)
			}
		}
	})
}

func TestADeleteWinsEveryRace(t *testing.T) {
	random := seeded(t)
	const races = 60
	for range races {
		h := open(t)
		item := h.story(1)
		h.sweep(item)
		e := h.eraser()
		var wg sync.WaitGroup
		wg.Go(func() {
			for range 1 + random.IntN(4) {
				h.nudge(item.ID)
			}
		})
		wg.Go(func() {
			if _, err := e.Delete(context.Background(), item.ID, mayfly.ByUser, h.now); err != nil {
				t.Error(err)
			}
		})
		wg.Wait()
		if row := h.row(item.ID); row.State != mayfly.Deleted {
			t.Fatalf("it is %s", row.State)
		}
	}
}

// nudge claims the row for the archive, as a worker that takes over does.
func (h *house) nudge(id mayfly.ID) {
	row := h.row(id)
	_, err := h.real.Ledger.Transition(context.Background(), []mayfly.Change{{
		ID: id, From: row.State, Generation: row.Generation, To: mayfly.Archiving, Nonce: 7, Cause: mayfly.ByArchive, At: h.now,
	}})
	if err != nil {
		h.Error(err)
	}
}

func TestAnAppendThatFailsIsTheRemindersBusiness(t *testing.T) {
	h := open(t)
	item := h.story(1)
	h.set.Log = mute{h.real.Log}
	row, err := h.eraser().Delete(t.Context(), item.ID, mayfly.ByUser, h.now)
	if err != nil || row.State != mayfly.Deleted {
		t.Fatal(err)
	}
	if _, err := h.eraser().Act(t.Context(), walk.Batch{Items: []mayfly.Item{row}, Now: h.now}); err == nil {
		t.Fatal("erased without telling the log")
	}
	if !h.hasBody(item.ID) {
		t.Fatal("the body is gone, and nobody will tell the log again")
	}
	if keys := h.keys(h.real.Hot); len(keys) > 0 {
		t.Fatalf("the bytes wait for the log: %v", keys)
	}
	h.set.Log = h.real.Log
	h.now = h.now.Add(soon)
	h.must(h.reminders(h.eraser(), h.now))
	if h.told(mayfly.WasDeleted)[item.ID] != 1 || len(h.traces(item)) > 0 {
		t.Fatalf("told %v, left %v", h.told(mayfly.WasDeleted), h.traces(item))
	}
}

type mute struct{ store.Log }

func (mute) Append(context.Context, ...mayfly.Event) error {
	return mayfly.Errorf(mayfly.Unavailable, "the log is away")
}

func TestADeleteWhoseOutcomeIsInDoubtReadsTheRowBack(t *testing.T) {
	random, tried := seeded(t), 0
	call := storetest.Call{N: 2, Op: storetest.Transition, Stages: []int{1}} // behind the reminder
	for _, fault := range storetest.Faults(call) {
		tried++
		onHouse(t, func(h *house) {
			item := h.story(1)
			set, landing := storetest.Prefix(h.real, storetest.FailNth(call.N, fault))
			h.set = set
			row, err := h.eraser().Delete(t.Context(), item.ID, mayfly.ByUser, h.now)
			if err != nil || landing.Failed() != 1 || row.State != mayfly.Deleted || row.Generation != 2 {
				t.Fatalf("%+v: %+v, %v", fault, row, err)
			}
			_, err = landing.LandAll(t.Context(), random)
			h.must(err)
			if h.row(item.ID) != row {
				t.Fatalf("%+v: what landed late has moved the row", fault)
			}
		})
	}
	if tried < 4 {
		t.Fatalf("%d faults were tried", tried)
	}
}
