package memstore

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Limits counts in memory, by GCRA: of a bucket only the instant is kept at
// which it will be full again, and after that instant nothing.
type Limits struct {
	seed   maphash.Seed
	shards [limitShards]limitShard
	most   int // keys in a shard
}

var _ store.Limits = (*Limits)(nil)

const (
	limitShards  = 64
	defaultKeys  = 1 << 18
	sampledKeys  = 8
	smallestWave = 16
)

// limitShard is the buckets of some of the keys.
type limitShard struct {
	mu     sync.Mutex
	fullAt map[string]time.Duration // since the epoch
	wave   int                      // at how many keys the full buckets are next forgotten
}

// NewLimits counts for at most about keys buckets that are not full, 262,144 if
// 0; beyond that the one that is nearest to full of a few is forgotten. A bucket
// takes about 100 bytes.
func NewLimits(keys int) *Limits {
	if keys <= 0 {
		keys = defaultKeys
	}
	l := &Limits{seed: maphash.MakeSeed(), most: max(1, keys/limitShards)}
	for i := range l.shards {
		l.shards[i] = limitShard{fullAt: map[string]time.Duration{}, wave: smallestWave}
	}
	return l
}

// Take implements store.Limits.
func (l *Limits) Take(_ context.Context, key string, rate store.Rate, cost int, now mayfly.Instant) (store.Taken, error) {
	if rate.Count <= 0 || rate.Per <= 0 {
		return store.Taken{}, mayfly.Errorf(mayfly.Invalid, "a rate of %d per %s", rate.Count, rate.Per)
	}
	if cost < 0 || cost > rate.Count {
		return store.Taken{}, mayfly.Errorf(mayfly.Invalid, "a cost of %d never fits %d per %s", cost, rate.Count, rate.Per)
	}
	shard := &l.shards[maphash.String(l.seed, key)%limitShards]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	at := time.Duration(now) * time.Millisecond
	taken, fullAt := take(shard.fullAt[key], rate, cost, at)
	if fullAt > at {
		shard.fullAt[key] = fullAt
		shard.tidy(at, l.most)
	}
	return taken, nil
}

// take is the arithmetic of GCRA: a bucket that will be full at fullAt gives
// cost at the instant at, or nothing, and will be full at the instant answered.
func take(fullAt time.Duration, rate store.Rate, cost int, at time.Duration) (store.Taken, time.Duration) {
	one := max(1, rate.Per/time.Duration(rate.Count)) // until one has come back
	whole := one * time.Duration(rate.Count)          // until all have
	fullAt = min(max(fullAt, at), at+whole)           // a clock that was taken back does not lock out
	after := fullAt + one*time.Duration(cost)
	if over := after - (at + whole); over > 0 {
		return store.Taken{Left: int((at + whole - fullAt) / one), RetryAfter: over}, fullAt
	}
	return store.Taken{OK: true, Left: int((at + whole - after) / one)}, after
}

// tidy forgets full buckets whenever there are twice as many as were left the
// last time, and one more bucket when there are too many.
func (s *limitShard) tidy(at time.Duration, most int) {
	if len(s.fullAt) >= s.wave {
		for key, fullAt := range s.fullAt {
			if fullAt <= at {
				delete(s.fullAt, key)
			}
		}
		s.wave = max(smallestWave, 2*len(s.fullAt))
	}
	if len(s.fullAt) > most {
		s.forgetOne()
	}
}

// forgetOne forgets the one of a few buckets that is nearest to full. A caller that
// makes up many keys mostly evicts its own.
func (s *limitShard) forgetOne() {
	var nearest string
	sampled := 0
	for key, fullAt := range s.fullAt {
		if sampled == 0 || fullAt < s.fullAt[nearest] {
			nearest = key
		}
		if sampled++; sampled == sampledKeys {
			break
		}
	}
	delete(s.fullAt, nearest)
}
