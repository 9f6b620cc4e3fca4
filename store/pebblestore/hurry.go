package pebblestore

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mayflyhq/mayfly/store/loop"
)

// hurry says whether flushes and compactions must go as fast as they can: a
// memtable waits behind the one being flushed, or tables pile up in the first
// level, where every read has to look through them.
type hurry struct {
	db    atomic.Pointer[pebble.DB]
	mu    sync.Mutex
	asked func() time.Duration // since the database was last asked
	last  bool
}

const (
	hurryEvery     = 50 * time.Millisecond
	hurrySublevels = 6 // L0 is compacted from 2 on, and stops writes at 32
	hurryMemtables = 3 // the one being written, the one being flushed, and one that waits
)

func (h *hurry) now() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.asked != nil && h.asked() < hurryEvery {
		return h.last
	}
	h.asked = loop.Stopwatch()
	db := h.db.Load()
	if db == nil { // being opened
		return true
	}
	m := db.Metrics()
	h.last = m.MemTable.Count >= hurryMemtables || m.Levels[0].Sublevels >= hurrySublevels
	return h.last
}
