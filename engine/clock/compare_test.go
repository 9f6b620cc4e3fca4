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
)

// town is a machine beside servers whose clocks are right.
type town struct {
	machine *clock.Manual
	clock   *clock.Clock
	saved   clock.Mark
	truth   mayfly.Instant // in steps of milliseconds
	slow    time.Duration  // how long an answer takes
	away    error
	jumps   int
}

func newTown(off time.Duration) *town {
	w := &town{machine: clock.NewManual(noon.Add(off)), truth: noon}
	w.start()
	return w
}

func (w *town) start() {
	w.clock = clock.New(w.machine.Source(), clock.Options{Skew: skew, Jumped: func() { w.jumps++ }}, w.saved)
}

func (w *town) pass(d time.Duration) {
	w.machine.Advance(d)
	w.truth = w.truth.Add(d)
}

func (w *town) compare() error {
	return w.clock.Compare(context.Background(), func(context.Context) ([]mayfly.Instant, error) {
		w.pass(w.slow)
		return []mayfly.Instant{w.truth, w.truth.Add(-time.Hour), w.truth}, w.away // one of three is wrong
	})
}

func (w *town) mustCompare(t *testing.T) {
	t.Helper()
	if err := w.compare(); err != nil {
		t.Fatal(err)
	}
}

func (w *town) wantOff(t *testing.T, words ...string) {
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
		t.Errorf("a clock that is off left the mark %+v", mark)
	}
}

func (w *town) wantRight(t *testing.T) {
	t.Helper()
	if r := w.clock.Read(); r.Off || !r.Confirmed || r.Err != nil || r.Steady.Sub(w.truth).Abs() > skew {
		t.Fatalf("%+v, want it right at %s", r, w.truth)
	}
	if _, ok := w.clock.Mark(); !ok {
		t.Error("a clock that is right leaves no mark")
	}
}

func TestAClockThatWasNeverComparedIsOff(t *testing.T) {
	w := newTown(0)
	w.wantOff(t, "not been compared")
	w.away = mayfly.Errorf(mayfly.Unavailable, "away")
	if err := w.compare(); !errors.Is(err, mayfly.Unavailable) {
		t.Errorf("%v", err)
	}
	w.wantOff(t, "not been compared")
	w.away, w.slow = nil, time.Second // too slow to say
	w.mustCompare(t)
	w.wantOff(t, "not been compared")
	w.slow = 10 * time.Millisecond
	w.mustCompare(t)
	w.wantRight(t)
}

func TestAnAnswerOfNobodyIsNone(t *testing.T) {
	w := newTown(0)
	if err := w.clock.Compare(t.Context(), func(context.Context) ([]mayfly.Instant, error) { return nil, nil }); !errors.Is(err, mayfly.Unavailable) {
		t.Errorf("%v", err)
	}
	w.wantOff(t)
}

func TestAClockThatIsFarOffComesBackWhenTheWallIsSetRight(t *testing.T) {
	for way, off := range map[string]time.Duration{"ahead of": 61 * time.Minute, "behind": -61 * time.Minute} {
		t.Run(way, func(t *testing.T) {
			w := newTown(off)
			w.mustCompare(t)
			w.wantOff(t, "1h1m0", way)
			w.pass(time.Minute)
			w.mustCompare(t)
			w.wantOff(t, "1h1m0", way)
			w.machine.Step(-off)
			w.wantOff(t) // nobody has looked yet
			w.mustCompare(t)
			w.wantRight(t)
			if w.jumps == 0 {
				t.Error("nobody was told that there is a mark to save")
			}
		})
	}
}

// The correction is within the limit, and a node alone would follow it.
func TestACorrectionOutOfBoundIsOffAtOnceAndIsTakenBack(t *testing.T) {
	w := newTown(0)
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

// I9: what somebody went by is not taken back, whatever the servers say now.
func TestAClockIsNotSetBelowWhatWasGoneBy(t *testing.T) {
	w := newTown(0)
	w.truth = w.truth.Add(time.Hour) // the servers are wrong with it
	w.machine.Step(time.Hour)
	w.mustCompare(t)
	w.wantRight(t)
	gone := w.clock.Read().Steady
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
	w.pass(6 * time.Second) // the truth has come by where it was
	w.mustCompare(t)
	w.wantRight(t)
	if now := w.clock.Read().Steady; now < gone {
		t.Errorf("it was gone by %s, and now it is %s", gone, now)
	}
}

func TestAServerConfirmsAStepForward(t *testing.T) {
	w := newTown(-61 * time.Minute)
	w.machine.Step(61 * time.Minute)
	if r := w.clock.Read(); r.Confirmed || r.Now == r.Steady {
		t.Fatalf("%+v is not in doubt", r)
	}
	w.mustCompare(t)
	w.wantRight(t)
}

// A step of the wall alone: the confirmed time is right, and stays so.
func TestAStepInDoubtIsNotTakenForRight(t *testing.T) {
	w := newTown(0)
	w.mustCompare(t)
	w.machine.Step(61 * time.Minute)
	w.mustCompare(t)
	if r := w.clock.Read(); r.Off || r.Confirmed || r.Steady != w.truth {
		t.Errorf("%+v", r)
	}
}

// The answer took 100 ms, so the clock was up to 100 ms behind, for all it knows:
// what steps it by 300 ms may have taken it out of bound.
func TestACorrectionThatMayBeTooMuchIsNotTrusted(t *testing.T) {
	w := newTown(0)
	w.slow = 100 * time.Millisecond
	w.mustCompare(t)
	w.wantRight(t)
	w.machine.Step(300 * time.Millisecond)
	w.wantOff(t, "corrected", "may be 301ms off")
	w.machine.Step(-300 * time.Millisecond)
	w.mustCompare(t)
	w.wantRight(t)
}

func TestAComparisonHoldsForTenMinutes(t *testing.T) {
	w := newTown(0)
	w.mustCompare(t)
	w.slow = 2 * time.Second // answers that say nothing
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
	w := newTown(100 * time.Millisecond)
	if o, ok := w.clock.Offset(); ok {
		t.Errorf("%+v of nothing", o)
	}
	w.mustCompare(t)
	if o, ok := w.clock.Offset(); !ok || (o.Middle()-100*time.Millisecond).Abs() > 2*time.Millisecond {
		t.Errorf("%+v, %t", o, ok)
	}
}

// TestNobodyGoesByAWrongClock drives a machine at random beside servers that are
// right, and holds every reading that is not off to the truth.
func TestNobodyGoesByAWrongClock(t *testing.T) {
	offs, rights := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := newTown(duration(-2*time.Hour, 2*time.Hour).Draw(t, "off").Truncate(time.Millisecond))
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
				t.Fatalf("it is gone by a clock that is %s off", by)
			}
			if r.Steady < last {
				t.Fatalf("I9: it went back from %s to %s", last, r.Steady)
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
			"set right": func(t *rapid.T) {
				w.slow = 0
				w.machine.Step(w.truth.Sub(w.clock.Read().Wall))
				w.pass(3 * time.Second) // a mark's ceiling is two above it
				_ = w.compare()
				if r := w.clock.Read(); r.Off {
					t.Fatalf("set right and off: %+v", r)
				}
			},
		})
	})
	if offs < 100 || rights < 100 {
		t.Fatalf("too little was tried: %d readings off, %d right", offs, rights)
	}
	t.Logf("%d readings off, %d right", offs, rights)
}
