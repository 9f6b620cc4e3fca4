package cassandrastore

import (
	"context"
	"hash/fnv"

	"github.com/mayflyhq/mayfly"
)

// lanes let the conditional writes of this process to one partition go one after
// the other: proposals that meet cost each other rounds. Correctness never rests
// on them; other processes have lanes of their own.
type lanes [256]chan struct{}

func newLanes() *lanes {
	var l lanes
	for i := range l {
		l[i] = make(chan struct{}, 1)
	}
	return &l
}

// enter waits for the lane of a partition; leave it by the function returned.
func (l *lanes) enter(ctx context.Context, partition string) (leave func(), err error) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(partition)) // never fails
	lane := l[h.Sum32()%uint32(len(l))]
	select {
	case lane <- struct{}{}:
		return func() { <-lane }, nil
	case <-ctx.Done():
		return nil, mayfly.Wrap(mayfly.Unavailable, ctx.Err(), "")
	}
}
