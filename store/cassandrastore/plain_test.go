package cassandrastore

import (
	"sync"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/product/story"
	"github.com/mayflyhq/mayfly/store"
)

func TestTimestampsOfOneProcessAlwaysGrow(t *testing.T) {
	times := []mayfly.Instant{5, 5, 4, 100, 100, 3, 101}
	s := stamps{now: func() mayfly.Instant { return times[0] }}
	last := int64(0)
	for len(times) > 0 {
		for range 3 {
			if next := s.next(); next <= last {
				t.Fatalf("%d after %d", next, last)
			} else {
				last = next
			}
		}
		times = append(times[:0:0], times[1:]...)
		if len(times) == 0 {
			break
		}
	}
	if last != 101_002 {
		t.Errorf("the last stamp is %d, want 101002: the clock is followed when it is ahead", last)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen := map[int64]bool{}
	still := stamps{now: func() mayfly.Instant { return 7 }}
	for range 8 {
		wg.Go(func() {
			for range 500 {
				stamp := still.next()
				mu.Lock()
				if seen[stamp] {
					t.Errorf("stamp %d twice", stamp)
				}
				seen[stamp] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

func TestATTLIsNeverEarly(t *testing.T) {
	now := testBirth
	for _, c := range []struct {
		table store.Table
		at    mayfly.Instant
		want  int
	}{
		{story.Views, 0, 0},
		{story.Views, now.Add(-time.Hour), 600},
		{story.Views, now, 600},
		{story.Views, now + 1, 601},
		{story.Views, now.Add(time.Hour), 4200},
		{story.Views, now.Add(6 * 365 * 24 * time.Hour), 0},
		{engine.Owners, now.Add(time.Hour), 0},
		{remind.Reminders, now.Add(time.Hour), 0},
	} {
		if got := ttl(c.table, c.at, now); got != c.want {
			t.Errorf("ttl(%s, now%+d ms) = %d, want %d", c.table, c.at-now, got, c.want)
		}
	}
}

func TestRequestsAreLimitedInSizeAndLoseNothing(t *testing.T) {
	for _, size := range []int{1, 700, fewestBytes, 3 * fewestBytes} {
		writes := make([]plainWrite, 1001)
		for i := range writes {
			writes[i] = plainWrite{size: size}
		}
		total := 0
		for _, request := range requests(writes) {
			bytes := 0
			for _, w := range request {
				bytes += w.size
			}
			if len(request) == 0 || len(request) > mostRows || bytes >= fewestBytes+size {
				t.Errorf("writes of %d bytes: a request of %d rows, %d bytes", size, len(request), bytes)
			}
			total += len(request)
		}
		if total != len(writes) {
			t.Errorf("writes of %d bytes: %d of %d are in requests", size, total, len(writes))
		}
	}
}
