//go:build servers

package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/mayflyhq/mayfly/store/storetest"
)

// Three real nodes of Cassandra, three copies; one is killed with -9 under load:
// nothing changes. Starting a ring takes more than the short form has.
func TestOneOfThreeNodesOfCassandraKilledChangesNothing(t *testing.T) {
	if !long() {
		t.Skip("a ring of three starts in a minute: MAYFLY_LONG=1, or make soak-cluster")
	}
	const proof = "one of three Cassandra nodes killed"
	r := seeded(t)
	w := newTownOn(t, ring(t), newName(), map[string]string{"cassandra.timeout": "5s"})
	hosts := w.hostIDs()
	storetest.Proof(t, proof, "host ids", strings.Join(hosts, " "))
	if len(hosts) != 3 {
		t.Fatalf("%d hosts", len(hosts))
	}
	a, b := w.start("a", nil), w.start("b", nil)
	l := w.begin(loadOptions{
		seed: r.Uint64(), writers: 3, readers: 3, lifetimes: []string{"6s", "10s"}, pause: 20 * time.Millisecond, nodes: []*process{a, b},
	})
	l.goOn(200, 400, 3*time.Minute)
	kills := 0
	for _, n := range []int{3, 2} {
		acks, _ := w.book.figures()
		w.street.kill(t, "cassandra", n)
		kills++
		l.goOn(300, 600, 3*time.Minute)
		now, _ := w.book.figures()
		t.Logf("without node %d: %d births", n, now-acks)
		w.street.start(t, "cassandra", n)
		l.goOn(100, 200, 3*time.Minute)
	}
	l.finish()
	answers, refused := clone(w.book.answers), clone(w.book.refused)
	acks, _ := w.book.figures()
	end := w.audit()
	end.longer = 2 * time.Minute
	end.close(proof)
	storetest.Proof(t, proof, "kills with -9", kills)
	onlyAnswers(t, "reads", answers, "2xx", "404", "410", "503")
	onlyAnswers(t, "births", refused, "503", "410") // 410: with the same key, after its deadline
	// Nothing but what was in flight at a kill may have been refused, and a retry was acknowledged.
	inFlight := kills * 20
	if answers["503"] > inFlight || refused["503"] > inFlight || w.book.givenUp > 0 {
		t.Errorf("%d reads and %d births were refused, %d births given up", answers["503"], refused["503"], w.book.givenUp)
	}
	if n := len(end.events.expiries()); n < acks*9/10 || acks < 800 {
		t.Errorf("%d of %d stories expired", n, acks)
	}
}

// ring starts three nodes of Cassandra beside the shared servers.
func ring(t testing.TB) *street {
	t.Helper()
	rest := servers(t)
	three, err := startStreet(rest.program, "cassandra", "--nodes", "3")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := three.down(); err != nil {
			t.Error(err)
		}
		three.own = false // they are down
	})
	for name, value := range rest.env {
		if three.env[name] == "" {
			three.env[name] = value
		}
	}
	return three
}

// hostIDs are the nodes of the ring, by the word of one of them.
func (w *town) hostIDs() (ids []string) {
	w.Helper()
	for _, table := range []string{"system.local", "system.peers"} {
		err := w.query("SELECT host_id FROM "+table, func(rows *gocql.Iter) {
			for id := (gocql.UUID{}); rows.Scan(&id); {
				ids = append(ids, fmt.Sprint(id))
			}
		})
		if err != nil {
			w.Fatal(err)
		}
	}
	return ids
}
