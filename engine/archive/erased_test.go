package archive_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/fixture"
)

// eraseAccount writes the tombstone of an account.
func (h *env) eraseAccount(name string) {
	h.Helper()
	user := mayfly.UserOf("test", name)
	swapped, _, err := h.Real.Rows.Swap(context.Background(), engine.Erased, engine.ErasedKey(user), nil, []byte("erased"), 0)
	h.Must(err)
	if !swapped {
		h.Fatal("the account was erased already")
	}
}

func TestWhatBelongsToAnErasedAccountIsEndedWithoutAColdCopy(t *testing.T) {
	h := open(t)
	items := h.expire(h.StoryOf(fixture.User("ana"), 2), h.StoryOf(fixture.User("ben"), 1), h.StoryOf(fixture.User("ana"), 0), h.StoryOf(fixture.User("ana"), 1))
	h.Hold(items[3].ID)
	h.eraseAccount("ana")
	var signalled []mayfly.ID
	sub, err := h.Real.Signals.Subscribe(t.Context(), func(s store.Signal) { signalled = append(signalled, s.ID) })
	h.Must(err)
	defer sub.Close()
	lookups := h.countRowsGet(engine.Erased)
	h.archived(7, h.rows(items)...)
	for i, want := range []mayfly.State{mayfly.Deleted, mayfly.Cold, mayfly.Deleted, mayfly.ExpiredHot} {
		row := h.Row(items[i].ID)
		if row.State != want || want == mayfly.Deleted && (row.Cause != mayfly.ByAccount || row.Run != 7) {
			t.Errorf("%d: %+v", i, row)
		}
	}
	if n := h.Hooks.Count("copy hot", "put cold", "open cold"); n != 2 { // one medium of ben's, copied and read back
		t.Errorf("the cold tier was called %d times", n)
	}
	if *lookups != 1 {
		t.Errorf("%d lookups of accounts for one page", *lookups)
	}
	if len(signalled) != 2 || len(h.CountEvents(mayfly.Ends, mayfly.WasDeleted)) != 2 {
		t.Errorf("caches were invalidated for %v", signalled)
	}
	h.readable(hydrate.Hot, items[3]) // held: all of it is there (I21)
	h.readable(hydrate.Cold, items[1])
	h.WantNamed(items...)
}

// A crash between the deletion and the erasing is made good by the next look.
func TestAnEndingThatBrokeOffIsEndedByTheNext(t *testing.T) {
	h := open(t)
	items := h.expire(h.Story(2))
	h.eraseAccount("ana")
	h.o.Erase = func(context.Context, walk.Batch) ([]walk.Failure, error) {
		return nil, mayfly.Errorf(mayfly.Unavailable, "away")
	}
	if _, err := h.archive(7, items...); !errors.Is(err, mayfly.Unavailable) {
		t.Fatal(err)
	}
	h.o.Erase = h.EraseMedia
	h.archived(8, h.rows(items)...)
	h.WantNamed(items...)
	if signalled := h.CountEvents(mayfly.Ends, mayfly.WasDeleted); len(signalled) != 1 {
		t.Errorf("%v", signalled)
	}
}

// Where nothing erases, and where an eraser fails for one item, the item is
// parked to be erased.
func TestWhatCouldNotBeErasedIsParkedToBeErased(t *testing.T) {
	h := open(t)
	items := h.expire(h.Story(1))
	h.eraseAccount("ana")
	h.o.Erase = nil
	failures, err := h.archive(7, items...)
	if err != nil || len(failures) != 1 || failures[0].Item.State != mayfly.Deleted {
		t.Fatal(failures, err)
	}
	var b store.Batch
	h.newArchive().Walk().Park(&b, failures[0], h.Now.Add(time.Hour))
	h.Must(h.Real.Writer.Commit(t.Context(), &b))
	if r := h.Reminders(h.Now.Add(time.Hour), h.Now.Add(time.Hour)); len(r) != 1 || r[0].Step != remind.Erase || r[0].ID != items[0].ID {
		t.Errorf("%+v", r)
	}
}

// A tombstone made a day after the deadline comes too late for the walk that
// removes tombstones: a reminder removes it (L13).
func TestALateEndingRemindsOfItsTombstone(t *testing.T) {
	for _, late := range []bool{false, true} {
		h := open(t)
		items := h.expire(h.Story(1))
		h.eraseAccount("ana")
		if late {
			h.Now = items[0].ID.Deadline().Add(24*time.Hour + time.Millisecond)
		}
		h.archived(7, items...)
		r := h.Reminders(h.Now.Add(30*24*time.Hour+23*time.Hour), h.Now.Add(31*24*time.Hour+time.Hour))
		if late != (len(r) == 1 && r[0].Step == remind.Tidy && r[0].Due == h.Now.Add(31*24*time.Hour)) {
			t.Errorf("late %t: %+v", late, r)
		}
	}
}
