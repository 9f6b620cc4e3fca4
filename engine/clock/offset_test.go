package clock_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/clock"
)

const skew = 250 * time.Millisecond

func TestOffsets(t *testing.T) {
	const ms = time.Millisecond
	at := func(all ...time.Duration) (servers []mayfly.Instant) {
		for _, d := range all {
			servers = append(servers, noon.Add(d))
		}
		return servers
	}
	for _, c := range []struct {
		name    string
		took    time.Duration
		servers []mayfly.Instant // against a clock that says noon
		want    clock.Standing
	}{
		{"one server that agrees", 0, at(0), clock.Within},
		{"three that agree", 5 * ms, at(-1*ms, 0, -3*ms), clock.Within},
		{"ahead by the bound", 0, at(-249 * ms), clock.Within},
		{"ahead by more, perhaps", 0, at(-250 * ms), clock.Undecided},
		{"ahead by more", 0, at(-252 * ms), clock.Ahead},
		{"behind by the bound", 0, at(249 * ms), clock.Within},
		{"behind by more, perhaps", 0, at(250 * ms), clock.Undecided},
		{"behind by more", 0, at(252 * ms), clock.Behind},
		{"61 minutes ahead", 40 * ms, at(-61*time.Minute, -61*time.Minute, -61*time.Minute), clock.Ahead},
		{"61 minutes behind", 40 * ms, at(61*time.Minute, 61*time.Minute, 61*time.Minute), clock.Behind},
		{"one of three servers is wrong", ms, at(0, -time.Hour, 0), clock.Within},
		{"one of three servers is wrong the other way", ms, at(time.Hour, 0, 0), clock.Within},
		{"two of three servers are wrong", ms, at(-time.Hour, -time.Hour, 0), clock.Ahead},
		{"two that disagree", ms, at(-time.Hour, 0), clock.Undecided},
		{"two of four are wrong", ms, at(-time.Hour, 0, 0, -time.Hour), clock.Undecided},
		{"an answer as slow as the bounds are wide", 500 * ms, at(-250 * ms), clock.Undecided},
		{"an answer that took a minute says that 61 are too many", time.Minute, at(-61 * time.Minute), clock.Ahead},
		{"an answer that took a minute does not say that it is right", time.Minute, at(0), clock.Undecided},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := clock.OffsetOf(noon, c.took, c.servers)
			if got := o.Verdict(skew); got != c.want {
				t.Errorf("%+v: verdict %d, want %d", o, got, c.want)
			}
		})
	}
}

// Whatever the question cost and whenever in it each server answered: a verdict
// that is given is true, and a quick answer gives one.
func TestAVerdictIsTrueWhileMostServersAre(t *testing.T) {
	given := map[clock.Standing]int{}
	rapid.Check(t, func(t *rapid.T) {
		truth := nano(noon) + rapid.Int64Range(0, 1_000_000).Draw(t, "within the millisecond")
		took := duration(0, time.Second).Draw(t, "took")
		off := duration(-skew*2, skew*2).Draw(t, "off")
		switch far := duration(2*time.Second, 90*time.Minute).Draw(t, "far off"); rapid.SampledFrom([]string{"near", "ahead", "behind", "slow"}).Draw(t, "where") {
		case "ahead":
			off = far
		case "behind":
			off = -far
		case "slow":
			took = duration(600*time.Millisecond, time.Second).Draw(t, "took long")
		}
		right := rapid.IntRange(1, 4).Draw(t, "right")
		wrong := rapid.IntRange(0, right-1).Draw(t, "wrong")
		var servers []mayfly.Instant
		for i := range right + wrong {
			said := truth - int64(duration(0, took).Draw(t, "ago"))
			if i >= right {
				said += int64(duration(-90*time.Minute, 90*time.Minute).Draw(t, "wrong by"))
			}
			servers = append(servers, mayfly.Instant(said/1e6))
		}
		o := clock.OffsetOf(mayfly.Instant((truth+int64(off))/1e6), took, servers)
		v := o.Verdict(skew)
		given[v]++
		switch {
		case off < o.Least || off > o.Most:
			t.Fatalf("off by %s, and the offset is %+v", off, o)
		case v == clock.Within && off.Abs() > skew, v == clock.Ahead && off <= skew, v == clock.Behind && off >= -skew:
			t.Fatalf("off by %s: verdict %d of %+v", off, v, o)
		case v == clock.Undecided && wrong == 0 && (off.Abs()-skew).Abs() > took+2*time.Millisecond:
			t.Fatalf("off by %s, asked in %s, and undecided: %+v", off, took, o)
		}
	})
	for v := clock.Undecided; v <= clock.Behind; v++ {
		if given[v] < 5 {
			t.Errorf("too little was tried: verdicts %v", given)
		}
	}
}

func nano(i mayfly.Instant) int64 { return int64(i) * int64(time.Millisecond) }
