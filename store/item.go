package store

import (
	"context"
	"fmt"

	"github.com/mayflyhq/mayfly"
)

// ItemOf reads the row of one item. Errors: NotFound, and those of Ledger.Get.
func ItemOf(ctx context.Context, ledger Ledger, id mayfly.ID) (mayfly.Item, error) {
	found, err := ledger.Get(ctx, id)
	if err != nil {
		return mayfly.Item{}, fmt.Errorf("read the row of %s: %w", id, err)
	}
	if !found[0].Found {
		return mayfly.Item{}, mayfly.Errorf(mayfly.NotFound, "there is no item %s", id)
	}
	return found[0].Item, nil
}

// IDs returns the ids of items, in order.
func IDs(items []mayfly.Item) []mayfly.ID {
	all := make([]mayfly.ID, len(items))
	for i, item := range items {
		all[i] = item.ID
	}
	return all
}
