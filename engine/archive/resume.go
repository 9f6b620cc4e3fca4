package archive

import (
	"sync"

	"github.com/mayflyhq/mayfly"
)

// claims remembers the claims of tries that have failed in this process and are over,
// so that another try goes on with what was copied instead of claiming the row again
// and copying everything under other keys.
//
// Only the process that claimed a row can know that its try is over, so claims are not
// stored: to take over a row from another process, or after a restart, is to claim it.
// If a row is claimed by others meanwhile, its generation is higher, and the claim that
// is remembered is worth nothing (I10).
type claims struct {
	mu   sync.Mutex
	over map[mayfly.ID]mayfly.Generation
}

// maxClaims is how many claims are remembered.
const maxClaims = 10_000

// release remembers that this process does nothing more under the claims of items.
func (c *claims) release(items ...mayfly.Item) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over == nil {
		c.over = map[mayfly.ID]mayfly.Generation{}
	}
	for _, item := range items {
		for other := range c.over { // any
			if len(c.over) < maxClaims {
				break
			}
			delete(c.over, other)
		}
		c.over[item.ID] = item.Generation
	}
}

// take returns whether the claim that a row shows is over, and forgets it: one try
// alone goes on with it.
func (c *claims) take(item mayfly.Item) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	g, found := c.over[item.ID]
	delete(c.over, item.ID)
	return found && item.State == mayfly.Archiving && item.Generation == g && item.Keys.Cold == 0
}
