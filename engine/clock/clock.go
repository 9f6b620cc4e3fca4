// Package clock provides the time of a node, for publishing, the gate and walks.
//
// The confirmed time, Steady, never goes back: not with the wall clock, not over a
// restart or a reboot (I9). A large forward step of the wall clock hides items at
// once, but creates, expires and erases nothing until the system reports a
// synchronised clock or an operator confirms the step (L7). Nodes that share a
// store use no clock that differs too much from the clocks of the store's servers.
//
// It must never save a time that is not confirmed. No package except this one,
// loop and cli may read the system's time.
package clock

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/mayflyhq/mayfly"
)

// Options are the settings of a clock. The zero Options are the defaults.
type Options struct {
	// Limit is the largest correction of the wall clock that is followed without
	// confirmation: forward at once, backward by running slower. 5 minutes.
	Limit time.Duration
	// Outage is the longest downtime over a reboot that needs no confirmation.
	// 30 days.
	Outage time.Duration
	// SavePeriod is how often the mark is saved. One second.
	SavePeriod time.Duration
	// Skew is how far the clock may differ from the clocks of the store's servers.
	// 0 is for a node that has its store to itself: it compares with no server.
	Skew time.Duration
	// Jumped is called after the clock has followed a correction of more than
	// SavePeriod: its mark should be saved now. It must not block and must not
	// call the clock. May be nil.
	Jumped func()
}

func (o Options) defaulted() Options {
	if o.Limit <= 0 {
		o.Limit = mayfly.DefaultClockLimit
	}
	if o.Outage <= 0 {
		o.Outage = mayfly.DefaultClockOutage
	}
	if o.SavePeriod <= 0 {
		o.SavePeriod = mayfly.DefaultSavePeriod
	}
	return o
}

// Reading is the result of reading the clock once. All decisions about one request
// use the same reading.
type Reading struct {
	// Now is the time by which the gate hides items: the confirmed time or, while
	// a step of the wall clock is unconfirmed, the stepped time.
	Now mayfly.Instant
	// Steady is the confirmed time, used for publishing and by walks. It never goes
	// back, except to before a time that it had while it was Off and not in use.
	Steady mayfly.Instant
	// Wall is the system's time. It is for metrics only, not for decisions.
	Wall mayfly.Instant
	// Confirmed reports that Now is Steady and the clock is not Off. Otherwise no
	// ids are made, nothing is erased, and walks wait.
	Confirmed bool
	// Off reports that the clock differs too much from the clocks of the store's
	// servers, or was not compared with them. It must not be used for any answer.
	Off bool
	// Err is nil when Confirmed, otherwise an error of kind Unavailable with a hint.
	Err error
}

// Clock is the clock of a node. It is safe for concurrent use; Read takes no lock
// unless the wall clock has just been corrected.
type Clock struct {
	source  Source
	options Options
	mu      sync.Mutex // held to replace the fields below
	line    atomic.Pointer[line]

	compared atomic.Pointer[comparison] // nil before the first comparison
	floor    int64                      // no time above it was used
}

// New returns a clock that continues from saved; the zero Mark is for a first
// start.
func New(source Source, options Options, saved Mark) *Clock {
	c := &Clock{source: source, options: options.defaulted(), floor: nanos(max(saved.At, saved.Ceiling))}
	at := source.Read()
	begun := begin(saved, at, source.BootID, c.options)
	first := begun.next(at, c.options, source.Synchronised)
	c.line.Store(&first)
	return c
}

// Read reads the clock. It costs about as much as time.Now and allocates nothing.
func (c *Clock) Read() Reading {
	l, at := c.sample()
	return c.reading(l, at)
}

func (c *Clock) reading(l *line, at Moment) Reading {
	r := l.reading(at)
	if err := c.off(l, at); err != nil {
		r.Confirmed, r.Off, r.Err = false, true, err
	}
	return r
}

// Confirm confirms, for an operator, that the wall clock is right: the confirmed
// time follows an unconfirmed step. This cannot be undone. Without an unconfirmed
// step it does nothing.
func (c *Clock) Confirm() Reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	l, at := c.turn(func() bool { return true })
	return c.reading(l, at)
}

// sample returns a moment and the line that is valid for it.
func (c *Clock) sample() (*line, Moment) {
	l := c.line.Load()
	at := c.source.Read()
	if l.holds(at) {
		return l, at
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	l, at = c.line.Load(), c.source.Read()
	if l.holds(at) { // another reader was first
		return l, at
	}
	return c.turn(c.source.Synchronised)
}

// turn replaces the line by one that follows the wall clock. The caller holds mu.
func (c *Clock) turn(synchronised func() bool) (*line, Moment) {
	at, old := c.source.Read(), c.line.Load()
	next := old.next(at, c.options, synchronised)
	c.corrected(old, &next, at)
	c.line.Store(&next)
	if c.options.Jumped != nil && next.at(at.Boot)-old.at(at.Boot) > int64(c.options.SavePeriod) {
		c.options.Jumped()
	}
	return &next, at
}
