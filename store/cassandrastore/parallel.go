package cassandrastore

import (
	"context"
	"hash/fnv"
	"sync"

	"github.com/mayflyhq/mayfly"
)

// width is how many requests of one call are under way at once (I17).
const width = 64

// each calls f for 0 to n-1, width at a time, and waits for all calls. After the first
// error it starts no more calls and returns that error.
func each(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	if n == 1 {
		return f(ctx, 0)
	}
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		next  int
		first error
	)
	take := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		if first != nil || next == n {
			return 0, false
		}
		next++
		return next - 1, true
	}
	for range min(n, width) {
		wg.Go(func() {
			for i, ok := take(); ok; i, ok = take() {
				if err := f(ctx, i); err != nil {
					mu.Lock()
					if first == nil {
						first = err
					}
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return first
}

// lanes serialize the conditional writes of this process to a partition, because
// concurrent proposals cost each other rounds. They are an optimization only: other
// processes have their own lanes.
type lanes [256]chan struct{}

func newLanes() *lanes {
	var l lanes
	for i := range l {
		l[i] = make(chan struct{}, 1)
	}
	return &l
}

// enter waits for the lane of a partition; the returned function leaves it.
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
