package gate

import (
	"sync"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/mayflyhq/mayfly"
)

// entry is a cached row with its body. It is shared and never changed.
type entry struct {
	item  mayfly.Item
	body  mayfly.Body
	since since
}

// since is from when on an entry is known to be right: taken before its read
// begins.
type since struct {
	epoch uint64        // of the lease under which it is read
	at    time.Duration // elapsed time
}

// rowCache holds rows under the lease of Signals, and no row for longer than an
// age: of a change that its publisher could not tell, no lease tells (CacheAge).
// A fill takes a ticket before it reads and is dropped if an invalidation of its
// stripe came since: otherwise a slow read could put back what a delete has just
// taken out. If none came, its age counts from before it read.
//
// Bodies are immutable: an entry that is out of date still knows its body.
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

// get is what is known of id, in date or not; nil if nothing is.
func (c *rowCache) get(id mayfly.ID) *entry {
	if c.entries == nil {
		return nil
	}
	e, _ := c.entries.GetIfPresent(id)
	return e
}

// knownBody is the body that e knows, if it knows one.
func (e *entry) knownBody() (mayfly.Body, bool) {
	if e == nil || e.item.State == mayfly.Deleted {
		return mayfly.Body{}, false
	}
	return e.body, true
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
