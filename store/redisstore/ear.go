package redisstore

import (
	"context"

	"github.com/mayflyhq/mayfly/store"
)

// listen hears signals, beats and acknowledgements until the connection breaks.
// What is told while nobody listens shows as a gap when somebody listens again.
func (s *Signals) listen(ctx context.Context) error {
	defer s.hearing.lose()
	err := s.door.listen(ctx, func() { s.beater.Wake() }, s.hear, s.allChannel(), s.ownChannel())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deaf = err
	return err
}

func (s *Signals) hear(text string) {
	m, err := readMessage(text)
	if err != nil {
		s.hearing.lose()
		s.o.Logger.Warn("redis: a message on the channel of signals is not ours", "error", err)
		return
	}
	switch m.word {
	case "signal":
		s.handle(m)
	case "beat":
		if sent, ok := s.sentAt(m.beat); ok {
			s.hearing.beat(m.at, m.whole, sent, s.now())
		}
	case "ack":
		s.acks.acknowledge(m.node, m.at)
	}
}

// handle hands the signal over, and only then owes its acknowledgement.
func (s *Signals) handle(m message) {
	s.hearing.signal(m.at)
	s.handling.Lock()
	for _, handle := range s.subscribers {
		handle(m.signal)
	}
	s.handling.Unlock()
	if m.node == s.node {
		s.acks.acknowledge(s.node, m.at)
		return
	}
	s.mu.Lock()
	s.owed[m.node] = m.at
	s.mu.Unlock()
	s.acker.Wake()
}

// acknowledge tells each publisher the last of what was handled: the rest is
// covered by it.
func (s *Signals) acknowledge(ctx context.Context) error {
	s.mu.Lock()
	owed := s.owed
	s.owed = map[nodeID]place{}
	s.mu.Unlock()
	if len(owed) == 0 {
		return nil
	}
	messages := make(map[string]string, len(owed))
	for node, at := range owed {
		messages[s.channelOf(node)] = ackText(at, s.node)
	}
	ctx, cancel := context.WithTimeout(ctx, s.o.Lease)
	defer cancel()
	// An acknowledgement that is lost costs its publisher a lease's time: it would come too late.
	return s.door.tell(ctx, messages)
}

// Subscribe implements store.Signals. The lease comes with the next beat if the
// node has none. handle must not end its subscription either.
func (s *Signals) Subscribe(_ context.Context, handle func(store.Signal)) (store.Subscription, error) {
	sub := &subscription{signals: s}
	s.handling.Lock()
	defer s.handling.Unlock()
	s.subscribers[sub] = handle
	return sub, nil
}

var _ store.Subscription = (*subscription)(nil)
