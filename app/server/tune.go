package cli

import (
	"os"
	"runtime"
	"runtime/debug"

	"github.com/mayflyhq/mayfly/app/config"
)

// tune fits the Go runtime to a node, and answers how to take that back. What
// the environment sets (GOMAXPROCS, GOGC) stays as it was set.
//
// Two threads more than cores: a read that wakes up then runs at once, because
// the kernel lets it interrupt a walk or a compaction, which the Go scheduler does
// only after 10 ms. And the limit of memory decides when to collect, more than
// the growth of the heap does: a collection is what reads feel most
// (docs/decisions/0005-pacing.md).
func tune(c config.Config) (undo func()) {
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
