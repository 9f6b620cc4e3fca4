package storetest

import (
	"bytes"
	"sync"
)

// Noted is a log that is read while it is written. The zero Noted is empty.
type Noted struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (n *Noted) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.out.Write(p)
}

// String is what was written so far.
func (n *Noted) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.out.String()
}
