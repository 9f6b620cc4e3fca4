//go:build servers

package cassandrastore

import (
	"errors"
	"slices"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/mayflyhq/mayfly"
)

// openBy opens the keyspace of this run with nodes as the policy hands them out.
// The server of the tests may be one node, which around is reported are several.
func openBy(t *testing.T, policy gocql.HostSelectionPolicy) *Store {
	t.Helper()
	openTestStore(t) // the schema is made without it
	o, err := serverOptions(t, testKeyspace).complete()
	if err != nil {
		t.Fatal(err)
	}
	config, err := clusterConfig(o, o.Keyspace)
	if err != nil {
		t.Fatal(err)
	}
	config.PoolConfig.HostSelectionPolicy = policy
	session, err := config.CreateSession()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(session.Close)
	if ours, ok := policy.(*around); ok {
		ours.several = func() bool { return true }
	}
	return newStore(o, session)
}

// hurried asks a second time, and once for each node, before any can have answered.
func hurried(s *Store) gocql.SpeculativeExecutionPolicy {
	return &gocql.SimpleSpeculativeExecution{NumAttempts: len(s.opts.Hosts), TimeoutDelay: time.Microsecond}
}

func byToken() gocql.HostSelectionPolicy {
	return gocql.TokenAwareHostPolicy(gocql.RoundRobinHostPolicy(), gocql.DoNotShuffleReplicas())
}

func TestASpeculativeRequestWithoutANodeFailsNothing(t *testing.T) {
	failures := func(s *Store) (failed int) {
		for range 100 {
			var day int64
			q := s.query(readLedger, readDays, "items", int8(3), int64(0)).SetSpeculativeExecutionPolicy(hurried(s))
			if err := q.ScanContext(t.Context(), &day); err != nil && !errors.Is(err, gocql.ErrNotFound) {
				failed++
			}
		}
		return failed
	}
	if failed := failures(openBy(t, &around{HostSelectionPolicy: byToken(), silences: newSilences(discard())})); failed > 0 {
		t.Errorf("%d of 100 reads failed", failed)
	}
	if failures(openBy(t, byToken())) == 0 {
		t.Error("the driver alone fails none of them: around is not needed any more")
	}
}

// Each page comes from one asking or the other.
func TestALongReadWithASpeculativeRequestIsComplete(t *testing.T) {
	s := openBy(t, &around{HostSelectionPolicy: byToken(), silences: newSilences(discard())})
	fresh := births(t, 300, "24h")
	insert(t, s, fresh...)
	h := placeOf(fresh[0].Item.ID).hole
	values := append(h.values(), int64(0), []byte{}, int64(fresh[0].Item.ID.Deadline().Add(time.Minute)), len(fresh)+1)
	q := s.query(readLedger, s.forms.of(h).walk, values...).PageSize(7).SetSpeculativeExecutionPolicy(hurried(s))
	items, err := readItems(q.IterContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	want := itemsOf(fresh)
	for _, all := range [][]mayfly.Item{items, want} {
		slices.SortFunc(all, func(a, b mayfly.Item) int { return a.ID.Compare(b.ID) })
	}
	if !slices.Equal(items, want) {
		t.Errorf("%d rows are read, want %d", len(items), len(want))
	}
}
