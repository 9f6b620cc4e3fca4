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

func TestCassandraTellsTheTime(t *testing.T) {
	storetest.Time(t, "cassandrastore", func(t *testing.T) store.Set {
		s := openHouse(t)
		return store.Set{Time: s}
	})
}

// The servers of the tests run on this machine, and have its clock.
func TestEveryNodeThatIsUpIsAsked(t *testing.T) {
	s := openHouse(t)
	before := wall()
	told, err := s.Time(t.Context())
	after := wall()
	if err != nil {
		t.Fatal(err)
	}
	if want := min(len(s.session.GetHosts()), clocksAsked); len(told) != want {
		t.Errorf("%d nodes told the time, want %d", len(told), want)
	}
	for _, at := range told {
		if at < before || at > after {
			t.Errorf("%s is not between %s and %s", at, before, after)
		}
	}
	t.Logf("%d nodes, asked in %s", len(told), after.Sub(before))
}

func TestAClusterThatIsGoneTellsNoTime(t *testing.T) {
	s := openHouse(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if told, err := s.Time(ctx); !errors.Is(err, mayfly.Unavailable) || len(told) > 0 {
		t.Errorf("%v, %v", told, err)
	}
}
