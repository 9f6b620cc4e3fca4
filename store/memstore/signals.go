package memstore

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mayflyhq/mayfly/store"
)

// Signals carries invalidations between the caches of one process. Publish
// calls the subscribers itself, so a lease is held as long as the subscription.
type Signals struct {
	mu          sync.Mutex
	subscribers []*subscription
}

var _ store.Signals = (*Signals)(nil)

// NewSignals has no subscribers.
func NewSignals() *Signals { return &Signals{} }

// Publish implements store.Signals. It does not end with its context: every
// subscriber is notified or none.
func (s *Signals) Publish(_ context.Context, signal store.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sub := range s.subscribers {
		sub.handle(signal)
	}
	return nil
}

// Subscribe implements store.Signals. handle must not end its subscription either.
func (s *Signals) Subscribe(_ context.Context, handle func(store.Signal)) (store.Subscription, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sub := &subscription{signals: s, handle: handle}
	s.subscribers = append(s.subscribers, sub)
	return sub, nil
}

type subscription struct {
	signals *Signals
	handle  func(store.Signal)
	closed  atomic.Bool
}

// onlyEpoch is every epoch there is: no signal is ever lost in a process.
const onlyEpoch = 1

// Lease implements store.Subscription.
func (s *subscription) Lease() (uint64, bool) { return onlyEpoch, !s.closed.Load() }

// Close implements store.Subscription.
func (s *subscription) Close() error {
	s.closed.Store(true) // first: from here on no cache is used
	s.signals.mu.Lock()
	defer s.signals.mu.Unlock()
	for i, sub := range s.signals.subscribers {
		if sub == s {
			s.signals.subscribers = slices.Delete(s.signals.subscribers, i, i+1)
			break
		}
	}
	return nil
}
