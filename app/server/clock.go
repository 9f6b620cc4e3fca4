package server

import (
	"sync/atomic"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/profile"
	"github.com/mayflyhq/mayfly/engine/clock"
)

// LateClock gives drivers the time before there is a node. A node's clock
// continues from a mark that is kept in the store, so the drivers are opened
// first: until Follow is called they get a clock without a mark.
type LateClock struct {
	source clock.Source
	clock  atomic.Pointer[clock.Clock]
}

// NewLateClock returns a LateClock on the system's time.
func NewLateClock() *LateClock {
	l := &LateClock{source: clock.System()}
	l.clock.Store(clock.New(l.source, clock.Options{}, clock.Mark{}))
	return l
}

// Follow switches to the clock of a node.
func (l *LateClock) Follow(c *clock.Clock) { l.clock.Store(c) }

// Time returns the functions that profile.Open takes.
func (l *LateClock) Time() profile.Time {
	return profile.Time{
		Now:     func() mayfly.Instant { return l.clock.Load().Read().Steady },
		Elapsed: func() time.Duration { return l.source.Read().Boot },
	}
}
