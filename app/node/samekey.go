package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/store"
)

func samekeyKey() store.Key { return store.Key{Partition: "tokens", Clustering: "key"} }

// sameKey refuses a node of several whose key is not that of the others: what one
// signs the others would not know, and users would be signed out at every other
// request. The first node of a store says which key it is; changed tells that it
// was changed on purpose. A store of one process keeps its key beside it.
func sameKey(ctx context.Context, rows store.Rows, id string, changed bool) error {
	found, err := rows.Get(ctx, engine.Settings, samekeyKey())
	if err != nil {
		return fmt.Errorf("see which key signs: %w", err)
	}
	current := found[0]
	if current == nil || changed && string(current) != id {
		swapped, now, err := rows.Swap(ctx, engine.Settings, samekeyKey(), current, []byte(id), 0)
		if errors.Is(err, mayfly.Unknown) {
			if found, err = rows.Get(ctx, engine.Settings, samekeyKey()); err == nil {
				now = found[0]
			}
		}
		if err != nil {
			return fmt.Errorf("say which key signs: %w", err)
		}
		if swapped {
			return nil
		}
		if now == nil {
			return mayfly.Errorf(mayfly.Unavailable, "say which key signs: the outcome is not known").WithHint("start again")
		}
		current = now // another node was first
	}
	if string(current) == id {
		return nil
	}
	return mayfly.Errorf(mayfly.Conflict, "this node signs with the key %s, and the others with %.32q", id, current).
		WithHint("give every node the same tokens.key_file; if the key was changed on purpose, stop all nodes and start one with --new-key")
}
