//go:build servers

package cassandrastore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/loop"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/faultnet"
)

func TestABatchWhoseAnswerIsLostIsSettledByItsNonces(t *testing.T) {
	for name, way := range map[string]faultnet.Direction{"the server did it": faultnet.Answer, "the server never saw it": faultnet.Request} {
		t.Run(name, func(t *testing.T) {
			s, cut := openCut(t)
			for round, strays := 0, 0; round < 3; {
				fresh := births(t, 20, "24h")
				insert(t, openTestStore(t), fresh...)
				h, writes := placeOf(fresh[0].Item.ID).hole, []write{}
				for _, b := range fresh {
					writes = append(writes, advanced(t, b.Item, expire(b.Item)))
				}
				// The first one prepares the statements, so that what is lost is the batch.
				if _, _, err := s.condition(t.Context(), h, writes[:1]); err != nil {
					t.Fatal(err)
				}
				writes = writes[1:]
				awaitOpen(t, s)
				before := cut.Lost()
				cut.Lose(way, 0)
				_, _, err := s.condition(t.Context(), h, writes)
				if err == nil && strays < 20 { // it was another connection's that got lost
					strays++
					continue
				}
				if err == nil || unsent(change, err) || cut.Lost() != before+1 {
					t.Fatalf("round %d: the lost answer is reported as %v (%d lost)", round, err, cut.Lost()-before)
				}
				now, err := s.readBack(t.Context(), h, writes)
				if err != nil {
					t.Fatal(err)
				}
				want := landed
				if way == faultnet.Request {
					want = notLanded
				}
				if reported := settle(writes, now); reported != want {
					t.Fatalf("round %d: settled as %d, want %d", round, reported, want)
				}
				round++
			}
		})
	}
}

// A whole Transition, whichever of its requests or answers is lost: nothing is reported
// as applied that is not, and nothing else than applied of what no other caller touches.
func TestATransitionWithLostAnswersReportsTheRightOutcome(t *testing.T) {
	s, cut := openCut(t)
	other := openTestStore(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	reported := map[store.Result]int{}
	lost, failed := 0, 0
	for range 60 {
		fresh := births(t, 5, "24h")
		insert(t, other, fresh...)
		var changes []mayfly.Change
		for _, b := range fresh {
			changes = append(changes, expire(b.Item))
		}
		awaitOpen(t, s)
		before := cut.Lost()
		cut.Lose(faultnet.Direction(1+r.Int32N(2)), r.Int32N(3))
		outcomes, err := s.Ledger().Transition(t.Context(), changes)
		cut.Lose(faultnet.Nothing, 0)
		lost += int(cut.Lost() - before)
		if err != nil {
			if !errors.Is(err, mayfly.Unknown) && !errors.Is(err, mayfly.Unavailable) {
				t.Fatal(err)
			}
			failed++
			continue
		}
		for i, o := range outcomes {
			reported[o.Result]++
			found, err := other.Ledger().Get(t.Context(), changes[i].ID)
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case o.Result == store.Applied && found[0].Item != o.Current:
				t.Errorf("change %d is reported as applied, and the row is %+v", i, found[0].Item)
			case o.Result != store.Applied && o.Result != store.InDoubt:
				t.Errorf("change %d is %s: no other caller was here", i, o.Result)
			}
		}
	}
	storetest.Proof(t, "transitions that lose an answer", "lost, applied, in doubt, calls failed",
		fmt.Sprint(lost, reported[store.Applied], reported[store.InDoubt], failed))
	if lost < 20 || reported[store.Applied] == 0 {
		t.Errorf("%d requests or answers were lost, %d changes applied", lost, reported[store.Applied])
	}
}

func TestASwapWhoseAnswerIsLostIsUnknownUntilItsRowIsRead(t *testing.T) {
	s, cut := openCut(t)
	for _, way := range []faultnet.Direction{faultnet.Answer, faultnet.Request} {
		key := store.Key{Partition: "swap", Clustering: births(t, 1, "24h")[0].Item.ID.Short()}
		if _, _, err := s.Rows().Swap(t.Context(), walk.Leases, key, nil, []byte("first"), 0); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Rows().Swap(t.Context(), walk.Leases, key, []byte("first"), []byte("warm"), 0); err != nil {
			t.Fatal(err)
		}
		awaitOpen(t, s)
		cut.Lose(way, 0)
		_, _, err := s.Rows().Swap(t.Context(), walk.Leases, key, []byte("warm"), []byte("mine"), 0)
		if !errors.Is(err, mayfly.Unknown) {
			t.Fatalf("a swap whose answer is lost is %v", err)
		}
		awaitOpen(t, s)
		value, err := s.value(t.Context(), settleDoubt, walk.Leases, key)
		want := map[faultnet.Direction]string{faultnet.Answer: "mine", faultnet.Request: "warm"}[way]
		if err != nil || string(value) != want {
			t.Errorf("the row is %q, want %q: %v", value, want, err)
		}
	}
}

// awaitOpen waits until the store has connections again.
func awaitOpen(t testing.TB, s *Store) {
	t.Helper()
	for {
		_, err := s.Ledger().Get(t.Context(), mayfly.ID{})
		if err == nil {
			return
		}
		if loop.Rest(t.Context(), 10*time.Millisecond) != nil {
			t.Fatal(err)
		}
	}
}

// openCut opens the store through a line that fails. Of a ring it sees that one
// node: the others would be found past the line.
func openCut(t testing.TB) (*Store, *faultnet.Line) {
	t.Helper()
	openTestStore(t) // the schema is made without it
	o, err := serverOptions(t, testKeyspace).complete()
	if err != nil {
		t.Fatal(err)
	}
	c := faultnet.NewLine(t, net.JoinHostPort(o.Hosts[0], strconv.Itoa(o.Port)))
	_, port, err := net.SplitHostPort(c.Address())
	if err == nil {
		o.Port, err = strconv.Atoi(port)
	}
	if err != nil {
		t.Fatal(err)
	}
	o.Hosts, o.Connections = []string{"127.0.0.1"}, 3
	config, err := clusterConfig(o, o.Keyspace)
	if err != nil {
		t.Fatal(err)
	}
	config.HostFilter = gocql.WhiteListHostFilter(o.Hosts...)
	config.ReconnectInterval = 100 * time.Millisecond
	session, err := config.CreateSession()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(session.Close)
	return newStore(o, session), c
}
