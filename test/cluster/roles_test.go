//go:build servers

package cluster

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store/storetest"
)

// One node serves users and two walk: each says what it is ready for and does no
// other's work. What is published at the one is expired and archived by the two, and
// by one of them when the other is killed (O6).
func TestNodesWithARoleDoTheirPartAndNoOther(t *testing.T) {
	t.Parallel()
	const proof = "nodes with a role"
	r := seeded(t)
	w := reusedCluster(t, servers(t))
	walking := map[string]string{"roles": "walk"}
	front := w.start("front", map[string]string{"roles": "api"})
	c := &change{testCluster: w, a: w.start("a", walking), b: w.start("b", walking), random: r}
	c.store = w.open(w.config("lookout", nil))
	w.awaitShared(c.a, c.b)
	c.load = w.begin(loadOptions{
		seed: r.Uint64(), writers: 3, readers: 1, lifetimes: []string{"4s"}, pause: unhurried, nodes: []*process{front},
	})
	c.load.goOn(40, 20, time.Minute)
	front.servesOnly()
	for _, p := range []*process{c.a, c.b} {
		p.walksOnly(w.record.some(1, r.IntN).id)
	}

	x := c.away(c.a, "a walker killed with -9", lease+takeOver)
	c.a.kill()
	c.await(x)
	c.load.goOn(40, 20, time.Minute)
	c.heldBy(c.b)
	front.servesOnly()
	c.load.finish()
	answers, births := clone(w.record.answers), clone(w.record.refused)
	end := w.audit()
	end.close(proof)
	onlyAnswers(t, "reads", answers, "2xx", "404", "410")
	onlyAnswers(t, "births", births, "503", "410") // of a ledger that is slow
	_, longest, n := x.expiries(end.events)
	storetest.Proof(t, proof, x.what+"; the other holds its shards after", fmt.Sprintf("%s (%d shards, %d expiries, the latest %s late)",
		x.took.Round(time.Millisecond), len(x.held), n, longest))
	if all := len(end.events.expiries()); all < 80 || len(x.held) < mayfly.Shards/4 || n < 5 {
		t.Errorf("%d expiries, %d of them in %d shards that were taken over, tell nothing", all, n, len(x.held))
	}
}

// servesOnly wants a node with the role api to be ready for that, and to walk nothing.
func (p *process) servesOnly() {
	p.Helper()
	if !p.answers(p.api+"/readyz", 3*time.Second) || !p.ready("api") || p.ready("walk") {
		p.Errorf("%s is not ready for api, or for more", p.name)
	}
	if n := p.acted(); len(p.held()) > 0 || n > 0 {
		p.Errorf("%s walks %d shards, and its walks have acted on %d items", p.name, len(p.held()), n)
	}
}

// walksOnly wants a node with the role walk to be ready for that, and its public listener
// to answer 503 whatever is asked: 404 would be believed.
func (p *process) walksOnly(id mayfly.ID) {
	p.Helper()
	if p.ready("api") || !p.ready("walk") {
		p.Errorf("%s is not ready to walk, or for more", p.name)
	}
	if status, err := p.status(p.api+"/readyz", 3*time.Second); err != nil || status != http.StatusServiceUnavailable {
		p.Errorf("the public listener of %s answers %d, %v", p.name, status, err)
	}
	ana := p.person(p, "ana")
	_, read := ana.Story(context.Background(), id)
	_, birth := ana.Publish(context.Background(), publication(newName(), "everyone", "4s"))
	for what, err := range map[string]error{"read": read, "birth": birth} {
		if got := answerOf(err); got != "503" {
			p.Errorf("a %s at %s is answered %s", what, p.name, got)
		}
	}
	eventually(p, 30*time.Second, "the walks of "+p.name+" act on what is due", func() bool { return p.acted() > 0 })
}

// heldBy wants every shard to be one node's, by the leases.
func (c *change) heldBy(p *process) {
	c.Helper()
	eventually(c, 30*time.Second, p.name+" holds every shard", func() bool {
		walkers, all := c.leases(time.Now())
		others := slices.DeleteFunc(all[:], func(holder string) bool { return holder != "" && holder == walkers[p.name] })
		return len(others) == 0
	})
}
