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
)

func TestAnItemGoesToItsFateAtItsDeadline(t *testing.T) {
	for fate, state := range map[mayfly.Fate]mayfly.State{mayfly.Archive: mayfly.ExpiredHot, mayfly.Purge: mayfly.Deleted} {
		t.Run(fate.String(), func(t *testing.T) {
			h := open(t)
			item := h.born(fate)
			h.mustAct(deadline-1, true, item)
			h.wantState(item.ID, mayfly.Active, 1)
			h.wantEvents()

			h.mustAct(deadline, true, item)
			row := h.row(item.ID)
			if row.State != state || row.Generation != 2 || row.Cause != mayfly.ByExpiry || row.Run != run || row.Changed != deadline || row.Nonce == item.Nonce {
				t.Errorf("%+v", row)
			}
			h.wantEvents(item.ID)
		})
	}
}

func TestWhatIsHeldIsNotPurgedAndIsExpired(t *testing.T) {
	h := open(t)
	purge, archive := h.born(mayfly.Purge), h.born(mayfly.Archive)
	purge = h.move(purge.ID, mayfly.Active, mayfly.BySupport, hold)
	archive = h.move(archive.ID, mayfly.Active, mayfly.BySupport, hold)
	h.mustAct(deadline, true, purge, archive)
	h.wantState(purge.ID, mayfly.Active, 2)
	h.wantState(archive.ID, mayfly.ExpiredHot, 3)
	if !h.row(archive.ID).Held {
		t.Error("expiry released the hold")
	}
	h.wantEvents(archive.ID)

	h.mustAct(deadline.Add(time.Hour), true, h.move(purge.ID, mayfly.Active, mayfly.BySupport, release))
	h.wantState(purge.ID, mayfly.Deleted, 4)
}

// A hold that comes between the read and the change wins.
func TestAHoldThatComesInBetweenIsSeen(t *testing.T) {
	h := open(t)
	item := h.born(mayfly.Purge)
	h.ledger.before = func([]mayfly.Change) {
		h.ledger.before = nil
		h.move(item.ID, mayfly.Active, mayfly.BySupport, hold)
	}
	h.mustAct(deadline, true, item)
	h.wantState(item.ID, mayfly.Active, 2)
	h.wantEvents()
}

func TestARestoredItemIsLeftAloneUntilServesUntil(t *testing.T) {
	h := open(t)
	item := h.born(mayfly.Archive)
	h.mustAct(deadline, true, item)
	h.events()
	until := deadline.Add(2 * time.Hour)
	restored := h.move(item.ID, mayfly.Active, mayfly.BySupport, func(c *mayfly.Change) { c.ServesUntil = until })
	h.mustAct(until-1, true, restored)
	h.wantState(item.ID, mayfly.Active, 3)
	h.mustAct(until, true, restored)
	h.wantState(item.ID, mayfly.ExpiredHot, 4)
	h.wantEvents(item.ID)
}

func TestAStaleChangeIsComposedAgain(t *testing.T) {
	h := open(t)
	item := h.born(mayfly.Archive)
	h.ledger.before = func([]mayfly.Change) { // another writer is faster, twice
		if h.ledger.calls <= 2 {
			what := hold
			if h.ledger.calls == 2 {
				what = release
			}
			h.move(item.ID, mayfly.Active, mayfly.BySupport, what)
		}
	}
	h.mustAct(deadline, true, item)
	h.wantState(item.ID, mayfly.ExpiredHot, 4)
	h.wantEvents(item.ID)
}

func TestARowThatKeepsChangingIsGivenBackAsAFailure(t *testing.T) {
	h := open(t)
	item, other := h.born(mayfly.Archive), h.born(mayfly.Archive)
	h.ledger.before = func([]mayfly.Change) {
		if h.row(item.ID).Held {
			h.move(item.ID, mayfly.Active, mayfly.BySupport, release)
		} else {
			h.move(item.ID, mayfly.Active, mayfly.BySupport, hold)
		}
	}
	failures, err := h.act(deadline, true, item, other)
	if err != nil || len(failures) != 1 || failures[0].Item.ID != item.ID || !errors.Is(failures[0].Err, mayfly.Conflict) {
		t.Fatalf("%v, %+v", err, failures)
	}
	if h.ledger.calls > 5 {
		t.Errorf("%d rounds", h.ledger.calls)
	}
	h.wantEvents(other.ID)
}

// An answer that was lost is read back from the row: whether the change landed
// or not, the row is moved once and its event is appended.
func TestAChangeInDoubtIsReadBack(t *testing.T) {
	for name, landed := range map[string]bool{"it landed": true, "it did not land": false} {
		t.Run(name, func(t *testing.T) {
			h := open(t)
			items := []mayfly.Item{h.born(mayfly.Archive), h.born(mayfly.Purge), h.born(mayfly.Archive)}
			real := h.ledger.Ledger
			if !landed {
				h.ledger.Ledger = never{real}
			}
			h.ledger.after = func(_ []mayfly.Change, outcomes []store.Outcome, err error) ([]store.Outcome, error) {
				h.ledger.Ledger, h.ledger.after = real, nil
				for i := range outcomes {
					outcomes[i] = store.Outcome{Result: store.InDoubt}
				}
				return outcomes, err
			}
			h.mustAct(deadline, true, items...)
			for _, item := range items {
				if row := h.row(item.ID); row.Generation != 2 || row.State == mayfly.Active {
					t.Errorf("%+v", row)
				}
			}
			h.wantEvents(items[0].ID, items[1].ID, items[2].ID)
		})
	}
}

// never is a ledger whose changes do not happen.
type never struct{ store.Ledger }

func (never) Transition(_ context.Context, changes []mayfly.Change) ([]store.Outcome, error) {
	return make([]store.Outcome, len(changes)), nil
}

func TestARefusedItemIsAFailureAndTheOthersGoOn(t *testing.T) {
	h := open(t)
	items := []mayfly.Item{h.born(mayfly.Archive), h.born(mayfly.Archive), h.born(mayfly.Archive)}
	no := mayfly.Errorf(mayfly.Conflict, "no")
	h.ledger.after = func(changes []mayfly.Change, outcomes []store.Outcome, err error) ([]store.Outcome, error) {
		for i := range changes {
			if changes[i].ID == items[1].ID {
				outcomes[i] = store.Outcome{Result: store.Refused, Current: items[1], Err: no}
			}
		}
		return outcomes, err
	}
	failures, err := h.act(deadline, true, items...)
	if err != nil || len(failures) != 1 || failures[0].Item != items[1] || !errors.Is(failures[0].Err, no) {
		t.Fatalf("%v, %+v", err, failures)
	}
	h.wantEvents(items[0].ID, items[2].ID)
}

func TestARowThatIsGoneIsNothingToDo(t *testing.T) {
	h := open(t)
	item := h.born(mayfly.Archive)
	h.move(item.ID, mayfly.Deleted, mayfly.ByUser)
	if err := h.set.Ledger.Remove(t.Context(), item.ID); err != nil {
		t.Fatal(err)
	}
	h.mustAct(deadline, true, item)
	if e := h.events(); len(e) > 0 {
		t.Errorf("%+v", e)
	}
}

func TestWhoDeletedAnItemIsNotContradicted(t *testing.T) {
	for name, by := range map[string]mayfly.Cause{"its author": mayfly.ByUser, "account erasure": mayfly.ByAccount} {
		for _, when := range []string{"before it was read", "before the change"} {
			t.Run(name+" "+when, func(t *testing.T) {
				h := open(t)
				item := h.born(mayfly.Archive)
				if when == "before it was read" {
					item = h.move(item.ID, mayfly.Deleted, by)
				} else {
					h.ledger.before = func([]mayfly.Change) {
						h.ledger.before = nil
						h.move(item.ID, mayfly.Deleted, by)
					}
				}
				h.mustAct(deadline, true, item)
				h.wantState(item.ID, mayfly.Deleted, 2)
				h.wantEvents()
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
				h := open(t)
				item := h.born(fate)
				to := mayfly.ExpiredHot
				if fate == mayfly.Purge {
					to = mayfly.Deleted
				}
				moved := h.move(item.ID, to, mayfly.ByExpiry, func(c *mayfly.Change) { c.Run = tc.by })
				h.mustAct(deadline+2, tc.repeat, moved)
				if tc.want {
					h.wantEvents(item.ID)
				} else {
					h.wantEvents()
				}
				if h.ledger.calls > 0 {
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
	for name, broken := range map[string]func(h *house, on bool){
		"the log is away": func(h *house, on bool) {
			h.log.err = nil
			if on {
				h.log.err = away
			}
		},
		"the answer of the transition is lost": func(h *house, on bool) {
			h.ledger.after = nil
			if on {
				h.ledger.after = func([]mayfly.Change, []store.Outcome, error) ([]store.Outcome, error) { return nil, away }
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t)
			items := []mayfly.Item{h.born(mayfly.Archive), h.born(mayfly.Purge)}
			broken(h, true)
			if _, err := h.act(deadline, false, items...); !errors.Is(err, away) {
				t.Fatalf("want the failure, got %v", err)
			}
			if e := h.events(); len(e) > 0 {
				t.Fatalf("%+v", e)
			}
			broken(h, false)
			h.mustAct(deadline+1000, true, items...)
			h.wantState(items[0].ID, mayfly.ExpiredHot, 2)
			h.wantState(items[1].ID, mayfly.Deleted, 2)
			h.wantEvents(items[0].ID, items[1].ID)
		})
	}
}

// Purged is deleted for the author too: caches must not go on showing it. A row
// that is only expired is judged the same from any cache.
func TestCachesAreToldOfWhatIsPurged(t *testing.T) {
	h := open(t)
	var told []mayfly.ID
	sub, err := h.set.Signals.Subscribe(t.Context(), func(s store.Signal) {
		if s.Topic == store.RowChanged {
			told = append(told, s.ID)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	purge, archive := h.born(mayfly.Purge), h.born(mayfly.Archive)
	h.mustAct(deadline, true, archive, purge)
	if !slices.Equal(told, []mayfly.ID{purge.ID}) {
		t.Errorf("told of %v, want %v", told, purge.ID)
	}
}

// Two walkers that both believe to hold the shard move every row once.
func TestSweepsThatRunAtTheSameTimeMoveEachRowOnce(t *testing.T) {
	h := open(t)
	var items []mayfly.Item
	for range 200 {
		items = append(items, h.born(mayfly.Archive))
	}
	h.set.Ledger = h.ledger.Ledger
	act := h.sweep().Act
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
		h.wantState(item.ID, mayfly.ExpiredHot, 2)
	}
	keys := map[mayfly.EventKey]bool{}
	for _, e := range h.events() {
		keys[e.Key()] = true
	}
	if len(keys) != len(items) {
		t.Errorf("%d different events of %d items", len(keys), len(items))
	}
}

func TestAParkedItemIsRemindedToExpire(t *testing.T) {
	h := open(t)
	item := h.born(mayfly.Archive)
	var b store.Batch
	h.sweep().Walk().Park(&b, walk.Failure{Item: item, Err: errors.New("the row keeps changing")}, deadline+5)
	if err := h.set.Writer.Commit(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	rows, err := h.set.Rows.Range(t.Context(), store.Reminders, store.Range{Partition: remind.Partition(deadline.Minute(), item.ID.Shard()), Limit: 10})
	if err != nil || len(rows) != 1 {
		t.Fatalf("%v, %v", rows, err)
	}
	got, err := remind.Read(rows[0])
	want := remind.Reminder{Due: deadline + 5, ID: item.ID, Step: remind.Expire, Tries: 1, Reason: "the row keeps changing"}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v\nwant %+v", got, err, want)
	}
}
