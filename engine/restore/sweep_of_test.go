package restore_test

import (
	"github.com/mayflyhq/mayfly/engine/sweep"
	"github.com/mayflyhq/mayfly/engine/walk"
)

// sweepOf is the sweep as a walk.
func sweepOf(s *sweep.Sweep, err error) walk.Walk {
	if err != nil {
		panic(err)
	}
	return s.Walk()
}
