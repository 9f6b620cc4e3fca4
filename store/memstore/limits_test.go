package memstore

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

const noon = mayfly.Instant(1_800_000_000_000)

func mustTake(t testing.TB, l *Limits, key string, rate store.Rate, cost int, now mayfly.Instant) store.Taken {
	t.Helper()
	taken, err := l.Take(t.Context(), key, rate, cost, now)
	if err != nil {
		t.Fatal(err)
	}
	return taken
}

func TestARefusedCallerFitsExactlyAfterRetryAfter(t *testing.T) {
	l, rate := NewLimits(0), store.Rate{Count: 300, Per: 3 * time.Hour}
	mustTake(t, l, "ana", rate, 300, noon)
	for _, cost := range []int{1, 7, 300} {
		taken := mustTake(t, l, "ana", rate, cost, noon)
		if taken.OK || taken.RetryAfter != time.Duration(cost)*36*time.Second {
			t.Errorf("cost %d: %+v", cost, taken)
		}
	}
	if got := mustTake(t, l, "ana", rate, 7, noon.Add(7*36*time.Second-time.Millisecond)); got.OK {
		t.Errorf("a millisecond early: %+v", got)
	}
	if got := mustTake(t, l, "ana", rate, 7, noon.Add(7*36*time.Second)); !got.OK || got.Left != 0 {
		t.Errorf("on time: %+v", got)
	}
}

func TestACountThatDoesNotDivideItsPeriodStillGivesAWholeBurst(t *testing.T) {
	for _, rate := range []store.Rate{{Count: 7, Per: time.Second}, {Count: 999_983, Per: time.Second}, {Count: 3, Per: time.Nanosecond}} {
		l := NewLimits(0)
		if got := mustTake(t, l, "ana", rate, rate.Count, noon); !got.OK || got.Left != 0 {
			t.Errorf("%+v: %+v", rate, got)
		}
		if got := mustTake(t, l, "ana", rate, 1, noon); got.OK {
			t.Errorf("%+v: one more than the count: %+v", rate, got)
		}
	}
}

func TestAClockThatGoesBackLocksNoUserOut(t *testing.T) {
	l, rate := NewLimits(0), store.Rate{Count: 10, Per: time.Minute}
	mustTake(t, l, "ana", rate, 10, noon.Add(30*24*time.Hour))
	if got := mustTake(t, l, "ana", rate, 10, noon); got.OK || got.RetryAfter > time.Minute {
		t.Errorf("after the clock came back: %+v", got)
	}
}

func TestARateThatMakesNoSenseIsInvalid(t *testing.T) {
	l := NewLimits(0)
	for _, c := range []struct {
		rate store.Rate
		cost int
	}{{store.Rate{}, 1}, {store.Rate{Count: 1}, 1}, {store.Rate{Count: -1, Per: 1}, 1}, {store.Rate{Count: 1, Per: 1}, 2}, {store.Rate{Count: 1, Per: 1}, -1}} {
		if _, err := l.Take(t.Context(), "ana", c.rate, c.cost, noon); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func (l *Limits) keys() int {
	n := 0
	for i := range l.shards {
		n += len(l.shards[i].fullAt)
	}
	return n
}

func TestFullBucketsAreForgotten(t *testing.T) {
	l, rate := NewLimits(0), store.Rate{Count: 10, Per: time.Second}
	for i := range 200_000 { // a thousand takers a second, none of them twice
		mustTake(t, l, fmt.Sprint(i), rate, 1, noon.Add(time.Duration(i)*time.Millisecond))
	}
	if n := l.keys(); n > limitShards*smallestWave*2 {
		t.Errorf("%d buckets are kept, and about 100 are not full", n)
	}
}

func TestMemoryIsBoundedWhileNoBucketIsFull(t *testing.T) {
	l, rate := NewLimits(6400), store.Rate{Count: 10, Per: time.Hour}
	mustTake(t, l, "the busiest", rate, 10, noon)
	for i := range 100_000 {
		mustTake(t, l, fmt.Sprint(i), rate, 1, noon)
		if n := l.keys(); i%10_000 == 0 && n > 6400 {
			t.Fatalf("%d buckets are kept of 6400 allowed", n)
		}
	}
	if got := mustTake(t, l, "the busiest", rate, 1, noon); got.OK {
		t.Error("made-up keys drove out the bucket that was emptiest")
	}
}

func TestNoWindowEverGivesMoreThanTwiceTheCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := store.Rate{Count: rapid.IntRange(1, 50).Draw(t, "count"), Per: time.Duration(rapid.IntRange(1, 100_000).Draw(t, "ms")) * time.Millisecond}
		var fullAt, at time.Duration
		var given []time.Duration
		for _, step := range rapid.SliceOfN(rapid.IntRange(0, 3000), 1, 200).Draw(t, "steps") {
			at += time.Duration(step) * time.Millisecond
			var got store.Taken
			if got, fullAt = take(fullAt, rate, 1, at); got.OK {
				given = append(given, at)
			}
			if got.Left < 0 || got.Left > rate.Count || got.OK != (got.RetryAfter == 0) {
				t.Fatalf("%+v of %+v", got, rate)
			}
			inWindow := 0
			for _, g := range given {
				if g > at-rate.Per {
					inWindow++
				}
			}
			if inWindow > 2*rate.Count { // a burst, and what comes back meanwhile
				t.Fatalf("%d given in %s at a rate of %d", inWindow, rate.Per, rate.Count)
			}
		}
	})
}
