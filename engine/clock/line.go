package clock

import (
	"time"

	"github.com/mayflyhq/mayfly"
)

const (
	// agree is how far apart two times may be and count as one: wall and boot
	// time are not read at the same instant.
	agree = int64(time.Millisecond)
	// ask is how often a clock in doubt asks whether the system is synchronised.
	ask = int64(time.Second)
	// brake is how much slower a clock ahead of the wall runs: one part in ten.
	brake = 10
)

// line is the confirmed time as a function of boot time, for as long as the wall
// keeps step with boot time. It is never changed: when the wall is stepped, next
// makes the line that replaces it, and never a lower one. All in nanoseconds.
type line struct {
	boot   int64 // where the line begins
	wall   int64 // what the wall said there
	steady int64 // what the confirmed time was there
	slow   int64 // for how long it runs slowly, to let the wall catch up

	slack int64 // how far ahead the wall may be without being doubted
	doubt error // the wall is further ahead than that, and nobody has confirmed it
}

// begin is the line that a clock goes on from at its start (L7); next then
// applies the rules of a running clock to it.
func begin(saved Mark, at Moment, bootID string, o Options) line {
	boot, limit := int64(at.Boot), int64(o.Limit)
	switch {
	case saved.At == 0: // a first start
		return line{boot: boot, steady: at.Wall, slack: limit}
	case bootID != "" && saved.BootID == bootID && saved.Boot <= at.Boot:
		// The same boot: boot time says exactly how long we were away.
		return line{boot: int64(saved.Boot), steady: nanos(saved.At), slack: limit}
	default:
		// A reboot: for how long is not known. What was read after the mark was
		// saved is below its ceiling.
		ceiling := nanos(max(saved.At, saved.Ceiling))
		return line{boot: boot, steady: ceiling, slack: nanos(saved.At) + int64(o.Outage) - ceiling}
	}
}

// next is the line that goes on from l: on the wall where that is ahead a
// little, slowly where it is behind a little, by itself where it is far off.
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

// holds says whether the line still tells the time: no step of the wall since it
// began and, in doubt, no question due.
func (l *line) holds(at Moment) bool {
	passed := int64(at.Boot) - l.boot
	stepped := at.Wall - l.wall - passed
	return -agree <= stepped && stepped <= agree && (l.doubt == nil || passed < ask)
}

// at is the confirmed time at a boot time. Before the line's beginning it is the
// beginning: a reader that sampled just before a turn must not read less than
// the line that was replaced would have said.
func (l *line) at(boot time.Duration) int64 {
	passed := max(0, int64(boot)-l.boot)
	return l.steady + passed - min(passed, l.slow)/brake
}

// reading is the time by this line.
func (l *line) reading(at Moment) Reading {
	r := Reading{Steady: instant(l.at(at.Boot)), Wall: instant(at.Wall), Confirmed: l.doubt == nil, Err: l.doubt}
	r.Now = r.Steady
	if l.doubt != nil {
		r.Now = max(r.Now, r.Wall)
	}
	return r
}

func doubted(ahead time.Duration, wall int64) error {
	return mayfly.Errorf(mayfly.Unavailable, "the system clock stepped %s ahead, to %s, and nothing confirms it", ahead.Round(time.Millisecond), instant(wall)).
		WithHint("nothing is minted or erased meanwhile: set the clock right, let time synchronisation report that it is in step, or confirm the new time")
}

func nanos(i mayfly.Instant) int64    { return int64(i) * int64(time.Millisecond) }
func instant(ns int64) mayfly.Instant { return mayfly.Instant(ns / int64(time.Millisecond)) }
