//go:build servers

package cassandrastore

import (
	"bytes"
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

// What is lost may belong to another connection of the driver, which then closes all of
// them. So the row itself, read past the line, says what is right, and a round counts
// when it ended in the wanted way.
func TestABatchWhoseAnswerIsLostIsSettledByItsNonces(t *testing.T) {
	for name, way := range map[string]faultnet.Direction{"the server did it": faultnet.Answer, "the server never saw it": faultnet.Request} {
		t.Run(name, func(t *testing.T) {
			s, cut := openCut(t)
			direct := openTestStore(t)
			want := map[faultnet.Direction]settled{faultnet.Answer: landed, faultnet.Request: notLanded}[way]
			for rounds, strays := 0, 0; rounds < 3; {
				h, writes := expiring(t, s, direct)
				awaitOpen(t, s)
				cut.Lose(way, 0)
				_, _, err := s.condition(t.Context(), h, writes)
				cut.Lose(faultnet.Nothing, 0)
				if err == nil || unsent(change, err) {
					if strays++; strays > 20 {
						t.Fatalf("%d batches did not lose what they should: %v", strays, err)
					}
					continue
				}
				awaitOpen(t, s)
				now, err := s.readBack(t.Context(), h, writes)
				if err != nil {
					t.Fatal(err)
				}
				found, err := direct.Ledger().Get(t.Context(), writes[0].before.ID)
				if err != nil {
					t.Fatal(err)
				}
				right := notLanded
				if found[0].Item == writes[0].after {
					right = landed
				}
				if reported := settle(writes, now); reported != right {
					t.Fatalf("settled as %d, and it is %d", reported, right)
				}
				if right == want {
					rounds++
				} else if strays++; strays > 20 {
					t.Fatalf("only %d of %d batches ended as wanted", rounds, rounds+strays)
				}
			}
		})
	}
}

// expiring returns a batch that expires new items. Its statements are prepared.
func expiring(t testing.TB, s, direct *Store) (hole, []write) {
	t.Helper()
	fresh := births(t, 20, "24h")
	insert(t, direct, fresh...)
	h, writes := placeOf(fresh[0].Item.ID).hole, []write{}
	for _, b := range fresh {
		writes = append(writes, advanced(t, b.Item, expire(b.Item)))
	}
	awaitOpen(t, s)
	if _, _, err := s.condition(t.Context(), h, writes[:1]); err != nil {
		t.Fatal(err)
	}
	return h, writes[1:]
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

// The driver reads the row back where conditional writes are decided: a swap of which
// only the answer was lost is swapped, one of which the request was lost stays unknown,
// and the same swap again says what became of it.
func TestASwapWhoseAnswerIsLostIsSettledByItsRow(t *testing.T) {
	s, cut := openCut(t)
	direct := openTestStore(t)
	swap := func(key store.Key, old, next []byte) (bool, []byte, error) {
		return s.Rows().Swap(t.Context(), walk.Leases, key, old, next, 0)
	}
	steps := []struct{ old, next []byte }{{nil, []byte("first")}, {[]byte("first"), []byte("mine")}, {[]byte("mine"), nil}}
	for _, way := range []faultnet.Direction{faultnet.Answer, faultnet.Request} {
		lost := 0
		for round := 0; lost < 6; round++ {
			if round == 30 {
				t.Fatalf("only %d swaps lost what they should", lost)
			}
			key, step := store.Key{Partition: "swap", Clustering: births(t, 1, "24h")[0].Item.ID.Short()}, steps[round%len(steps)]
			for _, prepared := range steps { // of each statement the session has asked the server before
				if _, _, err := swap(store.Key{Partition: "swap", Clustering: key.Clustering + " prepared"}, prepared.old, prepared.next); err != nil {
					t.Fatal(err)
				}
			}
			if step.old != nil {
				if swapped, _, err := direct.Rows().Swap(t.Context(), walk.Leases, key, nil, step.old, 0); err != nil || !swapped {
					t.Fatal(swapped, err)
				}
			}
			awaitOpen(t, s)
			before := cut.Lost()
			cut.Lose(way, 0)
			swapped, current, err := swap(key, step.old, step.next)
			cut.Lose(faultnet.Nothing, 0)
			now, readErr := direct.value(t.Context(), settleDoubt, walk.Leases, key)
			if readErr != nil {
				t.Fatal(readErr)
			}
			done := (now == nil) == (step.next == nil) && bytes.Equal(now, step.next)
			switch {
			case cut.Lost() == before || errors.Is(err, mayfly.Unavailable):
				continue // another connection lost it
			case err == nil && (!swapped || !done || !bytes.Equal(current, step.next)):
				t.Errorf("%q to %q: swapped %t, current %q, and the row is %q", step.old, step.next, swapped, current, now)
			case err != nil && (done || !errors.Is(err, mayfly.Unknown)):
				t.Errorf("%q to %q: the row is %q: %v", step.old, step.next, now, err)
			case way == faultnet.Answer && done, way == faultnet.Request && !done:
				lost++
			}
			awaitOpen(t, s)
			swapped, current, err = swap(key, step.old, step.next)
			if err != nil || !swapped && !bytes.Equal(current, step.next) {
				t.Errorf("%q to %q again: swapped %t, current %q, %v", step.old, step.next, swapped, current, err)
			}
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
