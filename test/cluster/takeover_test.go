//go:build servers

package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
)

// kill ends a node with -9: its shards are taken over when its place has run out.
func (c *change) kill() {
	c.Helper()
	for round := range pick(1, 5) {
		p := []*process{c.a, c.b}[round%2]
		x := c.away(p, "killed with -9", lease+takeOver)
		p.kill()
		c.await(x)
		time.Sleep(time.Until(x.at.Add(3 * lease)))
		c.load.goOn(30, 50, time.Minute)
		p.begin()
		p.awaitReady(time.Minute)
		c.together()
	}
}

// takeOver is how long the others may take when a place is gone from the roll: one
// look at it that fails after a lease, the next that takes, and what lies between.
const takeOver = 3 * lease

// absence is a node that does not work, and the shards that it held.
type absence struct {
	what   string
	at     time.Time
	holder string // the process, on the roll
	held   map[mayfly.Shard]bool
	most   time.Duration      // until others hold its shards
	taken  chan time.Duration // when they do
	took   time.Duration
}

// away writes down that a node is about to stop working, and looks from then on who
// holds what was its.
func (c *change) away(p *process, what string, most time.Duration) *absence {
	c.Helper()
	x := c.absent(p, what, most)
	c.follow(x)
	return x
}

// follow begins to look.
func (c *change) follow(x *absence) {
	c.absence = append(c.absence, x)
	go x.look(c.Context(), c.store.Set.Rows)
}

// absent is a node from now on, and the shards that it holds.
func (c *change) absent(p *process, what string, most time.Duration) *absence {
	c.Helper()
	x := &absence{what: what, held: map[mayfly.Shard]bool{}, most: most, taken: make(chan time.Duration, 1)}
	eventually(c, 30*time.Second, p.name+" is on the roll and holds shards", func() bool {
		walkers, all := c.leases(time.Now())
		x.holder = walkers[p.name]
		for shard, holder := range all {
			if x.holder != "" && holder == x.holder {
				x.held[mayfly.Shard(shard)] = true
			}
		}
		return len(x.held) > 0
	})
	x.at = time.Now()
	return x
}

// look looks at the leases until others hold every shard, or for longer than that
// may take.
func (x *absence) look(ctx context.Context, rows store.Rows) {
	for ctx.Err() == nil && time.Since(x.at) < x.most+time.Minute {
		within, cancel := context.WithTimeout(ctx, time.Second)
		all, err := holders(within, rows)
		cancel()
		left := 0
		for shard := range x.held {
			if all[shard] == "" || all[shard] == x.holder {
				left++
			}
		}
		if err == nil && left == 0 {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	x.taken <- time.Since(x.at)
}

// await waits until others hold every shard that a node held, and wants them to
// within what that may take.
func (c *change) await(x *absence) {
	c.Helper()
	if x.took = <-x.taken; x.took > x.most {
		c.Errorf("%s: its shards were taken over after %s, which may take %s", x.what, x.took, x.most)
	}
}

// leases are the processes that walk at an instant, by name, and who holds each shard.
func (c *change) leases(at time.Time) (walkers map[string]string, all [mayfly.Shards]string) {
	c.Helper()
	eventually(c, 30*time.Second, "the leases can be read", func() bool {
		ctx, cancel := context.WithTimeout(c.Context(), 10*time.Second)
		defer cancel()
		roll, err := walk.Members(ctx, c.store.Set.Rows, mayfly.InstantOf(at))
		if err == nil {
			all, err = holders(ctx, c.store.Set.Rows)
		}
		walkers = map[string]string{}
		for _, w := range roll {
			walkers[w.Name] = w.Holder
		}
		return err == nil
	})
	return walkers, all
}

// holders are the processes that hold each shard, by the leases; "" if it was given up.
func holders(ctx context.Context, rows store.Rows) (all [mayfly.Shards]string, err error) {
	leases, err := walk.ShardLeases(ctx, rows)
	if err != nil {
		return all, err
	}
	for shard, row := range leases {
		if all[shard], _, err = walk.HolderOf(row); err != nil {
			return all, err
		}
	}
	return all, nil
}

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

// notice is how long a node that is stopping announces it and goes on.
const notice = 2 * time.Second

// roll stops and starts the nodes one after the other, as an operator does for a
// new version: no node waits for a lease to run out. A client that goes by /readyz
// alone, as a load balancer does, and sends nothing twice has every answer.
func (c *change) roll() {
	c.Helper()
	var longestStop, longestStart time.Duration
	rounds := pick(2, 20)
	ctx, over := context.WithCancel(context.Background())
	balanced := make(chan balance)
	go func() { balanced <- c.balanced(ctx) }()
	for round := range rounds {
		p := []*process{c.a, c.b}[round%2]
		x := c.away(p, "stopped", notice+takeOver)
		longestStop = max(longestStop, p.stop())
		c.gaveUp(x)
		c.await(x)
		c.load.goOn(30, 50, time.Minute)
		time.Sleep(lease)
		p.begin()
		longestStart = max(longestStart, p.awaitReady(time.Minute))
		c.together()
	}
	over()
	b := <-balanced
	storetest.Proof(c, "rolling restart", "stops and starts, the longest of each", fmt.Sprintf("%d, %s, %s",
		rounds, longestStop.Round(time.Millisecond), longestStart.Round(time.Millisecond)))
	storetest.Proof(c, "rolling restart", "reads by /readyz alone, those that failed", fmt.Sprintf("%d, %d", b.reads, len(b.failed)))
	if b.reads < 100*rounds || len(b.failed) > 0 {
		c.Errorf("%d reads went by /readyz, and failed: %v", b.reads, b.failed)
	}
}

// gaveUp wants a node that has ended well to have left every shard, and the roll as
// of when it was stopped: a place that has only run out since is not given up.
func (c *change) gaveUp(x *absence) {
	c.Helper()
	walkers, all := c.leases(x.at)
	for shard, holder := range all {
		if holder == x.holder {
			c.Errorf("%s has ended, and holds shard %d", holder, shard)
		}
	}
	for _, holder := range walkers {
		if holder == x.holder {
			c.Errorf("%s has ended, and has its place on the roll", holder)
		}
	}
}

// balance counts what a client met that goes by /readyz.
type balance struct {
	reads  int
	failed []error
}

// balanced reads through whichever node has said last that it is ready. Each is
// looked at by itself: one that is slow to say so holds up no look at the other.
func (c *change) balanced(ctx context.Context) (b balance) {
	nodes := []*process{c.a, c.b}
	people := []*person{c.person(c.a, "balanced"), c.person(c.b, "balanced")}
	ready := make([]atomic.Bool, len(nodes))
	var looks sync.WaitGroup
	for i, p := range nodes {
		ready[i].Store(p.balances(false))
		looks.Go(func() {
			for ; ctx.Err() == nil; time.Sleep(200 * time.Millisecond) {
				ready[i].Store(p.balances(ready[i].Load()))
			}
		})
	}
	defer looks.Wait()
	for ; ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
		n := c.record.some(100, rand.IntN)
		if n == nil {
			continue
		}
		b.reads++
		i := rand.IntN(len(nodes))
		if !ready[i].Load() {
			i = len(nodes) - 1 - i
		}
		if !ready[i].Load() {
			b.failed = append(b.failed, mayfly.Errorf(mayfly.Unavailable, "no node is ready"))
			continue
		}
		if _, err := people[i].Story(context.Background(), n.id); errors.Is(err, mayfly.Unavailable) || errors.Is(err, mayfly.Unknown) {
			b.failed = append(b.failed, fmt.Errorf("%s: %w", nodes[i].name, err))
		}
	}
	return b
}
