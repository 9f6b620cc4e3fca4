package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// lookAtMedia asks both tiers for every object that the item can have, under the
// keys that its row names.
func (n *Node) lookAtMedia(ctx context.Context, c *inquiry) error {
	if !c.found || c.item.Media == 0 {
		return nil
	}
	for m := range int(c.item.Media) {
		present := 0
		for _, tier := range n.tiersOf(c.item) {
			is, err := c.stat(ctx, tier, fmt.Sprintf("medium %d", m), m)
			if err != nil {
				return err
			}
			present += is
		}
		if present == 0 && c.item.State != mayfly.Deleted {
			c.lost = append(c.lost, fmt.Sprintf("medium %d", m))
		}
	}
	for _, o := range c.body.Body.Renditions() {
		for _, tier := range n.tiersOf(c.item) {
			if _, err := c.stat(ctx, tier, fmt.Sprintf("rendition %d", o), o); err != nil {
				return err
			}
		}
	}
	return nil
}

// tierOf is a tier with the generation under which the row names a copy there.
type tierOf struct {
	name  string
	blobs store.Blobs
	under mayfly.Generation
}

func (n *Node) tiersOf(item mayfly.Item) []tierOf {
	return []tierOf{{"hot", n.set.Hot, item.Keys.Hot}, {"cold", n.set.Cold, item.Keys.Cold}}
}

func (c *inquiry) stat(ctx context.Context, t tierOf, name string, object int) (present int, err error) {
	if t.under == 0 {
		c.fact("media", name, t.name+": the row names no copy")
		return 0, nil
	}
	key := c.item.MediaKey(t.under, object)
	stored, err := t.blobs.Stat(ctx, key)
	switch {
	case errors.Is(err, mayfly.NotFound):
		c.fact("media", name, fmt.Sprintf("%s: %s is not there", t.name, key))
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("%s of %s: %w", name, t.name, err)
	}
	c.fact("media", name, fmt.Sprintf("%s: %s has %d bytes", t.name, key, stored.Size))
	return 1, nil
}
