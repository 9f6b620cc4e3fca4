package diskstore

import (
	"sync"

	"github.com/mayflyhq/mayfly"
)

// keyLocks lets one writer at a time at a key, from reading what is there until
// what replaces it is durable: no file is forgotten, and a reader that finds nothing
// left to delete knows that to be durable.
type keyLocks struct {
	mu    sync.Mutex
	freed sync.Cond
	held  map[mayfly.BlobKey]struct{}
}

func newKeyLocks() *keyLocks {
	l := &keyLocks{held: map[mayfly.BlobKey]struct{}{}}
	l.freed.L = &l.mu
	return l
}

// lock takes all the keys at once, so that two callers cannot wait for each
// other. The keys are distinct.
func (l *keyLocks) lock(keys ...mayfly.BlobKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.anyHeld(keys) {
		l.freed.Wait()
	}
	for _, key := range keys {
		l.held[key] = struct{}{}
	}
}

func (l *keyLocks) anyHeld(keys []mayfly.BlobKey) bool {
	for _, key := range keys {
		if _, held := l.held[key]; held {
			return true
		}
	}
	return false
}

func (l *keyLocks) unlock(keys ...mayfly.BlobKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range keys {
		delete(l.held, key)
	}
	l.freed.Broadcast()
}
