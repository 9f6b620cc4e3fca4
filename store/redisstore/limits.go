package redisstore

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/conn"
)

//go:embed limits.lua
var limitsLua string

// Limits counts in Redis, in one call, by the time of the server that has the
// bucket: the nodes' clocks do not matter (C3). A bucket is one key, which goes
// by itself once it is full.
type Limits struct {
	door    *door
	o       Options
	script  *rueidis.Lua
	buckets [limitTags]conn.Breaker
}

var _ store.Limits = (*Limits)(nil)

// errResting says that a server has failed a moment ago and is not asked.
var errResting = errors.New("the server has just failed and is given a rest")

// limitTags is how many hash tags the keys share: all keys of a tag are on the
// same server of a cluster, so that a tag is what can be away.
const limitTags = 64

func newLimits(d *door, o Options) *Limits {
	return &Limits{door: d, o: o, script: rueidis.NewLuaScript(limitsLua)}
}

// Take implements store.Limits. A server that is away answers Unavailable within
// Patience, and while it rests at once. Of those who take part in a time-out
// nobody knows whether he took: an error may have cost the cost.
func (l *Limits) Take(ctx context.Context, key string, rate store.Rate, cost int, _ mayfly.Instant) (store.Taken, error) {
	if rate.Count <= 0 || rate.Per <= 0 {
		return store.Taken{}, mayfly.Errorf(mayfly.Invalid, "a rate of %d per %s", rate.Count, rate.Per)
	}
	if cost < 0 || cost > rate.Count {
		return store.Taken{}, mayfly.Errorf(mayfly.Invalid, "a cost of %d never fits %d per %s", cost, rate.Count, rate.Per)
	}
	tag := limitTag(key)
	bucket := &l.buckets[tag]
	if !bucket.Allow(l.o.Elapsed()) {
		return store.Taken{}, unavailable("take", errResting)
	}
	within, cancel := context.WithTimeout(ctx, l.o.Patience)
	defer cancel()
	taken, err := l.take(within, l.script, l.bucketKey(tag, key), rate, cost)
	switch {
	case err == nil:
		bucket.Answered()
	case ctx.Err() != nil:
		bucket.Abandoned()
	default:
		bucket.Failed(l.o.Elapsed() + l.o.Rest)
	}
	return taken, err
}

func (l *Limits) bucketKey(tag int, key string) string {
	return fmt.Sprintf("{%s:limits:%02x}:%s", l.o.Prefix, tag, key)
}

func (l *Limits) take(ctx context.Context, script *rueidis.Lua, key string, rate store.Rate, cost int) (store.Taken, error) {
	answer, err := l.door.run(ctx, script, key, perMicrosecond(rate), strconv.Itoa(rate.Count), strconv.Itoa(cost))
	if err != nil {
		return store.Taken{}, unavailable("take", err)
	}
	n, err := answer.AsIntSlice()
	if err != nil || len(n) != 3 {
		return store.Taken{}, mayfly.Errorf(mayfly.Unavailable, "redis: take: %d numbers are answered: %w", len(n), err)
	}
	return store.Taken{OK: n[0] == 1, Left: int(n[1]), RetryAfter: time.Duration(n[2]) * time.Microsecond}, nil
}

// perMicrosecond is how many microseconds pass until one has come back, one at least.
func perMicrosecond(rate store.Rate) string {
	one := max(1, float64(rate.Per)/float64(time.Microsecond)/float64(rate.Count))
	return strconv.FormatFloat(one, 'f', -1, 64)
}

// limitTag is the same in every process (trap 3).
func limitTag(key string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key)) // never fails
	return int(h.Sum32() % limitTags)
}
