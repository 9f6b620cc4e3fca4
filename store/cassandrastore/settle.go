package cassandrastore

import (
	"slices"

	"github.com/mayflyhq/mayfly"
)

// settled is what the rows tell about a batch whose outcome did not come.
type settled uint8

const (
	landed    settled = iota + 1 // it was applied
	notLanded                    // it was not; sent once more, it may be
	inDoubt                      // its rows have moved on so far that they do not tell
)

// settle decides by the rows as they are now. A batch is applied whole or not at
// all, so one row that tells is enough: one that has not passed the generation we
// would have written, and is not ours, says that it did not land; else one that
// shows our nonce says that it did (L1). In this order: who sends a change again
// with its nonce may find it landed alone, by an earlier call.
func settle(writes []write, now map[mayfly.ID]mayfly.Item) settled {
	reported := inDoubt
	for _, w := range writes {
		item, there := now[w.before.ID]
		switch {
		case there && item == w.after:
			reported = landed
		case there && item.Generation <= w.after.Generation:
			return notLanded
		}
	}
	return reported
}

// whole says whether every row is as the batch would have written it.
func whole(writes []write, now map[mayfly.ID]mayfly.Item) bool {
	return !slices.ContainsFunc(writes, func(w write) bool {
		item, there := now[w.before.ID]
		return !there || item != w.after
	})
}
