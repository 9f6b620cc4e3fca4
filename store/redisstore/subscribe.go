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

// nodeID names one life of one process.
type nodeID string

// life names one life of the server's memory: within it nothing was forgotten.
type life string

// place is a point in the order of signals.
type place struct {
	life life
	seq  uint64
}

// A message is words with blanks between them:
//
//	signal <life> <seq> <publisher> <signal>
//	beat   <life> <seq> <beat> <whether the roll is whole>
//	ack    <life> <seq> <subscriber>
type message struct {
	word   string
	at     place
	node   nodeID       // signal, ack
	signal store.Signal // signal
	beat   uint64       // beat
	whole  bool         // beat
}

func readMessage(text string) (message, error) {
	bad := func() (message, error) {
		return message{}, mayfly.Errorf(mayfly.Corrupt, "redis: not a message: %.80q", text)
	}
	words := strings.Split(text, " ")
	if len(words) < 4 {
		return bad()
	}
	seq, err := strconv.ParseUint(words[2], 10, 64)
	if err != nil {
		return bad()
	}
	m := message{word: words[0], at: place{life(words[1]), seq}}
	switch {
	case m.word == "signal" && len(words) == 5:
		m.node = nodeID(words[3])
		m.signal, err = readSignal(words[4])
	case m.word == "beat" && len(words) == 5:
		m.whole = words[4] == "1"
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

func ackText(at place, by nodeID) string {
	return strings.Join([]string{"ack", string(at.life), strconv.FormatUint(at.seq, 10), string(by)}, " ")
}

const signalBytes = 1 + len(mayfly.ID{}) + len(mayfly.UserID{})

func signalText(s store.Signal) string {
	b := append(append([]byte{byte(s.Topic)}, s.ID[:]...), s.Owner[:]...)
	return hex.EncodeToString(b)
}

func readSignal(text string) (store.Signal, error) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != signalBytes {
		return store.Signal{}, mayfly.Errorf(mayfly.Corrupt, "redis: a signal of %d letters", len(text))
	}
	return store.Signal{Topic: store.Topic(b[0]), ID: mayfly.ID(b[1:17]), Owner: mayfly.UserID(b[17:33])}, nil
}
