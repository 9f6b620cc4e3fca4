package cassandrastore

import (
	"cmp"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/conn"
)

// Options say where the cluster is and how it keeps the keyspace.
type Options struct {
	Hosts    []string // some of the nodes; the others are found through them
	Port     int      // 9042 if 0
	Keyspace string   // "mayfly" if empty

	// The replication of a new keyspace: by name of data centre or, if none is named,
	// Copies anywhere (3 if 0). An existing keyspace is not changed, and is refused if
	// it has fewer copies.
	Copies      int
	DataCentres map[string]int

	Tables []store.Table // the declared tables; any other table is refused

	Credentials conn.Credentials // none if zero
	TLS         conn.TLS         // plain TCP if zero

	Timeout        time.Duration // of one request; 10 s if 0
	ConnectTimeout time.Duration // of one connection; 5 s if 0
	Patience       time.Duration // for the schema at start; 2 min if 0
	Connections    int           // to each node; 2 if 0
	StatsAge       time.Duration // how old the statistics of a namespace of keys may be; 1 min if 0

	kvFresh time.Duration // a group of keys that has waited for longer is decided by a later instant; 250 ms if 0

	Log    store.Log             // takes the events of batches
	Now    func() mayfly.Instant // the node's clock, for the timestamps of plain tables
	Logger *slog.Logger          // for what an operator should know; none if nil
}

const (
	defaultPort        = 9042
	defaultKeyspace    = "mayfly"
	defaultCopies      = 3
	defaultTimeout     = 10 * time.Second
	defaultConnect     = 5 * time.Second // a start tries a node that hangs up to four times in sequence
	defaultPatience    = 2 * time.Minute
	defaultConnections = 2
	defaultKVFresh     = 250 * time.Millisecond // how far the clocks of nodes may be apart (L7)
	maxConnections     = 64
	keyspacePattern    = `^[a-z][a-z0-9_]{0,47}$`
	centrePattern      = `^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$`
)

func (o Options) complete() (Options, error) {
	o.Hosts, o.DataCentres = slices.Clone(o.Hosts), maps.Clone(o.DataCentres)
	o.Port = cmp.Or(o.Port, defaultPort)
	o.Keyspace = cmp.Or(o.Keyspace, defaultKeyspace)
	o.Copies = cmp.Or(o.Copies, defaultCopies)
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	o.ConnectTimeout = cmp.Or(o.ConnectTimeout, defaultConnect)
	o.Patience = cmp.Or(o.Patience, defaultPatience)
	o.Connections = cmp.Or(o.Connections, defaultConnections)
	o.StatsAge = cmp.Or(o.StatsAge, defaultStatsAge)
	o.kvFresh = cmp.Or(o.kvFresh, defaultKVFresh)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, o.validate()
}

func (o Options) validate() error {
	if _, err := store.NewTableSet(o.Tables); err != nil {
		return err
	}
	bad := func(format string, args ...any) error {
		return mayfly.Errorf(mayfly.Invalid, "cassandra: "+format, args...)
	}
	switch {
	case len(o.Hosts) == 0 || slices.Contains(o.Hosts, ""):
		return bad("no host is named, or an empty one")
	case o.Port < 1 || o.Port > 65535:
		return bad("port %d", o.Port)
	case !regexp.MustCompile(keyspacePattern).MatchString(o.Keyspace):
		return bad("keyspace %q: small letters, digits and _, at most 48, a letter first", o.Keyspace)
	case o.Copies < 1:
		return bad("%d copies", o.Copies)
	case o.Credentials.Validate() != nil:
		return bad("%w", o.Credentials.Validate())
	case o.Timeout < 0 || o.ConnectTimeout < 0 || o.Patience < 0 || o.StatsAge < 0:
		return bad("a time-out below zero")
	case o.Connections < 1 || o.Connections > maxConnections:
		return bad("%d connections to each node are not between 1 and %d", o.Connections, maxConnections)
	case o.Log == nil || o.Now == nil:
		return bad("a log for the events and a clock are needed")
	}
	for name, copies := range o.DataCentres {
		if !regexp.MustCompile(centrePattern).MatchString(name) || copies < 1 {
			return bad("data centre %q with %d copies", name, copies)
		}
	}
	return nil
}
