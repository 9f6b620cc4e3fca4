//go:build servers

package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/verify"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/faultnet"
)

// One node is cut off from Redis, and so from every signal. What the other node
// deletes, blocks and un-friends is not served by either of them after the
// acknowledgement; nor what the cut-off one does itself, soon or long after (ST5, ST10).
func TestNoNodeServesAfterTheAcknowledgementWhenANodeIsCutOffFromRedis(t *testing.T) {
	const proof = "a node cut off from Redis"
	t.Parallel()
	w := reusedCluster(t, servers(t))
	line := faultnet.NewLine(t, w.servers.env["REDIS"])
	a, b := w.start("a", map[string]string{"redis.addresses": line.Address()}), w.start("b", nil)
	c := &cutOff{testCluster: w, nodes: []*process{a, b}}
	c.round("before the cut, at the node that will be cut off", a)
	cut := c.cutUnderARead(line, b)
	c.round("at the one that is cut off", a)
	for round := range pick(1, 10) {
		c.round(fmt.Sprintf("at the other, cut %d", round), b)
	}
	time.Sleep(time.Until(cut.Add(pick(12*time.Second, 30*time.Second)))) // past ten leases the others have forgotten it
	c.round("at the one that has been cut off for long", a)
	away := time.Since(cut)
	line.Restore()
	time.Sleep(2 * time.Second)
	c.round("connected again, at the node that was cut off", a)
	c.round("connected again, at the other node", b)
	end := w.audit()
	end.close(proof)
	storetest.Proof(t, proof, "cut off for", away.Round(time.Millisecond))
	storetest.Proof(t, proof, "deletes, blocks and friends taken away", fmt.Sprintf("%d, acknowledged after %s at most", c.removals, c.longest.Round(time.Millisecond)))
	storetest.Proof(t, proof, "reads served before, refused after, failed", fmt.Sprintf("%d, %d, %d", c.served.Load(), c.refused.Load(), c.failed.Load()))
	if c.served.Load() < 500 || c.refused.Load() < 1000 || c.failed.Load() > (c.served.Load()+c.refused.Load())/50 {
		t.Error("that tells little")
	}
}

// cutUnderARead cuts a node off while its cache is warm, and takes away at the other
// what the cache holds before the cut node can have noticed anything. That it went on
// serving from its cache is seen by what it served when the other, which asks the
// rows, had refused already: only rows are cached, and so it is the deleted story. A
// busy machine may be too slow for that: once more then.
func (c *cutOff) cutUnderARead(line *faultnet.Line, other *process) (cut time.Time) {
	c.Helper()
	for range 5 {
		removals := c.roundWith("at the other, in the moment of the cut", other, func() {
			line.Swallow()
			cut = time.Now()
		})
		if stale := removals[0].stale.Load(); stale > 0 {
			storetest.Proof(c, "a node cut off from Redis", "reads that it served from its cache, refused by the other", stale)
			return cut
		}
		c.Log("it was not in the moment of the cut")
		line.Restore()
		time.Sleep(2 * time.Second)
	}
	c.Fatal("the cut node never served from its cache after the cut")
	return cut
}

// cutOff counts what two nodes serve while one of them takes it away.
type cutOff struct {
	*testCluster
	nodes                   []*process
	rounds, removals        int
	longest                 time.Duration
	served, refused, failed atomic.Int64
}

// removal takes one story away from ben.
type removal struct {
	what  string
	story mayfly.ID
	do    func(context.Context) error
	acked atomic.Int64 // Unix nanoseconds; 0: not yet
	took  time.Duration

	known atomic.Int64 // when the second node first refused a read: the rows tell it; as acked
	stale atomic.Int64 // reads that the first node served behind that
}

// round publishes three stories, lets ben read them hard at both nodes, takes
// them away at one node, and goes on reading for longer than any cache may last.
func (c *cutOff) round(what string, at *process) {
	c.Helper()
	c.roundWith(what, at, func() {})
}

// roundWith is a round in which something happens right before the removals, which are
// done side by side: the first to be acknowledged waits for the leases of all.
func (c *cutOff) roundWith(what string, at *process, happens func()) []*removal {
	c.Helper()
	c.rounds++
	suffix := fmt.Sprintf("-%s-%d", c.name, c.rounds)
	ana, ben := "ana"+suffix, "ben"+suffix
	author := c.person(at, ana)
	ctx := context.Background()
	if err := author.AddCloseFriend(ctx, "~"+ben); err != nil {
		c.Fatal(err)
	}
	blocker := c.person(at, "blocker"+suffix)
	deleted := c.publish(author, "d"+suffix, "everyone", "600s")
	closed := c.publish(author, "c"+suffix, "close_friends", "600s")
	blocked := c.publish(blocker, "b"+suffix, "everyone", "600s")
	removals := []*removal{
		{what: "deleted", story: deleted.ID, do: func(ctx context.Context) error {
			c.record.deleting(deleted.ID)
			err := author.Delete(ctx, deleted.ID)
			if err == nil {
				c.record.deletedNow(deleted.ID)
			}
			return err
		}},
		{what: "no friend any more", story: closed.ID, do: func(ctx context.Context) error { return author.RemoveCloseFriend(ctx, "~"+ben) }},
		{what: "blocked", story: blocked.ID, do: func(ctx context.Context) error { return blocker.Block(ctx, "~"+ben) }},
	}
	ending := make(chan struct{})
	var readers, doers sync.WaitGroup
	for i, node := range c.nodes {
		for _, d := range removals {
			viewer := c.person(node, ben)
			readers.Go(func() { c.poll(what, i, viewer, d, ending) })
		}
	}
	time.Sleep(700 * time.Millisecond) // both nodes have it in their caches
	happens()
	for _, d := range removals {
		doers.Go(func() { c.take(ctx, what, d) })
	}
	doers.Wait()
	for _, d := range removals {
		if d.acked.Load() == 0 {
			c.Fatalf("%s, %s: not acknowledged", what, d.what)
		}
		c.removals++
		c.longest = max(c.longest, d.took)
	}
	time.Sleep(pick(1500*time.Millisecond, 6*time.Second))
	close(ending)
	readers.Wait()
	return removals
}

// take tries a removal until it is acknowledged, for half a minute at most.
func (c *cutOff) take(ctx context.Context, what string, d *removal) {
	began := time.Now()
	for ; time.Since(began) < 30*time.Second; time.Sleep(20 * time.Millisecond) {
		err := d.do(ctx)
		if err == nil {
			d.acked.Store(time.Now().UnixNano())
			d.took = time.Since(began)
			return
		}
		c.Logf("%s, %s: %v", what, d.what, err)
	}
}

// poll reads without a pause and judges each answer by what was acknowledged
// before it was asked for.
func (c *cutOff) poll(what string, node int, ben *person, d *removal, ending <-chan struct{}) {
	for {
		select {
		case <-ending:
			return
		default:
		}
		asked := time.Now()
		_, err := ben.Story(context.Background(), d.story)
		acked, known := d.acked.Load(), d.known.Load()
		if err == nil && node == 0 && known != 0 && known < asked.UnixNano() {
			d.stale.Add(1)
		}
		switch {
		case err == nil && acked != 0 && acked < asked.UnixNano():
			word := verify.Leak
			if d.what == "deleted" {
				word = verify.Resurrected
			}
			c.record.count.Add(word, "%s: %s, %s, and node %s serves it %s after the acknowledgement", what, d.story, d.what, c.nodes[node].name, asked.Sub(time.Unix(0, acked)))
		case err == nil:
			c.served.Add(1)
		case errors.Is(err, mayfly.NotFound):
			c.refused.Add(1)
			if node == 1 {
				d.known.CompareAndSwap(0, time.Now().UnixNano())
			}
		default:
			c.failed.Add(1)
			time.Sleep(20 * time.Millisecond)
		}
		time.Sleep(2 * time.Millisecond)
	}
}
