package s3store

import (
	"context"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store/conn"
	"github.com/mayflyhq/mayfly/store/loop"
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
	backoff := conn.Backoff{First: s.server.opts.Pause, Longest: 100 * s.server.opts.Pause}
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
		if n >= s.server.opts.Tries || !isPassing(err) || loop.Rest(ctx, backoff.After(n)) != nil {
			return kindOf(ctx, err)
		}
	}
}
