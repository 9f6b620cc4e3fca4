package diskfs

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mayflyhq/mayfly/store/loop"
)

// Pressure tells whether flushes and compactions of a database must run at full speed: a
// memtable waits behind the one being flushed, or tables pile up in the first level,
// where every read has to search all of them. The zero Pressure is ready.
type Pressure struct {
	DB atomic.Pointer[pebble.DB] // nil while it is opened or closed: nothing need rest then

	mu    sync.Mutex
	asked func() time.Duration // since the metrics were last read
	last  bool                 // the answer then
}

const (
	pressureEvery     = 50 * time.Millisecond
	pressureSublevels = 6 // L0 is compacted from 2 sublevels on, and blocks writes at 32
	pressureMemtables = 3 // the one being written, the one being flushed and one that waits
)

// High reports whether flushes and compactions must not rest now.
func (p *Pressure) High() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked != nil && p.asked() < pressureEvery {
		return p.last
	}
	p.asked = loop.Stopwatch()
	db := p.DB.Load()
	if db == nil {
		return true
	}
	m := db.Metrics()
	p.last = m.MemTable.Count >= pressureMemtables || m.Levels[0].Sublevels >= pressureSublevels
	return p.last
}
