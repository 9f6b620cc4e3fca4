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
// continues it. The other has taken over meanwhile: what the stale one had begun it
// cannot write any more, and what it deletes is dead (L1, L4, I10).
func (c *change) freeze() {
	c.Helper()
	for round := range pick(1, 10) {
		stale := []*process{c.a, c.b}[round%2]
		x := c.frozen(stale)
		c.await(x)
		time.Sleep(time.Until(x.at.Add(2*lease + lease/2 + time.Duration(c.random.IntN(500))*time.Millisecond)))
		before := c.trace(x)
		c.traces = append(c.traces, before)
		stale.signal(syscall.SIGCONT)
		ending := make(chan struct{})
		var looks sync.WaitGroup
		looks.Go(func() { before.follow(ending) })
		c.together()
		close(ending)
		looks.Wait()
	}
}

// frozen freezes a node when work of its shards was due that it had not done. One
// that had nothing to do is let go on, and frozen again.
func (c *change) frozen(stale *process) *absence {
	c.Helper()
	for range 20 {
		time.Sleep(time.Duration(c.random.IntN(300)) * time.Millisecond)
		x := c.absent(stale, "frozen past its lease", lease+takeOver)
		stale.signal(syscall.SIGSTOP)
		time.Sleep(50 * time.Millisecond) // what was on its way to the server is there
		due := 0
		for id, t := range c.trace(x).seen {
			if t.state == mayfly.Active && id.Deadline().Time().Before(x.at) || t.state == mayfly.Archiving {
				due++
			}
		}
		if due > 0 {
			c.Logf("%s is frozen with %d items to do", stale.name, due)
			c.follow(x)
			return x
		}
		stale.signal(syscall.SIGCONT)
	}
	c.Fatalf("%s never has anything to do", stale.name)
	return nil
}

// usualGenerations are the transitions of a story's life up to cold storage:
// expired, claimed, named, cold.
const usualGenerations = 4

// judgeGenerations wants no story to have gone through more than its life: a write
// of a stale node would have raised a generation. A claim of the archive may be
// taken over, archiving to archiving (L1), and its copy be named again, by whoever
// comes after an absence; and once where a walk and a reminder meet.
func (c *change) judgeGenerations(proof string, end *audit) {
	c.Helper()
	more, stories := 0, 0
	for _, n := range c.book.all() {
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
