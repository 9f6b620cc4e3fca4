package walk

import (
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
)

func TestPauseIsLongOnTimeAndNothingWhenTheBudgetIsUsedUp(t *testing.T) {
	const ms, s = time.Millisecond, time.Second
	for _, tc := range []struct {
		name         string
		took, late   time.Duration
		budget       time.Duration
		idle         float64
		atLeast, max time.Duration
	}{
		{"early is on time", 10 * ms, -5 * s, 20 * s, 0.5, 10 * ms, 10 * ms},
		{"on time, half a core", 10 * ms, 0, 20 * s, 0.5, 10 * ms, 10 * ms},
		{"on time, a tenth of a core", 10 * ms, 0, 20 * s, 0.1, 90 * ms, 90 * ms},
		{"on time, a fifth over sixteen shards", 10 * ms, 0, 20 * s, 0.2 / 16, 790 * ms, 790 * ms},
		{"never more than a second", 500 * ms, 0, 20 * s, 0.01, s, s},
		{"half of the budget", 10 * ms, 10 * s, 20 * s, 0.1, 8 * ms, 9 * ms},
		{"nearly all of it", 10 * ms, 19 * s, 20 * s, 0.1, 1, ms},
		{"all of it", 10 * ms, 20 * s, 20 * s, 0.1, 0, 0},
		{"a day late", 10 * ms, 24 * time.Hour, 20 * s, 0.1, 0, 0},
		{"nothing was done", 0, 0, 20 * s, 0.1, 0, 0},
		{"a whole core on time", 10 * ms, 0, 20 * s, 1, 0, 0},
	} {
		if got := pause(tc.took, lateOf(tc.late, tc.budget), tc.idle); got < tc.atLeast || got > tc.max {
			t.Errorf("%s: %s, want %s to %s", tc.name, got, tc.atLeast, tc.max)
		}
	}
}

// lateOf is how late a walker with this budget calls an item that is late by late.
func lateOf(late, budget time.Duration) float64 {
	w := &Walker{o: Options{Budget: budget}}
	return w.late(0, look{onTime: mayfly.Instant(late.Milliseconds())})
}

// On time a walk takes small strides, so that no read waits behind a long one;
// the later it is the longer they are.
func TestStridesGrowWithLateness(t *testing.T) {
	for _, tc := range []struct {
		name               string
		late               time.Duration
		most, gentle, want int
		unpaced            bool
	}{
		{"on time", 0, 500, 50, 50, false},
		{"early", -time.Minute, 500, 50, 50, false},
		{"half of the budget", 10 * time.Second, 500, 50, 275, false},
		{"all of it", 20 * time.Second, 500, 50, 500, false},
		{"a day", 24 * time.Hour, 500, 50, 500, false},
		{"never more than the batch", 0, 20, 50, 20, false},
		{"unpaced", 0, 500, 50, 500, true},
	} {
		w := &Walker{o: Options{Budget: 20 * time.Second, Gentle: tc.gentle, Unpaced: tc.unpaced}}
		if got := w.stride(tc.most, 0, look{onTime: mayfly.Instant(tc.late.Milliseconds())}); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}

func TestPauseNeverGrowsWithLateness(t *testing.T) {
	last := time.Hour
	for late := time.Duration(0); late <= 25*time.Second; late += 100 * time.Millisecond {
		got := pause(10*time.Millisecond, lateOf(late, 20*time.Second), 0.0125)
		if got > last {
			t.Fatalf("at %s late it rests %s, before that %s", late, got, last)
		}
		last = got
	}
}

func TestETA(t *testing.T) {
	for _, tc := range []struct {
		lag   time.Duration
		speed float64
		want  time.Duration
	}{
		{0, 1, 0},
		{999 * time.Millisecond, 0, 0},
		{time.Hour, 0, -1},
		{time.Hour, 1, -1},
		{time.Hour, 0.5, -1},
		{time.Hour, 2, time.Hour},
		{time.Hour, 61, time.Minute},
	} {
		if got := eta(tc.lag, tc.speed); got != tc.want {
			t.Errorf("%s at speed %g: %s, want %s", tc.lag, tc.speed, got, tc.want)
		}
	}
}
