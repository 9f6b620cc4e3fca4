package cassandrastore

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/mayflyhq/mayfly/store/loop"
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
	now func() time.Duration // runs forward only

	mu    sync.Mutex
	nodes map[*gocql.HostInfo]*silence
}

type silence struct {
	inRow int           // requests without an answer since the last that had one
	probe time.Duration // when it may be asked in its turn once more
}

func newSilences(log *slog.Logger) *silences {
	return &silences{log: log, now: loop.Stopwatch(), nodes: map[*gocql.HostInfo]*silence{}}
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
	silent := unanswered(err, took)
	s.mu.Lock()
	defer s.mu.Unlock()
	node := s.nodes[host]
	switch {
	case silent && node == nil:
		s.nodes[host] = &silence{inRow: 1}
	case silent:
		if node.inRow++; node.inRow == silentAfter {
			node.probe = s.now() + probeEvery
			s.log.Warn("cassandra: a node does not answer, and is asked behind the others", "node", host.ConnectAddressAndPort())
		}
	case node != nil && answered(err):
		delete(s.nodes, host)
		if node.inRow >= silentAfter {
			s.log.Info("cassandra: a node answers again", "node", host.ConnectAddressAndPort())
		}
	}
}

// unanswered says that the node had its time and said nothing. A connection that
// breaks tells neither that nor that it answers.
func unanswered(err error, took time.Duration) bool {
	if errors.Is(err, gocql.ErrTimeoutNoResponse) {
		return true // the time that requests have, however short it is set
	}
	left := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	return left && took >= secondAfter
}

// last says whether a request is to ask the node behind all others. One that may be
// a probe is let through when it is time for one.
func (s *silences) last(host *gocql.HostInfo, mayProbe bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	node := s.nodes[host]
	if node == nil || node.inRow < silentAfter {
		return false
	}
	if now := s.now(); mayProbe && now >= node.probe {
		node.probe = now + probeEvery
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
