package cassandrastore

import (
	"sync/atomic"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// The stamps of what is never written but in this order: no clock is asked.
const (
	stampBorn    = 1
	stampErased  = 2
	stampRemoved = 3
)

// stamps hands out the write times of plain tables, in microseconds: the node's
// clock, and always later than the one before, so that in one process a write is
// decided by order and not by the grain or the steps of a clock. Between
// processes the clocks decide, which plain tables allow: what they hold is judged
// again when it is read.
type stamps struct {
	now  func() mayfly.Instant
	last atomic.Int64
}

const microseconds = 1000 // in an instant's millisecond

func (s *stamps) next() int64 {
	for {
		last := s.last.Load()
		stamp := max(int64(s.now())*microseconds, last+1)
		if s.last.CompareAndSwap(last, stamp) {
			return stamp
		}
	}
}

const (
	// reclaimSlack is what is added to a TTL: nodes' clocks differ, and a row is
	// kept at least until its reclaim time.
	reclaimSlack = 10 * time.Minute
	// longestTTL is what any storage format of the server can say; what is to be
	// kept longer is kept.
	longestTTL = 5 * 365 * 24 * time.Hour
)

// ttl is the TTL of a row in seconds; 0 is none. The server's TTL only takes
// space back: nothing is decided by it (trap 11).
func ttl(t store.Table, reclaimAt, now mayfly.Instant) int {
	if reclaimAt == 0 || !mayReclaim(t) {
		return 0
	}
	left := max(reclaimAt.Sub(now), 0) + reclaimSlack
	if left > longestTTL {
		return 0
	}
	return int((left + time.Second - 1) / time.Second)
}

// mayReclaim reports whether the TTL of the server may remove rows of t.
func mayReclaim(t store.Table) bool { return !t.Declared().NotByServer }
