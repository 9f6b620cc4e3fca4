package erase

import (
	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// pictures are the objects that renditions of items may be, made or not: of an
// item without images there are none, and no tier is asked for them.
type pictures map[mayfly.ID][]int

func (p pictures) add(id mayfly.ID, body mayfly.Body) {
	if numbers := body.Renditions(); len(numbers) > 0 {
		p[id] = numbers
	}
}

// forget removes what describes the item's renditions.
func (p pictures) forget(b *store.Batch, id mayfly.ID) {
	if len(p[id]) > 0 {
		b.DeletePartition(store.Renditions, string(id[:]))
	}
}
