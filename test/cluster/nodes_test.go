//go:build servers

package cluster

import (
	"fmt"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/profile"
	"github.com/mayflyhq/mayfly/store/storetest"
)

// Of two nodes under load one is frozen past its lease, each is stopped and
// started again, and one is killed with -9. People read through a client that
// tries the other node: no read fails. The other node takes over, nothing happens
// twice, and nothing is lost.
func TestNodesThatAreFrozenRestartedAndKilledLoseNothing(t *testing.T) {
	t.Parallel()
	const proof = "nodes frozen, restarted, killed"
	r := seeded(t)
	w := reusedCluster(t, servers(t))
	sets := map[string]string{"listen.drain_after": notice.String(), "walk.timeout": patient.String()}
	c := &change{testCluster: w, a: w.start("a", sets), b: w.start("b", sets), random: r}
	c.store = w.open(w.config("lookout", nil))
	w.awaitShared(c.a, c.b)
	c.load = w.begin(loadOptions{
		seed: r.Uint64(), writers: 3, readers: 3, lifetimes: []string{"4s", "4s", "6s"}, pause: unhurried, otherNode: true,
	})
	c.load.goOn(100, 100, 2*time.Minute)
	began := time.Now()
	c.freeze()
	c.roll()
	c.kill()
	c.load.finish()
	storetest.Proof(t, proof, "under load for", time.Since(began).Round(time.Second))
	answers := clone(w.record.answers)
	end := w.audit()
	end.close(proof)
	onlyAnswers(t, "reads", answers, "2xx", "404", "410")
	c.judge(proof, end)
	if acks, reads := w.record.figures(); acks < pick(300, 3000) || reads < pick(1000, 10_000) {
		t.Errorf("only %d stories and %d reads", acks, reads)
	}
}

// change is two nodes that come and go.
type change struct {
	*testCluster
	a, b    *process
	random  interface{ IntN(int) int }
	load    *load
	store   *profile.Store // to look at the leases and the rows
	absence []*absence
	traces  []*traces
}

// together waits until both nodes hold their share again, by the leases: one that
// was frozen says for a while that it has what it had.
func (c *change) together() {
	c.Helper()
	eventually(c, 30*time.Second, "each node holds its share", func() bool {
		walkers, all := c.leases(time.Now())
		count := map[string]int{}
		for _, holder := range all {
			count[holder]++
		}
		a, b := count[walkers[c.a.name]], count[walkers[c.b.name]]
		return min(a, b) >= mayfly.Shards/4 && a+b == mayfly.Shards
	})
	c.load.goOn(30, 50, time.Minute)
}

// judge holds every absence against the log: when others held the shards, how long
// after it the first item of them expired, and how late the latest was. The audit
// has judged how late that may be (L4).
func (c *change) judge(proof string, end *audit) {
	c.Helper()
	for _, x := range c.absence {
		first, longest, n := x.expiries(end.events)
		storetest.Proof(c, proof, x.what+"; the other holds its shards after", fmt.Sprintf("%s (%d shards, %d expiries; the first after %s, the latest %s late)",
			x.took.Round(time.Millisecond), len(x.held), n, first.Round(time.Millisecond), longest))
		if len(x.held) == 0 || n < 5 {
			c.Errorf("%s: %d shards were held, and %d expiries in them tell nothing", x.what, len(x.held), n)
		}
	}
	c.judgeTraces(proof, end)
	c.judgeGenerations(proof, end)
}

// expiries are how long after it the first item of these shards expired, how late
// the latest of those due within eight seconds was, and how many there were.
func (x *absence) expiries(e *events) (first, longest time.Duration, n int) {
	first = time.Hour
	for _, event := range e.all {
		due, at := event.ID.Deadline().Time(), event.At.Time()
		if event.Verb != mayfly.WasExpired || !x.held[event.ID.Shard()] || at.Before(x.at) || due.After(x.at.Add(8*time.Second)) {
			continue
		}
		n++
		first = min(first, at.Sub(x.at))
		longest = max(longest, at.Sub(due))
	}
	return first, longest, n
}

// awaitShared waits until every shard is walked by one of these nodes, and each
// of them walks at least half of its share.
func (w *testCluster) awaitShared(nodes ...*process) {
	w.Helper()
	shares := ""
	eventually(w, 30*time.Second, "each node walks its share", func() bool {
		all, each := map[mayfly.Shard]bool{}, true
		shares = ""
		for _, p := range nodes {
			held := p.held()
			each = each && len(held) >= mayfly.Shards/(2*len(nodes))
			for s := range held {
				all[s] = true
			}
			shares += fmt.Sprintf("%s %d  ", p.name, len(held))
		}
		return each && len(all) == mayfly.Shards
	})
	w.Logf("shards: %s", shares)
}
