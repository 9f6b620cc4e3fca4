package node_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/pace"
)

func TestAbandonedUploadsAreGoneWithinAnHourOfTheirDeadlineAndNoneBefore(t *testing.T) {
	pace.Heavy(t, "a node that lives for hours of virtual time")
	in(t, func(t *testing.T, set store.Set, m *machine) {
		const abandoned = 200
		var p problems
		n := orphaned(t, set, m, &p, abandoned, 23*time.Hour)
		leave(t, n, 3) // younger
		time.Sleep(time.Hour - time.Minute)
		if got := len(objects(t, set.Hot)); got != abandoned+3 {
			t.Fatalf("%d objects are there before the deadline", got)
		}
		time.Sleep(time.Hour + 2*time.Minute)
		if got := len(objects(t, set.Hot)); got != 3 {
			t.Errorf("%d objects are there an hour after the deadline of %d", got, abandoned)
		}
		stop(t, n)
		if reported := p.of("abandoned"); len(reported) > 0 {
			t.Error(reported)
		}
	})
}

func TestAnIdleCollectorWritesNoAuditRecord(t *testing.T) {
	pace.Heavy(t, "a node that lives for hours of virtual time")
	in(t, func(t *testing.T, set store.Set, m *machine) {
		n := start(t, set, calm(node.Options{Source: m.source(), Upkeep: node.Upkeep{OrphansEvery: time.Hour}}))
		defer stop(t, n)
		photo(t, n, 48*time.Hour)
		time.Sleep(30 * time.Hour)
		report, err := audit.Verify(t.Context(), set.Rows, func(r audit.Record) error {
			t.Errorf("%+v", r.Entry)
			return nil
		})
		if must(t, err); report.Records != 0 {
			t.Errorf("%d records", report.Records)
		}
	})
}

// A look at the last hour only would leave out what ends while no node looks.
func TestLostMediaOfItemsThatEndWhileNoNodeRunsAreReported(t *testing.T) {
	pace.Heavy(t, "a node that lives for hours of virtual time")
	in(t, func(t *testing.T, set store.Set, m *machine) {
		var p problems
		o := calm(node.Options{Source: m.source(), Problem: p.report, Upkeep: node.Upkeep{OrphansEvery: time.Hour}})
		n := start(t, set, o)
		item := photo(t, n, 90*time.Minute)
		time.Sleep(70 * time.Minute)
		must(t, set.Hot.Delete(t.Context(), item.MediaKey(mayfly.Born, 0)))
		stop(t, n)
		time.Sleep(5 * time.Hour)
		n = start(t, set, o)
		defer stop(t, n)
		time.Sleep(80 * time.Minute)
		all := append(p.of("orphans"), p.of("missing")...)
		if !slices.ContainsFunc(all, func(err error) bool {
			return errors.Is(err, mayfly.Corrupt) && strings.Contains(err.Error(), string(item.MediaKey(mayfly.Born, 0)))
		}) {
			t.Errorf("the loss of its medium is not reported: %v", all)
		}
	})
}
