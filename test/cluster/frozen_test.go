//go:build servers

package cluster

import (
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store/storetest"
)

// freeze stops a node with SIGSTOP in the middle of its work, past its lease, and
// continues it as soon as the other has taken over and done that work: what the stale
// one had begun it cannot write any more, and what it deletes is dead (L1, L4, I10).
func (c *change) freeze() {
	c.Helper()
	for round := range pick(1, 10) {
		stale := []*process{c.a, c.b}[round%2]
		x, due := c.frozen(stale)
		c.await(x)
		var t *traces
		eventually(c, time.Minute, "the other has done what was due", func() bool {
			t = c.trace(x)
			return len(t.undone(due)) == 0
		})
		c.traces = append(c.traces, t)
		c.Logf("%s goes on after %s", stale.name, time.Since(x.at).Round(time.Millisecond))
		stale.signal(syscall.SIGCONT)
		ending := make(chan struct{})
		var looks sync.WaitGroup
		looks.Go(func() { t.follow(ending) })
		c.together()
		close(ending)
		looks.Wait()
	}
}

// patient is how long a batch may last where nodes are frozen: what was begun before
// is not given up at the thaw.
const patient = 30 * time.Second

// frozen freezes a node in the middle of an archiving: a claim stands that is not
// done. It says what of its shards was due or begun. One that was at nothing is let
// go on, and frozen again.
func (c *change) frozen(stale *process) (*absence, map[mayfly.ID]trace) {
	c.Helper()
	for range 50 {
		time.Sleep(time.Duration(c.random.IntN(200)) * time.Millisecond)
		x := c.absent(stale, "frozen past its lease", lease+takeOver)
		stale.signal(syscall.SIGSTOP)
		time.Sleep(50 * time.Millisecond) // what was on its way to the server is there
		due, claims := map[mayfly.ID]trace{}, 0
		for id, t := range c.trace(x).seen {
			if t.state == mayfly.Archiving {
				claims++
			}
			if t.state == mayfly.Archiving || t.state == mayfly.Active && id.Deadline().Time().Before(x.at) {
				due[id] = t
			}
		}
		if claims > 0 {
			c.Logf("%s is frozen with %d claims of the archive, and %d items to do", stale.name, claims, len(due))
			c.follow(x)
			return x, due
		}
		stale.signal(syscall.SIGCONT)
	}
	c.Fatalf("%s is never in the middle of something", stale.name)
	return nil, nil
}

// usualGenerations are the transitions of a story's life up to cold storage:
// expired, claimed, named, cold.
const usualGenerations = 4

// judgeGenerations wants no story to have gone through more than its life: a write
// of a stale node would have raised a generation. A claim of the archive may be
// taken over, archiving to archiving (L1), and its copy be named again, by the node that
// comes after an absence; and once where a walk and a reminder meet.
func (c *change) judgeGenerations(proof string, end *audit) {
	c.Helper()
	more, stories := 0, 0
	for _, n := range c.record.all() {
		item, may := end.items[n.id], 1
		for _, x := range c.absence {
			if n.deadline.Before(x.at.Add(absent)) && item.Changed.Time().After(x.at) {
				may += 2
			}
		}
		over := int(item.Generation) - int(mayfly.Born) - usualGenerations
		stories++
		if over > 0 {
			more++
		}
		if over > may {
			c.Errorf("DOUBLE %s has generation %d, and may have %d more than usual", n.id, item.Generation, may)
		}
	}
	storetest.Proof(c, proof, "stories, those whose archiving was taken over", fmt.Sprintf("%d, %d", stories, more))
	if more > stories/5 {
		c.Errorf("the archiving of %d of %d stories was taken over", more, stories)
	}
}

// absent is how long a node that went away may still come back to what it had begun.
const absent = 4 * lease
