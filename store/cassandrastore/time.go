package cassandrastore

import (
	"context"
	"math/rand/v2"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

var _ store.Time = (*Store)(nil)

const (
	// clocksAsked is how many nodes are asked for their time: two of five may be wrong.
	clocksAsked = 5
	// clocksWithin is how long Time waits for all of them. After that a majority is
	// enough: one that hangs must not delay the answer until it is useless.
	clocksWithin = 100 * time.Millisecond
)

// Time implements store.Time: it asks several nodes that are up for the time of their
// own clock.
func (s *Store) Time(ctx context.Context) ([]mayfly.Instant, error) {
	hosts := s.upHosts()
	if len(hosts) == 0 {
		return nil, readError("time", gocql.ErrNoConnections)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // nodes that have not answered by then
	type answer struct {
		at  mayfly.Instant
		err error
	}
	answers := make(chan answer, len(hosts))
	for _, host := range hosts {
		go func() {
			at, err := s.timeOf(ctx, host)
			answers <- answer{at, err}
		}()
	}
	patience := time.NewTimer(clocksWithin)
	defer patience.Stop()
	var (
		reported []mayfly.Instant
		last     error
		hurrying bool
	)
	for came := 0; came < len(hosts) && (!hurrying || len(reported) <= len(hosts)/2); {
		select {
		case a := <-answers:
			if came++; a.err != nil {
				last = a.err
				continue
			}
			reported = append(reported, a.at)
		case <-patience.C:
			hurrying = true
		}
	}
	if len(reported) == 0 {
		return nil, readError("time", last)
	}
	return reported, nil
}

// upHosts returns some of the nodes that are up, different ones each time.
func (s *Store) upHosts() []*gocql.HostInfo {
	var up []*gocql.HostInfo
	for _, host := range s.session.GetHosts() {
		if host.IsUp() {
			up = append(up, host)
		}
	}
	rand.Shuffle(len(up), func(i, j int) { up[i], up[j] = up[j], up[i] })
	return up[:min(len(up), clocksAsked)]
}

// timeOf asks one node, which answers without asking others.
func (s *Store) timeOf(ctx context.Context, host *gocql.HostInfo) (mayfly.Instant, error) {
	var at time.Time
	err := s.session.Query("SELECT toTimestamp(now()) FROM system.local").SetHostID(host.HostID()).
		Consistency(gocql.One).RetryPolicy(nil).Idempotent(true).ScanContext(ctx, &at)
	return mayfly.InstantOf(at), err
}
