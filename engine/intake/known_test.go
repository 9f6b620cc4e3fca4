package intake_test

import (
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/test/fixture"
)

func TestAKeyIsKnownFromItsFirstBirthUntilItIsForgotten(t *testing.T) {
	e := fixture.Open(t)
	in := e.Intake(intake.Options{KeepKeys: time.Hour})
	known := func(owner mayfly.UserID, key string, now mayfly.Instant) (mayfly.ID, bool) {
		id, known, err := in.Known(t.Context(), owner, key, now)
		if err != nil {
			t.Fatal(err)
		}
		return id, known
	}
	if _, is := known(ana, "k", start); is {
		t.Error("known before it was used")
	}
	d := e.Draft()
	d.Key = "k"
	born := publish(t, in, d, start).Item.ID
	if id, is := known(ana, "k", start.Add(time.Hour)-1); !is || id != born {
		t.Errorf("%s, %t", id, is)
	}
	for name, is := range map[string]bool{
		"forgotten": second(known(ana, "k", start.Add(time.Hour))), "another's": second(known(ben, "k", start)),
		"another": second(known(ana, "l", start)), "none": second(known(ana, "", start)), "no user's": second(known(mayfly.UserID{}, "k", start)),
	} {
		if is {
			t.Errorf("known: %s", name)
		}
	}
}

func second(_ mayfly.ID, known bool) bool { return known }

func TestAnUploadIsDroppedUnlessABirthHasIt(t *testing.T) {
	e := fixture.Open(t)
	in := e.Intake(intake.Options{})
	u := e.Upload(ana, start, "one", "two")
	if len(e.Objects(e.Real.Hot)) != 2 {
		t.Fatal(e.Objects(e.Real.Hot))
	}
	if err := u.Drop(t.Context()); err != nil || len(e.Objects(e.Real.Hot)) != 0 {
		t.Error(err, e.Objects(e.Real.Hot))
	}
	d := e.Draft()
	d.Upload = u
	if _, err := in.Publish(t.Context(), d, start); err == nil {
		t.Error("what was dropped is published")
	}
	d.Upload = e.Upload(ana, start, "three")
	publish(t, in, d, start)
	if err := d.Upload.Drop(t.Context()); err != nil || len(e.Objects(e.Real.Hot)) != 1 {
		t.Error(err, e.Objects(e.Real.Hot))
	}
}
