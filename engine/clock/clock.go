// Package clock is in charge of the node's one clock (L7): births, gate and
// walks all ask it what time it is.
//
// Its confirmed time, Steady, never goes back: not when the wall clock does, not
// over a restart, not over a reboot (I9). A forward step of the wall beyond the
// limit hides at once and ends nothing: until the system reports a synchronised
// clock, or an operator confirms, nothing may be minted, swept or erased by it.
//
// Where several nodes share a store, nothing goes by a clock that is not within
// bound of the store's servers: while it is off, and only then, it may be set back.
//
// It never persists a time that is not confirmed, and nothing outside this
// package, loop and cli reads the system's time.
package clock

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/mayflyhq/mayfly"
)

// Options are the clock's windows. The zero Options are the defaults.
type Options struct {
	// Limit is the largest correction of the wall that is followed without a
	// question: forward at once, backward by running slowly. 5 minutes.
	Limit time.Duration
	// Outage is the longest absence over a reboot that needs no confirmation.
	// 30 days.
	Outage time.Duration
	// SavePeriod is how often the mark is saved. One second.
	SavePeriod time.Duration
	// Skew is how far the clock may be from the store's servers. 0 is a node alone
	// with its store, which compares with nobody.
	Skew time.Duration
	// Jumped is called when the clock has followed a correction of more than
	// SavePeriod, and has a mark that is worth saving now. It must not block and
	// must not call the clock. May be nil.
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

// Reading is the clock read once. Whoever decides several things about one
// request reads once and decides them all by that.
type Reading struct {
	// Now is what the gate hides by: the confirmed time or, while a step of the
	// wall is unconfirmed, the stepped time.
	Now mayfly.Instant
	// Steady is the confirmed time: what births and walks go by. It never goes
	// back, but for what it said while it was Off, which nobody goes by.
	Steady mayfly.Instant
	// Wall is what the system's clock says. It decides nothing; how far Steady
	// is from it belongs on a dashboard.
	Wall mayfly.Instant
	// Confirmed says that Now is Steady, and not Off. Without it nothing is minted
	// or erased and walks stand still.
	Confirmed bool
	// Off says that the clock is not within bound of the store's servers, or has not
	// been compared with them: nothing at all may be answered by it.
	Off bool
	// Err is nil when Confirmed, else of kind Unavailable with a hint.
	Err error
}

// Clock is the node's clock. It is safe for concurrent use; Read takes no lock
// unless the wall has just been corrected.
type Clock struct {
	source  Source
	options Options
	mu      sync.Mutex // of whoever replaces what is below
	line    atomic.Pointer[line]

	compared atomic.Pointer[comparison] // nil before the first
	floor    int64                      // no time above it was gone by
}

// New is a clock on source that goes on from saved; the zero Mark is a first
// start.
func New(source Source, options Options, saved Mark) *Clock {
	c := &Clock{source: source, options: options.defaulted(), floor: nanos(max(saved.At, saved.Ceiling))}
	at := source.Read()
	begun := begin(saved, at, source.BootID, c.options)
	first := begun.next(at, c.options, source.Synchronised)
	c.line.Store(&first)
	return c
}

// Read reads the clock. It costs about what time.Now does, and allocates nothing.
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

// Confirm says, in an operator's name, that the wall is right: a step that is
// unconfirmed now becomes the confirmed time, for good. Without one it does nothing.
func (c *Clock) Confirm() Reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	l, at := c.turn(func() bool { return true })
	return c.reading(l, at)
}

// sample is a moment and the line that holds at it.
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

// turn replaces the line by the one that the wall now asks for. The caller holds mu.
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
