package storetest

import (
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

func signalsCases() []testCase {
	return []testCase{
		{"a signal is handled before publish returns", handledOnReturn},
		{"a signal arrives completely", signalWhole},
		{"signals arrive in order", signalsInOrder},
		{"every subscriber receives a signal", everySubscriber},
		{"publishing without subscribers is no error", publishWithoutSubscribers},
		{"a subscriber receives only signals published later", onlyLaterSignals},
		{"a closed subscription receives nothing and holds no lease", closedSubscription},
		{"a subscriber that holds its lease in one epoch missed no signal", leaseHeld},
		{"sixteen publishers are each handled before they return", publishersTogether},
		{"closing a subscription does not block publishers", closeBesidePublish},
	}
}

// listener keeps the signals that it receives.
type listener struct {
	store.Subscription
	mu       sync.Mutex
	received []store.Signal
}

func (c *trial) listen() *listener {
	c.Helper()
	l := &listener{}
	sub, err := c.set.Signals.Subscribe(c.ctx, func(s store.Signal) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.received = append(l.received, s)
	})
	c.must(err)
	l.Subscription = sub
	c.Cleanup(func() { _ = sub.Close() })
	for deadline := wall().Add(10 * time.Second); ; runtime.Gosched() { // a lease may take a heartbeat
		if _, held := sub.Lease(); held {
			return l
		}
		if wall() > deadline {
			c.Fatal("the subscription never holds a lease")
		}
	}
}

func (l *listener) heard(s store.Signal) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Contains(l.received, s)
}

// mine returns the signals of want that the listener received, in order.
func (l *listener) mine(want []store.Signal) []store.Signal {
	l.mu.Lock()
	defer l.mu.Unlock()
	var mine []store.Signal
	for _, s := range l.received {
		if slices.Contains(want, s) {
			mine = append(mine, s)
		}
	}
	return mine
}

func freshSignal() store.Signal {
	return store.Signal{Topic: store.RowChanged, ID: freshBirth().Item.ID}
}

func (c *trial) publish(s store.Signal) {
	c.Helper()
	c.must(c.set.Signals.Publish(c.ctx, s))
}

// wantHeard checks that l has handled s, or has lost its lease since epoch.
func (c *trial) wantHeard(l *listener, epoch uint64, s store.Signal) {
	c.Helper()
	if now, held := l.Lease(); (held && now == epoch) && !l.heard(s) {
		c.Errorf("publish returned and the lease is held, but the signal was not handled")
	}
}

func handledOnReturn(c *trial) {
	l := c.listen()
	epoch, _ := l.Lease()
	for range 50 {
		s := freshSignal()
		c.publish(s)
		c.wantHeard(l, epoch, s)
	}
}

func signalWhole(c *trial) {
	l := c.listen()
	epoch, _ := l.Lease()
	for _, s := range []store.Signal{
		{Topic: store.RowChanged, ID: freshBirth().Item.ID},
		{Topic: store.RestoredSet, ID: freshBirth().Item.ID},
		{Topic: store.RelationsChanged, Owner: freshUser()},
		{Topic: store.RowChanged, ID: freshBirth().Item.ID, Owner: freshUser()},
	} {
		c.publish(s)
		c.wantHeard(l, epoch, s)
	}
}

func signalsInOrder(c *trial) {
	l := c.listen()
	epoch, _ := l.Lease()
	var want []store.Signal
	for range 100 {
		want = append(want, freshSignal())
		c.publish(want[len(want)-1])
	}
	if now, held := l.Lease(); held && now == epoch && !slices.Equal(l.mine(want), want) {
		c.Errorf("%d of 100 signals arrived, or not in order", len(l.mine(want)))
	}
}

func everySubscriber(c *trial) {
	var listeners []*listener
	var epochs []uint64
	for range 5 {
		l := c.listen()
		epoch, _ := l.Lease()
		listeners, epochs = append(listeners, l), append(epochs, epoch)
	}
	s := freshSignal()
	c.publish(s)
	for i, l := range listeners {
		c.wantHeard(l, epochs[i], s)
	}
}

func publishWithoutSubscribers(c *trial) { c.publish(freshSignal()) }

func onlyLaterSignals(c *trial) {
	early := freshSignal()
	c.publish(early)
	l := c.listen()
	epoch, _ := l.Lease()
	late := freshSignal()
	c.publish(late)
	c.wantHeard(l, epoch, late)
	if l.heard(early) {
		c.Errorf("a signal from before the subscription was received")
	}
}

func closedSubscription(c *trial) {
	l, other := c.listen(), c.listen()
	epoch, _ := other.Lease()
	c.must(l.Close())
	s := freshSignal()
	c.publish(s)
	c.wantHeard(other, epoch, s)
	if l.heard(s) {
		c.Errorf("a closed subscription received a signal")
	}
	if _, held := l.Lease(); held {
		c.Errorf("a closed subscription still holds its lease but received no signal")
	}
}

func leaseHeld(c *trial) {
	l := c.listen()
	epoch, _ := l.Lease()
	for range 20 {
		s := freshSignal()
		c.publish(s)
		now, held := l.Lease()
		if now == epoch && held && !l.heard(s) {
			c.Errorf("the lease is held in the same epoch, but a signal is missing")
		}
		if now < epoch {
			c.Errorf("epoch %d follows %d", now, epoch)
		}
		epoch = now
	}
}

func publishersTogether(c *trial) {
	l := c.listen()
	epoch, _ := l.Lease()
	signals := make([][]store.Signal, 16)
	together(16, func(i int) {
		for range 20 {
			s := store.Signal{Topic: store.RowChanged, ID: mayfly.ID(freshUser())}
			signals[i] = append(signals[i], s)
			if err := c.set.Signals.Publish(c.ctx, s); err != nil {
				c.Errorf("publish: %v", err)
			}
			if now, held := l.Lease(); held && now == epoch && !l.heard(s) {
				c.Errorf("publish returned, but the signal was not handled")
			}
		}
	})
	for i, want := range signals {
		if now, held := l.Lease(); held && now == epoch && !slices.Equal(l.mine(want), want) {
			c.Errorf("the signals of publisher %d are out of order", i)
		}
	}
}

func closeBesidePublish(c *trial) {
	together(8, func(i int) {
		for range 5 {
			if i%2 == 0 {
				if err := c.set.Signals.Publish(c.ctx, freshSignal()); err != nil {
					c.Errorf("publish: %v", err)
				}
				continue
			}
			sub, err := c.set.Signals.Subscribe(c.ctx, func(store.Signal) {})
			if err != nil {
				c.Errorf("subscribe: %v", err)
				continue
			}
			if err := sub.Close(); err != nil {
				c.Errorf("close: %v", err)
			}
		}
	})
}
