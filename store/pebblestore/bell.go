package pebblestore

import "sync"

// bell wakes everybody who waits for it.
type bell struct {
	mu   sync.Mutex
	rung chan struct{} // nil while nobody waits
}

// wait is closed at the next ring. Take it before looking, so that no ring
// falls between the look and the wait.
func (b *bell) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rung == nil {
		b.rung = make(chan struct{})
	}
	return b.rung
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rung != nil {
		close(b.rung)
		b.rung = nil
	}
}
