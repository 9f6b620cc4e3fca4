package clock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/clock"
)

const (
	noon = mayfly.Instant(1_790_000_000_000)
	day  = 24 * time.Hour
)

// fixture is a machine with a clock and the last saved mark.
type fixture struct {
	t       testing.TB
	machine *clock.Manual
	clock   *clock.Clock
	saved   clock.Mark
}

func newFixture(t testing.TB) *fixture {
	b := &fixture{t: t, machine: clock.NewManual(noon)}
	b.start()
	return b
}

func (b *fixture) start() { b.clock = clock.New(b.machine.Source(), clock.Options{}, b.saved) }

func (b *fixture) save() bool {
	mark, ok := b.clock.Mark()
	if ok {
		b.saved = mark
	}
	return ok
}

func (b *fixture) confirmedAt(want mayfly.Instant) {
	b.t.Helper()
	r := b.clock.Read()
	if r.Now != want || r.Steady != want || !r.Confirmed || r.Err != nil {
		b.t.Fatalf("read %+v, want confirmed %s", r, want)
	}
}

func (b *fixture) unconfirmedAt(now, steady mayfly.Instant) {
	b.t.Helper()
	r := b.clock.Read()
	if r.Now != now || r.Steady != steady || r.Confirmed || !errors.Is(r.Err, mayfly.Unavailable) {
		b.t.Fatalf("read %+v, want unconfirmed %s above steady %s", r, now, steady)
	}
	var e *mayfly.Error
	if !errors.As(r.Err, &e) || e.Hint == "" {
		b.t.Fatalf("no hint in %v", r.Err)
	}
	if mark, ok := b.clock.Mark(); ok {
		b.t.Fatalf("mark %+v while unconfirmed", mark)
	}
}

func TestFirstStartTakesTheWallClock(t *testing.T) {
	b := newFixture(t)
	b.confirmedAt(noon)
	b.machine.Advance(90 * time.Minute)
	b.confirmedAt(noon.Add(90 * time.Minute))
}

func TestSuspensionCountsAsTime(t *testing.T) {
	b := newFixture(t)
	b.machine.Advance(3 * day) // wall and boot time both count it: no step
	b.confirmedAt(noon.Add(3 * day))
}

func TestSmallForwardCorrectionIsFollowedAtOnce(t *testing.T) {
	b := newFixture(t)
	b.machine.Step(5 * time.Minute)
	b.confirmedAt(noon.Add(5 * time.Minute))
	b.machine.Step(20 * time.Millisecond)
	b.confirmedAt(noon.Add(5*time.Minute + 20*time.Millisecond))
}

func TestSmallBackwardCorrectionSlowsTheClock(t *testing.T) {
	b := newFixture(t)
	b.machine.Step(-time.Minute)
	b.confirmedAt(noon) // it does not go back
	b.machine.Advance(10 * time.Second)
	b.confirmedAt(noon.Add(9 * time.Second)) // and does not stop
	for range 700 {
		b.machine.Advance(time.Second)
		b.clock.Read()
	}
	b.confirmedAt(noon.Add(650 * time.Second)) // the wall clock: 710 s later, one minute back
}

func TestLargeBackwardStepIsIgnored(t *testing.T) {
	b := newFixture(t)
	b.machine.Step(-2 * day)
	for range 100 {
		b.confirmedAt(b.clock.Read().Now)
		b.machine.Advance(time.Minute)
	}
	b.confirmedAt(noon.Add(100 * time.Minute))
	b.machine.Step(2 * day) // corrected: they agree again
	b.confirmedAt(noon.Add(100 * time.Minute))
}

func TestLargeForwardStepChangesNowButNotSteady(t *testing.T) {
	b := newFixture(t)
	b.machine.Step(30 * day)
	b.unconfirmedAt(noon.Add(30*day), noon)
	b.machine.Advance(time.Hour)
	b.unconfirmedAt(noon.Add(30*day+time.Hour), noon.Add(time.Hour))
	b.machine.Step(-30 * day)
	b.confirmedAt(noon.Add(time.Hour))
}

func TestStepIsConfirmedByASynchronisedSystem(t *testing.T) {
	b := newFixture(t)
	b.machine.Step(30 * day)
	b.unconfirmedAt(noon.Add(30*day), noon)
	b.machine.Synchronise(true)
	b.machine.Advance(time.Second) // it asks once a second
	b.confirmedAt(noon.Add(30*day + time.Second))
	b.machine.Step(-30 * day) // too late: time does not go back
	b.confirmedAt(noon.Add(30*day + time.Second))
}

func TestStepIsConfirmedByAnOperator(t *testing.T) {
	b := newFixture(t)
	b.clock.Confirm() // there is nothing to confirm
	b.confirmedAt(noon)
	b.machine.Step(30 * day)
	b.unconfirmedAt(noon.Add(30*day), noon)
	if r := b.clock.Confirm(); !r.Confirmed || r.Now != noon.Add(30*day) {
		t.Fatalf("confirmed as %+v", r)
	}
	b.machine.Step(time.Hour) // the next step is another one
	b.unconfirmedAt(noon.Add(30*day+time.Hour), noon.Add(30*day))
}

func TestStepsAreMeasuredFromTheConfirmedTime(t *testing.T) {
	b := newFixture(t)
	b.machine.Step(time.Hour)
	b.unconfirmedAt(noon.Add(time.Hour), noon)
	b.machine.Step(day)
	b.unconfirmedAt(noon.Add(day+time.Hour), noon)
	b.machine.Step(-day) // taken back in part
	b.unconfirmedAt(noon.Add(time.Hour), noon)
	b.machine.Step(-57 * time.Minute) // the rest is a small correction
	b.confirmedAt(noon.Add(3 * time.Minute))
}

func TestStepDuringSuspensionIsUnconfirmed(t *testing.T) {
	b := newFixture(t)
	b.machine.Advance(8 * time.Hour)
	b.machine.Step(day)
	b.unconfirmedAt(noon.Add(8*time.Hour+day), noon.Add(8*time.Hour))
}

func TestStepUndoneToBelowTheConfirmedTimeIsIgnored(t *testing.T) {
	b := newFixture(t)
	b.machine.Step(30 * day)
	b.unconfirmedAt(noon.Add(30*day), noon)
	b.machine.Advance(time.Hour)
	b.machine.Step(-32 * day)
	b.confirmedAt(noon.Add(time.Hour))
}

func TestJumpedIsCalledAfterLargeCorrectionsOnly(t *testing.T) {
	machine := clock.NewManual(noon)
	jumps := 0
	c := clock.New(machine.Source(), clock.Options{Jumped: func() { jumps++ }}, clock.Mark{})
	for _, step := range []struct {
		by   time.Duration
		want int
	}{{20 * time.Millisecond, 0}, {2 * time.Second, 1}, {-time.Minute, 1}, {2 * time.Minute, 2}, {day, 2}} {
		machine.Step(step.by)
		if c.Read(); jumps != step.want {
			t.Fatalf("after a step of %s: %d jumps, want %d", step.by, jumps, step.want)
		}
	}
	if c.Confirm(); jumps != 3 {
		t.Fatalf("%d jumps after a confirmation, want 3", jumps)
	}
}
