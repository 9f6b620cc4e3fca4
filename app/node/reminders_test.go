package node_test

import (
	"context"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/fixture"
	"github.com/mayflyhq/mayfly/test/pace"
)

func TestANodeWhoseRemindersLagIsDegraded(t *testing.T) {
	pace.Heavy(t, "a node that lives for hours of virtual time")
	synctest.Test(t, func(t *testing.T) {
		set, done := open(t)
		var away atomic.Bool
		hooks := &fixture.Hooks{Range: func(_ context.Context, table store.Table, do func() ([]store.Row, error)) ([]store.Row, error) {
			if table == remind.Reminders && away.Load() {
				return nil, mayfly.Errorf(mayfly.Unavailable, "reminders cannot be read")
			}
			return do()
		}}
		_, admin, _, closed := servedOn(t, newMachine(), fixture.Hook(set, hooks), done)
		defer closed()
		for _, c := range []struct {
			away     bool
			passes   time.Duration
			degraded bool
		}{{false, 10 * time.Minute, false}, {true, 4 * time.Minute, false}, {true, 2 * time.Minute, true}, {false, time.Minute, false}} {
			away.Store(c.away)
			time.Sleep(c.passes)
			if code, h := ready(t, admin, "/readyz"); code != 200 || h.Degraded != c.degraded {
				t.Errorf("%+v: %d %+v", c, code, h)
			}
		}
	})
}

func TestRefusedTransitionsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, done := open(t)
		hooks := &fixture.Hooks{}
		n, admin, _, closed := servedOn(t, newMachine(), fixture.Hook(set, hooks), done)
		defer closed()
		item := mustPublish(t, n, time.Hour)
		hooks.Transition = func(ctx context.Context, changes []mayfly.Change, do fixture.Transition) ([]store.Outcome, error) {
			for i := range changes {
				changes[i].To = mayfly.Cold // as a fault in the code could ask for
			}
			return do(ctx, changes)
		}
		if _, err := n.Erase().Delete(t.Context(), item.ID, mayfly.ByUser, n.Clock().Read().Steady); err == nil {
			t.Fatal("active became cold")
		}
		hooks.Transition = nil
		if want, text := `mayfly_transitions_refused_total{from="active",to="cold"}`, metrics(admin); !strings.Contains(text, want) {
			t.Errorf("the metrics do not say %s", want)
		}
	})
}

// A rule about a metric that does not exist never fires.
func TestAlertRulesNameMetricsThatExist(t *testing.T) {
	rules, err := os.ReadFile("../../deploy/alerts/mayfly.yml")
	must(t, err)
	synctest.Test(t, func(t *testing.T) {
		_, admin, _, closed := served(t, newMachine())
		defer closed()
		time.Sleep(time.Minute)
		text := metrics(admin)
		named := regexp.MustCompile(`\bmayfly_[a-z_]+`).FindAllString(string(rules), -1)
		if len(named) < 5 || !strings.Contains(string(rules), "mayfly_reminder_lag_seconds") {
			t.Errorf("the rules name %v", named)
		}
		for _, name := range named {
			if !strings.Contains(text, "# TYPE "+name+" ") && name != "mayfly_transitions_refused_total" { // which begins with the first one
				t.Errorf("there is no metric %s", name)
			}
		}
	})
}
