package redisstore

import (
	"context"
	"encoding/hex"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// listen receives signals, heartbeats and acknowledgements until the connection
// breaks. Signals sent while no connection listens show as a gap afterwards.
func (s *Signals) listen(ctx context.Context) error {
	defer s.tracker.lose()
	err := s.connection.listen(ctx, func() { s.beater.Wake() }, s.receive, s.allChannel(), s.ownChannel())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listenErr = err
	return err
}

// receive handles one message.
func (s *Signals) receive(text string) {
	m, err := readMessage(text)
	if err != nil {
		s.tracker.lose()
		s.o.Logger.Warn("redis message invalid", "error", err)
		return
	}
	switch m.word {
	case "signal":
		s.handle(m)
	case "beat":
		if sent, ok := s.sentAt(m.beat); ok {
			s.tracker.beat(m.at, m.complete, sent, s.now())
		}
	case "ack":
		s.acks.acknowledge(m.node, m.at)
	}
}

// handle calls the subscribers with the signal and only then queues its
// acknowledgement.
func (s *Signals) handle(m message) {
	s.tracker.signal(m.at)
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

// acknowledge sends each publisher the position of its last signal that was
// handled, which includes the earlier ones.
func (s *Signals) acknowledge(ctx context.Context) error {
	s.mu.Lock()
	owed := s.owed
	s.owed = map[nodeID]position{}
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
	// A lost acknowledgement is not sent again: it would come too late, and the publisher only waits a lease.
	return s.connection.publish(ctx, messages)
}

// Subscribe implements store.Signals. If the node has no lease, the next heartbeat
// brings it. handle must not close its subscription.
func (s *Signals) Subscribe(_ context.Context, handle func(store.Signal)) (store.Subscription, error) {
	sub := &subscription{signals: s}
	s.handling.Lock()
	defer s.handling.Unlock()
	s.subscribers[sub] = handle
	return sub, nil
}

var _ store.Subscription = (*subscription)(nil)

// subscription belongs to one cache. All subscriptions of a node share its lease.
type subscription struct {
	signals *Signals
	closed  atomic.Bool
}

// Lease implements store.Subscription.
func (s *subscription) Lease() (uint64, bool) {
	epoch, held := s.signals.tracker.lease(s.signals.now())
	return epoch, held && !s.closed.Load()
}

// Close implements store.Subscription.
func (s *subscription) Close() error {
	s.closed.Store(true) // first: from now on the cache is not used
	s.signals.handling.Lock()
	defer s.signals.handling.Unlock()
	delete(s.signals.subscribers, s)
	return nil
}

// nodeID identifies a node from its start to its end.
type nodeID string

// generation identifies a period in which the server lost no data.
type generation string

// position is the place of a signal in their order.
type position struct {
	generation generation
	seq        uint64
}

// message is a text of words separated by blanks:
//
//	signal <generation> <seq> <publisher> <signal>
//	beat   <generation> <seq> <beat> <1 if no member is silent, else 0>
//	ack    <generation> <seq> <subscriber>
type message struct {
	word     string
	at       position
	node     nodeID       // signal, ack
	signal   store.Signal // signal
	beat     uint64       // beat
	complete bool         // beat
}

func readMessage(text string) (message, error) {
	bad := func() (message, error) {
		return message{}, mayfly.Errorf(mayfly.Corrupt, "redis: invalid message %.80q", text)
	}
	words := strings.Split(text, " ")
	if len(words) < 4 {
		return bad()
	}
	seq, err := strconv.ParseUint(words[2], 10, 64)
	if err != nil {
		return bad()
	}
	m := message{word: words[0], at: position{generation(words[1]), seq}}
	switch {
	case m.word == "signal" && len(words) == 5:
		m.node = nodeID(words[3])
		m.signal, err = readSignal(words[4])
	case m.word == "beat" && len(words) == 5:
		m.complete = words[4] == "1"
		m.beat, err = strconv.ParseUint(words[3], 10, 64)
	case m.word == "ack" && len(words) == 4:
		m.node = nodeID(words[3])
	default:
		return bad()
	}
	if err != nil {
		return bad()
	}
	return m, nil
}

func ackText(at position, by nodeID) string {
	return strings.Join([]string{"ack", string(at.generation), strconv.FormatUint(at.seq, 10), string(by)}, " ")
}

const signalBytes = 1 + len(mayfly.ID{}) + len(mayfly.UserID{})

func signalText(s store.Signal) string {
	b := append(append([]byte{byte(s.Topic)}, s.ID[:]...), s.Owner[:]...)
	return hex.EncodeToString(b)
}

func readSignal(text string) (store.Signal, error) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != signalBytes {
		return store.Signal{}, mayfly.Errorf(mayfly.Corrupt, "redis: invalid signal of %d letters", len(text))
	}
	return store.Signal{Topic: store.Topic(b[0]), ID: mayfly.ID(b[1:17]), Owner: mayfly.UserID(b[17:33])}, nil
}
