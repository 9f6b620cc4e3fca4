package kafkastore

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/semaphore"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/conn"
	"github.com/mayflyhq/mayfly/store/loop"
)

// Store implements store.Log on a connection to the brokers. Safe for concurrent use.
type Store struct {
	opts      Options
	common    []kgo.Opt // options of every client, including the credentials
	appender  *kgo.Client
	reach     *kgo.Client  // for requests that kadm does not have
	admin     *kadm.Client // uses the same client; creates topics
	principal principal
	inFlight  *semaphore.Weighted
	elapsed   func() time.Duration
	breaker   conn.Breaker // of Append, so that the engine does not wait for a dead log with every call (L8)
	prepared  atomic.Bool  // the topics exist and their settings were checked

	mu      sync.Mutex
	closed  bool
	readers map[string]*reader // by group; nil while the reader is being opened
}

var _ store.Log = (*Store)(nil)

// Open connects to the brokers, creates missing topics, and checks the settings of the
// topics and the permission to write to them. Errors: Invalid (the options, or a topic
// that may lose events too early; the hint says how to fix it), Unavailable (also with
// Options.Late, if a broker answers with a refusal).
func Open(ctx context.Context, o Options) (*Store, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	common, err := o.client()
	if err != nil {
		return nil, err
	}
	common = slices.Clip(common) // so that each append below copies it
	user := principal{o.Credentials.User, o.Brokers}
	o.Credentials = conn.Credentials{}
	appender, err := kgo.NewClient(append(common,
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)), // murmur2 of the key, as other Kafka clients do
		kgo.ProducerLinger(0),                                // records that arrive during a request are batched into the next one
		kgo.MaxBufferedRecords(2*o.MaxInFlight),              // never reached: inFlight limits them first
		kgo.RetryTimeout(sendRetryTimeout),                   // short, to learn in time that a record cannot be sent
	)...)
	if err != nil {
		return nil, mayfly.Wrap(mayfly.Invalid, wrapped("open", err), "")
	}
	admin, err := kgo.NewClient(append(common, kgo.RetryTimeout(o.Timeout))...)
	if err != nil {
		return nil, mayfly.Wrap(mayfly.Invalid, wrapped("open", err), "")
	}
	s := &Store{
		opts: o, common: common, appender: appender, reach: admin, admin: kadm.NewClient(admin), principal: user,
		inFlight: semaphore.NewWeighted(int64(o.MaxInFlight)), elapsed: loop.Stopwatch(), readers: map[string]*reader{},
	}
	ctx, cancel := context.WithTimeout(ctx, 3*o.Timeout) // a starting cluster elects its leaders first
	defer cancel()
	switch err := s.prepareTopics(ctx); {
	case err == nil:
		s.prepared.Store(true)
	case o.Late && unanswered(err):
		o.Logger.Warn("kafka unavailable, events are kept as reminders and nothing is archived", "err", err)
		s.breaker.Failed(s.elapsed() + breakerPause)
	default:
		s.disconnect()
		return nil, err
	}
	return s, nil
}

// breakerPause is how long Append fails at once after the brokers did not answer.
const breakerPause = time.Second

// client returns the options that all clients have in common.
func (o Options) client() ([]kgo.Opt, error) {
	opts := []kgo.Opt{
		kgo.SeedBrokers(o.Brokers...),
		kgo.ClientID("mayfly"),
		kgo.WithLogger(clientLogger{o.Logger}),
		kgo.MetadataMinAge(time.Second), // lower bound between two searches for a new leader
		kgo.DisableClientMetrics(),      // do not send client metrics to the brokers
	}
	if o.Credentials.User != "" {
		opts = append(opts, kgo.SASL(o.Mechanism.with(o.Credentials)))
	}
	encrypted, err := o.TLS.Config()
	if err != nil {
		return nil, wrapped("open", err)
	}
	if encrypted != nil {
		opts = append(opts, kgo.DialTLSConfig(encrypted))
	}
	return opts, nil
}

func (o Options) topic(stream mayfly.Stream) string { return o.Prefix + stream.String() }

func (o Options) topics() []string {
	return []string{o.topic(mayfly.Births), o.topic(mayfly.Ends)}
}

// Close closes the readers, waits up to Options.Timeout for events in flight, and
// closes the connections.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	var open []*reader
	for _, r := range s.readers {
		if r != nil {
			open = append(open, r)
		}
	}
	s.mu.Unlock()
	var errs []error
	for _, r := range open {
		errs = append(errs, r.Close())
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.opts.Timeout)
	defer cancel()
	if err := s.appender.Flush(ctx); err != nil {
		errs = append(errs, mayfly.Wrap(mayfly.Unknown, wrapped("close: events are still in flight", err), ""))
	}
	s.disconnect()
	return errors.Join(errs...)
}

func (s *Store) disconnect() {
	s.appender.Close()
	s.admin.Close()
}

// checkOpen returns an error after Close, or if the context has already ended.
func (s *Store) checkOpen(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return mayfly.Errorf(mayfly.Unavailable, "kafka: the store is closed")
	}
	if err := ctx.Err(); err != nil {
		return mayfly.Wrap(mayfly.Unavailable, wrapped("context ended before the call", err), "")
	}
	return nil
}

// clientLogger passes warnings and errors of the client library to the logger.
type clientLogger struct{ to *slog.Logger }

func (clientLogger) Level() kgo.LogLevel { return kgo.LogLevelWarn }

func (l clientLogger) Log(level kgo.LogLevel, msg string, keyvals ...any) {
	as := slog.LevelWarn
	if level == kgo.LogLevelError {
		as = slog.LevelError
	}
	l.to.Log(context.Background(), as, "kafka: "+msg, keyvals...)
}
