package s3store

import (
	"context"
	"sync"

	"golang.org/x/time/rate"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store/conn"
	"github.com/mayflyhq/mayfly/store/loop"
)

// share is how many tokens a request takes from a bucket.
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

// try makes a request until it succeeds, fails permanently, or the tries are used
// up, and gives the error its kind. It is the only layer that retries; every request
// of this package is idempotent.
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
		if n >= s.server.opts.Tries || !isTransient(err) || loop.Rest(ctx, backoff.After(n)) != nil {
			return withKind(ctx, err)
		}
	}
}

// use is the kind of a request: S3 limits reads and writes separately.
type use uint8

const (
	reading use = iota
	writing
	uses
)

// pace keeps the requests of each prefix of keys below the limits of the server (L11).
// Several nodes share a prefix without knowing of each other: if they are too fast
// together, the server returns SlowDown to each of them.
type pace struct {
	buckets [mayfly.Prefixes + 1][uses]*bucket // the last is for keys without a prefix
}

func newPace(o Options) *pace {
	p := &pace{}
	for i := range p.buckets {
		p.buckets[i][reading] = newBucket(o.Reads)
		p.buckets[i][writing] = newBucket(o.Writes)
	}
	return p
}

func (p *pace) of(key mayfly.BlobKey, u use) *bucket { return p.buckets[prefixOf(key)][u] }

// prefixOf returns the number at the start of a key (L11), or mayfly.Prefixes for a key
// without one.
func prefixOf(key mayfly.BlobKey) int {
	if len(key) < 3 || key[2] != '/' || key[0] < '0' || key[0] > '9' || key[1] < '0' || key[1] > '9' {
		return mayfly.Prefixes
	}
	return min(int(key[0]-'0')*10+int(key[1]-'0'), mayfly.Prefixes)
}

// bucket is a token bucket that halves its rate after a SlowDown and raises it again
// in small steps.
type bucket struct {
	mu      sync.Mutex
	limiter *rate.Limiter
	full    rate.Limit
}

// burst lets one bulk delete through at once.
const burst = bulk

func newBucket(perSecond float64) *bucket {
	return &bucket{limiter: rate.NewLimiter(rate.Limit(perSecond), burst), full: rate.Limit(perSecond)}
}

// take waits for n tokens, at most burst.
func (b *bucket) take(ctx context.Context, n int) error {
	if err := b.limiter.WaitN(ctx, n); err != nil {
		return mayfly.Errorf(mayfly.Unavailable, "rate limit of this key prefix reached: %w", err)
	}
	return nil
}

// learn adapts the rate to a response.
func (b *bucket) learn(slowDown bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if next := paced(b.limiter.Limit(), b.full, slowDown); next != b.limiter.Limit() {
		b.limiter.SetLimit(next)
	}
}

// paced returns the rate after a response: half after a SlowDown, but at least a
// hundredth of the full rate; otherwise a hundredth of the full rate more.
func paced(now, full rate.Limit, slowDown bool) rate.Limit {
	if slowDown {
		return max(now/2, full/100)
	}
	return min(now+full/100, full)
}
