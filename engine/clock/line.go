package clock

import (
	"time"

	"github.com/mayflyhq/mayfly"
)

const (
	// agree is how far two times may differ and still count as equal: wall and
	// boot time are not read at exactly the same instant.
	agree = int64(time.Millisecond)
	// ask is how often an unconfirmed clock asks whether the system is synchronised.
	ask = int64(time.Second)
	// brake slows a clock that is ahead of the wall clock by one part in ten.
	brake = 10
)

// line is the confirmed time as a function of boot time, valid while wall clock and
// boot time advance together. A line is immutable: when the wall clock is stepped,
// next returns the line that replaces it, which is never lower. All times are in
// nanoseconds.
type line struct {
	boot   int64 // boot time where the line begins
	wall   int64 // wall clock there
	steady int64 // confirmed time there
	slow   int64 // how long it runs slower, until the wall clock has caught up

	slack int64 // how far ahead the wall clock may be without confirmation
	doubt error // not nil while the wall clock is further ahead and not confirmed
}

// begin returns the line from which a clock continues at its start; next then
// applies the rules of a running clock to it (L7).
func begin(saved Mark, at Moment, bootID string, o Options) line {
	boot, limit := int64(at.Boot), int64(o.Limit)
	switch {
	case saved.At == 0: // a first start
		return line{boot: boot, steady: at.Wall, slack: limit}
	case bootID != "" && saved.BootID == bootID && saved.Boot <= at.Boot:
		// The same boot: boot time shows exactly how long the process was down.
		return line{boot: int64(saved.Boot), steady: nanos(saved.At), slack: limit}
	default:
		// A reboot: the downtime is not known. No time above the ceiling of the
		// mark was read.
		ceiling := nanos(max(saved.At, saved.Ceiling))
		return line{boot: boot, steady: ceiling, slack: nanos(saved.At) + int64(o.Outage) - ceiling}
	}
}

// next returns the line that continues l. It follows a wall clock that is a little
// ahead, runs slower than one that is a little behind, and ignores one that is far
// off.
func (l *line) next(at Moment, o Options, synchronised func() bool) line {
	n := line{boot: int64(at.Boot), wall: at.Wall, steady: l.at(at.Boot), slack: int64(o.Limit)}
	switch ahead := at.Wall - n.steady; {
	case ahead > l.slack && !synchronised():
		n.slack, n.doubt = l.slack, doubted(time.Duration(ahead), at.Wall)
	case ahead >= 0:
		n.steady = at.Wall
	case ahead >= -int64(o.Limit):
		n.slow = -ahead * brake
	}
	return n
}

// holds reports whether the line is still valid: the wall clock was not stepped
// since it began and, if unconfirmed, it is not yet time to ask the system again.
func (l *line) holds(at Moment) bool {
	passed := int64(at.Boot) - l.boot
	stepped := at.Wall - l.wall - passed
	return -agree <= stepped && stepped <= agree && (l.doubt == nil || passed < ask)
}

// at returns the confirmed time at a boot time. Before the beginning of the line it
// returns the time at the beginning: a reader that sampled boot time just before
// the line was replaced must not read less than from the old line.
func (l *line) at(boot time.Duration) int64 {
	passed := max(0, int64(boot)-l.boot)
	return l.steady + passed - min(passed, l.slow)/brake
}

// reading returns the reading of this line.
func (l *line) reading(at Moment) Reading {
	r := Reading{Steady: instant(l.at(at.Boot)), Wall: instant(at.Wall), Confirmed: l.doubt == nil, Err: l.doubt}
	r.Now = r.Steady
	if l.doubt != nil {
		r.Now = max(r.Now, r.Wall)
	}
	return r
}

func doubted(ahead time.Duration, wall int64) error {
	return mayfly.Errorf(mayfly.Unavailable, "the system clock stepped %s ahead, to %s, without confirmation", ahead.Round(time.Millisecond), instant(wall)).
		WithHint("nothing is published or erased until then: correct the clock, wait for time synchronisation, or confirm the new time")
}

func nanos(i mayfly.Instant) int64    { return int64(i) * int64(time.Millisecond) }
func instant(ns int64) mayfly.Instant { return mayfly.Instant(ns / int64(time.Millisecond)) }
