package clock_test

import (
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/clock"
)

// TestStarts saves a mark an hour after the first start, changes the machine, and
// starts the clock again.
func TestStarts(t *testing.T) {
	const hour = time.Hour
	saved := noon.Add(hour)
	type machine = *clock.Manual
	cases := []struct {
		name    string
		between func(machine)
		steady  mayfly.Instant
		now     mayfly.Instant // when unconfirmed
	}{
		{"same boot at once", func(machine) {}, saved, 0},
		{"same boot ten minutes later", func(m machine) { m.Advance(10 * time.Minute) }, saved.Add(10 * time.Minute), 0},
		{"same boot after a suspension of a year", func(m machine) { m.Advance(365 * day) }, saved.Add(365 * day), 0},
		{"same boot wall 48 h back", func(m machine) { m.Advance(hour); m.Step(-48 * hour) }, saved.Add(hour), 0},
		{"same boot wall a little back", func(m machine) { m.Advance(hour); m.Step(-time.Minute) }, saved.Add(hour), 0},
		{"same boot wall a little ahead", func(m machine) { m.Advance(hour); m.Step(time.Minute) }, saved.Add(hour + time.Minute), 0},
		{"same boot wall 30 d ahead", func(m machine) { m.Advance(hour); m.Step(30 * day) }, saved.Add(hour), saved.Add(hour + 30*day)},
		{"same boot wall 30 d ahead and synchronised", func(m machine) { m.Step(30 * day); m.Synchronise(true) }, saved.Add(30 * day), 0},
		{"reboot of ten minutes", func(m machine) { m.Reboot(10 * time.Minute) }, saved.Add(10 * time.Minute), 0},
		{"reboot of 30 d", func(m machine) { m.Reboot(30 * day) }, saved.Add(30 * day), 0},
		{"reboot of 31 d", func(m machine) { m.Reboot(31 * day) }, saved.Add(2 * time.Second), saved.Add(31 * day)},
		{"reboot of 31 d and synchronised", func(m machine) { m.Reboot(31 * day); m.Synchronise(true) }, saved.Add(31 * day), 0},
		{"reboot wall 48 h back", func(m machine) { m.Reboot(hour); m.Step(-48 * hour) }, saved.Add(2 * time.Second), 0},
		{"reboot wall at the epoch", func(m machine) { m.Reboot(hour); m.Step(-time.Duration(noon) * time.Millisecond) }, saved.Add(2 * time.Second), 0},
		{"reboot quicker than the ceiling", func(m machine) { m.Reboot(time.Second) }, saved.Add(2 * time.Second), 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := newFixture(t)
			b.machine.Advance(hour)
			b.save()
			c.between(b.machine)
			b.start()
			if c.now == 0 {
				b.confirmedAt(c.steady)
			} else {
				b.unconfirmedAt(c.now, c.steady)
			}
		})
	}
}

func TestUnsavedTimeIsNotLostOnTheSameBoot(t *testing.T) {
	b := newFixture(t)
	b.save()
	b.machine.Advance(time.Hour) // no mark was saved meanwhile
	b.machine.Step(-2 * day)
	b.confirmedAt(noon.Add(time.Hour))
	b.start()
	b.confirmedAt(noon.Add(time.Hour))
}

func TestLongOutageIsConfirmedOrUndone(t *testing.T) {
	boot := func(t *testing.T) *fixture {
		b := newFixture(t)
		b.save()
		b.machine.Reboot(40 * day)
		b.start()
		b.unconfirmedAt(noon.Add(40*day), noon.Add(2*time.Second))
		return b
	}
	t.Run("confirmed", func(t *testing.T) {
		b := boot(t)
		b.clock.Confirm()
		b.confirmedAt(noon.Add(40 * day))
	})
	t.Run("taken back to an ordinary outage", func(t *testing.T) {
		b := boot(t)
		b.machine.Step(-20 * day)
		b.confirmedAt(noon.Add(20 * day))
		b.machine.Step(time.Hour) // from now on the limit of a running clock applies
		b.unconfirmedAt(noon.Add(20*day+time.Hour), noon.Add(20*day))
	})
	t.Run("restarted while unconfirmed", func(t *testing.T) {
		b := boot(t)
		b.machine.Advance(time.Minute)
		b.start()
		b.unconfirmedAt(noon.Add(40*day+time.Minute), noon.Add(2*time.Second))
	})
}

func TestOutageAllowanceEndsWithTheFirstReading(t *testing.T) {
	b := newFixture(t)
	b.save()
	b.machine.Reboot(2 * time.Second) // exactly at the ceiling: nothing to correct
	b.start()
	b.machine.Step(10 * day)
	b.unconfirmedAt(noon.Add(10*day+2*time.Second), noon.Add(2*time.Second))
}

func TestConfirmedStepStaysOverRestartAndReboot(t *testing.T) {
	b := newFixture(t)
	b.machine.Step(30 * day)
	b.clock.Confirm()
	b.save()
	b.machine.Step(-30 * day)
	b.machine.Advance(time.Minute)
	b.start()
	b.confirmedAt(noon.Add(30*day + time.Minute))
	b.save()
	b.machine.Reboot(time.Minute)
	b.start()
	b.confirmedAt(noon.Add(30*day + time.Minute + 2*time.Second))
}

func TestWithoutABootIDEveryStartIsAReboot(t *testing.T) {
	b := newFixture(t)
	source := b.machine.Source()
	source.BootID = ""
	c := clock.New(source, clock.Options{}, clock.Mark{At: noon, Ceiling: noon.Add(2 * time.Second)})
	if r := c.Read(); r.Now != noon.Add(2*time.Second) || !r.Confirmed {
		t.Fatalf("read %+v", r)
	}
}

func TestBootTimeThatWentBackIsAnotherBoot(t *testing.T) {
	b := newFixture(t)
	b.machine.Advance(time.Hour)
	b.save()
	b.saved.Boot += time.Hour // as after a restored snapshot
	b.start()
	b.confirmedAt(noon.Add(time.Hour + 2*time.Second))
}
