package gate

import (
	"sync"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/mayflyhq/mayfly"
)

// entry is a cached row, with its body once a viewer was permitted to see it. It is
// shared between goroutines and never changed once it is cached.
type entry struct {
	item    mayfly.Item
	absent  bool // there is no row; item has the id only
	body    mayfly.Body
	hasBody bool
	since   since
	ticket  uint64 // for fill
	leased  bool   // the lease was held when the row was read
}

// since is when an entry was read. It is taken before the read begins.
type since struct {
	epoch uint64        // of the lease that was held
	at    time.Duration // by Options.Elapsed
}

// rowCache caches rows under the lease of Signals. Rows also have a maximum age,
// store.CacheAge, because a node that is cut off cannot publish its changes, and
// the other nodes keep their leases.
//
// A fill takes a ticket before it reads the row, and is dropped if an invalidation
// of its stripe came since: otherwise a slow read could put back a row that a
// delete has just removed. The body of an outdated entry can still be used, because
// bodies never change.
type rowCache struct {
	entries *otter.Cache[mayfly.ID, *entry] // nil when nothing is cached
	stripes [256]stripe
}

type stripe struct {
	mu    sync.Mutex
	count uint64 // of invalidations
}

func newRowCache(rows int) *rowCache {
	c := &rowCache{}
	if rows > 0 {
		c.entries = otter.Must(&otter.Options[mayfly.ID, *entry]{MaximumWeight: uint64(rows), Weigher: weight})
	}
	return c
}

// rowBytes is the size of a row with an ordinary body.
const rowBytes = 1 << 10

// weight counts large bodies as several rows, so that the memory of the cache is
// bounded for bodies of any size (I17).
func weight(_ mayfly.ID, e *entry) uint32 {
	bytes := len(e.body.Text) + len(e.body.Data)
	for _, m := range e.body.Media {
		bytes += 100 + len(m.Type)
	}
	return uint32(1 + bytes/rowBytes)
}

func (c *rowCache) stripe(id mayfly.ID) *stripe { return &c.stripes[id[15]] }

// get returns the entry of id, in date or not; nil if there is none.
func (c *rowCache) get(id mayfly.ID) *entry {
	if c.entries == nil {
		return nil
	}
	e, _ := c.entries.GetIfPresent(id)
	return e
}

// knownBody returns the body of e, if e has one.
func (e *entry) knownBody() (mayfly.Body, bool) {
	if e == nil || !e.hasBody || e.item.State == mayfly.Deleted {
		return mayfly.Body{}, false
	}
	return e.body, true
}

// ticket returns the value to pass to fill. It must be taken before the row is read.
func (c *rowCache) ticket(id mayfly.ID) uint64 {
	s := c.stripe(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

// fill caches e, unless an invalidation came since the ticket was taken.
func (c *rowCache) fill(id mayfly.ID, e *entry, ticket uint64) {
	if c.entries == nil {
		return
	}
	s := c.stripe(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count == ticket {
		c.entries.Set(id, e)
	}
}

func (c *rowCache) forget(id mayfly.ID) {
	s := c.stripe(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count++
	if c.entries != nil {
		c.entries.Invalidate(id)
	}
}
