package server

import (
	"os"
	"runtime"
	"runtime/debug"

	"github.com/mayflyhq/mayfly/app/config"
)

// Tune sets the Go runtime up for a node and returns a function that restores
// it. GOMAXPROCS and GOGC of the environment take precedence.
//
// It uses two threads more than there are cores: a read that becomes ready then
// runs at once, because the kernel preempts a walk or a compaction for it; the Go
// scheduler would do so only after 10 ms. And it lets the memory limit, more than
// the growth of the heap, decide when to collect garbage, because a collection
// slows reads down most (docs/decisions/0005-how-a-walk-paces-itself.md).
func Tune(c config.Config) (undo func()) {
	limit := debug.SetMemoryLimit(int64(c.Memory.Limit))
	percent, procs := 0, 0
	if os.Getenv("GOGC") == "" {
		percent = debug.SetGCPercent(400)
	}
	if os.Getenv("GOMAXPROCS") == "" {
		procs = runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 2)
	}
	return func() {
		debug.SetMemoryLimit(limit)
		if percent != 0 {
			debug.SetGCPercent(percent)
		}
		if procs != 0 {
			runtime.GOMAXPROCS(procs)
		}
	}
}
