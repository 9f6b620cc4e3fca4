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

// Limits implements store.Limits. Take is one script call that uses the clock of
// the server that owns the bucket, so that the clocks of nodes do not matter (C3).
// A bucket is one key that expires once it is full again.
type Limits struct {
	connection *connection
	o          Options
	script     *rueidis.Lua
	buckets    [limitTags]conn.Breaker
}

var _ store.Limits = (*Limits)(nil)

// errCoolingDown reports that a server failed within the last Cooldown.
var errCoolingDown = errors.New("the server failed a moment ago and is not asked again yet")

// limitTags is the number of hash tags. All keys of a tag are on the same server
// of a cluster, so there is one breaker for each tag.
const limitTags = 64

func newLimits(cn *connection, o Options) *Limits {
	return &Limits{connection: cn, o: o, script: rueidis.NewLuaScript(limitsLua)}
}

// Take implements store.Limits. If the server does not answer within Timeout, Take
// returns Unavailable, and during the Cooldown that follows it does so at once. A
// call that timed out may have taken its cost.
func (l *Limits) Take(ctx context.Context, key string, rate store.Rate, cost int, _ mayfly.Instant) (store.Taken, error) {
	if rate.Count <= 0 || rate.Per <= 0 {
		return store.Taken{}, mayfly.Errorf(mayfly.Invalid, "invalid rate of %d per %s", rate.Count, rate.Per)
	}
	if cost < 0 || cost > rate.Count {
		return store.Taken{}, mayfly.Errorf(mayfly.Invalid, "invalid cost %d for a rate of %d per %s", cost, rate.Count, rate.Per)
	}
	tag := limitTag(key)
	bucket := &l.buckets[tag]
	if !bucket.Allow(l.o.Elapsed()) {
		return store.Taken{}, unavailable("take", errCoolingDown)
	}
	within, cancel := context.WithTimeout(ctx, l.o.Timeout)
	defer cancel()
	taken, err := l.take(within, l.script, l.bucketKey(tag, key), rate, cost)
	switch {
	case err == nil:
		bucket.Answered()
	case ctx.Err() != nil:
		bucket.Abandoned()
	default:
		bucket.Failed(l.o.Elapsed() + l.o.Cooldown)
	}
	return taken, err
}

func (l *Limits) bucketKey(tag int, key string) string {
	return fmt.Sprintf("{%s:limits:%02x}:%s", l.o.Prefix, tag, key)
}

func (l *Limits) take(ctx context.Context, script *rueidis.Lua, key string, rate store.Rate, cost int) (store.Taken, error) {
	answer, err := l.connection.run(ctx, script, key, perMicrosecond(rate), strconv.Itoa(rate.Count), strconv.Itoa(cost))
	if err != nil {
		return store.Taken{}, unavailable("take", err)
	}
	n, err := answer.AsIntSlice()
	if err != nil || len(n) != 3 {
		return store.Taken{}, mayfly.Errorf(mayfly.Unavailable, "redis: take: the script returned %d numbers instead of 3: %w", len(n), err)
	}
	return store.Taken{OK: n[0] == 1, Left: int(n[1]), RetryAfter: time.Duration(n[2]) * time.Microsecond}, nil
}

// perMicrosecond returns the microseconds, at least one, until one token is back.
func perMicrosecond(rate store.Rate) string {
	one := max(1, float64(rate.Per)/float64(time.Microsecond)/float64(rate.Count))
	return strconv.FormatFloat(one, 'f', -1, 64)
}

// limitTag returns the hash tag of a key. It is the same in every process (trap 3).
func limitTag(key string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key)) // never fails
	return int(h.Sum32() % limitTags)
}
