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
// nothing changes. In the long form it comes back, and another is killed.
func TestOneOfThreeNodesOfCassandraKilledChangesNothing(t *testing.T) {
	t.Parallel()
	const proof = "one of three Cassandra nodes killed"
	r := seeded(t)
	w := newTownOn(t, servers(t).beside(t, "cassandra", "--nodes", "3"), newName(), nil)
	hosts := w.hostIDs()
	storetest.Proof(t, proof, "host ids", strings.Join(hosts, " "))
	if len(hosts) != 3 {
		t.Fatalf("%d hosts", len(hosts))
	}
	a, b := w.start("a", nil), w.start("b", nil)
	l := w.begin(loadOptions{
		seed: r.Uint64(), writers: 3, readers: 3, lifetimes: []string{"6s", "10s"}, pause: unhurried, nodes: []*process{a, b},
	})
	l.goOn(pick(60, 200), pick(100, 400), 3*time.Minute)
	kills := 0
	for _, n := range pick([]int{3}, []int{3, 2}) {
		acks, _ := w.book.figures()
		w.street.kill(t, "cassandra", n)
		kills++
		l.goOn(pick(120, 300), pick(250, 600), 3*time.Minute)
		now, _ := w.book.figures()
		t.Logf("without node %d: %d births", n, now-acks)
		if long() {
			w.street.start(t, "cassandra", n)
			l.goOn(100, 200, 3*time.Minute)
		}
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
	if n := len(end.events.expiries()); n < pick(100, acks*9/10) || acks < pick(180, 800) {
		t.Errorf("%d of %d stories expired", n, acks)
	}
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
