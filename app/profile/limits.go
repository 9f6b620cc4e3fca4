package profile

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// limits are those that the nodes share, and while their server is away each
// node's own (C3, I19): then a user may take the limit once from each node, which
// is logged and counted. They are a prometheus.Collector.
type limits struct {
	shared, own store.Limits
	elapsed     func() time.Duration
	logger      *slog.Logger

	prometheus.Counter // what was taken from the node's own

	mu     sync.Mutex
	alone  bool          // since it was logged
	failed time.Duration // when the shared ones failed last
}

// calm is for how long the shared limits have to answer until they are said to be
// back: of a Redis Cluster a part may be away, and the rest answers meanwhile.
const calm = 10 * time.Second

func newLimits(shared, own store.Limits, elapsed func() time.Duration, logger *slog.Logger) *limits {
	return &limits{
		shared: shared, own: own, elapsed: elapsed, logger: logger,
		Counter: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "mayfly", Name: "limits_alone_total",
			Help: "Takes from limits that this node counted by itself, because the limits that the nodes share did not answer.",
		}),
	}
}

// Take implements store.Limits.
func (l *limits) Take(ctx context.Context, key string, rate store.Rate, cost int, now mayfly.Instant) (store.Taken, error) {
	taken, err := l.shared.Take(ctx, key, rate, cost, now)
	if errors.Is(err, mayfly.Invalid) || ctx.Err() != nil {
		return taken, err
	}
	if err == nil {
		l.answered()
		return taken, nil
	}
	l.away(err)
	return l.own.Take(ctx, key, rate, cost, now)
}

func (l *limits) away(err error) {
	l.Inc()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = l.elapsed()
	if !l.alone {
		l.alone = true
		l.logger.Warn("the limits that the nodes share do not answer: this node counts by itself", "error", err)
	}
}

func (l *limits) answered() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.alone && l.elapsed() >= l.failed+calm {
		l.alone = false
		l.logger.Info("the limits that the nodes share are back")
	}
}
