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

// A node that hangs keeps its connections, and the client library still uses it for
// most of a minute: each conditional write that it should coordinate runs into its
// timeout. Nodes that leave several requests in a row unanswered are therefore used
// after all others, except for an idempotent request now and then, as a probe.
const (
	silentAfter = 3
	probeEvery  = time.Second
)

// silences records the nodes that do not answer, from the results of requests.
type silences struct {
	log *slog.Logger
	now func() time.Duration // monotonic

	mu    sync.Mutex
	nodes map[*gocql.HostInfo]*silence
}

type silence struct {
	inRow int           // unanswered requests since the last answer
	probe time.Duration // when the next probe is allowed
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

// unanswered reports whether the node did not answer within the timeout. A broken
// connection counts neither as that nor as an answer.
func unanswered(err error, took time.Duration) bool {
	if errors.Is(err, gocql.ErrTimeoutNoResponse) {
		return true // the timeout of requests, however short it is
	}
	left := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	return left && took >= secondAfter
}

// last reports whether a request should use the node after all others. A request that
// may be a probe is let through when it is time for one.
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

// forget removes a node that has left the ring.
func (s *silences) forget(host *gocql.HostInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.nodes, host)
}
