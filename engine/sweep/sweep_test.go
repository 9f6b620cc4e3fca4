package sweep_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/fixture"
)

func TestAnItemGoesToItsFateAtItsDeadline(t *testing.T) {
	for fate, state := range map[mayfly.Fate]mayfly.State{mayfly.Archive: mayfly.ExpiredHot, mayfly.Purge: mayfly.Deleted} {
		t.Run(fate.String(), func(t *testing.T) {
			e := open(t)
			item := e.born(fate)
			e.mustAct(deadline-1, true, item)
			e.WantState(item.ID, mayfly.Active, 1)
			e.wantEvents()

			e.mustAct(deadline, true, item)
			row := e.Row(item.ID)
			if row.State != state || row.Generation != 2 || row.Cause != mayfly.ByExpiry || row.Run != run || row.Changed != deadline || row.Nonce == item.Nonce {
				t.Errorf("%+v", row)
			}
			e.wantEvents(item.ID)
		})
	}
}

func TestWhatIsHeldIsNotPurgedAndIsExpired(t *testing.T) {
	e := open(t)
	purge, archive := e.born(mayfly.Purge), e.born(mayfly.Archive)
	purge = e.move(purge.ID, mayfly.Active, mayfly.BySupport, hold)
	archive = e.move(archive.ID, mayfly.Active, mayfly.BySupport, hold)
	e.mustAct(deadline, true, purge, archive)
	e.WantState(purge.ID, mayfly.Active, 2)
	e.WantState(archive.ID, mayfly.ExpiredHot, 3)
	if !e.Row(archive.ID).Held {
		t.Error("expiry released the hold")
	}
	e.wantEvents(archive.ID)

	e.mustAct(deadline.Add(time.Hour), true, e.move(purge.ID, mayfly.Active, mayfly.BySupport, release))
	e.WantState(purge.ID, mayfly.Deleted, 4)
}

// A hold that comes between the read and the change wins.
func TestAHoldThatComesInBetweenIsSeen(t *testing.T) {
	e := open(t)
	item := e.born(mayfly.Purge)
	e.Hooks.Transition = fixture.BeforeTransition(func() {
		e.Hooks.Transition = nil
		e.move(item.ID, mayfly.Active, mayfly.BySupport, hold)
	})
	e.mustAct(deadline, true, item)
	e.WantState(item.ID, mayfly.Active, 2)
	e.wantEvents()
}

func TestARestoredItemIsLeftAloneUntilServesUntil(t *testing.T) {
	e := open(t)
	item := e.born(mayfly.Archive)
	e.mustAct(deadline, true, item)
	e.NewEvents(mayfly.Ends)
	until := deadline.Add(2 * time.Hour)
	restored := e.move(item.ID, mayfly.Active, mayfly.BySupport, func(c *mayfly.Change) { c.ServesUntil = until })
	e.mustAct(until-1, true, restored)
	e.WantState(item.ID, mayfly.Active, 3)
	e.mustAct(until, true, restored)
	e.WantState(item.ID, mayfly.ExpiredHot, 4)
	want := []mayfly.Event{mayfly.EventOf(restored, mayfly.WasRestored), mayfly.EventOf(e.Row(item.ID), mayfly.WasExpired)}
	if got := e.NewEvents(mayfly.Ends); !slices.Equal(got, want) { // the restore may have lost its event
		t.Errorf("events %+v\n  want %+v", got, want)
	}
}

func TestAStaleChangeIsComposedAgain(t *testing.T) {
	e := open(t)
	item := e.born(mayfly.Archive)
	e.Hooks.Transition = fixture.BeforeTransition(func() { // another writer is faster, twice
		switch e.Hooks.Count("transition") {
		case 1:
			e.Hold(item.ID)
		case 2:
			e.Release(item.ID)
		}
	})
	e.mustAct(deadline, true, item)
	e.WantState(item.ID, mayfly.ExpiredHot, 4)
	e.wantEvents(item.ID)
}

func TestARowThatKeepsChangingIsGivenBackAsAFailure(t *testing.T) {
	e := open(t)
	item, other := e.born(mayfly.Archive), e.born(mayfly.Archive)
	e.Hooks.Transition = fixture.BeforeTransition(func() {
		if e.Row(item.ID).Held {
			e.Release(item.ID)
		} else {
			e.Hold(item.ID)
		}
	})
	failures, err := e.act(deadline, true, item, other)
	if err != nil || len(failures) != 1 || failures[0].Item.ID != item.ID || !errors.Is(failures[0].Err, mayfly.Conflict) {
		t.Fatalf("%v, %+v", err, failures)
	}
	if e.Hooks.Count("transition") > 5 {
		t.Errorf("%d rounds", e.Hooks.Count("transition"))
	}
	e.wantEvents(other.ID)
}

// An answer that was lost is read back from the row: whether the change landed
// or not, the row is moved once and its event is appended.
func TestAChangeInDoubtIsReadBack(t *testing.T) {
	for name, landed := range map[string]bool{"it landed": true, "it did not land": false} {
		t.Run(name, func(t *testing.T) {
			e := open(t)
			items := []mayfly.Item{e.born(mayfly.Archive), e.born(mayfly.Purge), e.born(mayfly.Archive)}
			e.Hooks.Transition = func(ctx context.Context, changes []mayfly.Change, do fixture.Transition) ([]store.Outcome, error) {
				e.Hooks.Transition = nil
				if landed {
					if _, err := do(ctx, changes); err != nil {
						return nil, err
					}
				}
				return slices.Repeat([]store.Outcome{{Result: store.InDoubt}}, len(changes)), nil
			}
			e.mustAct(deadline, true, items...)
			for _, item := range items {
				if row := e.Row(item.ID); row.Generation != 2 || row.State == mayfly.Active {
					t.Errorf("%+v", row)
				}
			}
			e.wantEvents(items[0].ID, items[1].ID, items[2].ID)
		})
	}
}

func TestARefusedItemIsAFailureAndTheOthersGoOn(t *testing.T) {
	e := open(t)
	items := []mayfly.Item{e.born(mayfly.Archive), e.born(mayfly.Archive), e.born(mayfly.Archive)}
	no := mayfly.Errorf(mayfly.Conflict, "no")
	e.Hooks.Transition = func(ctx context.Context, changes []mayfly.Change, do fixture.Transition) ([]store.Outcome, error) {
		outcomes, err := do(ctx, changes)
		for i := range changes {
			if changes[i].ID == items[1].ID {
				outcomes[i] = store.Outcome{Result: store.Refused, Current: items[1], Err: no}
			}
		}
		return outcomes, err
	}
	failures, err := e.act(deadline, true, items...)
	if err != nil || len(failures) != 1 || failures[0].Item != items[1] || !errors.Is(failures[0].Err, no) {
		t.Fatalf("%v, %+v", err, failures)
	}
	e.wantEvents(items[0].ID, items[2].ID)
}

func TestARowThatIsGoneIsNothingToDo(t *testing.T) {
	e := open(t)
	item := e.born(mayfly.Archive)
	e.move(item.ID, mayfly.Deleted, mayfly.ByUser)
	if err := e.Set.Ledger.Remove(t.Context(), item.ID); err != nil {
		t.Fatal(err)
	}
	e.mustAct(deadline, true, item)
	if events := e.NewEvents(mayfly.Ends); len(events) > 0 {
		t.Errorf("%+v", events)
	}
}

func TestWhoDeletedAnItemIsNotContradicted(t *testing.T) {
	for name, by := range map[string]mayfly.Cause{"its author": mayfly.ByUser, "account erasure": mayfly.ByAccount} {
		for _, when := range []string{"before it was read", "before the change"} {
			t.Run(name+" "+when, func(t *testing.T) {
				e := open(t)
				item := e.born(mayfly.Archive)
				if when == "before it was read" {
					item = e.move(item.ID, mayfly.Deleted, by)
				} else {
					e.Hooks.Transition = fixture.BeforeTransition(func() {
						e.Hooks.Transition = nil
						e.move(item.ID, mayfly.Deleted, by)
					})
				}
				e.mustAct(deadline, true, item)
				e.WantState(item.ID, mayfly.Deleted, 2)
				e.wantEvents()
			})
		}
	}
}

// Which rows that are found expired have their event appended (again).
func TestAnEventIsRepeatedWhereItMayBeMissing(t *testing.T) {
	for _, fate := range []mayfly.Fate{mayfly.Archive, mayfly.Purge} {
		for _, tc := range []struct {
			name   string
			by     mayfly.Run // who moved the row
			repeat bool
			want   bool
		}{
			{"moved by this run", run, false, false},
			{"moved by this run, in a repeat", run, true, true},
			{"moved by another run", run + 1, false, true},
			{"moved by another run, in a repeat", run + 1, true, true},
		} {
			t.Run(fate.String()+" "+tc.name, func(t *testing.T) {
				e := open(t)
				item := e.born(fate)
				to := mayfly.ExpiredHot
				if fate == mayfly.Purge {
					to = mayfly.Deleted
				}
				moved := e.move(item.ID, to, mayfly.ByExpiry, func(c *mayfly.Change) { c.Run = tc.by })
				e.mustAct(deadline+2, tc.repeat, moved)
				if tc.want {
					e.wantEvents(item.ID)
				} else {
					e.wantEvents()
				}
				if e.Hooks.Count("transition") > 0 {
					t.Error("a row that is expired already was changed")
				}
			})
		}
	}
}

// Whatever breaks between the change and the event, trying again from the rows
// as they were read appends the event with the same key, and moves nothing twice.
func TestAFailedTryIsMadeGoodByTheNext(t *testing.T) {
	away := mayfly.Errorf(mayfly.Unavailable, "away")
	for name, broken := range map[string]func(e *engine, on bool){
		"the log is away": func(e *engine, on bool) {
			e.Hooks.Append = nil
			if on {
				e.Hooks.Append = fixture.FailAppend(away)
			}
		},
		"the answer of the transition is lost": func(e *engine, on bool) {
			e.Hooks.Transition = nil
			if on {
				e.Hooks.Transition = func(ctx context.Context, changes []mayfly.Change, do fixture.Transition) ([]store.Outcome, error) {
					_, err := do(ctx, changes)
					return nil, errors.Join(away, err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := open(t)
			items := []mayfly.Item{e.born(mayfly.Archive), e.born(mayfly.Purge)}
			broken(e, true)
			if _, err := e.act(deadline, false, items...); !errors.Is(err, away) {
				t.Fatalf("want the failure, got %v", err)
			}
			if events := e.NewEvents(mayfly.Ends); len(events) > 0 {
				t.Fatalf("%+v", events)
			}
			broken(e, false)
			e.mustAct(deadline+1000, true, items...)
			e.WantState(items[0].ID, mayfly.ExpiredHot, 2)
			e.WantState(items[1].ID, mayfly.Deleted, 2)
			e.wantEvents(items[0].ID, items[1].ID)
		})
	}
}

// Purged is deleted for the author too: caches must not go on showing it. A row
// that is only expired is judged the same from any cache.
func TestPurgedItemsAreRemovedFromCaches(t *testing.T) {
	e := open(t)
	var signalled []mayfly.ID
	sub, err := e.Set.Signals.Subscribe(t.Context(), func(s store.Signal) {
		if s.Topic == store.RowChanged {
			signalled = append(signalled, s.ID)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	purge, archive := e.born(mayfly.Purge), e.born(mayfly.Archive)
	e.mustAct(deadline, true, archive, purge)
	if !slices.Equal(signalled, []mayfly.ID{purge.ID}) {
		t.Errorf("signalled of %v, want %v", signalled, purge.ID)
	}
}

// Two walkers that both believe to hold the shard move every row once.
func TestSweepsThatRunAtTheSameTimeMoveEachRowOnce(t *testing.T) {
	e := open(t)
	var items []mayfly.Item
	for range 200 {
		items = append(items, e.born(mayfly.Archive))
	}
	act := e.sweep().Act
	var wg sync.WaitGroup
	for n := range 4 {
		wg.Go(func() {
			b := walk.Batch{Items: slices.Clone(items), Now: deadline, Run: run + mayfly.Run(n)}
			if n%2 == 1 {
				slices.Reverse(b.Items)
			}
			if failures, err := act(t.Context(), b); err != nil || len(failures) > 0 {
				t.Errorf("%v, %+v", err, failures)
			}
		})
	}
	wg.Wait()
	for _, item := range items {
		e.WantState(item.ID, mayfly.ExpiredHot, 2)
	}
	keys := map[mayfly.EventKey]bool{}
	for _, event := range e.NewEvents(mayfly.Ends) {
		keys[event.Key()] = true
	}
	if len(keys) != len(items) {
		t.Errorf("%d different events of %d items", len(keys), len(items))
	}
}

func TestAParkedItemIsRemindedToExpire(t *testing.T) {
	e := open(t)
	item := e.born(mayfly.Archive)
	var b store.Batch
	e.sweep().Walk().Park(&b, walk.Failure{Item: item, Err: errors.New("the row keeps changing")}, deadline+5)
	if err := e.Set.Writer.Commit(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	rows, err := e.Set.Rows.Range(t.Context(), remind.Reminders, store.Range{Partition: remind.Partition(deadline.Minute(), item.ID.Shard()), Limit: 10})
	if err != nil || len(rows) != 1 {
		t.Fatalf("%v, %v", rows, err)
	}
	got, err := remind.Read(rows[0])
	want := remind.Reminder{Due: deadline + 5, ID: item.ID, Step: remind.Expire, Tries: 1, Reason: "the row keeps changing"}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v\nwant %+v", got, err, want)
	}
}
