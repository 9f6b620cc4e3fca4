package cassandrastore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/conn"
)

// Store is a connection to the cluster: a Writer, a Ledger and Rows. Safe for
// concurrent use.
type Store struct {
	opts     Options
	session  *gocql.Session
	forms    forms
	declared *store.TableSet
	tables   map[store.Table]*tableText
	stamps   *stamps
	lanes    *lanes                           // of the ledger
	swaps    map[store.Table]*lanes           // separate, so that no lease waits behind a batch that hangs
	listed   listed                           // entries of the index of minutes
	keyspace *kvState                         // of the key-value store
	second   gocql.SpeculativeExecutionPolicy // of idempotent requests
}

type (
	ledger struct{ *Store }
	rows   struct{ *Store }
	writer struct{ *Store }
)

// Open connects to the cluster and brings its schema up to date. Errors: Invalid
// (the options, a schema that is newer than this program, a keyspace with fewer
// copies than the options say), Unsupported (an old server), Unavailable.
func Open(ctx context.Context, o Options) (*Store, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, o.Patience)
	defer cancel()
	if err := prepareSchema(ctx, o); err != nil {
		return nil, err
	}
	session, err := connect(ctx, o, o.Keyspace)
	if err != nil {
		return nil, err
	}
	return newStore(o, session), nil
}

func newStore(o Options, session *gocql.Session) *Store {
	o.Credentials = conn.Credentials{}         // the session has them
	declared, _ := store.NewTableSet(o.Tables) // complete has checked them
	s := &Store{
		declared: declared, opts: o, session: session, forms: newForms(), tables: map[store.Table]*tableText{},
		stamps: &stamps{now: o.Now}, lanes: newLanes(), swaps: map[store.Table]*lanes{}, second: secondAsking(), keyspace: newKVState(o.Now),
	}
	for _, t := range o.Tables {
		s.tables[t] = newTableText(t)
		if t.Declared().Mode == store.Swapped {
			s.swaps[t] = newLanes()
		}
	}
	return s
}

// connect opens a session. If ctx ends first, the session is closed when it is open.
func connect(ctx context.Context, o Options, keyspace string) (*gocql.Session, error) {
	type answer struct {
		session *gocql.Session
		err     error
	}
	config, err := clusterConfig(o, keyspace)
	if err != nil {
		return nil, err
	}
	came := make(chan answer, 1)
	go func() {
		session, err := config.CreateSession()
		came <- answer{session, err}
	}()
	select {
	case a := <-came:
		if a.err != nil {
			return nil, readError(fmt.Sprintf("connect to %v", o.Hosts), a.err)
		}
		return a.session, nil
	case <-ctx.Done():
		go func() {
			if a := <-came; a.err == nil {
				a.session.Close()
			}
		}()
		return nil, readError(fmt.Sprintf("connect to %v", o.Hosts), ctx.Err())
	}
}

const (
	// driverAgrees is how long the client library waits after each statement of the schema
	// until all nodes have it, also those that are down. agree replaces this wait.
	driverAgrees = 200 * time.Millisecond
	// mostTexts and mostNodes are the sizes of the client library's caches: a statement
	// that is not in them is prepared again for each request, on each node.
	mostTexts = 1000
	mostNodes = 100
)

func clusterConfig(o Options, keyspace string) (*gocql.ClusterConfig, error) {
	c := gocql.NewCluster(o.Hosts...)
	c.Port = o.Port
	c.Keyspace = keyspace
	c.Timeout, c.ConnectTimeout = o.Timeout, o.ConnectTimeout
	c.NumConns = o.Connections
	c.RetryPolicy = again{}
	// Always the first replica that is up: conditional writes to a partition cost less
	// if they meet in one coordinator, and the load is spread over partitions.
	silent := newSilences(o.Logger)
	c.QueryObserver, c.BatchObserver = silent, silent
	c.PoolConfig.HostSelectionPolicy = &around{
		silences:            silent,
		HostSelectionPolicy: gocql.TokenAwareHostPolicy(gocql.RoundRobinHostPolicy(), gocql.DoNotShuffleReplicas()),
	}
	c.Metadata.CacheMode = gocql.KeyspaceOnly
	if keyspace == "" { // for the schema, which has no partition key
		c.Metadata.CacheMode = gocql.Disabled
	}
	c.MaxWaitSchemaAgreement = driverAgrees
	c.MaxRoutingKeyInfo, c.MaxPreparedStmts = mostTexts, mostTexts*mostNodes
	c.ReconnectInterval = reconnectEvery
	c.Logger = driverLog{o.Logger}
	if o.Credentials.User != "" {
		c.Authenticator = gocql.PasswordAuthenticator{Username: o.Credentials.User, Password: o.Credentials.Password.Reveal()}
	}
	encrypted, err := o.TLS.Config()
	if err != nil {
		return nil, fmt.Errorf("cassandra: %w", err)
	}
	if encrypted != nil {
		c.SslOpts = &gocql.SslOptions{Config: encrypted, EnableHostVerification: true}
	}
	return c, nil
}

// Close closes the connections. Requests under way fail.
func (s *Store) Close() error {
	s.session.Close()
	return nil
}

// Writer is the store as a store.Writer.
func (s *Store) Writer() store.Writer { return writer{s} }

// Ledger is the store as a store.Ledger.
func (s *Store) Ledger() store.Ledger { return ledger{s} }

// Rows is the store as store.Rows.
func (s *Store) Rows() store.Rows { return rows{s} }

// reconnectEvery is how often a node that is down is tried again, in addition to when
// other nodes report it as up.
const reconnectEvery = 5 * time.Second

// driverLog passes messages of the client library to the logger.
type driverLog struct{ to *slog.Logger }

func (l driverLog) Error(msg string, fields ...gocql.LogField) {
	l.to.Error("cassandra: "+msg, attributes(fields)...)
}

func (l driverLog) Warning(msg string, fields ...gocql.LogField) {
	l.to.Warn("cassandra: "+msg, attributes(fields)...)
}

func (l driverLog) Info(msg string, fields ...gocql.LogField) {
	l.to.Debug("cassandra: "+msg, attributes(fields)...)
}

func (driverLog) Debug(string, ...gocql.LogField) {}

func attributes(fields []gocql.LogField) []any {
	as := make([]any, len(fields))
	for i, f := range fields {
		as[i] = slog.String(f.Name, f.Value.String())
	}
	return as
}

// again is the retry policy of idempotent requests: they go to another node, a few
// times. The client library does not retry other requests.
type again struct{}

const tries = 3

// Attempt reports whether there may be one more try.
func (again) Attempt(q gocql.RetryableQuery) bool { return q.Attempts() < tries }

// GetRetryType returns where the next try goes.
func (again) GetRetryType(err error) gocql.RetryType {
	var (
		slowRead  *gocql.RequestErrReadTimeout
		slowWrite *gocql.RequestErrWriteTimeout
	)
	switch {
	case wrong(err):
		return gocql.Rethrow
	case errors.As(err, &slowRead), errors.As(err, &slowWrite):
		return gocql.Retry // the node answered: try it again, it may be the only one
	default:
		return gocql.RetryNextHost
	}
}
