//go:build servers

package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
)

// trace is what the last write has left in a row.
type trace struct {
	state      mayfly.State
	generation mayfly.Generation
	nonce      mayfly.Nonce
}

// traces are rows that are looked at again and again. A write by what a node had
// read before another wrote would repeat a generation with another nonce, or bring
// one back (I10).
type traces struct {
	ledger store.Ledger
	seen   map[mayfly.ID]trace
	looks  int
	wrong  []string
}

// trace looks at the stories of an absence that a node may be at.
func (c *change) trace(x *absence) *traces {
	var ids []mayfly.ID
	for _, n := range c.record.all() {
		if x.held[n.id.Shard()] && n.deadline.After(x.at.Add(-10*time.Second)) && n.deadline.Before(time.Now()) {
			ids = append(ids, n.id)
		}
	}
	t := &traces{ledger: c.store.Set.Ledger, seen: map[mayfly.ID]trace{}}
	t.look(ids)
	return t
}

// look reads the rows and judges them by what they were. A read that fails tells nothing.
func (t *traces) look(ids []mayfly.ID) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	found, err := t.ledger.Get(ctx, ids...)
	if err != nil {
		return
	}
	t.looks++
	for _, f := range found {
		if f.Found {
			t.judge(f.Item)
		}
	}
}

func (t *traces) judge(item mayfly.Item) {
	now, before := trace{item.State, item.Generation, item.Nonce}, t.seen[item.ID]
	if now.generation < before.generation || now.generation == before.generation && now.nonce != before.nonce {
		t.wrong = append(t.wrong, fmt.Sprintf("%s was %s with generation %d and is %s with generation %d, written by who had not read that",
			item.ID, before.state, before.generation, now.state, now.generation))
	}
	t.seen[item.ID] = now
}

// undone returns those of the rows that no node has written since.
func (t *traces) undone(before map[mayfly.ID]trace) (ids []mayfly.ID) {
	for id, was := range before {
		if now, found := t.seen[id]; !found || now == was {
			ids = append(ids, id)
		}
	}
	return ids
}

// judgeTraces holds them against the rows as they are at the end, and wants nothing
// to have been written by a stale node.
func (c *change) judgeTraces(proof string, end *audit) {
	c.Helper()
	rows, looks := 0, 0
	for _, t := range c.traces {
		for id := range t.seen {
			t.judge(end.items[id])
		}
		for _, line := range t.wrong {
			c.Errorf("DOUBLE %s", line)
		}
		rows, looks = rows+len(t.seen), looks+t.looks
	}
	storetest.Proof(c, proof, "rows looked at after a thaw, and looks", fmt.Sprintf("%d, %d", rows, looks))
	if rows < 5*len(c.traces) || looks < 10*len(c.traces) {
		c.Errorf("%d rows and %d looks tell nothing", rows, looks)
	}
}

// follow looks all the while.
func (t *traces) follow(ending <-chan struct{}) {
	ids := make([]mayfly.ID, 0, len(t.seen))
	for id := range t.seen {
		ids = append(ids, id)
	}
	for {
		select {
		case <-ending:
			return
		case <-time.After(20 * time.Millisecond):
			t.look(ids)
		}
	}
}
