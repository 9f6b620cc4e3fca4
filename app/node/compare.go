package node

import (
	"context"
	"time"

	"github.com/mayflyhq/mayfly/engine/clock"
	"github.com/mayflyhq/mayfly/store/loop"
)

const (
	// compareEvery is how often the clock is compared with the store's servers.
	compareEvery = time.Second
	// compareWithin is how long they have to answer: what takes longer than twice
	// the bound says nothing anyway.
	compareWithin = 2 * time.Second
)

// compare asks the store's servers what time it is (L7).
func (n *Node) compare(ctx context.Context) error {
	if n.set.Time == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, compareWithin)
	defer cancel()
	return n.clock.Compare(ctx, n.set.Time.Time)
}

// keepRight compares, and begins the work of a node that could not begin before
// because its clock was off.
func (n *Node) keepRight(ctx context.Context) error {
	if err := n.compare(ctx); err != nil {
		return err
	}
	if r := n.clock.Read(); r.Off {
		return r.Err
	}
	if n.work.Load() != nil {
		return nil
	}
	if err := n.prepare(ctx); err != nil {
		return err
	}
	n.startWork()
	return nil
}

// alone refuses a second process under one name: their marks, chains and places
// would be each other's. A process that was killed has left a mark, too; whether
// it is dead shows when the mark stays as it is.
func (n *Node) alone(ctx context.Context, mark clock.Mark) error {
	if n.set.Time == nil || mark.Left() { // a store of one process has a lock of its own
		return nil
	}
	if err := loop.Rest(ctx, 3*n.o.Clock.SavePeriod); err != nil {
		return err
	}
	again, err := n.marks.Load(ctx)
	if err != nil {
		return err
	}
	if again != mark {
		return clock.Twin(n.o.Name)
	}
	return nil
}
