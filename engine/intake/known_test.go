package intake_test

import (
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/intake"
)

func TestAKeyIsKnownFromItsFirstBirthUntilItIsForgotten(t *testing.T) {
	h := open(t)
	in := h.intake(intake.Options{KeepKeys: time.Hour})
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
	d := h.draft()
	d.Key = "k"
	born := h.publish(in, d, start).Item.ID
	if id, is := known(ana, "k", start.Add(time.Hour)-1); !is || id != born {
		t.Errorf("%s, %t", id, is)
	}
	for name, is := range map[string]bool{
		"forgotten": second(known(ana, "k", start.Add(time.Hour))), "another's": second(known(ben, "k", start)),
		"another": second(known(ana, "l", start)), "none": second(known(ana, "", start)), "nobody's": second(known(mayfly.UserID{}, "k", start)),
	} {
		if is {
			t.Errorf("known: %s", name)
		}
	}
}

func second(_ mayfly.ID, known bool) bool { return known }

func TestAnUploadIsDroppedUnlessABirthHasIt(t *testing.T) {
	h := open(t)
	in := h.intake(intake.Options{})
	u := h.upload(in, ana, start, "one", "two")
	if len(h.objects()) != 2 {
		t.Fatal(h.objects())
	}
	if err := u.Drop(t.Context()); err != nil || len(h.objects()) != 0 {
		t.Error(err, h.objects())
	}
	d := h.draft()
	d.Upload = u
	if _, err := in.Publish(t.Context(), d, start); err == nil {
		t.Error("what was dropped is published")
	}
	d.Upload = h.upload(in, ana, start, "three")
	h.publish(in, d, start)
	if err := d.Upload.Drop(t.Context()); err != nil || len(h.objects()) != 1 {
		t.Error(err, h.objects())
	}
}
