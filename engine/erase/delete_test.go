package erase_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/erase"
	"github.com/mayflyhq/mayfly/engine/sweep"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/erasure"
	"github.com/mayflyhq/mayfly/test/fixture"
)

// states are ways to bring a fresh story to every state of L1.
func states() map[mayfly.State]func(*erasure.Fixture, mayfly.Item) {
	return map[mayfly.State]func(*erasure.Fixture, mayfly.Item){
		mayfly.Active:     func(*erasure.Fixture, mayfly.Item) {},
		mayfly.ExpiredHot: func(fx *erasure.Fixture, item mayfly.Item) { fx.Expire(item) },
		mayfly.Archiving: func(fx *erasure.Fixture, item mayfly.Item) {
			fx.Expire(item)
			fx.Change(item.ID, mayfly.Change{To: mayfly.Archiving, Cause: mayfly.ByArchive})
		},
		mayfly.Cold: func(fx *erasure.Fixture, item mayfly.Item) { fx.MoveToCold(item) },
	}
}

func TestADeleteAtAnyStateLeavesNothingInEitherTier(t *testing.T) {
	for state, reach := range states() {
		t.Run(state.String(), func(t *testing.T) {
			fx := erasure.Open(t)
			mine, other := fx.Story(3), fx.Story(1)
			reach(fx, mine)
			if got := fx.Row(mine.ID).State; got != state {
				t.Fatalf("it is %s", got)
			}
			// What a restore and a claim that crashed may have left.
			row := fx.Row(mine.ID)
			fx.Put(fx.Real.Hot, row.MediaKey(row.Generation+1, 0))
			fx.Put(fx.Real.Cold, row.MediaKey(row.Generation+1, 1))
			fx.Put(fx.Real.Hot, mayfly.RawKey(row.Upload, 2)) // by a presigned URL
			deleted, err := fx.Eraser().Delete(t.Context(), mine.ID, mayfly.ByUser, fx.Now)
			fx.Must(err)
			if deleted.State != mayfly.Deleted || fx.Row(mine.ID) != deleted || deleted.Cause != mayfly.ByUser {
				t.Fatalf("%+v", deleted)
			}
			if fx.Appended(mayfly.WasDeleted)[mine.ID] != 1 {
				t.Fatal("no event was appended")
			}
			fx.Now = fx.Now.Add(erasure.Soon)
			fx.Remind(fx.Eraser(), fx.Now)
			if left := fx.Traces(mine); len(left) > 0 {
				t.Fatalf("left: %v", left)
			}
			if len(fx.Traces(other)) != 4 {
				t.Fatalf("of another item only %v is left", fx.Traces(other))
			}
			if fx.Appended(mayfly.WasDeleted)[other.ID] != 0 {
				t.Fatal("an event was appended for another item")
			}
		})
	}
}

func TestDeletingTwiceIsDeletingOnce(t *testing.T) {
	fx := erasure.Open(t)
	item := fx.Story(1)
	first, err := fx.Eraser().Delete(t.Context(), item.ID, mayfly.ByUser, fx.Now)
	fx.Must(err)
	second, err := fx.Eraser().Delete(t.Context(), item.ID, mayfly.BySupport, fx.Now+5)
	if err != nil || first != second {
		t.Fatalf("%+v, %v", second, err)
	}
}

func TestAMissingItemAndAnInvalidCauseAreRefused(t *testing.T) {
	fx := erasure.Open(t)
	item := fx.Story(0)
	other := item.ID
	other[15] ^= 0xf0
	if _, err := fx.Eraser().Delete(t.Context(), other, mayfly.ByUser, fx.Now); !errors.Is(err, mayfly.NotFound) {
		t.Fatal(err)
	}
	for _, cause := range []mayfly.Cause{mayfly.NoCause, mayfly.ByExpiry, mayfly.ByRetention, mayfly.ByArchive} {
		if _, err := fx.Eraser().Delete(t.Context(), item.ID, cause, fx.Now); !errors.Is(err, mayfly.Invalid) {
			t.Fatalf("by %s: %v", cause, err)
		}
	}
	if fx.Row(item.ID).State != mayfly.Active {
		t.Fatal("it was deleted")
	}
}

func TestWhatIsHeldAndDeletedByItsAuthorKeepsItsBytesUntilReleased(t *testing.T) {
	fx := erasure.Open(t)
	item := fx.Story(2)
	fx.MoveToCold(item)
	fx.Hold(item.ID)
	before := len(fx.Traces(item))
	for _, cause := range []mayfly.Cause{mayfly.ByAccount, mayfly.BySupport} {
		var e *mayfly.Error
		if _, err := fx.Eraser().Delete(t.Context(), item.ID, cause, fx.Now); !errors.Is(err, mayfly.Conflict) || !errors.As(err, &e) || e.Hint == "" {
			t.Fatalf("by %s: %v", cause, err)
		}
	}
	row, err := fx.Eraser().Delete(t.Context(), item.ID, mayfly.ByUser, fx.Now)
	if err != nil || row.State != mayfly.Deleted || !row.Held {
		t.Fatalf("%+v, %v", row, err)
	}
	fx.Act(row)
	fx.Now = fx.Now.Add(erasure.Soon)
	fx.Remind(fx.Eraser(), fx.Now)
	if len(fx.Traces(item)) != before || before != 5 {
		t.Fatalf("%d of %d traces are left", len(fx.Traces(item)), before)
	}
	fx.Release(item.ID)
	fx.Act(row) // as it was before its release: the row is read again
	if left := fx.Traces(item); len(left) > 0 {
		t.Fatalf("released, and left: %v", left)
	}
}

func TestAnActOnWhatIsNotDeletedErasesNothing(t *testing.T) {
	for state, reach := range states() {
		fx := erasure.Open(t)
		item := fx.Story(2)
		reach(fx, item)
		before := len(fx.Traces(item))
		lie := fx.Row(item.ID)
		lie.State = mayfly.Deleted // the caller is wrong: I12
		fx.Act(lie)
		if len(fx.Traces(item)) != before || len(fx.Appended(mayfly.WasDeleted)) != 0 {
			t.Fatalf("%s: %v is left", state, fx.Traces(item))
		}
	}
}

func TestAnItemThatExpiryPurgedIsErasedWithoutADeleteEvent(t *testing.T) {
	fx := erasure.Open(t)
	item, other := fx.Purge(fixture.Ben(), 2), fx.Story(1)
	fx.Now = item.ID.Deadline()
	s, err := sweep.New(fx.Real, sweep.Options{Erase: fx.Eraser().Act})
	fx.Must(err)
	fx.WantActed(s.Act(t.Context(), walk.Batch{Items: []mayfly.Item{item, other}, Now: fx.Now, Run: 1}))
	fx.Act(item, other)
	if left := fx.Traces(item); len(left) > 0 || len(fx.Appended(mayfly.WasDeleted)) > 0 || len(fx.Traces(other)) != 4 {
		t.Fatalf("left %v and %v, appended %v", left, fx.Traces(other), fx.Appended(mayfly.WasDeleted))
	}
	if row := fx.Row(item.ID); row.State != mayfly.Deleted || row.Cause != mayfly.ByExpiry {
		t.Fatalf("%+v", row)
	}
}

func TestARestoredItemLeavesTheRestoredSet(t *testing.T) {
	fx := erasure.Open(t)
	item := fx.Story(1)
	fx.Expire(item)
	fx.Change(item.ID, mayfly.Change{To: mayfly.Active, ServesUntil: fx.Now.Add(time.Hour), Cause: mayfly.BySupport})
	fx.SetRow(engine.Restored, engine.RestoredKey(item.ID), []byte{1})
	topics := map[store.Topic]int{}
	sub, err := fx.Real.Signals.Subscribe(t.Context(), func(s store.Signal) { topics[s.Topic]++ })
	fx.Must(err)
	row, err := fx.Eraser().Delete(t.Context(), item.ID, mayfly.ByUser, fx.Now)
	fx.Must(errors.Join(err, sub.Close()))
	if topics[store.RowChanged] != 1 || topics[store.RestoredSet] != 1 {
		t.Fatalf("published: %v", topics)
	}
	fx.Act(row)
	found, err := fx.Real.Rows.Get(t.Context(), engine.Restored, engine.RestoredKey(item.ID))
	if err != nil || found[0] != nil {
		t.Fatal("it is still in the restored set")
	}
}

func TestWhoCannotTellTheCachesWaitsUntilTheyHaveForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := erasure.Open(t)
		item := fx.Story(0)
		fx.Set.Signals = fixture.Deaf{Signals: fx.Real.Signals}
		e := fx.EraserWith(erase.Options{Timeout: 100 * time.Millisecond}) // of the step; publishing has its own
		for range 2 {                                                      // also when it is deleted: the first try may have ended before it published
			begun := time.Now()
			if _, err := e.Delete(t.Context(), item.ID, mayfly.ByUser, fx.Now); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begun); took < store.CacheWait {
				t.Errorf("a cache may show it, and it is answered after %s", took)
			}
		}
	})
}

func TestADeleteWinsEveryRace(t *testing.T) {
	random := fixture.Seeded(t)
	const races = 60
	for range races {
		fx := erasure.Open(t)
		item := fx.Story(1)
		fx.Expire(item)
		e := fx.Eraser()
		var wg sync.WaitGroup
		wg.Go(func() {
			for range 1 + random.IntN(4) {
				row := fx.Row(item.ID) // the archive claims it, as a worker that takes over does
				_, err := fx.Real.Ledger.Transition(context.Background(), []mayfly.Change{{
					ID: item.ID, From: row.State, Generation: row.Generation, To: mayfly.Archiving, Nonce: 7, Cause: mayfly.ByArchive, At: fx.Now,
				}})
				if err != nil {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			if _, err := e.Delete(context.Background(), item.ID, mayfly.ByUser, fx.Now); err != nil {
				t.Error(err)
			}
		})
		wg.Wait()
		if row := fx.Row(item.ID); row.State != mayfly.Deleted {
			t.Fatalf("it is %s", row.State)
		}
	}
}

func TestAnAppendThatFailsIsTheRemindersBusiness(t *testing.T) {
	fx := erasure.Open(t)
	item := fx.Story(1)
	fx.Hooks.Append = fixture.FailAppend(mayfly.Unavailable)
	row, err := fx.Eraser().Delete(t.Context(), item.ID, mayfly.ByUser, fx.Now)
	if err != nil || row.State != mayfly.Deleted {
		t.Fatal(err)
	}
	if _, err := fx.Eraser().Act(t.Context(), walk.Batch{Items: []mayfly.Item{row}, Now: fx.Now}); err == nil {
		t.Fatal("erased without telling the log")
	}
	if !fx.HasBody(item.ID) {
		t.Fatal("the body is gone, and no step will append the event again")
	}
	if keys := fx.Objects(fx.Real.Hot); len(keys) > 0 {
		t.Fatalf("the bytes wait for the log: %v", keys)
	}
	fx.Hooks.Append = nil
	fx.Now = fx.Now.Add(erasure.Soon)
	fx.Remind(fx.Eraser(), fx.Now)
	if fx.Appended(mayfly.WasDeleted)[item.ID] != 1 || len(fx.Traces(item)) > 0 {
		t.Fatalf("appended %v, left %v", fx.Appended(mayfly.WasDeleted), fx.Traces(item))
	}
}

func TestADeleteWhoseOutcomeIsInDoubtReadsTheRowBack(t *testing.T) {
	random, tried := fixture.Seeded(t), 0
	call := storetest.Call{N: 2, Op: storetest.Transition, Stages: []int{1}} // behind the reminder
	for _, fault := range storetest.Faults(call) {
		tried++
		erasure.With(t, func(fx *erasure.Fixture) {
			item := fx.Story(1)
			set, landing := storetest.Prefix(fx.Real, storetest.FailNth(call.N, fault))
			fx.Set = set
			row, err := fx.Eraser().Delete(t.Context(), item.ID, mayfly.ByUser, fx.Now)
			if err != nil || landing.Failed() != 1 || row.State != mayfly.Deleted || row.Generation != 2 {
				t.Fatalf("%+v: %+v, %v", fault, row, err)
			}
			_, err = landing.LandAll(t.Context(), random)
			fx.Must(err)
			if fx.Row(item.ID) != row {
				t.Fatalf("%+v: what landed late has moved the row", fault)
			}
		})
	}
	if tried < 4 {
		t.Fatalf("%d faults were tried", tried)
	}
}

func TestADeleteWhoseAskerHangsUpTellsTheCachesAllTheSame(t *testing.T) {
	fx := erasure.Open(t)
	item := fx.Story(1)
	published := fx.Signalled(item.ID)
	ctx, hang := context.WithCancel(t.Context())
	fx.Hooks.LoseAnswers(hang, false)
	row, err := fx.Eraser().Delete(ctx, item.ID, mayfly.ByUser, fx.Now)
	if err != nil || row.State != mayfly.Deleted || published[store.RowChanged] != 1 || fx.Appended(mayfly.WasDeleted)[item.ID] != 1 {
		t.Fatalf("%+v, %v; published %v", row, err, published)
	}
}

func TestADeleteOfWhichNothingIsKnownTellsTheCachesAllTheSame(t *testing.T) {
	fx := erasure.Open(t)
	item := fx.Story(1)
	published := fx.Signalled(item.ID)
	fx.Hooks.LoseAnswers(func() {}, true)
	if _, err := fx.Eraser().Delete(t.Context(), item.ID, mayfly.ByUser, fx.Now); !errors.Is(err, mayfly.Unknown) {
		t.Fatal(err)
	}
	if fx.Row(item.ID).State != mayfly.Deleted || published[store.RowChanged] != 1 {
		t.Fatalf("published %v", published)
	}
}

func TestTheReminderOfADeletionTellsTheCachesOnce(t *testing.T) {
	fx := erasure.Open(t)
	item, held, other := fx.Story(1), fx.Story(1), fx.Story(1)
	fx.Hold(held.ID)
	for _, id := range []mayfly.ID{item.ID, held.ID} { // the process that did it published nothing
		fx.Change(id, mayfly.Change{To: mayfly.Deleted, Cause: mayfly.ByUser})
	}
	published, heldSignals, otherSignals := fx.Signalled(item.ID), fx.Signalled(held.ID), fx.Signalled(other.ID)
	for range 2 { // finished is finished
		fx.Act(item, held, other)
	}
	if published[store.RowChanged] != 1 || heldSignals[store.RowChanged] != 2 || len(otherSignals) != 0 {
		t.Fatalf("published %v, held %v, other %v", published, heldSignals, otherSignals)
	}
}
