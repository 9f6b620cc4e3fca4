package storetest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
)

// Time checks a driver against the contract of store.Time.
func Time(t *testing.T, driver string, open Open) { run(t, driver, "time", open, timeCases()) }

func timeCases() []testCase {
	return []testCase{
		{"at least one server returns its time, and the time is plausible", timePlausible},
		{"a later call returns a later time", timeGoesOn},
		{"many callers are answered at once", timeTogether},
		{"a cancelled call returns an error", timeCancelled},
	}
}

// times returns the servers' times; there must be one at least.
func (c *trial) times() []mayfly.Instant {
	c.Helper()
	times, err := c.set.Time.Time(c.ctx)
	c.must(err)
	if len(times) == 0 {
		c.Fatal("no server returned its time, but there was no error")
	}
	return times
}

func timePlausible(c *trial) {
	const built = mayfly.Instant(1_767_225_600_000) // 2026
	for _, at := range c.times() {
		if at < built || at > built.Add(100*365*24*time.Hour) {
			c.Errorf("a server returns the time %s", at)
		}
	}
}

// timeGoesOn compares medians, because the clocks of servers differ a little.
func timeGoesOn(c *trial) {
	const apart = 200 * time.Millisecond
	first := median(c.times())
	for range 3 {
		select {
		case <-time.After(apart):
		case <-c.ctx.Done():
			c.Fatal(c.ctx.Err())
		}
		next := median(c.times())
		if went := next.Sub(first); went < apart/2 || went > 10*apart {
			c.Errorf("%s passed, but %s on the servers' clocks", apart, went)
		}
		first = next
	}
}

func timeTogether(c *trial) {
	errs := make(chan error, 16)
	for range cap(errs) {
		go func() {
			times, err := c.set.Time.Time(c.ctx)
			if err == nil && len(times) == 0 {
				err = mayfly.Errorf(mayfly.Unavailable, "no server returned its time")
			}
			errs <- err
		}()
	}
	for range cap(errs) {
		c.must(<-errs)
	}
}

func timeCancelled(c *trial) {
	ctx, cancel := context.WithCancel(c.ctx)
	cancel()
	if times, err := c.set.Time.Time(ctx); err == nil {
		c.Errorf("a cancelled call returns %v", times)
	}
}

func median(all []mayfly.Instant) mayfly.Instant {
	return slices.Sorted(slices.Values(all))[len(all)/2]
}
