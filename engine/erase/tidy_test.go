package erase_test

import (
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/test/erasure"
	"github.com/mayflyhq/mayfly/test/fixture"
)

func TestATombstoneStaysThirtyDaysAndLeavesWithTheTidyWalk(t *testing.T) {
	fx := erasure.Open(t)
	early, late, alive := fx.Story(1), fx.Story(1), fx.Story(1)
	fx.MoveToCold(early, late, alive)
	deadline := early.ID.Deadline()
	for item, at := range map[mayfly.Item]mayfly.Instant{early: deadline.Add(erasure.Day), late: deadline.Add(erasure.Day) + 1} {
		_, err := fx.Eraser().Delete(t.Context(), item.ID, mayfly.ByUser, at)
		fx.Must(err)
	}
	if w := fx.Eraser().Tidy(); w.Offset != 31*erasure.Day {
		t.Fatalf("the walk is at %s", w.Offset)
	}
	if w := fx.Eraser().TidyAfter(1000 * erasure.Day); w.Offset != 1031*erasure.Day {
		t.Fatalf("the second walk is at %s", w.Offset)
	}
	fx.Now = deadline.Add(31*erasure.Day) - 1
	fx.Tidy(early, late, alive)
	if !fx.HasItem(early.ID) || fx.HasBody(early.ID) || fx.HasBody(late.ID) {
		t.Fatal("a tombstone is gone early, or a body late")
	}
	fx.Now++
	fx.Tidy(early, late, alive)
	if fx.HasItem(early.ID) || !fx.HasItem(late.ID) || len(fx.Traces(alive)) != 4 {
		t.Fatal("the walk removes what was deleted up to a erasure.Day after its deadline, and nothing else")
	}
	// What was deleted later its own reminder removes.
	fx.Origin = deadline.Add(31 * erasure.Day)
	fx.Remind(fx.Eraser(), deadline.Add(32*erasure.Day).Add(erasure.Soon))
	if fx.HasItem(late.ID) || !fx.HasItem(alive.ID) {
		t.Fatal("the reminder did not remove the tombstone")
	}
}

func TestWhatIsDeletedBehindTheTidyWalkLeavesByItsReminder(t *testing.T) {
	fx := erasure.Open(t)
	item := fx.Story(1)
	fx.MoveToCold(item)
	fx.Now = item.ID.Deadline().Add(400 * erasure.Day)
	_, err := fx.Eraser().Delete(t.Context(), item.ID, mayfly.ByUser, fx.Now)
	fx.Must(err)
	fx.Origin = fx.Now.Add(30 * erasure.Day)
	fx.Remind(fx.Eraser(), fx.Now.Add(31*erasure.Day)-1)
	if !fx.HasItem(item.ID) {
		t.Fatal("it left early")
	}
	fx.Remind(fx.Eraser(), fx.Now.Add(31*erasure.Day).Add(erasure.Soon))
	if fx.HasItem(item.ID) || len(fx.Traces(item)) > 0 {
		t.Fatalf("it stays, and %v", fx.Traces(item))
	}
}

func TestATombstoneOfWhatNeverExpiresLeavesByItsReminder(t *testing.T) {
	fx := erasure.Open(t)
	item := fx.Forever(fixture.Ana(), 1)
	_, err := fx.Eraser().Delete(t.Context(), item.ID, mayfly.ByUser, fx.Now)
	fx.Must(err)
	fx.Remind(fx.Eraser(), fx.Now.Add(erasure.Soon))
	if !fx.HasItem(item.ID) || len(fx.Traces(item)) > 0 {
		t.Fatalf("left: %v", fx.Traces(item))
	}
	fx.ForgetReminderWalk()
	fx.Origin = fx.Now.Add(30 * erasure.Day)
	fx.Remind(fx.Eraser(), fx.Now.Add(31*erasure.Day)-1)
	if !fx.HasItem(item.ID) {
		t.Fatal("it left early")
	}
	fx.Remind(fx.Eraser(), fx.Now.Add(31*erasure.Day).Add(erasure.Soon))
	if fx.HasItem(item.ID) || len(fx.Traces(item)) > 0 {
		t.Fatal("it stays")
	}
}

func TestAHeldTombstoneStaysAndAReleasedOneLeavesInItsTime(t *testing.T) {
	fx := erasure.Open(t)
	item := fx.Story(1)
	fx.Hold(item.ID)
	_, err := fx.Eraser().Delete(t.Context(), item.ID, mayfly.ByUser, fx.Now)
	fx.Must(err)
	fx.Now = item.ID.Deadline().Add(31 * erasure.Day)
	fx.Tidy(item)
	if len(fx.Traces(item)) != 4 {
		t.Fatalf("held, and only %v is left", fx.Traces(item))
	}
	fx.Release(item.ID)
	fx.Tidy(item) // erased now, and its thirty days begin: the act itself writes the reminder
	if !fx.HasItem(item.ID) || len(fx.Traces(item)) > 0 {
		t.Fatalf("left: %v", fx.Traces(item))
	}
	fx.Origin = fx.Now.Add(30*erasure.Day - time.Hour)
	fx.Remind(fx.Eraser(), fx.Now.Add(30*erasure.Day))
	if !fx.HasItem(item.ID) {
		t.Fatal("it left early")
	}
	fx.Remind(fx.Eraser(), fx.Now.Add(31*erasure.Day).Add(time.Minute))
	if fx.HasItem(item.ID) {
		t.Fatal("it stays")
	}
}
