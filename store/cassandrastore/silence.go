package cassandrastore

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// A node that hangs keeps its connections, and the driver asks it for most of a
// minute: each conditional write that it should coordinate waits until its time is
// over. So nodes that leave several requests in a row without an answer are asked
// behind all others, but for one request now and then that may be asked twice.
const (
	silentAfter = 3
	probeEvery  = time.Second
)

// silences knows the nodes that do not answer, by what came of requests.
type silences struct {
	log *slog.Logger
	now func() time.Time

	mu    sync.Mutex
	nodes map[*gocql.HostInfo]*silence
}

type silence struct {
	inRow int       // requests without an answer since the last that had one
	probe time.Time // when it may be asked in its turn once more
}

func newSilences(log *slog.Logger) *silences {
	return &silences{log: log, now: time.Now, nodes: map[*gocql.HostInfo]*silence{}}
}

// ObserveQuery implements gocql.QueryObserver.
func (s *silences) ObserveQuery(_ context.Context, q gocql.ObservedQuery) {
	s.observe(q.Host, q.End.Sub(q.Start), q.Err)
}

// ObserveBatch implements gocql.BatchObserver.
func (s *silences) ObserveBatch(_ context.Context, b gocql.ObservedBatch) {
	s.observe(b.Host, b.End.Sub(b.Start), b.Err)
}

func (s *silences) observe(host *gocql.HostInfo, took time.Duration, err error) {
	unanswered := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, gocql.ErrTimeoutNoResponse)
	if unanswered && took < secondAfter {
		return // it had no time to answer
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	node := s.nodes[host]
	switch {
	case unanswered && node == nil:
		s.nodes[host] = &silence{inRow: 1}
	case unanswered:
		if node.inRow++; node.inRow == silentAfter {
			node.probe = s.now().Add(probeEvery)
			s.log.Warn("cassandra: a node does not answer, and is asked behind the others", "node", host.ConnectAddressAndPort())
		}
	case node != nil:
		delete(s.nodes, host)
		if node.inRow >= silentAfter {
			s.log.Info("cassandra: a node answers again", "node", host.ConnectAddressAndPort())
		}
	}
}

// last says whether a request is to ask the node behind all others. A request that
// may be asked twice is let through as a probe when it is time for one.
func (s *silences) last(host *gocql.HostInfo, twice bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	node := s.nodes[host]
	if node == nil || node.inRow < silentAfter {
		return false
	}
	if now := s.now(); twice && !now.Before(node.probe) {
		node.probe = now.Add(probeEvery)
		return false
	}
	return true
}

// forget is for a node that has left the ring.
func (s *silences) forget(host *gocql.HostInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.nodes, host)
}
