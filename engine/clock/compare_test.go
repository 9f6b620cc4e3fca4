package clock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/clock"
	"github.com/mayflyhq/mayfly/test/pace"
)

// cluster is a machine with servers, most of which have the right time.
type cluster struct {
	machine *clock.Manual
	clock   *clock.Clock
	saved   clock.Mark
	truth   mayfly.Instant // in whole milliseconds
	slow    time.Duration  // how long an answer takes
	away    error
	jumps   int
}

func newCluster(off time.Duration) *cluster {
	w := &cluster{machine: clock.NewManual(noon.Add(off)), truth: noon}
	w.start()
	return w
}

func (w *cluster) start() {
	w.clock = clock.New(w.machine.Source(), clock.Options{Skew: skew, Jumped: func() { w.jumps++ }}, w.saved)
}

func (w *cluster) pass(d time.Duration) {
	w.machine.Advance(d)
	w.truth = w.truth.Add(d)
}

func (w *cluster) compare() error {
	return w.clock.Compare(context.Background(), func(context.Context) ([]mayfly.Instant, error) {
		w.pass(w.slow)
		return []mayfly.Instant{w.truth, w.truth.Add(-time.Hour), w.truth}, w.away // one of three is wrong
	})
}

func (w *cluster) mustCompare(t *testing.T) {
	t.Helper()
	if err := w.compare(); err != nil {
		t.Fatal(err)
	}
}

func (w *cluster) wantOff(t *testing.T, words ...string) {
	t.Helper()
	r := w.clock.Read()
	var hinted *mayfly.Error
	if !r.Off || r.Confirmed || !errors.Is(r.Err, mayfly.Unavailable) || !errors.As(r.Err, &hinted) || hinted.Hint == "" {
		t.Fatalf("%+v, want it off with a hint", r)
	}
	for _, word := range words {
		if !strings.Contains(r.Err.Error(), word) {
			t.Errorf("%q does not say %q", r.Err, word)
		}
	}
	if mark, ok := w.clock.Mark(); ok {
		t.Errorf("a clock that is off returned the mark %+v", mark)
	}
}

func (w *cluster) wantRight(t *testing.T) {
	t.Helper()
	if r := w.clock.Read(); r.Off || !r.Confirmed || r.Err != nil || r.Steady.Sub(w.truth).Abs() > skew {
		t.Fatalf("%+v, want it right at %s", r, w.truth)
	}
	if _, ok := w.clock.Mark(); !ok {
		t.Error("a clock that is right returned no mark")
	}
}

func TestAClockThatWasNeverComparedIsOff(t *testing.T) {
	w := newCluster(0)
	w.wantOff(t, "not been compared")
	w.away = mayfly.Errorf(mayfly.Unavailable, "away")
	if err := w.compare(); !errors.Is(err, mayfly.Unavailable) {
		t.Errorf("%v", err)
	}
	w.wantOff(t, "not been compared")
	w.away, w.slow = nil, time.Second // too slow to be decisive
	w.mustCompare(t)
	w.wantOff(t, "not been compared")
	w.slow = 10 * time.Millisecond
	w.mustCompare(t)
	w.wantRight(t)
}

func TestAComparisonWithoutServersFails(t *testing.T) {
	w := newCluster(0)
	if err := w.clock.Compare(t.Context(), func(context.Context) ([]mayfly.Instant, error) { return nil, nil }); !errors.Is(err, mayfly.Unavailable) {
		t.Errorf("%v", err)
	}
	w.wantOff(t)
}

func TestAClockThatIsFarOffRecoversWhenTheWallClockIsCorrected(t *testing.T) {
	for way, off := range map[string]time.Duration{"ahead of": 61 * time.Minute, "behind": -61 * time.Minute} {
		t.Run(way, func(t *testing.T) {
			w := newCluster(off)
			w.mustCompare(t)
			w.wantOff(t, "1h1m0", way)
			w.pass(time.Minute)
			w.mustCompare(t)
			w.wantOff(t, "1h1m0", way)
			w.machine.Step(-off)
			w.wantOff(t) // not compared yet
			w.mustCompare(t)
			w.wantRight(t)
			if w.jumps == 0 {
				t.Error("Jumped was not called")
			}
		})
	}
}

// A node that compares with no server would follow this correction.
func TestACorrectionBeyondTheSkewIsOffAtOnceAndCanBeUndone(t *testing.T) {
	w := newCluster(0)
	w.mustCompare(t)
	before := w.clock.Read().Steady
	w.machine.Step(4 * time.Minute)
	w.wantOff(t, "4m0", "ahead of") // without another comparison
	w.pass(time.Second)
	w.mustCompare(t)
	w.wantOff(t, "4m0", "ahead of")
	w.machine.Step(-4 * time.Minute)
	w.mustCompare(t)
	w.wantRight(t)
	if now := w.clock.Read().Steady; now < before {
		t.Errorf("time went back from %s to %s", before, now)
	}
}

// A time that was used is not undone, whatever the servers return now (I9).
func TestAClockIsNotSetBelowATimeThatWasUsed(t *testing.T) {
	w := newCluster(0)
	w.truth = w.truth.Add(time.Hour) // the servers are wrong by as much
	w.machine.Step(time.Hour)
	w.mustCompare(t)
	w.wantRight(t)
	used := w.clock.Read().Steady
	w.saved, _ = w.clock.Mark()
	w.truth = w.truth.Add(-time.Hour)
	w.machine.Step(-time.Hour)
	for range 2 { // also after a restart
		w.mustCompare(t)
		w.wantOff(t, "ahead of")
		w.pass(30*time.Minute - 2*time.Second)
		w.mustCompare(t)
		w.wantOff(t, "ahead of")
		w.start()
	}
	w.pass(6 * time.Second) // the true time has passed the time that was used
	w.mustCompare(t)
	w.wantRight(t)
	if now := w.clock.Read().Steady; now < used {
		t.Errorf("%s was used, and now it is %s", used, now)
	}
}

func TestTheServersConfirmAForwardStep(t *testing.T) {
	w := newCluster(-61 * time.Minute)
	w.machine.Step(61 * time.Minute)
	if r := w.clock.Read(); r.Confirmed || r.Now == r.Steady {
		t.Fatalf("%+v is confirmed", r)
	}
	w.mustCompare(t)
	w.wantRight(t)
}

// Only the wall clock is stepped: the confirmed time is right and stays right.
func TestAComparisonDoesNotConfirmAWrongStep(t *testing.T) {
	w := newCluster(0)
	w.mustCompare(t)
	w.machine.Step(61 * time.Minute)
	w.mustCompare(t)
	if r := w.clock.Read(); r.Off || r.Confirmed || r.Steady != w.truth {
		t.Errorf("%+v", r)
	}
}

// The response took 100 ms, so the range of the offset is 100 ms wide: after a step
// of 300 ms the clock may differ by more than the skew.
func TestACorrectionThatMayExceedTheSkewIsOff(t *testing.T) {
	w := newCluster(0)
	w.slow = 100 * time.Millisecond
	w.mustCompare(t)
	w.wantRight(t)
	w.machine.Step(300 * time.Millisecond)
	w.wantOff(t, "corrected", "may be 301ms off")
	w.machine.Step(-300 * time.Millisecond)
	w.mustCompare(t)
	w.wantRight(t)
}

func TestAComparisonIsValidForTenMinutes(t *testing.T) {
	w := newCluster(0)
	w.mustCompare(t)
	w.slow = 2 * time.Second // responses that are not decisive
	for range 9 {
		w.pass(time.Minute)
		w.mustCompare(t)
		w.wantRight(t)
	}
	w.pass(time.Minute)
	w.wantOff(t, "not been compared", "10m")
	w.slow = 0
	w.mustCompare(t)
	w.wantRight(t)
}

func TestTheOffsetIsKnownAfterTheFirstComparison(t *testing.T) {
	w := newCluster(100 * time.Millisecond)
	if o, ok := w.clock.Offset(); ok {
		t.Errorf("%+v without a comparison", o)
	}
	w.mustCompare(t)
	if o, ok := w.clock.Offset(); !ok || (o.Middle()-100*time.Millisecond).Abs() > 2*time.Millisecond {
		t.Errorf("%+v, %t", o, ok)
	}
}

// TestAWrongClockIsAlwaysOff changes a machine at random, with servers that are
// right, and compares every reading that is not off with the true time.
func TestAWrongClockIsAlwaysOff(t *testing.T) {
	offs, rights := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := newCluster(duration(-2*time.Hour, 2*time.Hour).Draw(t, "off").Truncate(time.Millisecond))
		var last mayfly.Instant
		draw := func(from, to time.Duration) time.Duration {
			return duration(from, to).Draw(t, "d").Truncate(time.Millisecond)
		}
		look := func() {
			r := w.clock.Read()
			mark, ok := w.clock.Mark()
			if ok != r.Confirmed {
				t.Fatalf("mark %t of %+v", ok, r)
			}
			if r.Off {
				offs++
				return
			}
			rights++
			if by := r.Steady.Sub(w.truth); by.Abs() > skew+tick {
				t.Fatalf("the clock is %s off and in use", by)
			}
			if r.Steady < last {
				t.Fatalf("time went back from %s to %s (I9)", last, r.Steady)
			}
			last, w.saved = r.Steady, mark
		}
		t.Repeat(map[string]func(*rapid.T){
			"":            func(*rapid.T) { look() },
			"time passes": func(*rapid.T) { w.pass(draw(0, 20*time.Minute)) },
			"small step":  func(*rapid.T) { w.machine.Step(draw(-time.Second, time.Second)) },
			"step":        func(*rapid.T) { w.machine.Step(draw(-4*time.Minute, 4*time.Minute)) },
			"compared":    func(*rapid.T) { w.slow = draw(0, 600*time.Millisecond); _ = w.compare() },
			"restarted":   func(*rapid.T) { w.pass(draw(0, time.Hour)); w.start() },
			"rebooted":    func(*rapid.T) { w.machine.Reboot(0); w.start() },
			"corrected": func(t *rapid.T) {
				w.slow = 0
				w.machine.Step(w.truth.Sub(w.clock.Read().Wall))
				w.pass(3 * time.Second) // the ceiling of a mark is two seconds above it
				_ = w.compare()
				if r := w.clock.Read(); r.Off {
					t.Fatalf("corrected, but off: %+v", r)
				}
			},
		})
	})
	if offs < pace.Least(100) || rights < pace.Least(100) {
		t.Fatalf("too little was tried: %d readings off, %d right", offs, rights)
	}
	t.Logf("%d readings off, %d right", offs, rights)
}

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
		servers []mayfly.Instant // the clock itself returns noon
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
		{"a response as slow as the range is wide", 500 * ms, at(-250 * ms), clock.Undecided},
		{"a response of a minute shows an offset of 61 minutes", time.Minute, at(-61 * time.Minute), clock.Ahead},
		{"a response of a minute does not show that it is right", time.Minute, at(0), clock.Undecided},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := clock.OffsetOf(noon, c.took, c.servers)
			if got := o.Verdict(skew); got != c.want {
				t.Errorf("%+v: verdict %d, want %d", o, got, c.want)
			}
		})
	}
}

// However long the servers took, and whenever each of them read its clock: a
// verdict is true, and a fast response gives one.
func TestAVerdictIsTrueWhileMostServersAreRight(t *testing.T) {
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
		if given[v] < pace.Least(5) {
			t.Errorf("too little was tried: verdicts %v", given)
		}
	}
}

func nano(i mayfly.Instant) int64 { return int64(i) * int64(time.Millisecond) }
