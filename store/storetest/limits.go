package storetest

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// A driver may use its own clock. The cases therefore pass the system time and use
// rates that are so slow or fast that small differences do not matter.
func limitsCases() []testCase {
	return []testCase{
		{"a burst up to the count is taken and the next is not", burst},
		{"a refusal returns when to retry", retryAfter},
		{"a refusal takes nothing", refusalTakesNothing},
		{"a cost of n takes n", costCounts},
		{"a cost above the count is invalid", costOverCount},
		{"keys have separate buckets", limitKeysApart},
		{"a bucket refills evenly", refills},
		{"a full bucket holds no more than its count", noOverfill},
		{"sixteen takers together get no more than the count", takersTogether},
	}
}

// hourly is a rate that gives back nothing while a case runs.
func hourly(count int) store.Rate { return store.Rate{Count: count, Per: time.Hour} }

func (c *trial) take(key string, rate store.Rate, cost int) store.Taken {
	c.Helper()
	taken, err := c.set.Limits.Take(c.ctx, key, rate, cost, wall())
	c.must(err)
	return taken
}

func burst(c *trial) {
	key := freshName("burst")
	for i := range 5 {
		if got := c.take(key, hourly(5), 1); !got.OK || got.Left != 4-i || got.RetryAfter != 0 {
			c.Errorf("take %d of 5: %+v", i+1, got)
		}
	}
	for range 3 {
		if got := c.take(key, hourly(5), 1); got.OK || got.Left != 0 {
			c.Errorf("after the burst: %+v", got)
		}
	}
}

func retryAfter(c *trial) {
	key := freshName("retry")
	c.take(key, hourly(5), 5)
	for cost := 1; cost <= 5; cost++ {
		got := c.take(key, hourly(5), cost)
		want := time.Duration(cost) * 12 * time.Minute
		if got.OK || got.RetryAfter > want+time.Second || got.RetryAfter < want-time.Minute {
			c.Errorf("cost %d: %+v, want about %s", cost, got, want)
		}
	}
}

func refusalTakesNothing(c *trial) {
	key := freshName("refused")
	c.take(key, hourly(5), 3)
	for range 10 {
		if got := c.take(key, hourly(5), 3); got.OK || got.Left != 2 {
			c.Errorf("a cost of 3 with 2 left: %+v", got)
		}
	}
	if got := c.take(key, hourly(5), 2); !got.OK || got.Left != 0 {
		c.Errorf("the 2 that were left: %+v", got)
	}
}

func costCounts(c *trial) {
	key := freshName("cost")
	for _, cost := range []int{1, 4, 2, 3} {
		if got := c.take(key, hourly(10), cost); !got.OK {
			c.Errorf("cost %d: %+v", cost, got)
		}
	}
	if got := c.take(key, hourly(10), 1); got.OK {
		c.Errorf("an eleventh of 10: %+v", got)
	}
}

func costOverCount(c *trial) {
	key := freshName("over")
	_, err := c.set.Limits.Take(c.ctx, key, hourly(5), 6, wall())
	c.wantKind(mayfly.Invalid, err)
	if got := c.take(key, hourly(5), 5); !got.OK {
		c.Errorf("an invalid cost took something: %+v", got)
	}
}

func limitKeysApart(c *trial) {
	key := freshName("apart")
	for i := range 4 {
		if got := c.take(fmt.Sprintf("%s-%d", key, i), hourly(2), 2); !got.OK {
			c.Errorf("key %d: %+v", i, got)
		}
	}
	if got := c.take(key+"-0\x00", hourly(2), 2); !got.OK {
		c.Errorf("a key with a NUL: %+v", got)
	}
}

func refills(c *trial) {
	key, rate := freshName("refill"), store.Rate{Count: 10, Per: 500 * time.Millisecond}
	start := wall() // before the take: its answer may be late
	c.take(key, rate, 10)
	for range 5 { // one comes back every 50 ms
		for !c.take(key, rate, 1).OK {
			if c.ctx.Err() != nil {
				c.Fatal("nothing came back")
			}
		}
	}
	if took := wall().Sub(start); took < 200*time.Millisecond {
		c.Errorf("five of ten per 500ms came back after %s", took)
	}
}

func noOverfill(c *trial) {
	key, rate := freshName("overfill"), store.Rate{Count: 3, Per: 30 * time.Millisecond}
	c.take(key, rate, 3)
	for !c.take(key, rate, 3).OK { // full again
		if c.ctx.Err() != nil {
			c.Fatal("nothing came back")
		}
	}
	if got := c.take(freshName("overfill"), rate, 1); !got.OK || got.Left != 2 {
		c.Errorf("a fresh bucket of 3: %+v", got)
	}
	_, err := c.set.Limits.Take(c.ctx, key, rate, 4, wall())
	c.wantKind(mayfly.Invalid, err)
}

func takersTogether(c *trial) {
	key := freshName("together")
	var taken atomic.Int64
	together(16, func(int) {
		for range 10 {
			got, err := c.set.Limits.Take(c.ctx, key, hourly(50), 1, wall())
			if err != nil {
				c.Errorf("take: %v", err)
			}
			if got.OK {
				taken.Add(1)
			}
		}
	})
	if n := taken.Load(); n != 50 {
		c.Errorf("%d of 50 were taken", n)
	}
}
