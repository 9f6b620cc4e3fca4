package redisstore

import (
	"sync/atomic"
	"time"
)

// hearing decides about the lease of a node from what its ear hears: pure
// values, told the time. One goroutine tells it, any may ask for the lease.
type hearing struct {
	lasts time.Duration // a lease, for its holder
	known bool          // at is a place that this connection has heard of
	at    place         // up to which everything was heard
	grant atomic.Pointer[grant]
}

// grant is a lease that was given.
type grant struct {
	epoch uint64
	until time.Duration // elapsed time; 0 when it was lost
}

// newHearing hears nothing yet. A holder counts a tenth less than a lease, so
// that clocks which do not run alike cannot make it outlast those who wait for
// its end.
func newHearing(lease time.Duration) *hearing {
	h := &hearing{lasts: lease - lease/10}
	h.grant.Store(&grant{})
	return h
}

// lease is the lease at now.
func (h *hearing) lease(now time.Duration) (epoch uint64, held bool) {
	g := h.grant.Load()
	return g.epoch, now < g.until
}

// lose loses the lease; the next one is another epoch.
func (h *hearing) lose() {
	h.known = false
	h.grant.Store(&grant{epoch: h.grant.Load().epoch})
}

// signal notes that the signal at that place was heard. A gap before it costs
// the lease.
func (h *hearing) signal(at place) {
	if !h.known || at.life != h.at.life || at.seq != h.at.seq+1 {
		h.lose()
	}
	h.known, h.at = true, at
}

// beat gives a lease that counts from when the beat was sent, unless the roll
// is not whole. If everything up to the beat's place was heard and the lease has
// not run out, it is the same epoch.
func (h *hearing) beat(at place, whole bool, sent, now time.Duration) {
	if !h.known || at != h.at {
		h.lose()
	}
	h.known, h.at = true, at
	until := sent + h.lasts
	old := h.grant.Load()
	if !whole || now >= until || until <= old.until {
		return
	}
	epoch := old.epoch
	if now >= old.until {
		epoch++
	}
	h.grant.Store(&grant{epoch: epoch, until: until})
}
