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
	"github.com/mayflyhq/mayfly/store/storetest"
)

// One node is cut off from Redis, and so from every signal. What the other node
// deletes, blocks and un-friends is not served by either of them after the
// acknowledgement; nor what the cut-off one does itself, soon or long after (ST5, ST10).
func TestNobodyServesAfterTheAcknowledgementWhenANodeIsCutOffFromRedis(t *testing.T) {
	const proof = "a node cut off from Redis"
	t.Parallel()
	w := usedTown(t, servers(t))
	line := storetest.NewLine(t, w.street.env["REDIS"])
	a, b := w.start("a", map[string]string{"redis.addresses": line.Address()}), w.start("b", nil)
	c := &cutOff{town: w, nodes: []*process{a, b}}
	c.round("before the cut, at the node that will be cut off", a)
	line.Swallow()
	cut := time.Now()
	c.round("at the other, right after the cut", b)
	c.round("at the one that is cut off", a)
	for round := range pick(1, 10) {
		c.round(fmt.Sprintf("at the other, cut %d", round), b)
	}
	time.Sleep(time.Until(cut.Add(pick(12*time.Second, 30*time.Second)))) // past ten leases the others have forgotten it
	c.round("at the one that has been cut off for long", a)
	away := time.Since(cut)
	line.Mend()
	time.Sleep(2 * time.Second)
	c.round("mended, at the one that was cut off", a)
	c.round("mended, at the other", b)
	end := w.audit()
	end.close(proof)
	storetest.Proof(t, proof, "cut off for", away.Round(time.Millisecond))
	storetest.Proof(t, proof, "deletes, blocks and friends taken away", fmt.Sprintf("%d, acknowledged after %s at most", c.deeds, c.longest.Round(time.Millisecond)))
	storetest.Proof(t, proof, "reads served before, refused after, failed", fmt.Sprintf("%d, %d, %d", c.served.Load(), c.refused.Load(), c.failed.Load()))
	if c.served.Load() < 500 || c.refused.Load() < 1000 || c.failed.Load() > (c.served.Load()+c.refused.Load())/50 {
		t.Error("that tells little")
	}
}

// cutOff counts what two nodes serve while one of them takes it away.
type cutOff struct {
	*town
	nodes                   []*process
	rounds, deeds           int
	longest                 time.Duration
	served, refused, failed atomic.Int64
}

// deed takes one story away from ben.
type deed struct {
	what  string
	story mayfly.ID
	do    func(context.Context) error
	acked atomic.Int64 // Unix nanoseconds; 0: not yet
}

// round publishes three stories, lets ben read them hard at both nodes, takes
// them away at one node, and goes on reading for longer than any cache may last.
func (c *cutOff) round(what string, at *process) {
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
	deeds := []*deed{
		{what: "deleted", story: deleted.ID, do: func(ctx context.Context) error {
			c.book.deleting(deleted.ID)
			err := author.Delete(ctx, deleted.ID)
			if err == nil {
				c.book.deletedNow(deleted.ID)
			}
			return err
		}},
		{what: "no friend any more", story: closed.ID, do: func(ctx context.Context) error { return author.RemoveCloseFriend(ctx, "~"+ben) }},
		{what: "blocked", story: blocked.ID, do: func(ctx context.Context) error { return blocker.Block(ctx, "~"+ben) }},
	}
	ending := make(chan struct{})
	var readers sync.WaitGroup
	for _, node := range c.nodes {
		for _, d := range deeds {
			viewer := c.person(node, ben)
			readers.Go(func() { c.poll(what, node, viewer, d, ending) })
		}
	}
	time.Sleep(700 * time.Millisecond) // both nodes have it in their caches
	for _, d := range deeds {
		began := time.Now()
		eventually(c, 30*time.Second, d.what, func() bool {
			err := d.do(ctx)
			if err != nil {
				c.Logf("%s, %s: %v", what, d.what, err)
			}
			return err == nil
		})
		d.acked.Store(time.Now().UnixNano())
		c.deeds++
		c.longest = max(c.longest, time.Since(began))
	}
	time.Sleep(pick(1500*time.Millisecond, 6*time.Second))
	close(ending)
	readers.Wait()
}

// poll reads without a pause and judges each answer by what was acknowledged
// before it was asked for.
func (c *cutOff) poll(what string, node *process, ben *person, d *deed, ending <-chan struct{}) {
	for {
		select {
		case <-ending:
			return
		default:
		}
		asked := time.Now()
		_, err := ben.Story(context.Background(), d.story)
		acked := d.acked.Load()
		switch {
		case err == nil && acked != 0 && acked < asked.UnixNano():
			word := leak
			if d.what == "deleted" {
				word = resurrected
			}
			c.book.blame(word, "%s: %s, %s, and node %s serves it %s after the acknowledgement", what, d.story, d.what, node.name, asked.Sub(time.Unix(0, acked)))
		case err == nil:
			c.served.Add(1)
		case errors.Is(err, mayfly.NotFound):
			c.refused.Add(1)
		default:
			c.failed.Add(1)
			time.Sleep(20 * time.Millisecond)
		}
		time.Sleep(2 * time.Millisecond)
	}
}
