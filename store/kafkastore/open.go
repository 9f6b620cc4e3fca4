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

// Store is a connection to the brokers: a Log. Safe for concurrent use.
type Store struct {
	opts     Options
	common   []kgo.Opt // of every client, the credentials among them
	appender *kgo.Client
	reach    *kgo.Client  // asks
	admin    *kadm.Client // asks through it, and makes topics
	who      who
	underWay *semaphore.Weighted
	elapsed  func() time.Duration
	breaker  conn.Breaker // of Append: nothing in the engine waits for the log one call after the other (L8)
	prepared atomic.Bool  // the topics are there, and kept as they must be

	mu      sync.Mutex
	closed  bool
	readers map[string]*reader // by group; nil while one is being opened
}

var _ store.Log = (*Store)(nil)

// Open connects to the brokers, makes the topics that are not there and looks at
// how they are kept, and whether events may be written to them. Errors: Invalid (the
// options, or a topic that forgets too soon, with what to do), Unavailable (also with
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
	common = slices.Clip(common) // what is appended is not shared
	user := who{o.Credentials.User, o.Brokers}
	o.Credentials = conn.Credentials{}
	appender, err := kgo.NewClient(append(common,
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)), // by the key's murmur2, as every other client does
		kgo.ProducerLinger(0),                                // what comes while a request is out goes together with the next
		kgo.MaxBufferedRecords(2*o.UnderWay),                 // never reached: underWay counts them
		kgo.RetryTimeout(lookAround),                         // or it does not see in time that a record cannot be sent
	)...)
	if err != nil {
		return nil, mayfly.Wrap(mayfly.Invalid, wrapped("open", err), "")
	}
	admin, err := kgo.NewClient(append(common, kgo.RetryTimeout(o.Patience))...)
	if err != nil {
		return nil, mayfly.Wrap(mayfly.Invalid, wrapped("open", err), "")
	}
	s := &Store{
		opts: o, common: common, appender: appender, reach: admin, admin: kadm.NewClient(admin), who: user,
		underWay: semaphore.NewWeighted(int64(o.UnderWay)), elapsed: loop.Stopwatch(), readers: map[string]*reader{},
	}
	ctx, cancel := context.WithTimeout(ctx, 3*o.Patience) // a cluster that starts elects its leaders first
	defer cancel()
	switch err := s.prepareTopics(ctx); {
	case err == nil:
		s.prepared.Store(true)
	case o.Late && unanswered(err):
		o.Logger.Warn("kafka is away: until it is back events wait as reminders, and nothing is archived", "err", err)
		s.breaker.Failed(s.elapsed() + restFor)
	default:
		s.disconnect()
		return nil, err
	}
	return s, nil
}

// restFor is how long no call is made to brokers that have just not answered.
const restFor = time.Second

// client is what the clients of appending and reading have in common.
func (o Options) client() ([]kgo.Opt, error) {
	opts := []kgo.Opt{
		kgo.SeedBrokers(o.Brokers...),
		kgo.ClientID("mayfly"),
		kgo.WithLogger(clientLog{o.Logger}),
		kgo.MetadataMinAge(time.Second), // how soon a new leader is asked for again
		kgo.DisableClientMetrics(),      // brokers have no business in what we measure
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

// Close gives the places of its readers up, waits for what is on its way as long as
// its patience lasts, and ends the connections.
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
	ctx, cancel := context.WithTimeout(context.Background(), s.opts.Patience)
	defer cancel()
	if err := s.appender.Flush(ctx); err != nil {
		errs = append(errs, mayfly.Wrap(mayfly.Unknown, wrapped("close: events are still on their way", err), ""))
	}
	s.disconnect()
	return errors.Join(errs...)
}

func (s *Store) disconnect() {
	s.appender.Close()
	s.admin.Close()
}

// begin refuses what comes after Close, and a caller who has left already.
func (s *Store) begin(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return mayfly.Errorf(mayfly.Unavailable, "kafka: the store is closed")
	}
	if err := ctx.Err(); err != nil {
		return mayfly.Wrap(mayfly.Unavailable, wrapped("begin", err), "")
	}
	return nil
}

// clientLog passes on what the client library thinks the operator should know.
type clientLog struct{ to *slog.Logger }

func (clientLog) Level() kgo.LogLevel { return kgo.LogLevelWarn }

func (l clientLog) Log(level kgo.LogLevel, msg string, keyvals ...any) {
	as := slog.LevelWarn
	if level == kgo.LogLevelError {
		as = slog.LevelError
	}
	l.to.Log(context.Background(), as, "kafka: "+msg, keyvals...)
}
