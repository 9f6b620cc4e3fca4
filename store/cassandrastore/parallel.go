package cassandrastore

import (
	"context"
	"sync"
)

// width is how many requests of one call are under way at once (I17).
const width = 64

// each does f for 0 … n-1, width at a time, and waits for all that it began. After
// the first error it begins no more; that error is the answer.
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
