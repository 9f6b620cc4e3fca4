package storetest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
)

// Time holds driver to the contract of store.Time.
func Time(t *testing.T, driver string, open Open) { hold(t, driver, "time", open, timeCases()) }

func timeCases() []testCase {
	return []testCase{
		{"at least one server tells its time, and it is one of this age", timeTold},
		{"a later question is not answered with an earlier time", timeGoesOn},
		{"many may ask at once", timeAskedByMany},
		{"a question that was given up is not waited for", timeGivenUp},
	}
}

// told asks, and fails without an answer.
func (c *trial) told() []mayfly.Instant {
	c.Helper()
	told, err := c.set.Time.Time(c.ctx)
	c.must(err)
	if len(told) == 0 {
		c.Fatal("nobody told the time, and there was no error")
	}
	return told
}

func timeTold(c *trial) {
	const built = mayfly.Instant(1_767_225_600_000) // 2026
	for _, at := range c.told() {
		if at < built || at > built.Add(100*365*24*time.Hour) {
			c.Errorf("a server says that it is %s", at)
		}
	}
}

// timeGoesOn compares medians: a suite may run against servers that differ a little.
func timeGoesOn(c *trial) {
	const apart = 200 * time.Millisecond
	first := median(c.told())
	for range 3 {
		select {
		case <-time.After(apart):
		case <-c.ctx.Done():
			c.Fatal(c.ctx.Err())
		}
		next := median(c.told())
		if went := next.Sub(first); went < apart/2 || went > 10*apart {
			c.Errorf("%s went by, and the servers' clocks went on by %s", apart, went)
		}
		first = next
	}
}

func timeAskedByMany(c *trial) {
	errs := make(chan error, 16)
	for range cap(errs) {
		go func() {
			told, err := c.set.Time.Time(c.ctx)
			if err == nil && len(told) == 0 {
				err = mayfly.Errorf(mayfly.Unavailable, "nobody told the time")
			}
			errs <- err
		}()
	}
	for range cap(errs) {
		c.must(<-errs)
	}
}

func timeGivenUp(c *trial) {
	ctx, cancel := context.WithCancel(c.ctx)
	cancel()
	if told, err := c.set.Time.Time(ctx); err == nil {
		c.Errorf("%v to a question that was given up", told)
	}
}

func median(all []mayfly.Instant) mayfly.Instant {
	return slices.Sorted(slices.Values(all))[len(all)/2]
}
