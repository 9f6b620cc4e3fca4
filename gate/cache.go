package gate

import (
	"sync"

	"github.com/maypok86/otter/v2"

	"github.com/mayflyhq/mayfly"
)

// entry is a cached row with its body. It is shared and never changed.
type entry struct {
	item  mayfly.Item
	body  mayfly.Body
	epoch uint64 // of the lease under which it was read
}

// rowCache holds rows under the lease of Signals. A fill takes a ticket before
// it reads and is dropped if an invalidation of its stripe came since: otherwise
// a slow read could put back what a delete has just taken out.
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

// rowBytes is what a row with an ordinary body takes.
const rowBytes = 1 << 10

// weight keeps the memory of the cache bounded whatever the bodies are (I17).
func weight(_ mayfly.ID, e *entry) uint32 {
	bytes := len(e.body.Text) + len(e.body.Data)
	for _, m := range e.body.Media {
		bytes += 100 + len(m.Type)
	}
	return uint32(1 + bytes/rowBytes)
}

func (c *rowCache) stripe(id mayfly.ID) *stripe { return &c.stripes[id[15]] }

func (c *rowCache) get(id mayfly.ID, epoch uint64) (*entry, bool) {
	if c.entries == nil {
		return nil, false
	}
	e, ok := c.entries.GetIfPresent(id)
	if !ok || e.epoch != epoch {
		return nil, false
	}
	return e, true
}

// ticket is taken before the row is read.
func (c *rowCache) ticket(id mayfly.ID) uint64 {
	s := c.stripe(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

// fill caches what was read since the ticket, unless it may be out of date.
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
