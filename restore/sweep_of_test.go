package restore_test

import (
	"github.com/mayflyhq/mayfly/sweep"
	"github.com/mayflyhq/mayfly/walk"
)

// sweepOf is the sweep as a walk.
func sweepOf(s *sweep.Sweep, err error) walk.Walk {
	if err != nil {
		panic(err)
	}
	return s.Walk()
}
