package pasteapi

import (
	"unsafe"

	"github.com/maypok86/otter/v2"

	"github.com/mayflyhq/mayfly"
)

// renderedCache keeps the highlighted part of pages, which is the expensive one, and
// the bytes of small pastes, up to a number of bytes. It decides nothing: the caller
// asks the gate on every hit. What has ended leaves by drop, which a loop calls, so
// that a quiet server holds nothing of an ended paste (P6); so does every entry after a
// while, because a paste may be deleted or held by another node. Only pastes that
// anyone with the link may read any number of times belong in it.
type renderedCache struct {
	entries *otter.Cache[renderedKey, renderedEntry] // nil when nothing is cached
}

// maxRenderedAge is how long an entry is kept: as long as by a shared cache.
const maxRenderedAge = maxSharedCache

// renderedEntry is the page of a paste in a language, or its bytes.
type renderedEntry struct {
	rendered
	content string
	since   mayfly.Instant
}

type renderedKey struct {
	id       mayfly.ID
	language string // a short name, or "" when none was chosen, or contentEntry
}

// newRenderedCache returns a cache of at most a number of bytes; 0 caches nothing.
func newRenderedCache(bytes int64) *renderedCache {
	c := &renderedCache{}
	if bytes > 0 {
		c.entries = otter.Must(&otter.Options[renderedKey, renderedEntry]{MaximumWeight: uint64(bytes), Weigher: weightOf})
	}
	return c
}

// weightOf returns how many bytes an entry takes, with what the cache itself needs
// for it.
func weightOf(key renderedKey, r renderedEntry) uint32 {
	const overhead = 200
	return uint32(len(r.HTML)+len(r.content)+len(key.language)+len(r.Why)+int(unsafe.Sizeof(r))) + overhead //nolint:gosec // HTML is at most a few MiB
}

func (c *renderedCache) get(id mayfly.ID, language string) (rendered, bool) {
	if c.entries == nil {
		return rendered{}, false
	}
	e, found := c.entries.GetIfPresent(renderedKey{id, language})
	return e.rendered, found
}

// put stores what get returns later. What is plain only because the server was
// busy, and what has ended, is not stored.
func (c *renderedCache) put(id mayfly.ID, language string, r rendered, now mayfly.Instant) {
	if c.entries != nil && !r.Busy && !id.ExpiredAt(now) {
		c.entries.Set(renderedKey{id, language}, renderedEntry{rendered: r, since: now})
	}
}

// contentEntry stands for a language in the key of a paste's bytes. No language has
// this name.
const contentEntry = "\x00content"

// content returns the bytes of a paste that putContent has stored.
func (c *renderedCache) content(id mayfly.ID) (string, bool) {
	if c.entries == nil {
		return "", false
	}
	e, found := c.entries.GetIfPresent(renderedKey{id, contentEntry})
	return e.content, found
}

func (c *renderedCache) putContent(id mayfly.ID, content string, now mayfly.Instant) {
	if c.entries != nil && !id.ExpiredAt(now) {
		c.entries.Set(renderedKey{id, contentEntry}, renderedEntry{content: content, since: now})
	}
}

// drop removes every entry that is old, or whose paste has ended, at now. It returns
// how many it removed.
func (c *renderedCache) drop(now mayfly.Instant) int {
	return c.remove(func(id mayfly.ID, since mayfly.Instant) bool {
		return id.ExpiredAt(now) || now.Sub(since) >= maxRenderedAge
	})
}

// forget removes the entries of one paste, for instance because it was deleted.
func (c *renderedCache) forget(id mayfly.ID) int {
	return c.remove(func(other mayfly.ID, _ mayfly.Instant) bool { return other == id })
}

func (c *renderedCache) remove(which func(mayfly.ID, mayfly.Instant) bool) int {
	if c.entries == nil {
		return 0
	}
	n := 0
	for key, e := range c.entries.All() {
		if which(key.id, e.since) {
			if _, removed := c.entries.Invalidate(key); removed {
				n++
			}
		}
	}
	if n > 0 {
		c.entries.CleanUp() // else the cache refers to what it has removed until it is used again
	}
	return n
}

// bytes returns about how many bytes the cache holds.
func (c *renderedCache) bytes() uint64 {
	if c.entries == nil {
		return 0
	}
	return c.entries.WeightedSize()
}
