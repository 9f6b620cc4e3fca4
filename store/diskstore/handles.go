package diskstore

import (
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
)

// maxHandles is how many volumes are kept open for reading.
const maxHandles = 128

// handles keeps volumes open: opening one costs more than reading from it.
type handles struct {
	mu   sync.Mutex
	open map[fileNumber]*handle
}

// handle is an open volume. It is closed when it has been dropped and no reader
// reads from it any more.
type handle struct {
	vfs.File
	readers int
	recent  bool // read from since it was last passed over
	dropped bool
}

// take returns the handle of volume n. The reader must give it back.
func (h *handles) take(n fileNumber, open func() (vfs.File, error)) (*handle, error) {
	if v := h.known(n); v != nil {
		return v, nil
	}
	f, err := open()
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.open) >= maxHandles {
		h.passOver()
	}
	v := &handle{File: f, readers: 1, recent: true}
	if _, twice := h.open[n]; twice {
		v.dropped = true // for this reader alone
	} else {
		h.open[n] = v
	}
	return v, nil
}

func (h *handles) known(n fileNumber) *handle {
	h.mu.Lock()
	defer h.mu.Unlock()
	v := h.open[n]
	if v != nil {
		v.readers++
		v.recent = true
	}
	return v
}

func (h *handles) giveBack(v *handle) error {
	h.mu.Lock()
	v.readers--
	closing := v.dropped && v.readers == 0
	h.mu.Unlock()
	if closing {
		return v.Close()
	}
	return nil
}

// drop closes volume n once its readers have finished.
func (h *handles) drop(n fileNumber) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dropLocked(n)
}

func (h *handles) dropLocked(n fileNumber) {
	v := h.open[n]
	if v == nil {
		return
	}
	delete(h.open, n)
	if v.dropped = true; v.readers == 0 {
		_ = v.Close() // it was only read from
	}
}

// passOver drops a volume that has not been read for a while: the first that the map
// yields.
func (h *handles) passOver() {
	for range 2 {
		for n, v := range h.open {
			if !v.recent {
				h.dropLocked(n)
				return
			}
			v.recent = false
		}
	}
}

// dropAll drops every volume.
func (h *handles) dropAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for n := range h.open {
		h.dropLocked(n)
	}
}

// keyLocks admits one writer at a time to a key, from reading its record until the
// new record is durable. So no file is lost track of, and a Delete that finds no
// record knows that the earlier delete is durable.
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
