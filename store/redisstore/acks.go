package redisstore

import (
	"maps"
	"sync"
)

// acks is what a publisher knows of who has handled what.
type acks struct {
	mu      sync.Mutex
	handled map[nodeID]place // the last of each node
	waiting map[*waiter]struct{}
}

// waiter waits until every node of a list has handled what is at a place.
type waiter struct {
	at      place
	missing map[nodeID]struct{}
	done    chan struct{}
}

func newAcks() *acks {
	return &acks{handled: map[nodeID]place{}, waiting: map[*waiter]struct{}{}}
}

// covers says whether an acknowledgement at a is one of what is at b: a node
// acknowledges in order, and what it missed has cost it its lease.
func (a place) covers(b place) bool { return a.life == b.life && a.seq >= b.seq }

// acknowledge notes that node has handled everything up to at.
func (a *acks) acknowledge(node nodeID, at place) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if last := a.handled[node]; last.covers(at) {
		return
	}
	a.handled[node] = at
	for w := range a.waiting {
		if at.covers(w.at) {
			a.tick(w, node)
		}
	}
}

func (a *acks) tick(w *waiter, node nodeID) {
	delete(w.missing, node)
	if len(w.missing) == 0 {
		delete(a.waiting, w)
		close(w.done)
	}
}

// await is a waiter for nodes; its done is closed when none is missing.
func (a *acks) await(at place, nodes []nodeID) *waiter {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := &waiter{at: at, missing: map[nodeID]struct{}{}, done: make(chan struct{})}
	for _, node := range nodes {
		if !a.handled[node].covers(at) {
			w.missing[node] = struct{}{}
		}
	}
	if len(w.missing) == 0 {
		close(w.done)
		return w
	}
	a.waiting[w] = struct{}{}
	return w
}

// giveUp ends a wait and says who is missing.
func (a *acks) giveUp(w *waiter) map[nodeID]struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.waiting, w)
	return maps.Clone(w.missing)
}

// keep forgets the nodes that are off the roll, when they have become many (I17).
func (a *acks) keep(nodes []nodeID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.handled) <= 2*len(nodes)+16 {
		return
	}
	kept := make(map[nodeID]place, len(nodes))
	for _, node := range nodes {
		if at, ok := a.handled[node]; ok {
			kept[node] = at
		}
	}
	a.handled = kept
}
