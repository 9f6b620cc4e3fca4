package sim

import (
	"context"
	"sync"

	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/memstore"
)

// signals are those of the embedded store over a wire that can be cut: then
// leases are lost and nothing is handed over (trap 18).
type signals struct {
	store.Signals
	mu    sync.Mutex
	cut   bool
	epoch uint64
}

type subscription struct {
	store.Subscription
	s *signals
}

func newSignals() *signals { return &signals{Signals: memstore.NewSignals()} }

// setCut cuts the wire or connects it again, which begins another epoch.
func (s *signals) setCut(cut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut && !cut {
		s.epoch++
	}
	s.cut = cut
}

func (s *signals) lease() (uint64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.epoch, !s.cut
}

// Subscribe implements store.Signals.
func (s *signals) Subscribe(ctx context.Context, handle func(store.Signal)) (store.Subscription, error) {
	sub, err := s.Signals.Subscribe(ctx, func(signal store.Signal) {
		if _, whole := s.lease(); whole {
			handle(signal)
		}
	})
	return &subscription{sub, s}, err
}

// Lease implements store.Subscription.
func (sub *subscription) Lease() (uint64, bool) {
	epoch, whole := sub.s.lease()
	below, held := sub.Subscription.Lease()
	return epoch<<32 | below, held && whole
}
