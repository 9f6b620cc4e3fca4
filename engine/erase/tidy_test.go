package erase_test

import (
	"context"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

func (h *house) tidy(items ...mayfly.Item) {
	h.Helper()
	h.acted(h.eraser().Tidy().Act(context.Background(), walk.Batch{Items: items, Now: h.now, Run: 9}))
}

// forget forgets how far the reminders were walked, so that origin counts again.
func (h *house) forget() {
	h.Helper()
	for shard := range mayfly.Shards {
		key := store.Key{Partition: remind.Name, Clustering: string([]byte{byte(shard)})}
		found, err := h.real.Rows.Get(context.Background(), store.Watermarks, key)
		h.must(err)
		_, _, err = h.real.Rows.Swap(context.Background(), store.Watermarks, key, found[0], nil, 0)
		h.must(err)
	}
}

func TestATombstoneStaysThirtyDaysAndLeavesWithTheTidyWalk(t *testing.T) {
	h := open(t)
	early, late, alive := h.story(1), h.story(1), h.story(1)
	h.archive(early, late, alive)
	deadline := early.ID.Deadline()
	for item, at := range map[mayfly.Item]mayfly.Instant{early: deadline.Add(day), late: deadline.Add(day) + 1} {
		_, err := h.eraser().Delete(t.Context(), item.ID, mayfly.ByUser, at)
		h.must(err)
	}
	if w := h.eraser().Tidy(); w.Offset != 31*day {
		t.Fatalf("the walk is at %s", w.Offset)
	}
	if w := h.eraser().TidyAfter(1000 * day); w.Offset != 1031*day {
		t.Fatalf("the second walk is at %s", w.Offset)
	}
	h.now = deadline.Add(31*day) - 1
	h.tidy(early, late, alive)
	if !h.found(early.ID).Found || h.hasBody(early.ID) || h.hasBody(late.ID) {
		t.Fatal("a tombstone is gone early, or a body late")
	}
	h.now++
	h.tidy(early, late, alive)
	if h.found(early.ID).Found || !h.found(late.ID).Found || len(h.traces(alive)) != 4 {
		t.Fatal("the walk removes what was deleted up to a day after its deadline, and nothing else")
	}
	// What was deleted later its own reminder removes.
	h.origin = deadline.Add(31 * day)
	h.must(h.reminders(h.eraser(), deadline.Add(32*day).Add(soon)))
	if h.found(late.ID).Found || !h.found(alive.ID).Found {
		t.Fatal("the reminder did not remove the tombstone")
	}
}

func TestWhatIsDeletedBehindTheTidyWalkLeavesByItsReminder(t *testing.T) {
	h := open(t)
	item := h.story(1)
	h.archive(item)
	h.now = item.ID.Deadline().Add(400 * day)
	_, err := h.eraser().Delete(t.Context(), item.ID, mayfly.ByUser, h.now)
	h.must(err)
	h.origin = h.now.Add(30 * day)
	h.must(h.reminders(h.eraser(), h.now.Add(31*day)-1))
	if !h.found(item.ID).Found {
		t.Fatal("it left early")
	}
	h.must(h.reminders(h.eraser(), h.now.Add(31*day).Add(soon)))
	if h.found(item.ID).Found || len(h.traces(item)) > 0 {
		t.Fatalf("it stays, and %v", h.traces(item))
	}
}

func TestATombstoneOfWhatNeverExpiresLeavesByItsReminder(t *testing.T) {
	h := open(t)
	item := h.publish(intake.Draft{Owner: ana(), Fate: mayfly.Archive, Lifetime: eternal}, 1)
	_, err := h.eraser().Delete(t.Context(), item.ID, mayfly.ByUser, h.now)
	h.must(err)
	h.must(h.reminders(h.eraser(), h.now.Add(soon)))
	if !h.found(item.ID).Found || len(h.traces(item)) > 0 {
		t.Fatalf("left: %v", h.traces(item))
	}
	h.forget()
	h.origin = h.now.Add(30 * day)
	h.must(h.reminders(h.eraser(), h.now.Add(31*day)-1))
	if !h.found(item.ID).Found {
		t.Fatal("it left early")
	}
	h.must(h.reminders(h.eraser(), h.now.Add(31*day).Add(soon)))
	if h.found(item.ID).Found || len(h.traces(item)) > 0 {
		t.Fatal("it stays")
	}
}

func TestAHeldTombstoneStaysAndAReleasedOneLeavesInItsTime(t *testing.T) {
	h := open(t)
	item := h.story(1)
	h.hold(item.ID)
	_, err := h.eraser().Delete(t.Context(), item.ID, mayfly.ByUser, h.now)
	h.must(err)
	h.now = item.ID.Deadline().Add(31 * day)
	h.tidy(item)
	if len(h.traces(item)) != 4 {
		t.Fatalf("held, and only %v is left", h.traces(item))
	}
	h.release(item.ID)
	h.tidy(item) // erased now, and its thirty days begin: the act itself writes the reminder
	if !h.found(item.ID).Found || len(h.traces(item)) > 0 {
		t.Fatalf("left: %v", h.traces(item))
	}
	h.origin = h.now.Add(30*day - time.Hour)
	h.must(h.reminders(h.eraser(), h.now.Add(30*day)))
	if !h.found(item.ID).Found {
		t.Fatal("it left early")
	}
	h.must(h.reminders(h.eraser(), h.now.Add(31*day).Add(time.Minute)))
	if h.found(item.ID).Found {
		t.Fatal("it stays")
	}
}
