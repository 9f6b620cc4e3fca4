//go:build servers

package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/pace"
)

// loseQuorum freezes all nodes of the ring but one, in the middle of what they do.
// Reads and writes are answered 503 with Retry-After or rightly (an id alone tells
// that it is gone; a cache may be young enough), and everything goes on by itself
// when they are back. In the long form they are killed too.
func loseQuorum(w *testCluster) {
	const proof = "quorum lost"
	r := seeded(w.T)
	a, b := w.start("a", nil), w.start("b", nil)
	l := w.begin(loadOptions{
		seed: r.Uint64(), writers: 3, readers: 3, lifetimes: []string{"4s", "30s"}, pause: unhurried, patience: time.Minute, nodes: []*process{a, b},
	})
	l.goOn(pick(50, 100), pick(100, 200), 2*time.Minute)

	var thaw []func()
	for n := 2; n <= 3; n++ {
		if w.servers.pid("cassandra", n) != 0 { // one may have been killed before
			thaw = append(thaw, w.servers.freeze(w, "cassandra", n))
		}
	}
	from := time.Now()
	w.askAll(40, a, b)
	time.Sleep(time.Until(from.Add(pick(8*time.Second, 30*time.Second))))
	refusedReads, refusedBirths := w.record.refusals()
	for _, back := range thaw {
		back()
	}
	outage := time.Since(from)
	p := w.person(a, "ana")
	recovered := eventually(w, 30*time.Second, "births are acknowledged again", func() bool {
		s, err := p.Publish(context.Background(), publication(fmt.Sprintf("back-%d", time.Now().UnixNano()), "everyone", "30s"))
		if err != nil {
			w.record.failedTry(err)
			return false
		}
		w.record.born(s, "ana")
		return true
	})
	if pace.Long() {
		for n := 2; n <= 3; n++ {
			w.servers.kill(w, "cassandra", n)
		}
		time.Sleep(10 * time.Second)
		for n := 2; n <= 3; n++ {
			w.servers.start(w, "cassandra", n)
		}
		l.goOn(20, 20, 2*time.Minute)
	}
	l.goOn(50, 100, time.Minute)
	l.finish()
	answers, refused := clone(w.record.answers), clone(w.record.refused)
	end := w.audit()
	end.longer = 2 * time.Minute
	end.close(proof)
	storetest.Proof(w, proof, "nodes frozen, away for, births again after",
		fmt.Sprintf("%d, %s, %s", len(thaw), outage.Round(time.Millisecond), recovered.Round(time.Millisecond)))
	storetest.Proof(w, proof, "reads and births answered 503 meanwhile", fmt.Sprintf("%d, %d", refusedReads, refusedBirths))
	onlyAnswers(w, "reads", answers, "2xx", "404", "410", "503")
	onlyAnswers(w, "births", refused, "503", "410") // 410: with the same key, after its deadline
	if refusedReads < 20 || refusedBirths < 20 {
		w.Errorf("only %d reads and %d births met the outage", refusedReads, refusedBirths)
	}
	if recovered > 15*time.Second {
		w.Errorf("it took %s to recover", recovered)
	}
}

// askAll reads so many stories and publishes as many at once, each by a user
// else, and waits for the answers.
func (w *testCluster) askAll(n int, nodes ...*process) {
	w.Helper()
	var people sync.WaitGroup
	notes := w.record.all()
	for i := range n {
		p := w.person(nodes[i%len(nodes)], fmt.Sprintf("ben-%d", i)) // one author's births wait for each other
		story := notes[len(notes)-1-i%len(notes)]
		people.Go(func() {
			asked := time.Now()
			s, err := p.Story(context.Background(), story.id)
			w.record.read(story, false, asked, s, err)
		})
		people.Go(func() {
			s, err := p.Publish(context.Background(), publication(newName(), "everyone", "30s"))
			if err != nil {
				w.record.failedTry(err)
				return
			}
			w.record.born(s, p.name)
		})
	}
	people.Wait()
}

func clone(m map[string]int) map[string]int {
	c := map[string]int{}
	for k, v := range m {
		c[k] = v
	}
	return c
}

// onlyAnswers fails for every answer that is not among those that may be.
func onlyAnswers(t testing.TB, what string, got map[string]int, may ...string) {
	t.Helper()
	for kind, n := range got {
		fine := false
		for _, m := range may {
			fine = fine || m == kind
		}
		if !fine {
			t.Errorf("%d %s were answered %s", n, what, kind)
		}
	}
}

// Three real nodes of Cassandra that keep no hints, three copies: without one of them nothing changes,
// without two there is no quorum. It does not run beside other tests: four nodes of
// Cassandra are too many for two processors.
func TestARingOfThreeThatLosesNodes(t *testing.T) {
	s, name := servers(t).beside(t, "cassandra", "--nodes", "3", "--no-hints"), newName()
	t.Run("keys that are gone stay gone", func(t *testing.T) { keysOfARing(t, s, name) })
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
