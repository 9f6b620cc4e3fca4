package redisstore

import "sync/atomic"

// subscription is one cache's end: all of a node share the node's lease.
type subscription struct {
	signals *Signals
	closed  atomic.Bool
}

// Lease implements store.Subscription.
func (s *subscription) Lease() (uint64, bool) {
	epoch, held := s.signals.hearing.lease(s.signals.now())
	return epoch, held && !s.closed.Load()
}

// Close implements store.Subscription.
func (s *subscription) Close() error {
	s.closed.Store(true) // first: from here on no cache is used
	s.signals.handling.Lock()
	defer s.signals.handling.Unlock()
	delete(s.signals.subscribers, s)
	return nil
}
