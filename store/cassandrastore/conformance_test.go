//go:build servers

package cassandrastore

import (
	"context"
	"errors"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
)

func TestCassandrastorePassesTheConformanceSuites(t *testing.T) {
	t.Parallel()
	const driver = "cassandrastore"
	t.Run("writer", func(t *testing.T) { storetest.Writer(t, driver, openSet) })
	t.Run("ledger", func(t *testing.T) { storetest.Ledger(t, driver, openSet) })
	t.Run("rows", func(t *testing.T) { storetest.Rows(t, driver, openSet) })
	t.Run("lease", func(t *testing.T) { storetest.Lease(t, driver, openSet) })
}

func TestCassandrastoreAnswersLikeTheModel(t *testing.T) {
	t.Parallel()
	storetest.Random(t, "cassandrastore", openSet)
}

func TestCassandrastorePassesTheConformanceSuiteOfTime(t *testing.T) {
	storetest.Time(t, "cassandrastore", func(t *testing.T) store.Set {
		s := openTestStore(t)
		return store.Set{Time: s}
	})
}

// The servers of the tests run on this machine, and have its clock.
func TestEveryNodeThatIsUpReturnsItsTime(t *testing.T) {
	s := openTestStore(t)
	before := wall()
	reported, err := s.Time(t.Context())
	after := wall()
	if err != nil {
		t.Fatal(err)
	}
	if want := min(len(s.session.GetHosts()), clocksAsked); len(reported) != want {
		t.Errorf("%d nodes reported the time, want %d", len(reported), want)
	}
	for _, at := range reported {
		if at < before || at > after {
			t.Errorf("%s is not between %s and %s", at, before, after)
		}
	}
	t.Logf("%d nodes, asked in %s", len(reported), after.Sub(before))
}

func TestAnUnreachableClusterReturnsNoTime(t *testing.T) {
	s := openTestStore(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if reported, err := s.Time(ctx); !errors.Is(err, mayfly.Unavailable) || len(reported) > 0 {
		t.Errorf("%v, %v", reported, err)
	}
}
