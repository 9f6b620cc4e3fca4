package profile

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
)

func TestATierThatCannotBeReclaimedHoldsNoOtherUpAndIsTriedAgainSoon(t *testing.T) {
	rowsAway, hotAway, coldAway := errors.New("rows"), errors.New("hot"), errors.New("cold")
	var failing []error
	calls := map[string]int{}
	part := func(name string, away error) reclaim {
		return func(context.Context, mayfly.Instant) error {
			calls[name]++
			for _, err := range failing {
				if err == away {
					return err
				}
			}
			return nil
		}
	}
	s := &Store{rows: part("rows", rowsAway), media: []reclaim{part("hot", hotAway), part("cold", coldAway)}, every: time.Hour}
	start := mayfly.Instant(1_800_000_000_000)
	for _, c := range []struct {
		after   time.Duration
		failing []error
		media   bool // are reclaimed
	}{
		{0, []error{hotAway}, true},
		{time.Minute, []error{hotAway}, false}, // not at once
		{5 * time.Minute, []error{rowsAway, hotAway, coldAway}, true},
		{9 * time.Minute, nil, false},
		{10 * time.Minute, nil, true}, // and then all went well
		{15 * time.Minute, []error{rowsAway}, false},
		{69 * time.Minute, nil, false},
		{70 * time.Minute, nil, true},
	} {
		clear(calls)
		failing = c.failing
		err := s.Reclaim(t.Context(), start.Add(c.after))
		want := map[bool]int{true: 1}[c.media]
		if calls["rows"] != 1 || calls["hot"] != want || calls["cold"] != want {
			t.Errorf("after %s: %v, want media %d times", c.after, calls, want)
		}
		for _, away := range []error{rowsAway, hotAway, coldAway} {
			failed := false
			for _, f := range c.failing {
				failed = failed || f == away && (c.media || away == rowsAway)
			}
			if errors.Is(err, away) != failed {
				t.Errorf("after %s: %v, which tells of %q: %t", c.after, err, away, !failed)
			}
		}
	}
}
