package cassandrastore

import (
	"context"
	"fmt"
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
	swaps    map[store.Table]*lanes           // apart: no lease waits behind a batch that hangs
	listed   listed                           // entries of the index of minutes
	second   gocql.SpeculativeExecutionPolicy // for what may be asked twice
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
		stamps: &stamps{now: o.Now}, lanes: newLanes(), swaps: map[store.Table]*lanes{}, second: secondAsking(),
	}
	for _, t := range o.Tables {
		s.tables[t] = newTableText(t)
		if t.Declared().Mode == store.Swapped {
			s.swaps[t] = newLanes()
		}
	}
	return s
}

// connect opens a session. It is given up with ctx, and then closed when it comes.
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
	// driverAgrees is how long the driver waits behind each statement of the schema
	// for every node to have it, those that are down too. agree does it better.
	driverAgrees = time.Second
	// mostTexts and mostNodes are what the driver remembers: a text that it forgets is
	// prepared again by each request, on each node.
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
	// Always the first copy that is up: conditional writes to a partition that meet
	// in one coordinator cost each other less, and partitions spread the load.
	silent := newSilences(o.Logger)
	c.QueryObserver, c.BatchObserver = silent, silent
	c.PoolConfig.HostSelectionPolicy = &around{
		silences:            silent,
		HostSelectionPolicy: gocql.TokenAwareHostPolicy(gocql.RoundRobinHostPolicy(), gocql.DoNotShuffleReplicas()),
	}
	c.Metadata.CacheMode = gocql.KeyspaceOnly
	if keyspace == "" { // for the schema, which is routed by nothing
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

// Close ends the connections. What is under way ends with an error.
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
