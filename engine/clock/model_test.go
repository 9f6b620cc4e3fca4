package clock_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mayflyhq/mayfly/engine/clock"
	"github.com/mayflyhq/mayfly/test/pace"
)

// TestRandomChangesOfTheMachineKeepTheInvariants changes a machine at random and
// checks the rules of the clock after every change (L7, I9).
func TestRandomChangesOfTheMachineKeepTheInvariants(t *testing.T) {
	unconfirmed, reboots := 0, 0
	check := func(t *rapid.T) {
		m := &model{machine: clock.NewManual(noon)}
		m.start()
		m.look(t)
		t.Repeat(map[string]func(*rapid.T){
			"time passes":   func(t *rapid.T) { m.pass(t, duration(0, 2*time.Hour).Draw(t, "d")) },
			"suspended":     func(t *rapid.T) { m.pass(t, duration(0, 60*day).Draw(t, "d")) },
			"small step":    func(t *rapid.T) { m.step(t, duration(-5*time.Minute, 5*time.Minute).Draw(t, "d")) },
			"large step":    func(t *rapid.T) { m.step(t, duration(-60*day, 60*day).Draw(t, "d")) },
			"corrected":     func(t *rapid.T) { m.step(t, m.clock.Read().Steady.Sub(m.clock.Read().Wall)) },
			"synchronised":  func(t *rapid.T) { m.machine.Synchronise(true); m.pass(t, time.Second); m.agreed(t) },
			"confirmed":     func(t *rapid.T) { m.clock.Confirm(); m.look(t); m.agreed(t) },
			"restarted":     func(t *rapid.T) { m.crash(t); m.restart(t, duration(0, 60*day).Draw(t, "down")) },
			"rebooted":      func(t *rapid.T) { m.crash(t); m.reboot(t, duration(-60*day, 60*day).Draw(t, "off")); reboots++ },
			"":              func(t *rapid.T) { m.look(t) },
			"time passes 2": func(t *rapid.T) { m.pass(t, duration(0, 3*time.Second).Draw(t, "d")) },
		})
		unconfirmed += m.unconfirmed
	}
	rapid.Check(t, check)
	for more := 0; more < 5 && unconfirmed < pace.Least(50); more++ { // chance may make few large steps
		rapid.Check(t, check)
	}
	if unconfirmed < pace.Least(50) || reboots < pace.Least(50) {
		t.Fatalf("too little was tried: %d unconfirmed, %d reboots", unconfirmed, reboots)
	}
	t.Logf("%d unconfirmed readings, %d reboots", unconfirmed, reboots)
}

func duration(from, to time.Duration) *rapid.Generator[time.Duration] {
	return rapid.Map(rapid.Int64Range(int64(from/time.Microsecond), int64(to/time.Microsecond)),
		func(us int64) time.Duration { return time.Duration(us) * time.Microsecond })
}

// model is a machine with a clock and what was read from it.
type model struct {
	machine     *clock.Manual
	clock       *clock.Clock
	saved       clock.Mark
	last        clock.Reading
	sure        clock.Reading // the last one that was confirmed
	unconfirmed int
}

const (
	limit = 5 * time.Minute
	tick  = 2 * time.Millisecond // rounding error
)

func (m *model) start() { m.clock = clock.New(m.machine.Source(), clock.Options{}, m.saved) }

// look reads the clock and saves its mark, as the node's loop does, and checks what
// must always be true.
func (m *model) look(t *rapid.T) clock.Reading {
	was, r := m.last, m.clock.Read()
	m.last = r
	ahead := r.Wall.Sub(r.Steady)
	switch {
	case r.Steady < was.Steady:
		t.Fatalf("the confirmed time went back from %s to %s (I9)", was.Steady, r.Steady)
	case r.Now < was.Now && was.Confirmed:
		t.Fatalf("time went back from a confirmed %s to %s (I9)", was.Now, r.Now)
	case r.Now < r.Steady:
		t.Fatalf("now is %s, below the confirmed %s", r.Now, r.Steady)
	case r.Confirmed != (r.Err == nil) || r.Confirmed && r.Now != r.Steady:
		t.Fatalf("inconsistent: %+v", r)
	case r.Confirmed && ahead > tick:
		t.Fatalf("confirmed %s behind the wall clock", ahead)
	case !r.Confirmed && (ahead < limit-tick || r.Now != r.Wall):
		t.Fatalf("unconfirmed without a reason: %+v", r)
	}
	mark, ok := m.clock.Mark()
	if ok != r.Confirmed {
		t.Fatalf("mark %+v of %+v", mark, r)
	}
	if ok {
		if mark.At < m.saved.At || mark.At < r.Steady || mark.At.Sub(r.Steady) > tick {
			t.Fatalf("mark %+v after %+v, of %+v", mark, m.saved, r)
		}
		m.saved = mark
		m.sure = r
	} else {
		m.unconfirmed++
	}
	return r
}

// pass lets time pass: the clock advances at full speed or a tenth slower.
func (m *model) pass(t *rapid.T, d time.Duration) {
	was := m.last
	m.machine.Advance(d)
	r := m.look(t)
	if !was.Confirmed && r.Confirmed {
		return // synchronised meanwhile
	}
	if rose := r.Steady.Sub(was.Steady); rose < d-d/10-tick || rose > d+tick {
		t.Fatalf("rose by %s in %s", rose, d)
	}
	if behind := was.Steady.Sub(was.Wall); was.Confirmed && behind < limit && d >= 10*behind+tick {
		m.agreed(t)
	}
}

// step steps the wall clock: the confirmed time follows only small forward steps.
func (m *model) step(t *rapid.T, d time.Duration) {
	was := m.last
	m.machine.Step(d)
	r := m.look(t)
	rose, ahead := r.Steady.Sub(was.Steady), r.Wall.Sub(was.Steady)
	switch {
	case ahead > limit+tick && r.Confirmed && was.Confirmed:
		t.Fatalf("followed %s at once", ahead)
	case ahead > tick && ahead < limit-tick && !r.Confirmed:
		t.Fatalf("did not follow %s", ahead)
	case ahead <= 0 && rose > tick:
		t.Fatalf("rose by %s without a reason", rose)
	}
}

// agreed checks that the clock follows the wall clock.
func (m *model) agreed(t *rapid.T) {
	if r := m.last; !r.Confirmed || r.Steady.Sub(r.Wall) < -tick {
		t.Fatalf("differs from the wall clock: %+v", r)
	}
}

// crash ends the process up to a save period after the last mark. Its unconfirmed
// readings do not limit the next process: nothing was ended because of them.
func (m *model) crash(t *rapid.T) {
	m.machine.Advance(duration(0, time.Second).Draw(t, "unsaved"))
	if r := m.clock.Read(); r.Confirmed {
		m.sure = r
	}
	m.last = m.sure
}

func (m *model) restart(t *rapid.T, down time.Duration) {
	was, sure := m.last, m.clock.Read().Confirmed
	m.machine.Advance(down)
	m.start()
	r := m.look(t)
	if rose := r.Steady.Sub(was.Steady); sure && (rose < down-tick || rose > down+limit+tick) {
		t.Fatalf("rose by %s in %s of downtime", rose, down)
	}
}

// reboot turns the machine off; a negative time is a wall clock that went back.
func (m *model) reboot(t *rapid.T, off time.Duration) {
	saved := m.saved
	m.machine.Reboot(0)
	m.machine.Step(off)
	m.start()
	r := m.look(t)
	if saved.At == 0 {
		return
	}
	switch gap := r.Wall.Sub(saved.At); {
	case gap > 30*day+tick && r.Confirmed:
		t.Fatalf("a gap of %s was confirmed as an outage", gap)
	case gap < 30*day-tick && !r.Confirmed:
		t.Fatalf("a gap of %s was not confirmed", gap)
	case gap <= 0 && r.Steady > saved.Ceiling:
		t.Fatalf("started at %s with the wall clock behind, above the ceiling %s", r.Steady, saved.Ceiling)
	}
}
