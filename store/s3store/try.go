package s3store

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/mayflyhq/mayfly"
)

// share is how much of a request a bucket pays.
type share struct {
	bucket *bucket
	n      int
}

func (s *Store) reads(key mayfly.BlobKey) []share {
	return []share{{s.pace.of(key, reading), 1}}
}

func (s *Store) writes(keys ...mayfly.BlobKey) (shares []share) {
	at := map[*bucket]int{}
	for _, key := range keys {
		b := s.pace.of(key, writing)
		if _, ok := at[b]; !ok {
			at[b] = len(shares)
			shares = append(shares, share{bucket: b})
		}
		shares[at[b]].n++
	}
	return shares
}

// try makes a request until it goes well, fails for good, or the tries are used
// up, and gives what comes of it its kind. It is the one layer that retries;
// every request of this package may be made again.
func (s *Store) try(ctx context.Context, cost []share, request func() error) error {
	for n := 1; ; n++ {
		for _, c := range cost {
			if err := c.bucket.take(ctx, c.n); err != nil {
				return err
			}
		}
		err := request()
		for _, c := range cost {
			c.bucket.learn(isSlowDown(err))
		}
		if err == nil {
			return nil
		}
		if n >= s.server.opts.Tries || !isPassing(err) || !sleep(ctx, pause(n, s.server.opts.Pause, rand.Float64())) {
			return kindOf(ctx, err)
		}
	}
}

// pause is how long to wait after the n-th try: it doubles up to a hundred times
// the first, and half of it is left to chance, so that who failed together does
// not come back together.
func pause(n int, first time.Duration, dice float64) time.Duration {
	longest := min(first<<min(n-1, 7), 100*first)
	return longest/2 + time.Duration(dice*float64(longest/2))
}

// sleep says whether ctx outlived the pause.
func sleep(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
