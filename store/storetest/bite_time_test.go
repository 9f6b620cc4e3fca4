package storetest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// watch is servers as this process knows them.
type watch func(ctx context.Context) ([]mayfly.Instant, error)

func (w watch) Time(ctx context.Context) ([]mayfly.Instant, error) { return w(ctx) }

func wallClock(ctx context.Context) ([]mayfly.Instant, error) {
	return []mayfly.Instant{mayfly.InstantOf(time.Now())}, ctx.Err()
}

func TestAWatchKeepsTheContractOfTime(t *testing.T) {
	t.Setenv(reportFolder, "")
	Time(t, "watch", func(*testing.T) store.Set { return store.Set{Time: watch(wallClock)} })
}

func brokenTimes() []breakage {
	with := func(w watch) func(*Model, *store.Set) { return func(_ *Model, set *store.Set) { set.Time = w } }
	stopped := mayfly.InstantOf(time.Now())
	var asked atomic.Int32
	return []breakage{
		{"nobody tells the time, and it is no error", Time, "at least one server tells its time, and it is one of this age", with(func(context.Context) ([]mayfly.Instant, error) {
			return nil, nil
		})},
		{"seconds for milliseconds", Time, "at least one server tells its time, and it is one of this age", with(func(ctx context.Context) ([]mayfly.Instant, error) {
			at, err := wallClock(ctx)
			return []mayfly.Instant{at[0] / 1000}, err
		})},
		{"an answer that is kept", Time, "a later question is not answered with an earlier time", with(func(ctx context.Context) ([]mayfly.Instant, error) {
			return []mayfly.Instant{stopped}, ctx.Err()
		})},
		{"only one may ask", Time, "many may ask at once", with(func(ctx context.Context) ([]mayfly.Instant, error) {
			defer asked.Add(-1)
			if asked.Add(1) > 1 {
				return nil, mayfly.Errorf(mayfly.Unavailable, "busy")
			}
			time.Sleep(10 * time.Millisecond)
			return wallClock(ctx)
		})},
		{"a question that was given up is answered", Time, "a question that was given up is not waited for", with(func(context.Context) ([]mayfly.Instant, error) {
			return wallClock(context.Background())
		})},
	}
}
