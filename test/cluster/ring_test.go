//go:build servers

package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/pace"
)

// Three real nodes of Cassandra, three copies: without one of them nothing changes,
// without two there is no quorum.
func TestARingOfThreeThatLosesNodes(t *testing.T) {
	t.Parallel()
	s, name := servers(t).beside(t, "cassandra", "--nodes", "3"), newName()
	t.Run("one gone changes nothing", func(t *testing.T) { loseOne(newClusterOn(t, s, name, nil)) })
	t.Run("two gone are answered 503 and nothing wrong", func(t *testing.T) { loseQuorum(newClusterOn(t, s, name, nil)) })
}

// loseOne has one hang under load (its connections stand, and nothing answers), and
// kills it with -9. In the long form it comes back, and another is killed.
func loseOne(w *testCluster) {
	const proof = "one of three Cassandra nodes gone"
	r := seeded(w.T)
	hosts := w.hostIDs()
	storetest.Proof(w, proof, "host ids", strings.Join(hosts, " "))
	if len(hosts) != 3 {
		w.Fatalf("%d hosts", len(hosts))
	}
	a, b := w.start("a", nil), w.start("b", nil)
	l := w.begin(loadOptions{
		seed: r.Uint64(), writers: 3, readers: 3, lifetimes: []string{"6s", "10s"}, pause: unhurried, nodes: []*process{a, b},
	})
	l.goOn(pick(60, 200), pick(100, 400), 3*time.Minute)
	type loss struct {
		what        string
		began, ends time.Time
	}
	var losses []loss
	without := func(what string, births int) {
		reads, refused := w.record.refusals()
		began := time.Now()
		l.goOn(births, 2*births, 3*time.Minute)
		losses = append(losses, loss{what, began, time.Now()})
		readsNow, refusedNow := w.record.refusals()
		storetest.Proof(w, proof, what+"; refused since are reads, births; for", fmt.Sprintf("%d, %d; %s",
			readsNow-reads, refusedNow-refused, time.Since(began).Round(time.Millisecond)))
	}
	thaw := w.servers.freeze(w, "cassandra", 3)
	without("node 3 hangs", pick(120, 600))
	thaw()
	if pace.Long() {
		l.goOn(100, 200, 3*time.Minute)
	}
	w.servers.kill(w, "cassandra", 3)
	without("node 3 killed", pick(60, 300))
	if pace.Long() {
		w.servers.start(w, "cassandra", 3)
		l.goOn(100, 200, 3*time.Minute)
		w.servers.kill(w, "cassandra", 2)
		without("node 2 killed", 300)
		w.servers.start(w, "cassandra", 2)
		l.goOn(100, 200, 3*time.Minute)
	}
	l.finish()
	answers, refused := clone(w.record.answers), clone(w.record.refused)
	acks, _ := w.record.figures()
	end := w.audit()
	end.longer = 2 * time.Minute
	end.close(proof)
	for _, x := range losses {
		late := end.events.expiredIn(x.began, x.ends)
		storetest.Proof(w, proof, x.what+"; fell due, late by at p99, at most", fmt.Sprintf("%d, %s, %s", len(late), p99(late), slices.Max(append(late, 0))))
	}
	onlyAnswers(w, "reads", answers, "2xx", "404", "410", "503")
	onlyAnswers(w, "births", refused, "503", "410") // 410: with the same key, after its deadline
	// Nothing but what was in flight when one went may have been refused, and a retry
	// was acknowledged, by a new key after 410.
	inFlight := len(losses) * 20
	if answers["503"] > inFlight || refused["503"] > inFlight || w.record.givenUp > 0 {
		w.Errorf("%d reads and %d births were refused, %d births given up", answers["503"], refused["503"], w.record.givenUp)
	}
	if n := len(end.events.expiries()); n < pick(100, acks*9/10) || acks < pick(180, 1100) {
		w.Errorf("%d of %d stories expired", n, acks)
	}
}

// hostIDs are the nodes of the ring, by the word of one of them.
func (w *testCluster) hostIDs() (ids []string) {
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
