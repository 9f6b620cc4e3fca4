package cli

import (
	"sync/atomic"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/profile"
	"github.com/mayflyhq/mayfly/engine/clock"
)

// lateClock is the time that drivers go by. They are open before the node, whose
// clock goes on from a mark that they hold: until there is one they get a clock
// that knows of no mark.
type lateClock struct {
	source clock.Source
	clock  atomic.Pointer[clock.Clock]
}

func newLateClock() *lateClock {
	l := &lateClock{source: clock.System()}
	l.clock.Store(clock.New(l.source, clock.Options{}, clock.Mark{}))
	return l
}

// follow goes by the clock of a node from now on.
func (l *lateClock) follow(c *clock.Clock) { l.clock.Store(c) }

func (l *lateClock) time() profile.Time {
	return profile.Time{
		Now:     func() mayfly.Instant { return l.clock.Load().Read().Steady },
		Elapsed: func() time.Duration { return l.source.Read().Boot },
	}
}

// onEmbedded refuses what is done on a stopped data folder where there is none.
func onEmbedded(cfg config.Config) error {
	if cfg.Profile != config.Cluster {
		return nil
	}
	return mayfly.Errorf(mayfly.Invalid, "on a cluster the items are not in the data folder").
		WithHint("ask a node that runs: say where its admin listener is with --admin")
}
