package sim

import (
	"errors"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/store/storetest"
)

// appendFails stops the first commit that appends, and the next commit if
// reminderToo: what else there is of it is written.
func appendFails(reminderToo bool) storetest.Plan {
	failed := 0
	return func(c storetest.Call) storetest.Fault {
		last := len(c.Stages) - 1
		switch {
		case c.Op != storetest.Commit || failed == 2 || failed == 1 && !reminderToo:
			return storetest.Fault{}
		case failed == 0:
			failed = 1
			return storetest.Fault{Fails: true, Stage: last, Kind: mayfly.Unknown}
		default:
			failed = 2
			return storetest.Fault{Fails: true, Kind: mayfly.Unavailable}
		}
	}
}

func TestReminderIsDurableBeforeABirthWithoutItsEventIsAcknowledged(t *testing.T) {
	p, err := newPlay(t.Context(), seed(t), appendFails(false))
	if err != nil {
		t.Fatal(err)
	}
	w := p.wishes()[0]
	published, err := p.record.publish(t.Context(), p.engine.uploads, p.engine.intake, w, p.at())
	if err != nil || !published.Remind {
		t.Fatalf("published %+v, %v; want it acknowledged with a reminder", published, err)
	}
	inv, err := takeInventory(t.Context(), p.engine.raw, p.record, p.at())
	if err != nil {
		t.Fatal(err)
	}
	if len(inv.events) != 0 {
		t.Fatalf("the append did not fail: %v", inv.events)
	}
	if len(inv.reminders) != 1 || inv.reminders[0].ID != published.Item.ID || inv.reminders[0].Step != remind.Announce {
		t.Fatalf("reminders %+v, want one to announce %s", inv.reminders, published.Item.ID)
	}
	if err := p.engine.close(); err != nil {
		t.Fatal(err)
	}
}

func TestBirthWithNeitherEventNorReminderIsNotAcknowledged(t *testing.T) {
	p, err := newPlay(t.Context(), seed(t), appendFails(true))
	if err != nil {
		t.Fatal(err)
	}
	w := p.wishes()[0]
	if published, err := p.record.publish(t.Context(), p.engine.uploads, p.engine.intake, w, p.at()); !errors.Is(err, mayfly.Unavailable) {
		t.Fatalf("published %+v, %v; want Unavailable", published, err)
	}
	// The row is there all the same, and a retry acknowledges it with its event.
	again, err := p.record.publish(t.Context(), p.engine.uploads, p.engine.intake, w, p.at()+1_000)
	if err != nil || !again.Again {
		t.Fatalf("the retry: %+v, %v", again, err)
	}
	found, inv, err := inspect(t.Context(), p.engine, p.record, p.at(), false)
	if err != nil {
		t.Fatal(err)
	}
	found.zero(t, "birth with neither event nor reminder")
	if len(inv.rows) != 1 || len(inv.events) != 1 {
		t.Errorf("%d rows and %d events, want one of each", len(inv.rows), len(inv.events))
	}
	if err := p.engine.close(); err != nil {
		t.Fatal(err)
	}
}
