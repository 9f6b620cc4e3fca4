package kill

import (
	"math/rand/v2"
	"sync"

	"github.com/mayflyhq/mayfly"
)

// workerItem is an item as a worker knows it.
type workerItem struct {
	id    mayfly.ID
	owner int
	held  bool
	busy  bool
}

// workerItems are the items that the hands of a worker share. An item is in one
// hand at a time, so that its expected state is that after its last answer.
type workerItems struct {
	mu    sync.Mutex
	items []*workerItem
	again []workerDraft // with a key
}

// Bounds on what is remembered: the oldest go.
const (
	maxWorkerItems  = 600
	maxWorkerDrafts = 100
)

func (k *workerItems) add(item workerItem) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.items = append(k.items, &item); len(k.items) > maxWorkerItems {
		k.items = k.items[len(k.items)-maxWorkerItems:]
	}
}

// draws is how many items are drawn for one that will do.
const draws = 30

// pick takes an item into one hand; nil if none was found that will do.
func (k *workerItems) pick(r *rand.Rand, do func(*workerItem) bool) *workerItem {
	k.mu.Lock()
	defer k.mu.Unlock()
	for range min(draws, len(k.items)) {
		if item := k.items[r.IntN(len(k.items))]; !item.busy && do(item) {
			item.busy = true
			return item
		}
	}
	return nil
}

// putBack gives the item to the others again.
func (k *workerItems) putBack(item *workerItem, held bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	item.busy, item.held = false, held
}

// retry keeps a draft that will be published again.
func (k *workerItems) retry(d workerDraft) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.again = append(k.again, d); len(k.again) > maxWorkerDrafts {
		k.again = k.again[1:]
	}
}

// pickRetry takes such a draft out.
func (k *workerItems) pickRetry(r *rand.Rand) (workerDraft, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.again) == 0 {
		return workerDraft{}, false
	}
	at := r.IntN(len(k.again))
	d := k.again[at]
	k.again = append(k.again[:at], k.again[at+1:]...)
	return d, true
}
