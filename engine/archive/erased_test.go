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
)

// eraseAccount writes the tombstone of an account.
func (h *fixture) eraseAccount(name string) {
	h.Helper()
	user := mayfly.UserOf("test", name)
	swapped, _, err := h.real.Rows.Swap(context.Background(), engine.Erased, engine.ErasedKey(user), nil, []byte("erased"), 0)
	h.must(err)
	if !swapped {
		h.Fatal("the account was erased already")
	}
}

func TestWhatBelongsToAnErasedAccountIsEndedWithoutAColdCopy(t *testing.T) {
	h := open(t)
	items := h.expire(h.storyOf("ana", 2), h.storyOf("ben", 1), h.storyOf("ana", 0), h.storyOf("ana", 1))
	h.change(items[3].ID, mayfly.Change{Hold: mayfly.SetHold})
	h.eraseAccount("ana")
	var signalled []mayfly.ID
	sub, err := h.real.Signals.Subscribe(t.Context(), func(s store.Signal) { signalled = append(signalled, s.ID) })
	h.must(err)
	defer sub.Close()
	lookups := &lookups{Rows: h.real.Rows}
	puts := &counting{Blobs: h.real.Cold}
	h.set.Rows, h.set.Cold = lookups, puts
	if failures, err := h.archive(7, h.rows(items)...); err != nil || len(failures) > 0 {
		t.Fatal(failures, err)
	}
	for i, want := range []mayfly.State{mayfly.Deleted, mayfly.Cold, mayfly.Deleted, mayfly.ExpiredHot} {
		row := h.row(items[i].ID)
		if row.State != want || want == mayfly.Deleted && (row.Cause != mayfly.ByAccount || row.Run != 7) {
			t.Errorf("%d: %+v", i, row)
		}
	}
	if puts.calls != 2 { // one medium of ben's, put and read back
		t.Errorf("the cold tier was called %d times", puts.calls)
	}
	if lookups.calls != 1 {
		t.Errorf("%d lookups of accounts for one page", lookups.calls)
	}
	if len(signalled) != 2 || len(h.events(mayfly.WasDeleted)) != 2 {
		t.Errorf("caches were invalidated for %v", signalled)
	}
	h.readable(items[3].ID, hydrate.Hot) // held: all of it is there (I21)
	h.readable(items[1].ID, hydrate.Cold)
	h.exact(items...)
}

// lookups counts how often accounts are looked up.
type lookups struct {
	store.Rows
	calls int
}

func (l *lookups) Get(ctx context.Context, t store.Table, keys ...store.Key) ([][]byte, error) {
	if t == engine.Erased {
		l.calls++
	}
	return l.Rows.Get(ctx, t, keys...)
}

// A crash between the deletion and the erasing is made good by the next look.
func TestAnEndingThatBrokeOffIsEndedByTheNext(t *testing.T) {
	h := open(t)
	items := h.expire(h.story(2))
	h.eraseAccount("ana")
	h.o.Erase = func(context.Context, walk.Batch) ([]walk.Failure, error) {
		return nil, mayfly.Errorf(mayfly.Unavailable, "away")
	}
	if _, err := h.archive(7, items...); !errors.Is(err, mayfly.Unavailable) {
		t.Fatal(err)
	}
	h.o.Erase = h.erase
	if failures, err := h.archive(8, h.rows(items)...); err != nil || len(failures) > 0 {
		t.Fatal(failures, err)
	}
	h.exact(items...)
	if signalled := h.events(mayfly.WasDeleted); len(signalled) != 1 {
		t.Errorf("%v", signalled)
	}
}

// Where nothing erases, and where an eraser fails for one item, the item is
// parked to be erased.
func TestWhatCouldNotBeErasedIsParkedToBeErased(t *testing.T) {
	h := open(t)
	items := h.expire(h.story(1))
	h.eraseAccount("ana")
	h.o.Erase = nil
	failures, err := h.archive(7, items...)
	if err != nil || len(failures) != 1 || failures[0].Item.State != mayfly.Deleted {
		t.Fatal(failures, err)
	}
	var b store.Batch
	h.newArchive().Walk().Park(&b, failures[0], h.now.Add(time.Hour))
	h.must(h.real.Writer.Commit(t.Context(), &b))
	if r := h.reminders(h.now.Add(time.Hour), h.now.Add(time.Hour)); len(r) != 1 || r[0].Step != remind.Erase || r[0].ID != items[0].ID {
		t.Errorf("%+v", r)
	}
}

// A tombstone made a day after the deadline comes too late for the walk that
// removes tombstones: a reminder removes it (L13).
func TestALateEndingRemindsOfItsTombstone(t *testing.T) {
	for _, late := range []bool{false, true} {
		h := open(t)
		items := h.expire(h.story(1))
		h.eraseAccount("ana")
		if late {
			h.now = items[0].ID.Deadline().Add(24*time.Hour + time.Millisecond)
		}
		if failures, err := h.archive(7, items...); err != nil || len(failures) > 0 {
			t.Fatal(failures, err)
		}
		r := h.reminders(h.now.Add(30*24*time.Hour+23*time.Hour), h.now.Add(31*24*time.Hour+time.Hour))
		if late != (len(r) == 1 && r[0].Step == remind.Tidy && r[0].Due == h.now.Add(31*24*time.Hour)) {
			t.Errorf("late %t: %+v", late, r)
		}
	}
}
